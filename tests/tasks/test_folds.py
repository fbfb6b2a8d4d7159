from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bmtools.corpus.split import SplitConfig, write_split
from bmtools.errors import DataError, refuse
from bmtools.io.jsonl import RecordReader
from bmtools.tasks.folds import Fold, read_folds
from bmtools.tasks.run_settings import FinetuneConfig


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Twelve sentences of six documents."""
    path = tmp_path / "all.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(
        {"id": str(n), "text": f"a{n}", "label": "xy"[n % 3 > 0],
         "meta": {"document": str(n // 2)}}) + b"\n" for n in range(12)))
    return path


def contents(folds: list[Fold]) -> list[tuple[int, dict[str, list[str]]]]:
    return [(fold.number, {name: [record["id"] for record in source]
                           for name, source in fold.sources.items()}) for fold in folds]


@pytest.mark.parametrize("dev_fold", [None, 2])
@pytest.mark.parametrize("seed", [0, 7])
def test_folds_are_those_that_split_writes(whole: Path, tmp_path: Path, dev_fold: int | None,
                                           seed: int) -> None:
    write_split(RecordReader([str(whole)]), tmp_path / "folds",
          SplitConfig(folds=3, stratify="label", seed=seed))
    made = contents(read_folds(whole, "label", FinetuneConfig(folds=3, dev_fold=dev_fold), seed,
                               refuse))
    assert made == contents(read_folds(tmp_path / "folds", "label",
                                       FinetuneConfig(dev_fold=dev_fold), 5, refuse))
    for number, parts in made:
        everything = [one for part in parts.values() for one in part]
        assert sorted(everything, key=int) == [str(n) for n in range(12)]
        expected = ["train", "dev", "test"] if dev_fold is None else \
            ["train", "dev" if number == dev_fold else "test"]
        assert list(parts) == expected
        documents = [{int(one) // 2 for one in part} for part in parts.values()]
        assert sum(map(len, documents)) == 6
    tests = [parts["test"] for _, parts in made if "test" in parts]
    assert len(tests) == (3 if dev_fold is None else 2)
    assert made[0][0] == (dev_fold or 0)


def test_folds_of_one_file_are_described_by_it(whole: Path) -> None:
    records = [{"id": str(n), "text": "a", "label": "x"} for n in range(5)]
    [one, *_] = read_folds(records, "label", FinetuneConfig(folds=5), 0, refuse)
    assert not isinstance(one.sources["train"], RecordReader)
    [one, *_] = read_folds(whole, "label", FinetuneConfig(folds=3), 0, refuse)
    for source in one.sources.values():
        assert isinstance(source, RecordReader) and source.names == (str(whole),)
        assert list(source.hashes) == [str(whole)]


def test_what_are_no_folds_is_told(tmp_path: Path, whole: Path) -> None:
    def read(source: Any, **settings: Any) -> None:
        read_folds(source, "label", FinetuneConfig(**settings), 0, refuse)

    (tmp_path / "empty/fold-x").mkdir(parents=True)
    with pytest.raises(DataError, match="empty: found 0 directories of folds, expected fold-0 and"):
        read(tmp_path / "empty")
    with pytest.raises(DataError, match="found 6 documents, too few for"):
        read(whole, folds=9)
