"""Accounts of characters, and errors of readers that they detect."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bmtools.corpus.account import ADDED, IN_RECORDS, LEFT_OUT, XmlAccount, accounted
from bmtools.errors import DataError
from bmtools.records import Record

DOCUMENT = """<!DOCTYPE Set PUBLIC "-//X" "http://nowhere.invalid/x.dtd"><Set><n>12</n>
<d><t>Asthma</t><p l="AIM">We <b>do</b> not
 know<f>Fig. of lungs</f> &beta;<q>[<x>1</x>,<x>2</x>]</q>.</p><p>10<s>6</s> cells<!-- no --> </p>
</d><d><n>345</n></d><d><t>The <b>heart</b></t><p>Beats.</p></d></Set>"""
GOOD = (("Asthma", "AIM: We do not know β.\nFig. of lungs\n10⁶ cells"), ("The heart", "Beats."))


class Account(XmlAccount):
    units, moved = ("d",), frozenset("f")

    def left_out(self, path, attributes):
        return {"n": "numbers", "x": "citations"}.get(path[-1], "")

    def added(self, path, attributes):
        return f"{attributes['l']}:" if "l" in attributes else ""

    def in_unit(self, pieces):
        has_text = any(piece.place.endswith("/p") for piece in pieces)
        for piece in pieces:
            if has_text and not piece.left_out:
                optional = piece._replace(is_optional=piece.place.endswith("/y"))
                yield from optional.without_ends("[],")
            else:
                yield piece._replace(left_out=piece.left_out or "documents without text")


def account(tmp_path: Path, records: Sequence[tuple[str, str]],
            document: str = DOCUMENT) -> dict[str, int]:
    """Account for records of a document, given as title and text, and return the counts."""
    path, counts = tmp_path / "in.xml", Counter[str]()
    path.write_text(document, encoding="utf-8")
    made = [Record(id=str(number), title=title, text=text)
            for number, (title, text) in enumerate(records)]
    pieces = Account().pieces(str(path))
    assert list(accounted(made, pieces, str(path), counts, "brackets")) == made
    return {name: count for name, count in counts.items() if count}


def test_every_character_is_counted_once(tmp_path: Path) -> None:
    counts = account(tmp_path, GOOD)
    assert counts == {IN_RECORDS: 52, ADDED: 4, LEFT_OUT.format("numbers"): 5,
                      LEFT_OUT.format("citations"): 2, LEFT_OUT.format("brackets"): 3}
    everything = ("12 Asthma We do not know Fig. of lungs β [1,2] . 10 6 cells "
                  "345 The heart Beats.")
    assert sum(counts.values()) - counts[ADDED] == len(everything.replace(" ", ""))


def test_units_without_records_and_final_signs_are_counted(tmp_path: Path) -> None:
    document = DOCUMENT.replace("<n>345</n>", "<t>Alone</t>")
    assert account(tmp_path, GOOD, document)[LEFT_OUT.format("documents without text")] == 5
    document = DOCUMENT.replace("Beats.", "Beats.<q>[<x>3</x>]</q>")
    assert account(tmp_path, GOOD, document)[LEFT_OUT.format("brackets")] == 5


ASTHMA, HEART = GOOD


@pytest.mark.parametrize(("records", "message"), [
    # a tail is missing
    (((ASTHMA[0], "AIM: We do β.\nFig. of lungs\n10⁶ cells"), HEART),
     "in.xml: Set/d/p: the text 'notknow' is not accounted for, where the record has 'β.Fig.of"),
    # a paragraph is missing, repeated or invented
    ((ASTHMA, ("The heart", "")), "in.xml: Set/d/p: the text 'Beats.' is not accounted for, at"),
    ((ASTHMA, ("The heart", "Beats.\nBeats.")), "found the text 'Beats.' at the end of a record"),
    # two paragraphs or two records are exchanged
    (((ASTHMA[0], "10⁶ cells\nAIM: We do not know β.\nFig. of lungs"), HEART), "the text 'We' is"),
    # a piece that may move is missing or repeated
    (((ASTHMA[0], "AIM: We do not know β.\n10⁶ cells"), HEART), "Set/d/p/f: the text 'Fig.oflungs"),
    # text of an omitted class is present, or a letter is changed
    (((ASTHMA[0], ASTHMA[1].replace(" β", " β1")), HEART), "Set/d/p: the text '.' is not"),
    (((ASTHMA[0], ASTHMA[1].replace("β", "b")), HEART), "the text 'β' is not accounted for"),
])
def test_errors_of_a_reader_are_reported(tmp_path: Path, records, message: str) -> None:
    with pytest.raises(DataError) as caught:
        account(tmp_path, records)
    assert message in str(caught.value)
    assert "run without account to continue" in str(caught.value)


def test_damaged_xml_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"in.xml:2: damaged XML \(no element found"):
        account(tmp_path, [("", "A b")], "<Set><d><p>A b</p></d>\n<d>")
    assert account(tmp_path, [], "") == {}


def test_optional_text_is_not_confused_with_following_text(tmp_path: Path) -> None:
    document = "<Set><d><p>cells [<y>1</y>,<y>2</y>]1 mL</p></d><d><p>[1] 2.</p></d></Set>"
    for first in ("cells 1 mL", "cells [1,2]1 mL", "cells [1,]1 mL"):
        counts = account(tmp_path, [("", first), ("", "[1] 2.")], document)
        assert sum(counts.values()) == 18
        assert counts[IN_RECORDS] == len(first.replace(" ", "")) + 5
    with pytest.raises(DataError, match="mL' is not accounted for, where the record has 'L"):
        account(tmp_path, [("", "cells 1 L"), ("", "[1] 2.")], document)


@pytest.mark.parametrize("kept", [0, 8_000])
def test_long_runs_of_signs_are_accounted_fast(tmp_path: Path, kept: int) -> None:
    document = f"<Set><d><p>a{'[' * 8_000} <y>1</y> b</p></d></Set>"
    started = time.process_time()
    counts = account(tmp_path, [("", f"a{'[' * kept}b")], document)
    assert counts[IN_RECORDS] == kept + 2
    assert time.process_time() - started < 5


def test_a_moved_piece_is_not_confused_with_a_short_one(tmp_path: Path) -> None:
    document = "<Set><d><p>A<f>The lungs</f> b</p><p>The<b> heart</b></p></d></Set>"
    assert account(tmp_path, [("", "A b\nThe lungs\nThe heart")], document)[IN_RECORDS] == 18
