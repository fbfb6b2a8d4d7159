"""Natural language inference as JSON Lines: MedNLI, SNLI and MultiNLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Required, TypedDict

import msgspec

from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.jsonl import read_lines, source_name, source_stem
from bmtools.records import Record, readable

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
    decode = msgspec.json.Decoder(_Pair).decode
    for name in names:
        for number, line in read_lines(name):
            if not line.strip():
                continue
            place = f"{source_name(name)}:{number}"
            try:
                pair = decode(line)
            except msgspec.ValidationError as error:
                reject(RecordError(place, readable(str(error)), line))
                continue
            except (msgspec.DecodeError, RecursionError) as error:
                reject(RecordError(place, f"found {line.strip()[:40]!r} ({error}), expected a JSON "
                                          "object on one line", line))
                continue
            label = pair.get("gold_label", "")
            if label == _NO_CONSENSUS:
                counts["pairs without a label that annotators agreed on left out"] += 1
                continue
            yield Record(id=str(pair.get("pairID", f"{source_stem(name)}:{number}")),
                         text=pair["sentence1"].strip(), text_pair=pair["sentence2"].strip(),
                         **({"label": label} if label else {}), place=place)
