"""BioBIT's curated maskings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bmtools.corpus.formats.sets.curated import curated_records
from bmtools.errors import DataError, RecordError
from bmtools.records import MASK, check

NAME = "mlm.json"


def sentence(original: object, *masked: object) -> str:
    return json.dumps({"data": [{"source": "http://x", "type": "Neurologia", "original": original,
                                 "masked": list(masked)}]})


@pytest.mark.parametrize(("original", "masked", "target"), [
    ("La perdita è del 60% dei casi.", "La perdita è del [MASK] dei casi.", "60%"),
    ("La perdita è del 60% dei casi.", "La perdita è del [MASK]% dei casi.", "60"),
    ("Il cuore, dunque.", "Il [MASK], dunque.", "cuore"),
    ("Il cuore batte.", "Il cuore [MASK]", "batte"),
    ("Il cuore.", "[MASK] cuore.", "Il"),
    ("l'asse ipotalamo-ipofisi va", "l'asse [MASK]-ipofisi va", "ipotalamo"),
    ("I disturbo bipolare (raro) è", "Il [MASK] bipolare (raro) è", "disturbo"),
    ("I disturbo bipolare (raro) è", "Il disturbo bipolare ([MASK]) è", "raro"),
    ("I disturbo dell'umore è", "Il disturbo dell'[MASK] è", "umore"),
    ("Uno due tre. Quattro sì tre.", "Quattro [MASK] tre.", "sì"),
    ("Una febbre molto alta oggi", "Una [MASK] oggi", "febbre molto alta"),
])
def test_the_masked_word_is_found(write, original: str, masked: str, target: str) -> None:
    record, = curated_records([write(sentence(original, masked))])
    check(record)
    assert record == {"id": "0-0", "text": masked, "target": target, "domain": "Neurologia",
                      "source": "http://x"}


@pytest.mark.parametrize(("original", "masked", "message"), [
    ("Il cuore.", "Il cuore.", r"found 0 \[MASK\]"),
    ("Il cuore.", "[MASK] [MASK].", r"found 2 \[MASK\]"),
    (None, "Il [MASK].", "found no text under 'original'"),
    ("Il cuore.", 5, "found no text"),
    ("Il cuore", "Il cuore [MASK]", "found no word of the original"),
])
def test_maskings_without_their_word_are_rejected(write, original: object, masked: object,
                                                  message: str) -> None:
    path = write(sentence(original, masked, "Il [MASK]."))
    with pytest.raises(RecordError, match=message):
        list(curated_records([path]))
    rejected: list[RecordError] = []
    list(curated_records([path], reject=rejected.append))
    assert rejected[0].place.endswith("mlm.json (0-0)")


@pytest.mark.parametrize(("content", "message"), [
    ("{\n[", r"mlm\.json:2: not JSON"), ("[1]", "no list under 'data' or 'contexts'"),
    ('{"data": 5}', "no list"), ('{"data": [5]}', r"data\[0\]: found 5")])
def test_files_of_other_formats_are_errors(write, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(curated_records([write(content)]))


def test_windows_grow_by_a_line_on_either_side(write) -> None:
    text = "Uno.\nDue.\nIl cuore batte.\nTre."
    path = write(json.dumps({"contexts": [{"original": text, "masks": ["Il [MASK] batte."]}]}))
    records = list(curated_records([path], windows=3))
    assert [(record["id"], record["window"], record["text"]) for record in records] == [
        ("w0-0-0", 0, "Il [MASK] batte."), ("w0-0-1", 1, "Due.\nIl [MASK] batte.\nTre."),
        ("w0-0-2", 2, "Uno.\nDue.\nIl [MASK] batte.\nTre."),
        ("w0-0-3", 3, "Uno.\nDue.\nIl [MASK] batte.\nTre.")]
    assert {record["target"] for record in records} == {"cuore"}
    assert {record["meta"]["document"] for record in records} == {"w0"}
    with pytest.raises(RecordError, match="found no text around the masking"):
        list(curated_records([write(sentence("Il cuore.", "Il [MASK]."))], windows=1))


def test_unmasked_sentences_are_read(write) -> None:
    path = write(sentence("Il cuore batte.", "Il [MASK] batte.", "Il cuore [MASK]."))
    [record] = curated_records([path], unmasked=True)
    assert record == {"id": "0", "text": "Il cuore batte.", "domain": "Neurologia",
                      "source": "http://x"}
    with pytest.raises(RecordError, match=r"\(0\): found no text under 'original'"):
        list(curated_records([write(sentence(None, "Il [MASK]."))], unmasked=True))


@pytest.mark.data
def test_all_897_real_targets_are_found(data: Path) -> None:
    path = data / "it/mrr/mlm_data.json"
    items = json.loads(path.read_text())["data"]
    records = list(curated_records([str(path)]))
    assert len(records) == 897
    assert len({record["id"] for record in records}) == 897
    assert len({record["domain"] for record in records}) == 22
    odd = [record["target"] for record in records if not re.fullmatch(r"\w+", record["target"])]
    assert odd == ["60%"]
    for record in records:
        check(record)
        number, position = map(int, record["id"].split("-"))
        assert record["text"] == items[number]["masked"][position]
        restored = record["text"].replace(MASK, record["target"])
        if number == 49:
            restored = restored.replace("Il disturbo", "I disturbo", 1)
        assert restored == items[number]["original"]
    whole = list(curated_records([str(path)], unmasked=True))
    assert len(whole) == len({record["text"] for record in whole}) == 54
    assert not any(MASK in record["text"] for record in whole)


@pytest.mark.data
def test_real_context_windows_are_written(data: Path) -> None:
    path = data / "it/mrr/mlm_context_window.json"
    texts = [item["original"] for item in json.loads(path.read_text())["contexts"]]
    records = list(curated_records([str(path)]))
    assert len(records) == 26
    for record in records:
        number = int(record["id"].removeprefix("w").split("-")[0])
        assert record["text"].replace(MASK, record["target"]) in texts[number]
    grown = list(curated_records([str(path)], windows=4))
    assert len(grown) == 5 * 26
    assert [record["text"] for record in grown[::5]] == [record["text"] for record in records]
    for record in grown:
        number = int(record["meta"]["document"].removeprefix("w"))
        assert record["text"].replace(MASK, record["target"]) in texts[number]
