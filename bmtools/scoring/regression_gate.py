"""Regression gate: fail if a score is worse than a bound, an earlier run or token frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bmtools.errors import DataError, GateError
from bmtools.io.jsonl import read_objects
from bmtools.records import JsonObject

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
            raise DataError(f"{place}: found neither a score nor a record, expected lines "
                            "that score-mrr wrote or records with text")
    if not lines:
        raise DataError(f"{path}: found only comparisons, expected lines that score-mrr wrote or "
                        "records with text")
    return lines


def check_regression(path: Path, reference: Sequence[JsonObject],
                     lines: Sequence[JsonObject], models: int) -> None:
    """Fail if a checkpoint scores below the reference.

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
    below = []
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
        if not line["mrr"] >= best["mrr"]:
            below.append(f"{line['model']} has {line['mrr']}, expected at least {best['mrr']}, as "
                         f"for {best['model']}")
    if below:
        raise GateError(f"mrr: {'; '.join(below)} ({path})")


def check_bound(lines: Sequence[JsonObject], metric: str, at_least: float = -math.inf,
                at_most: float = math.inf) -> None:
    """Fail if a checkpoint's score exceeds a bound or is NaN.

    Raises:
        GateError: names the checkpoints and their scores.
    """
    failed = [f"{line['model']} has {line[metric]}" for line in lines
              if not at_least <= line[metric] <= at_most]
    if failed:
        # All digits are shown, because a bound of 1/3 is above a score that was rounded to six.
        expected = f"at most {at_most:.15g}" if at_most < math.inf else f"at least {at_least:.15g}"
        raise GateError(f"{metric}: {', '.join(failed)}, expected {expected}")


def _way_of_scoring(line: JsonObject) -> str:
    """Keep the fields of a signature that identify the way of scoring."""
    return "|".join(field for field in line["signature"].split("|")
                    if field.partition(":")[0] not in _NOT_COMPARED)
