"""Outputs of commands: kinds of files, permissions, and full or read-only disks.

The commands and their smallest arguments come from `test_battery.py`.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from commands.test_battery import CASES, Case, Kit, kit_paths  # noqa: F401
from every_command import every_command

from bmtools.cli.parameters import OutputFile
from bmtools.errors import BmtoolsError
from bmtools.io.directories import place_of
from bmtools.io.provenance.manifest import Manifest
from bmtools.io.unfinished import reserved

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
ALL = {**CASES, "import jsonl": Case(())}
FURTHER = {"clean": (("--dropped", "d.jsonl"),), "score-pppl": (("--details", "d.jsonl"),)}
DIRECTORIES = [name for name, case in ALL.items() if "OUT" in case.arguments]
FILES = [(name, "--output", "out.jsonl") for name in ALL
         if name not in DIRECTORIES]
FILES += [(name, "--rejects", "bad.jsonl") for name in ALL]
FILES += [(name, *output) for name, outputs in FURTHER.items() for output in outputs]


@dataclass(frozen=True)
class Output:
    """An output of a command that is ready to run.

    Args:
        kit: the command.
        flag: the option that names the output.
        name: a suitable file name.
    """

    kit: Kit
    flag: str
    name: str

    def run(self, path: object, *more: object) -> Any:
        """Run the command on an input with a bad line, and write the output to a path."""
        first, *rest = (json.dumps(record).encode() for record in self.kit.case.records)
        source = self.kit.write(first, self.kit.case.bad, *rest)
        rejects = () if self.flag == "--rejects" else ("--rejects", os.devnull)
        out = (self.kit.folder / "model") if self.flag != "--output" else "out"
        return self.kit.on(source, self.flag, path, *rejects, *more, out=str(out))


def make_kit(name: str, folder: Path, paths: dict[str, Path], run: Run, piped: Run,
             records: list[dict[str, Any]]) -> Kit:
    case = ALL[name]
    return Kit(name, case if case.records else replace(case, records=tuple(records)), folder,
               paths, run, piped)


@pytest.fixture(params=FILES, ids=lambda file: f"{file[0]} {file[1]}")
def output(request: pytest.FixtureRequest, kit_paths: dict[str, Path],  # noqa: F811
           tmp_path: Path, run: Run, piped: Run, corpus_records: list[dict[str, Any]]) -> Output:
    name, flag, file = request.param
    return Output(make_kit(name, tmp_path, kit_paths, run, piped, corpus_records), flag, file)


@pytest.fixture(params=DIRECTORIES)
def kit(request: pytest.FixtureRequest, kit_paths: dict[str, Path],  # noqa: F811
        tmp_path: Path, run: Run, piped: Run, corpus_records: list[dict[str, Any]]) -> Kit:
    return make_kit(request.param, tmp_path, kit_paths, run, piped, corpus_records)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of four megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", path],
                          capture_output=True, check=False)
    if done.returncode:
        pytest.skip("mounting a small disk takes root")
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_link_is_kept_and_its_target_keeps_owner_and_mode(output: Output) -> None:
    path, link = output.kit.folder / "patients", output.kit.folder / output.name
    link.symlink_to(path)
    outcome = output.run(link)
    assert outcome.code == 0, outcome.err
    assert link.is_symlink() and path.read_bytes()

    path.write_bytes(b"old")
    path.chmod(0o640)
    owner = (1234, 2345) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    outcome = output.run(link)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == \
        f"bmtools: {link} exists; give another name, or --overwrite to replace it\n"
    assert path.read_bytes() == b"old"

    outcome = output.run(link, "--overwrite")
    assert outcome.code == 0, outcome.err
    found = path.stat()
    assert path.read_bytes() not in (b"", b"old")
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (0o640, *owner)
    assert link.is_symlink()
    assert not [name for name in names(output.kit.folder) if name.startswith(".")]


@pytest.mark.parametrize("name", ["pretrain"])
def test_a_full_disk_loses_only_the_last_save(
        name: str, kit_paths: dict[str, Path], tmp_path: Path, run: Run,  # noqa: F811
        piped: Run, corpus_records: list[dict[str, Any]], disk: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    from bmtools.training.checkpoints import Checkpointer

    kit = make_kit(name, tmp_path, kit_paths, run, piped, corpus_records)
    filler = disk / "filler"

    def finish(self: Checkpointer) -> dict[str, Any]:
        self.settle()
        filler.write_bytes(bytes(os.statvfs(disk).f_bavail * 4096 - 20_000))
        return finished(self)

    finished = Checkpointer.finish
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "finish", finish)
        outcome = kit.on(kit.good(), "--save-steps", "3", out=str(disk / "out"))
    assert outcome.code == 1
    assert re.fullmatch(
        rf"bmtools: {disk}/out/model.safetensors: cannot be written \(no space left on device: "
        r"0\.\d MB needed, 0\.0 MB free\); make room, or write elsewhere; the last good state is "
        rf"{disk}/out.run/step-00000003", outcome.err.splitlines()[-1])
    assert names(disk) == ["filler", "out.run"]
    filler.unlink()
    outcome = kit.on(kit.good(), "--save-steps", "3", "--resume", out=str(disk / "out"))
    assert outcome.code == 0, outcome.err
    assert names(disk) == ["out"]


@pytest.mark.parametrize("kind", ["empty", "mount point", "link", "current directory"])
def test_an_existing_directory_is_filled(kit: Kit, kind: str, disk: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    path = disk if kind == "mount point" else kit.folder / "out"
    place = path
    if kind == "link":
        place = kit.folder / "scratch"
        path.symlink_to(place)
    place.mkdir(exist_ok=True)
    place.chmod(0o750)
    before = place.stat().st_ino
    source, current = kit.good(), kit
    if kind == "current directory":
        monkeypatch.chdir(place)
        path, current = Path(), replace(kit, folder=Path())
    outcome = current.on(source, out=str(path))
    assert outcome.code == 0, outcome.err
    assert "bmtools.json" in names(place)
    assert not [name for name in names(place) if name.startswith(".")]
    assert (place.stat().st_ino, stat.S_IMODE(place.stat().st_mode)) == (before, 0o750)
    assert stat.S_IMODE((place / "bmtools.json").stat().st_mode) == 0o640
    assert path.is_symlink() == (kind == "link")
    assert kit.left() == sorted({"disk", "out", "scratch"} & set(names(kit.folder)))


@pytest.mark.parametrize("state", ["missing", "empty", "full"])
def test_a_second_run_in_one_directory_is_rejected_immediately(
        kit: Kit, state: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first run locks the directory until its last step, even if the second run resumes."""
    target, write, asked = kit.folder / "out", Manifest.write, []

    def write_last(manifest: Manifest, directory: Path) -> Any:
        with pytest.raises(BmtoolsError, match=f"^{target}: another process is writing it; "
                           "wait for it"), reserved(target, place_of(target)):
            pass
        asked.append(directory)
        return write(manifest, directory)

    if state != "missing":
        target.mkdir()
    if state == "full":
        (target / "older").touch()
    options = ("--overwrite",) if state == "full" else ()
    with reserved(target, place_of(target)):
        for more in ((), ("--resume",)) if kit.name == "pretrain" else ((),):
            outcome = kit.on(kit.good(), *options, *more)
            assert (outcome.code, outcome.out) == (1, "")
            assert outcome.err.startswith(f"bmtools: {target}: another process is writing it; ")
            assert outcome.err.count("\n") == 1
    monkeypatch.setattr(Manifest, "write", write_last)
    outcome = kit.on(kit.good(), *options)
    assert outcome.code == 0, outcome.err
    assert asked


