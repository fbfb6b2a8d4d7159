"""Regression gate: fail where a checkpoint scores below a bound, an earlier run or frequencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bmtools.errors import DataError, GateError
from bmtools.io.jsonl import read_objects
from bmtools.records import JsonObject

_NOT_COMPARED = frozenset(("accents", "case", "precision", "baseline", "bmtools", "torch",
                           "transformers"))
"""Fields of a signature that tell models and machines apart, not ways of scoring."""


def read_reference(path: Path) -> list[JsonObject]:
    """Read lines that score-mrr wrote, without comparisons, or find that these are records.

    Returns:
        lines with `mrr` and `signature`; none where the file has records.

    Raises:
        DataError: neither.
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
        raise DataError(f"{path}: found comparisons alone, expected lines that score-mrr wrote or "
                        "records with text")
    return lines


def check_regression(path: Path, reference: Sequence[JsonObject],
                     lines: Sequence[JsonObject], models: int) -> None:
    """Fail where a checkpoint scores below the reference.

    The reference is an earlier run's best score. Of records it is the score of their token
    frequencies, for each checkpoint in its own vocabulary.

    Args:
        path: file of the reference.
        reference: from `read_reference`.
        lines: the scores of this run, checkpoints first.
        models: number of checkpoints.

    Raises:
        DataError: the earlier scores were made in another way.
        GateError: a checkpoint is below.
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
            below.append(f"{line['mrr']} of {line['model']}, expected at least {best['mrr']}, that "
                         f"of {best['model']}")
    if below:
        raise GateError(f"mrr: found {'; '.join(below)} ({path})")


def check_bound(lines: Sequence[JsonObject], metric: str, at_least: float = -math.inf,
                at_most: float = math.inf) -> None:
    """Fail where a checkpoint's score is beyond a bound, or is not a number.

    Raises:
        GateError: names the checkpoints and their scores.
    """
    failed = [f"{line[metric]} of {line['model']}" for line in lines
              if not at_least <= line[metric] <= at_most]
    if failed:
        # All digits: a bound of 1/3 is above a score that was rounded to six.
        expected = f"at most {at_most:.15g}" if at_most < math.inf else f"at least {at_least:.15g}"
        raise GateError(f"{metric}: found {', '.join(failed)}, expected {expected}")


def _way_of_scoring(line: JsonObject) -> str:
    """Keep the fields of a signature that tell ways of scoring apart."""
    return "|".join(field for field in line["signature"].split("|")
                    if field.partition(":")[0] not in _NOT_COMPARED)
