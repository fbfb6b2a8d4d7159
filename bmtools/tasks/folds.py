"""Folds of a set: those that `split` wrote, or made of a set as it makes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from bmtools.corpus.split import SplitConfig, make_folds
from bmtools.errors import DataError, Reject, setting
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.records import Record, RecordSource
from bmtools.tasks.run_settings import FinetuneConfig
from bmtools.tasks.task import DEV, TEST, TRAIN

_STRATIFIED = ("label", "labels")


@dataclass(frozen=True)
class Fold:
    """One fold of a set.

    Args:
        number: of the fold.
        sources: records of `train`, `dev` and `test`, in this order; `dev` or `test` may lack.
    """

    number: int
    sources: Mapping[str, Iterable[Record]]


class _PartReader(RecordReader):
    """Records that were read with others of a set, whose files they name."""

    def __init__(self, records: list[Record], whole: RecordReader) -> None:
        super().__init__(whole.names)
        self.hashes, self._origins, self._records = whole.hashes, whole._origins, records

    def __iter__(self) -> Iterator[Record]:
        yield from self._records


def read_folds(train: RecordSource, key: str, config: FinetuneConfig,
               seed: int, reject: Reject) -> list[Fold]:
    """Read folds, or the files that they are in; the one that chooses for the others comes first.

    Args:
        train: directory of `fold-0` and so on, each with `train.jsonl`, `test.jsonl` and, if it
            chooses for itself, `dev.jsonl`; or records to be split.
        key: of records, that holds the annotation.
        config: number of folds to make, and which one chooses.
        seed: of the split.
        reject: receives bad records.

    Raises:
        DataError: no such folds, or fewer documents than folds.
    """
    chooser = config.dev_fold
    settings = SplitConfig(folds=config.folds, stratify=key if key in _STRATIFIED else "",
                           seed=seed)
    folds = list(_split(train, settings, chooser is not None, reject) if config.folds
                 else _find(Path(str(train)), chooser is not None, reject))
    if chooser is None:
        if lacking := [fold.number for fold in folds if DEV not in fold.sources]:
            raise DataError(f"{train}: found no dev.jsonl in fold-{lacking[0]}, expected one that "
                            f"chooses the epoch, or {setting('dev_fold')}")
        return folds
    if chooser not in (fold.number for fold in folds):
        raise DataError(f"{setting('dev_fold')}: found {chooser}, expected one of "
                        f"{', '.join(str(fold.number) for fold in folds)}")
    return sorted((Fold(fold.number, {TRAIN: fold.sources[TRAIN], (
        DEV if fold.number == chooser else TEST): fold.sources[TEST]}) for fold in folds),
        key=lambda fold: fold.number != chooser)


def _find(directory: Path, join: bool, reject: Reject) -> Iterator[Fold]:
    """Find the files of folds; where `join` is set, the dev part belongs to the training set."""
    numbers = sorted(int(path.name.removeprefix("fold-")) for path in directory.glob("fold-*")
                     if path.name.removeprefix("fold-").isdecimal())
    if len(numbers) < 2:
        raise DataError(f"{directory}: found {len(numbers)} directories of folds, expected fold-0 "
                        "and so on, as bmtools split --folds 10 writes them")
    for number in numbers:
        own = directory / f"fold-{number}"
        files = {name: [str(own / f"{name}.jsonl")] for name in (TRAIN, DEV, TEST)
                 if (own / f"{name}.jsonl").is_file()}
        if lacking := [name for name in (TRAIN, TEST) if name not in files]:
            raise DataError(f"{own}: found no {lacking[0]}.jsonl, expected one in each fold")
        if join:
            files[TRAIN] += files.pop(DEV, [])
        yield Fold(number, {name: RecordReader(paths, reject) for name, paths in files.items()})


def _split(train: RecordSource, settings: SplitConfig, join: bool,
           reject: Reject) -> Iterator[Fold]:
    """Split a set into folds, as `bmtools split` does; see `_find`."""
    whole = RecordReader((str(train),), reject) if isinstance(train, str | PathLike) else train
    records = list(as_records(whole, reject))
    for number, parts in enumerate(make_folds(records, settings)):
        if join:
            parts[TRAIN] += parts.pop(DEV)
        yield Fold(number, {name: _PartReader(own, whole) if isinstance(whole, RecordReader)
                            else own for name, own in parts.items()})
