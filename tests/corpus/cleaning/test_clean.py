"""Cleaning of records: order, reasons, and offsets that move with their text."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.cleaning.clean import Cleaned, Cleaner
from bmtools.corpus.cleaning.edits import EditedText
from bmtools.corpus.cleaning.settings import FilterConfig, PersonalDataConfig, RepairConfig
from bmtools.errors import RecordError
from bmtools.io.workers import Outcome
from bmtools.records import Record, check


def cleaned(record: dict[str, Any], repairs: str = "basic", action: str = "keep",
            **filters: Any) -> Cleaned:
    cleaner = Cleaner(RepairConfig(repairs), FilterConfig(**filters),
                      PersonalDataConfig(action))  # type: ignore[arg-type]
    return cleaner.clean(Record({"id": "a", **record}, place="f:1"))


def test_annotations_move_with_the_text() -> None:
    text = "AIMS:\r\n  asma  bronchiale e tosse.(ABSTRACT TRUNCATED)"
    record = {
        "text": text, "title": "Asma\x00", "entities": [
            {"id": "1", "start": 9, "end": 25, "type": "DIS", "text": "asma  bronchiale"},
            {"id": "2", "start": 9, "end": 33, "type": "DIS", "spans": [[9, 13], [28, 33]]}],
        "relations": [{"head": "1", "tail": "2", "type": "IS"}],
        "answers": [{"text": "tosse", "start": 28}, {"text": "febbre"}],
        "predicted": {"entities": [{"start": 28, "end": 33, "type": "DIS"}]},
        "meta": {"sections": [{"label": "AIMS", "start": 9, "end": len(text)},
                              {"label": "CUT", "start": 34, "end": len(text)}],
                 "translation": {"sentence_spans": {"text": [[9, 34]],
                                                    "title": [[0, 5]]},
                                 "flags": [{"key": "text", "start": 9, "end": 34,
                                            "flags": ["fuzzy-match"]}]}}}
    found = cleaned(record)
    result = found.record
    assert result["text"] == "AIMS:\nasma bronchiale e tosse."
    assert result["title"] == "Asma"
    assert result["entities"] == [
        {"id": "1", "start": 6, "end": 21, "type": "DIS", "text": "asma bronchiale"},
        {"id": "2", "start": 6, "end": 29, "type": "DIS", "spans": [[6, 10], [24, 29]]}]
    assert result["relations"] == record["relations"]
    assert result["answers"] == [{"text": "tosse", "start": 24}, {"text": "febbre"}]
    assert result["predicted"]["entities"] == [{"start": 24, "end": 29, "type": "DIS"}]
    assert result["meta"]["sections"] == [{"label": "AIMS", "start": 6, "end": 30}]
    assert result["meta"]["translation"] == {
        "sentence_spans": {"text": [[6, 30]], "title": [[0, 4]]},
        "flags": [{"key": "text", "start": 6, "end": 30, "flags": ["fuzzy-match"]}]}
    assert found.changes == {"line-ends": 1, "white-space": 2, "truncation-marks": 1,
                             "control-characters": 1}
    assert record["text"] == text
    check(result)


@pytest.mark.parametrize("span", [(5, 9), (7, 26), (6, 24)])
def test_annotations_that_lose_their_text_are_rejected(span: tuple[int, int]) -> None:
    """The text is removed completely, or a border is inside removed text."""
    text = "Tosse (ABSTRACT TRUNCATED) e asma."
    with pytest.raises(RecordError, match=r"f:1: key 'entities\[0\]': .* truncation-marks"):
        cleaned({"text": text, "entities": [{"start": span[0], "end": span[1], "type": "X"}]})


def test_entities_are_found_after_repairs_between_them() -> None:
    """Compare with brute force: distinct words, with all kinds of damage between them."""
    rng = random.Random(0)
    damage = ["\r\n", "  ", "\t", "\u200b ", "\x00 ", " (ABSTRACT TRUNCATED) ", "\n\n\n", " \xa0"]
    for _ in range(100):
        text, entities = "", []
        for number in range(rng.randint(1, 12)):
            text += rng.choice(damage)
            entities.append({"start": len(text), "end": len(text) + 5, "type": "W",
                             "text": f"word{number % 10}"})
            text += f"word{number % 10}"
        result = cleaned({"text": text, "entities": entities}, "all").record
        check(result)
        assert [entity["text"] for entity in result["entities"]] == [
            entity["text"] for entity in entities]


def test_filters_see_repaired_text_and_removed_marks_do_not_count() -> None:
    text = "One two (ABSTRACT TRUNCATED AT 250 WORDS)"
    assert cleaned({"text": text}, min_words=3).rule == "min-words"
    assert cleaned({"text": text}, "none", min_words=3).rule == ""
    assert cleaned({"text": text}, drop_truncated=True).rule == "drop-truncated"
    assert cleaned({"text": "(ABSTRACT TRUNCATED)"}).rule == "empty"


def test_personal_data_are_flagged_masked_or_dropped() -> None:
    record = {"text": "Write to a.b@example.org, tel. 06 1234 5678.", "title": "a.b@example.org",
              "entities": [{"start": 9, "end": 24, "type": "MAIL", "text": "a.b@example.org"},
                           {"start": 26, "end": 29, "type": "W", "text": "tel"}]}
    flagged = cleaned(record, action="flag")
    assert flagged.record["meta"] == {"personal": {"email": 2, "phone": 1}}
    assert flagged.record["text"] == record["text"]
    masked = cleaned(record, action="mask").record
    assert (masked["text"], masked["title"]) == ("Write to [EMAIL], tel. [PHONE].", "[EMAIL]")
    assert [one["text"] for one in masked["entities"]] == ["[EMAIL]", "tel"]
    dropped = cleaned(record, action="drop")
    assert (dropped.rule, dropped.found) == ("personal-data", {"email": 2, "phone": 1})
    assert cleaned(record).changes == {}


def test_records_that_cannot_be_cleaned_go_to_reject_and_the_rest_is_counted() -> None:
    records = [Record(id="a", text="a  b c", place="f:1"), Record(id="b", text="b", place="f:2"),
               Record(id="c", text="x(ABSTRACT TRUNCATED) y z", place="f:3",
                      entities=[{"start": 1, "end": 5, "type": "X"}])]
    outcome = Outcome()
    rejected: list[RecordError] = []
    cleaner = Cleaner(RepairConfig(), FilterConfig(min_words=2), PersonalDataConfig())
    kept = list(cleaner(records, outcome))
    outcome.hand_over(rejected.append)
    assert [record["text"] for record in kept] == ["a b c"]
    assert [json.loads(line)["id"] for line in outcome.aside.splitlines()] == ["b"]
    assert [error.place for error in rejected] == ["f:3"]
    assert outcome.counts == {"changed white-space": 1, "places white-space": 1,
                              "dropped min-words": 1}


def test_positions_before_after_and_inside_edits() -> None:
    edited = EditedText("ab--cd++ef")
    edited.substitute("rule", re.compile(r"--"), "")
    edited.substitute("rule", re.compile(r"\+\+"), "[PLUS]")
    assert edited.text == "abcd[PLUS]ef"
    assert edited.counts == {"rule": 2}
    assert edited.moved(0, 2) == (0, 2, False)
    assert edited.moved(4, 6) == (2, 4, False)
    assert edited.moved(6, 8) == (4, 10, False)
    assert edited.moved(8, 10) == (10, 12, False)
    assert edited.moved(2, 4) == (2, 2, False)
    assert edited.moved(3, 6) == (2, 4, True)
    assert edited.moved(4, 7) == (2, 4, True)


def test_unchanged_ends_of_a_match_are_not_edited() -> None:
    edited = EditedText("(perche,) e")
    edited.substitute("rule", re.compile(r"\S*e\S*"), lambda found: found[0].replace("e,", "é,"))
    assert edited.text == "(perché,) e"
    assert edited.counts == {"rule": 1}
    assert edited.moved(1, 7) == (1, 7, False)


def test_offsets_of_all_remaining_characters_are_correct() -> None:
    """Compare with brute force: each character is unique, so the offsets can be checked."""
    rng = random.Random(0)
    for _ in range(200):
        text = "".join(map(chr, rng.sample(range(0x4e00, 0x9000), 30)))
        edited = EditedText(text)
        for _ in range(rng.randint(1, 4)):
            chosen = rng.sample(edited.text, min(len(edited.text), rng.randint(1, 5)))
            edited.substitute("rule", re.compile("[" + "".join(chosen) + "]+"),
                              rng.choice(["", "x", "yz"]))
        for number, sign in enumerate(text):
            start, end, is_cut = edited.moved(number, number + 1)
            if sign in edited.text:
                assert (edited.text[start:end], is_cut) == (sign, False)


@pytest.mark.data
def test_real_truncation_marks_and_leaflets_are_repaired(data: Path) -> None:
    """137 abstracts are marked as truncated. Every leaflet contains CRLF and remains of tables."""
    cleaner = Cleaner(RepairConfig("all"), FilterConfig(), PersonalDataConfig())
    totals = {}
    for name in ("en/corpus/pubmed-drug-reviews", "it/corpus/native-leaflets"):
        with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            records = [Record(json.loads(line)) for line in lines][:None if "en/" in name else 40]
        first, again = Outcome(), Outcome()
        kept = list(cleaner(records, first))
        totals[name] = first.counts
        assert len(kept) == len(records)
        assert list(cleaner(kept, again)) == kept
        assert again.counts == {}
        assert not any(sign in record["text"] for record in kept
                       for sign in ("\r", "\t", "  ", " \n", "\x93", "TRUNCATED AT"))
    assert totals["en/corpus/pubmed-drug-reviews"]["changed truncation-marks"] == 137
    assert totals["it/corpus/native-leaflets"]["changed line-ends"] == 40
