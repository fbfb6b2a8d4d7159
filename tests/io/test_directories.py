"""Directories that appear only when they are complete."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io import directories as module
from bmtools.io.directories import beside, new_directory, refuse_existing


def test_a_directory_is_complete_or_absent(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), new_directory(tmp_path / "out") as partial:
        (partial / "file").write_text("half")
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_directory_with_files_is_rejected_and_kept(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine").write_text("old")
    with pytest.raises(BmtoolsError, match="overwrite"), new_directory(target):
        pass
    with pytest.raises(RuntimeError), new_directory(target, overwrite=True):
        raise RuntimeError
    assert (target / "mine").read_text() == "old"


def test_other_users_may_read_the_output(tmp_path: Path) -> None:
    with new_directory(tmp_path / "out") as partial:
        (partial / "file").touch(0o600)
    assert (tmp_path / "out" / "file").stat().st_mode & 0o444 == 0o444


def fill(path: Path, **files: str) -> None:
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        (path / name).write_text(content)


def content(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir()}


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mount"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path], check=False,
                      capture_output=True).returncode:
        pytest.skip("mounting takes root")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.parametrize("way", ["two steps", "file by file"])
def test_an_older_directory_is_replaced(tmp_path: Path, way: str,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    fill(target, mine="old", bmtools="old")
    target.chmod(0o750)
    if way == "file by file":
        monkeypatch.setattr(module, "_is_fixed", lambda target: True)
    with new_directory(target, overwrite=True) as partial:
        fill(partial, new="new", bmtools="new")
        assert (target / "mine").read_text() == "old"
    assert content(target) == {"new": "new", "bmtools": "new"}
    assert target.stat().st_mode & 0o777 == 0o750
    assert (target / "new").stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["out", "partial", "moving/y"])
def test_finished_files_are_kept_if_the_last_step_fails(tmp_path: Path, name: str,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    fill(target, a="old", z="old")
    if "moving" in name:
        monkeypatch.setattr(module, "_is_fixed", lambda target: True)
    rename = Path.rename

    def fail(self: Path, other: Path) -> Path:
        if str(self).endswith(name) and "finished-" not in str(other):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", fail)
    kept = (target if "moving" in name else tmp_path) / f"out.finished-{os.getpid()}"
    with pytest.raises(BmtoolsError, match=(
            rf"^{target}: the last step failed \(input/output error\); the finished files are in "
            rf"{kept}, move them$")), new_directory(target, overwrite=True) as partial:
        fill(partial, b="new", y="new")
    if "moving" in name:
        assert content(kept) == {"y": "new"} and (target / "b").read_text() == "new"
    else:
        assert (content(target), content(kept)) == ({"a": "old", "z": "old"},
                                                    {"b": "new", "y": "new"})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", kept.name]


def test_a_mount_point_keeps_other_files(mount: Path) -> None:
    fill(mount, old="old")
    (mount / "lost+found").mkdir()
    with pytest.raises(BmtoolsError, match="not empty"):
        refuse_existing(mount, False)
    with new_directory(mount, overwrite=True) as partial:
        assert partial.parent == mount
        fill(partial, new="new")
    assert sorted(path.name for path in mount.iterdir()) == ["lost+found", "new"]


def test_a_bound_directory_is_a_mount_point(mount: Path, tmp_path: Path) -> None:
    bound = tmp_path / "bound here"
    bound.mkdir()
    (mount / "source").mkdir()
    fill(mount / "source", old="old")
    subprocess.run(["mount", "--bind", mount / "source", bound], check=True)
    try:
        with new_directory(bound, overwrite=True) as partial:
            fill(partial, new="new")
        assert content(bound) == content(mount / "source") == {"new": "new"}
        assert beside(bound, ".run") == bound / "bound here.run"
    finally:
        subprocess.run(["umount", "--lazy", bound], check=True)


def test_the_manifest_is_moved_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda self, target: (
        order.append(self.name), rename(self, target))[1])
    target = tmp_path / "out"
    target.mkdir()
    with new_directory(target) as partial:
        fill(partial, **{"bmtools.json": "{}", "a": "", "weights": ""})
    assert order[-1] == "bmtools.json"


@pytest.mark.parametrize("error", [
    OSError(28, "No space left on device"),
    RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")])
def test_a_full_disk_names_the_file(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(BmtoolsError, match=(
            rf"^{tmp_path}/out/weights: cannot be written \([nN]o space left on device\); make")), \
            new_directory(tmp_path / "out") as partial:
        fill(partial, config="{}")
        fill(partial, weights="half")
        raise error
    assert not list(tmp_path.iterdir())


def test_other_errors_are_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^of another kind$"), new_directory(tmp_path / "out"):
        raise ValueError("of another kind")


@pytest.mark.parametrize(("name", "expected"), [
    ("model", "model.run"), ("link", "real/out.run"), ("a/..", "{folder}.run"), (".", "cwd")])
def test_a_run_is_stored_next_to_its_output(tmp_path: Path, name: str, expected: str,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("real/out")
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    found = beside(Path(name), ".run")
    if expected == "cwd" or "folder" in expected:
        assert found == tmp_path / f"{tmp_path.name}.run", "the current directory cannot go"
    else:
        assert found.resolve() == tmp_path / expected
