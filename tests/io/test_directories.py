"""Directories that appear only when whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io.directories import new_directory


def test_a_directory_is_whole_or_absent(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_directory(tmp_path / "out") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_full_directory_is_refused_and_kept(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine").write_text("old")
    with pytest.raises(BmtoolsError, match="overwrite"), new_directory(target):
        pass
    with pytest.raises(RuntimeError), new_directory(target, overwrite=True):
        raise RuntimeError
    assert (target / "mine").read_text() == "old"


def test_overwrite_replaces_everything(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine").write_text("old")
    with new_directory(target, overwrite=True) as partial:
        (partial / "new").write_text("new")
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_others_may_read_what_is_written(tmp_path: Path) -> None:
    with new_directory(tmp_path / "out") as partial:
        (partial / "file").touch(0o600)
    assert (tmp_path / "out" / "file").stat().st_mode & 0o444 == 0o444
