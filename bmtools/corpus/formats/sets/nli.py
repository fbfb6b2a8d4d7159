"""Natural language inference in JSON Lines: MedNLI, SNLI and MultiNLI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Required, TypedDict

from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.json_lines import json_objects
from bmtools.records import Record

_NO_CONSENSUS = "-"


class _Pair(TypedDict, total=False):
    sentence1: Required[str]
    sentence2: Required[str]
    gold_label: str
    pairID: str | int


@reader
def nli_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield every pair: the premise as `text`, the hypothesis as `text_pair`, and its `label`.

    Pairs on which the annotators did not agree (`-`) are left out. Source: Romanov and Shivade
    2018; Bowman et al. 2015. Ids are `pairID`, or `STEM:LINE`.

    Args:
        names: JSON Lines with sentence1, sentence2 and gold_label; `-` for stdin.
        tally: counts pairs that are left out.
            It rejects a line that cannot be read.
    """
    for number, place, pair in json_objects(names, _Pair, tally.reject):
        label = pair.get("gold_label", "")
        if label == _NO_CONSENSUS:
            tally.counts["pairs without an agreed label left out"] += 1
            continue
        yield Record(id=str(pair.get("pairID", number)), text=pair["sentence1"].strip(),
                     text_pair=pair["sentence2"].strip(), **({"label": label} if label else {}),
                     place=place)
