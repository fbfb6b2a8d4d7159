from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bmtools.corpus.split import SplitConfig, write_split
from bmtools.errors import DataError, refuse
from bmtools.io.jsonl import RecordReader
from bmtools.tasks.finetune import read_folds


@pytest.mark.parametrize("dev_fold", [None, 2])
def test_folds_are_those_that_split_wrote(tmp_path: Path, dev_fold: int | None) -> None:
    """Twelve sentences of six documents."""
    whole = tmp_path / "all.jsonl"
    whole.write_bytes(b"".join(msgspec.json.encode(
        {"id": str(n), "text": f"a{n}", "label": "xy"[n % 3 > 0],
         "meta": {"document": str(n // 2)}}) + b"\n" for n in range(12)))
    write_split(RecordReader([str(whole)]), tmp_path / "folds",
                SplitConfig(folds=3, stratify="label"))
    folds = read_folds(tmp_path / "folds", dev_fold, refuse)
    tests = []
    for fold in folds:
        parts = {name: [record["id"] for record in source]
                 for name, source in fold.sources.items()}
        assert sorted((one for part in parts.values() for one in part), key=int) == [
            str(n) for n in range(12)]
        assert list(parts) == (["train", "dev", "test"] if dev_fold is None else
                               ["train", "dev" if fold.number == dev_fold else "test"])
        assert sum(len({int(one) // 2 for one in part}) for part in parts.values()) == 6
        tests += parts.get("test", [])
    assert len(tests) == len(set(tests)) == (12 if dev_fold is None else 8)
    assert folds[0].number == (dev_fold or 0)


def test_what_are_no_folds_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty/fold-x").mkdir(parents=True)
    with pytest.raises(DataError, match="empty: found 0 directories of folds, expected fold-0 and"):
        read_folds(tmp_path / "empty", None, refuse)
