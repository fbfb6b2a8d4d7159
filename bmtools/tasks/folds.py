"""Folds of a set that `split` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bmtools.errors import DataError, Reject, setting
from bmtools.io.jsonl import RecordReader
from bmtools.tasks.task import DEV, TEST, TRAIN


@dataclass(frozen=True)
class Fold:
    """One fold of a set.

    Args:
        number: of the fold.
        sources: records of `train`, `dev` and `test`, in this order; `dev` or `test` may lack.
    """

    number: int
    sources: Mapping[str, RecordReader]


def read_folds(directory: Path, dev_fold: int | None, reject: Reject) -> list[Fold]:
    """Find the files of folds; the one that chooses for the others comes first.

    Args:
        directory: of `fold-0` and so on, each with `train.jsonl`, `test.jsonl` and, if it
            chooses for itself, `dev.jsonl`.
        dev_fold: number of the fold that chooses; then the dev part of each belongs to its
            training set, and its test part is the dev set of all.
        reject: receives bad records.

    Raises:
        DataError: no such folds.
    """
    numbers = sorted(int(path.name.removeprefix("fold-")) for path in directory.glob("fold-*")
                     if path.name.removeprefix("fold-").isdecimal())
    if len(numbers) < 2:
        raise DataError(f"{directory}: found {len(numbers)} directories of folds, expected fold-0 "
                        "and so on, as bmtools split --folds 10 writes them")
    if dev_fold is not None and dev_fold not in numbers:
        raise DataError(f"{setting('dev_fold')}: found {dev_fold}, expected one of "
                        f"{', '.join(map(str, numbers))}")
    return [Fold(number, _sources(directory / f"fold-{number}", number, dev_fold, reject))
            for number in sorted(numbers, key=lambda number: number != dev_fold)]


def _sources(directory: Path, number: int, dev_fold: int | None,
             reject: Reject) -> dict[str, RecordReader]:
    files = {name: [str(directory / f"{name}.jsonl")] for name in (TRAIN, DEV, TEST)
             if (directory / f"{name}.jsonl").is_file()}
    if lacking := [name for name in (TRAIN, TEST) if name not in files]:
        raise DataError(f"{directory}: found no {lacking[0]}.jsonl, expected one in each fold")
    if dev_fold is not None:
        part = DEV if number == dev_fold else TEST
        files = {TRAIN: files[TRAIN] + files.get(DEV, []), part: files[TEST]}
    elif DEV not in files:
        raise DataError(f"{directory}: found no dev.jsonl, expected one that chooses the epoch, "
                        f"or {setting('dev_fold')}")
    return {name: RecordReader(paths, reject) for name, paths in files.items()}
