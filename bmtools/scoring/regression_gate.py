"""Regression gate: fail if a score is worse than a bound, an earlier run or token frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bmtools.errors import DataError, GateError
from bmtools.io.jsonl import read_objects
from bmtools.records import JsonObject

_EXPECTED = "expected lines that score-mrr wrote or records with text"
_NOT_COMPARED = frozenset(("accents", "case", "precision", "baseline", "bmtools", "torch",
                           "transformers"))
"""Fields of a signature that identify models and machines, not ways of scoring."""


def read_reference(path: Path) -> list[JsonObject]:
    """Read lines that score-mrr wrote, without comparisons, or recognize a file of records.

    Returns:
        lines with `mrr` and `signature`; empty if the file contains records.

    Raises:
        DataError: if the file contains other lines.
    """
    lines = []
    for place, line in read_objects(str(path)):
        if isinstance(line.get("mrr"), int | float) and isinstance(line.get("signature"), str):
            lines.append(line)
        elif "text" in line and not lines:
            return []
        elif "compared" not in line:
            raise DataError(f"{place}: found neither a score nor a record, {_EXPECTED}")
    if not lines:
        raise DataError(f"{path}: found only comparisons, {_EXPECTED}")
    return lines


def check_regression(path: Path, reference: Sequence[JsonObject],
                     lines: Sequence[JsonObject], models: int) -> str:
    """Fail if a checkpoint scores below the reference; otherwise return a message.

    The reference is an earlier run's best score. If the reference file contains records, it is the
    score of their token frequencies, in each checkpoint's own vocabulary.

    Args:
        path: file of the reference.
        reference: lines from `read_reference`.
        lines: the scores of this run, checkpoints first.
        models: number of checkpoints.

    Raises:
        DataError: if the earlier scores were made in another way.
        GateError: if a checkpoint scores below the reference.
    """
    limits = []
    for line in lines[:models]:
        if reference:
            best = max(reference, key=lambda one: one["mrr"])
            for name, there, here in (
                    ("signature", _way_of_scoring(best), _way_of_scoring(line)),
                    ("maskings", best.get("maskings"), line["maskings"]),
                    ("data", best.get("data"), line["data"])):
                if there != here:
                    raise DataError(f"{path}: found {name} {there!r}, expected {here!r} as in this "
                                    "run; score both on the same maskings in the same way")
        else:
            best = next(one for one in lines[models:] if one["vocabulary"] == line["vocabulary"])
        limits.append((line, best["mrr"], f", as for {best['model']} ({path})"))
    return _compared("mrr", limits)


def check_bound(lines: Sequence[JsonObject], metric: str, bound: float, at_most: bool = False
                ) -> str:
    """Fail if a checkpoint's score exceeds a bound or is NaN; otherwise return a message.

    Raises:
        GateError: names the checkpoints and their scores.
    """
    return _compared(metric, [(line, bound, "") for line in lines], at_most)


def _compared(metric: str, limits: Sequence[tuple[JsonObject, float, str]],
              at_most: bool = False) -> str:
    """Compare each line with its limit, whose origin is named; return scores and margins."""
    # All digits are shown, because a bound of 1/3 is above a score that was rounded to six.
    found = [(f"{line['model']} has {line[metric]}, expected at {'most' if at_most else 'least'} "
              f"{limit:.15g}{origin}", (limit - line[metric]) * (1 if at_most else -1))
             for line, limit, origin in limits]
    if failed := [text for text, margin in found if not margin >= 0]:
        raise GateError(f"{metric}: {'; '.join(failed)}")
    passed = "; ".join(f"{text}, margin {abs(margin):.3g}" for text, margin in found)
    return f"gate passed: {metric}: {passed}"


def _way_of_scoring(line: JsonObject) -> str:
    """Keep the fields of a signature that identify the way of scoring."""
    return "|".join(field for field in line["signature"].split("|")
                    if field.partition(":")[0] not in _NOT_COMPARED)
