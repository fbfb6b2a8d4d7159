"""Natural language inference as JSON Lines: MedNLI, SNLI and MultiNLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Required, TypedDict

from bmtools.corpus.formats.texts.json_lines import json_objects
from bmtools.errors import Reject, refuse
from bmtools.records import Record

_NO_CONSENSUS = "-"


class _Pair(TypedDict, total=False):
    sentence1: Required[str]
    sentence2: Required[str]
    gold_label: str
    pairID: str | int


def nli_records(names: Iterable[str], counts: Counter[str] | None = None,
                reject: Reject = refuse) -> Iterator[Record]:
    """Yield every pair: the premise as `text`, the hypothesis as `text_pair`, and its `label`.

    Pairs on which the annotators did not agree (`-`) are left out. Source: Romanov and Shivade
    2018; Bowman et al. 2015. Ids are `pairID`, or `STEM:LINE`.

    Args:
        names: JSON Lines with sentence1, sentence2 and gold_label; `-` for stdin.
        counts: counts pairs that are left out.
        reject: receives a line that cannot be read.
    """
    counts = Counter() if counts is None else counts
    for number, place, pair in json_objects(names, _Pair, reject):
        label = pair.get("gold_label", "")
        if label == _NO_CONSENSUS:
            counts["pairs without a label that annotators agreed on left out"] += 1
            continue
        yield Record(id=str(pair.get("pairID", number)), text=pair["sentence1"].strip(),
                     text_pair=pair["sentence2"].strip(), **({"label": label} if label else {}),
                     place=place)
