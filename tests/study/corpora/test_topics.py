"""Topics by keywords."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.study.corpora.topics import MEDICINE, Topics, read_topics

TOPICS = Topics({"Heart": ["cardi*", "heart failure", "risk factor*"], "Kidney": ["renal", "rene"],
                 "Signs": ["beta-block*"]})


@pytest.mark.parametrize(("text", "counts", "topic"), [
    ("Cardiac and CARDIO signs", {"Heart": 2}, "Heart"),
    ("heart, failure; heart of failure", {"Heart": 1}, "Heart"),
    ("Risk factors, a risk factor", {"Heart": 2}, "Heart"),
    ("renali, renal; renal", {"Kidney": 2}, "Kidney"),
    ("Beta-blockers of a cardiopathy", {"Heart": 1, "Signs": 1}, "Heart"),
    ("adrenal heart", {}, None), ("risk", {}, None), ("", {}, None)])
def test_keywords(text: str, counts: dict[str, int], topic: str | None) -> None:
    found = TOPICS.count(text)
    assert {TOPICS.names[number]: count for number, count in found.items()} == counts
    assert TOPICS.main_topic(found) == topic


def test_every_topic_finds_its_own_keywords() -> None:
    keywords = read_topics(MEDICINE)
    topics = Topics(keywords)
    for name, own in keywords.items():
        for keyword in own:
            found = topics.count(keyword.replace("*", "x"))
            assert topics.names.index(name) in found, keyword


@pytest.mark.parametrize(("content", "message"), [
    ("", "found no topics, expected lists"), ("a = 'x'", "key 'a': found 'x', expected a list of"),
    ("a = []", "key 'a': found"), ("a = ['*']", "key 'a': found"), ("a = [1]", "key 'a': found"),
    ("a = [", "topics.toml")])
def test_a_file_that_is_none(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "topics.toml"
    path.write_text(content)
    with pytest.raises(DataError, match=message.replace("[", r"\[")):
        read_topics(str(path))


@pytest.mark.data
def test_areas_of_real_sentences_are_found(data: Path) -> None:
    """In BioBIT's 50 sentences whose area is a topic, this topic is mostly found."""
    italian = {"Neurologia": "Neurology", "Psichiatria": "Psychiatry", "Cardiologia": "Cardiology",
               "Oncologia": "Oncology", "Radiologia": "Radiology", "Nefrologia": "Nephrology"}
    sentences = json.loads((data / "it/mrr/mlm_data.json").read_text())["data"]
    topics = Topics(read_topics(MEDICINE))
    own = [(italian[one["type"]], topics.count(one["original"])) for one in sentences
           if one["type"] in italian]
    assert sum(name in [topics.names[number] for number in found] for name, found in own) \
        >= 0.8 * len(own) > 0
