"""Scores to hold new ones against: those of an earlier run, or of token frequencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.jsonl import read_lines

_OF_A_MODEL = frozenset(("case", "precision", "baseline", "bmtools", "torch", "transformers"))
"""Parts of a signature that tell models and machines apart, not ways of scoring."""


@dataclass(frozen=True)
class ReferenceScores:
    """Scores that an earlier run wrote.

    Args:
        path: where they stand.
        lines: with `mrr` and `signature`; none where the file holds records.
    """

    path: Path
    lines: Sequence[Mapping[str, Any]]


def read_reference(path: Path) -> ReferenceScores:
    """Read the lines that score-mrr wrote, comparisons left out, or see that these are records.

    Raises:
        DataError: neither.
    """
    lines = []
    for number, text in read_lines(str(path)):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise DataError(f"{path}:{number}: found {text[:40]!r} ({error}), expected a JSON "
                            "object on one line") from error
        if "mrr" in line and "signature" in line:
            lines.append(line)
        elif "text" in line and not lines:
            return ReferenceScores(path, [])
        elif "compared" not in line:
            raise DataError(f"{path}:{number}: found neither a score nor a record, expected lines "
                            "that score-mrr wrote or records with text")
    if not lines:
        raise DataError(f"{path}: found nothing, expected lines that score-mrr wrote or records "
                        "with text")
    return ReferenceScores(path, lines)


def check_regression(bar: ReferenceScores, lines: Sequence[Mapping[str, Any]], models: int) -> None:
    """Fail where a checkpoint scores below the bar.

    An earlier run's best score is the bar. Of records it is what their token frequencies score,
    each checkpoint's in its own vocabulary.

    Args:
        bar: from `read_reference`.
        lines: the scores of this run, checkpoints first.
        models: how many checkpoints there are.

    Raises:
        DataError: the earlier scores were made in another way.
        BmtoolsError: a checkpoint is below.
    """
    below = []
    for line in lines[:models]:
        best = _best(bar, line, lines[models:])
        if not line["mrr"] >= best["mrr"]:
            below.append(f"{line['mrr']} of {line['model']}, expected at least {best['mrr']}, that "
                         f"of {best['model']}")
    if below:
        raise BmtoolsError(f"mrr: found {'; '.join(below)} ({bar.path})")


def _best(bar: ReferenceScores, line: Mapping[str, Any],
          baselines: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if not bar.lines:
        return next(one for one in baselines if one["vocabulary"] == line["vocabulary"])
    best = max(bar.lines, key=lambda one: one["mrr"])
    for what, there, here in (("signature", _ways(best), _ways(line)),
                              ("maskings", best.get("maskings"), line["maskings"])):
        if there != here:
            raise DataError(f"{bar.path}: found {what} {there!r}, expected {here!r} as in this "
                            "run; score both on the same maskings in the same way")
    return best


def _ways(line: Mapping[str, Any]) -> str:
    """Keep the parts of a signature that say how a score was made."""
    return "|".join(part for part in line["signature"].split("|")
                    if part.partition(":")[0] not in _OF_A_MODEL)