def test_existing_output_is_rejected_before_heavy_imports(
        kit_paths: dict[str, Path], tmp_path: Path,  # noqa: F811
        corpus_records: list[dict[str, Any]]) -> None:
    calls = []
    for name, flag, file in [*FILES, *((name, "", "") for name in DIRECTORIES)]:
        kit = make_kit(name, tmp_path, kit_paths, lambda *call: list(map(str, call)), print,
                       corpus_records)
        (tmp_path / "full").mkdir(exist_ok=True)
        for name in ("full/file", file or "unused"):
            (tmp_path / name).touch()
        calls.append(kit.on(kit.good(), *([flag, tmp_path / file] if flag else ()),
                            out="free" if flag else "full"))
    code = ("import json, sys\nfrom bmtools.cli.main import main\n"
            "for call in json.load(sys.stdin):\n"
            "    try: main(call)\n"
            "    except SystemExit as end: assert end.code == 1, call\n"
            "    loaded = {'torch', 'transformers', 'scipy', 'sklearn'} & set(sys.modules)\n"
            "    assert not loaded, (call, loaded)")
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(calls), text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all("--overwrite to replace it" in line for line in done.stderr.splitlines())
    assert len(done.stderr.splitlines()) == len(calls) > 10


def test_every_command_that_writes_has_overwrite() -> None:
    for _, command, _ in every_command():
        flags = {flag for param in command.params for flag in param.opts}
        writes = any(isinstance(param.type, OutputFile) for param in command.params)
        assert not writes or "--overwrite" in flags, command.name
