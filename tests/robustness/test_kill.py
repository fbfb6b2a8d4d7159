"""Commands that a signal ends at random moments: the files they leave, and a rerun.

`make kill KILLS=1000` ends that number of commands; the default is six. Each number is a seed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from commands.test_battery import kit_paths  # noqa: F401
from commands.test_outputs import ALL, DIRECTORIES, FURTHER, make_kit
from robustness.kill_processes import Ending, Moment, run_pipeline

KILLS = int(os.environ.get("BMTOOLS_KILLS", "6"))
SIGNALS = {signal.SIGKILL: 4, signal.SIGTERM: 2, signal.SIGHUP: 1, signal.SIGINT: 1}
RESUMED = ("pretrain", "translate", "import jsonl", "clean")
MORE = {"pretrain": ("--save-steps", "1"), "clean": ("--workers", "2", "--min-words", "9")}
# The short form uses the first ones.
NAMES = [("clean",), ("translate",), ("import jsonl", "pretrain"), ("import jsonl", "clean"),
         ("score-pppl",), ("import jsonl", "finetune ner"),
         ("import jsonl",), ("pretrain",), ("finetune ner",)]
STREAM, COPIES = ("import jsonl", "translate", "clean"), 120
AFTER = (0.0, 0.0001, 0.001, 0.003, 0.01)  # seconds from a change to files to the signal
FREE, OLDER, FILLED = "a free name", "an older output", "an older directory that stays"
OLD_MANIFEST: dict[str, Any] = {"settings": {}, "inputs": {}, "results": {}}


@dataclass
class Victim:
    """A command or a pipeline with known outputs.

    Args:
        commands: arguments of each command.
        folder: folder in which they run.
        outputs: files and directories that they write.
        resumes: whether the last command has `--resume`.
        read: reads an output, without times.
        server: socket of the server of processes.
    """

    commands: list[list[str]]
    folder: Path
    outputs: list[Path]
    resumes: bool
    read: Callable[[Path], Any]
    server: Path
    whole: list[Any] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)

    def run(self, kind: str, *more: str, moment: Moment | None = None,
            victim: int = 0) -> list[Ending]:
        """Run it; further options are passed to the last command."""
        commands = [*self.commands[:-1], [*self.commands[-1], *more]]
        folder = self.outputs[0] if kind == FILLED else self.folder
        return run_pipeline(self.server, commands, folder, self.folder / "err.in", moment, victim)

    def learn(self) -> None:
        """Run it without a signal, and store its output."""
        self.endings = self.run(FREE)
        assert [ending.code for ending in self.endings] == [0] * len(self.commands), self.endings
        self.whole = self.found()
        assert all(self.whole)
        self.clear()

    def clear(self) -> None:
        """Remove all files that it wrote."""
        for path in self.folder.iterdir():
            if path.suffix != ".in":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def found(self) -> list[Any]:
        """Read the outputs; None for a missing output."""
        return [self.read(path) if path.exists() else None for path in self.outputs]

    def write_older(self) -> list[Any]:
        """Write older outputs at the paths of the command's outputs."""
        for path, whole in zip(self.outputs, self.whole, strict=True):
            if isinstance(whole, dict):
                path.mkdir()
                (path / "bmtools.json").write_text(json.dumps(OLD_MANIFEST))
            else:
                path.write_bytes(b"old\n")
        return self.found()

    def hidden(self) -> list[str]:
        """List unfinished files."""
        return [path.name for path in self.folder.rglob(".*")]

    def unfinished(self) -> list[Path]:
        """List directories that are not outputs."""
        return [path for path in self.folder.rglob("*")
                if path.is_dir() and path not in self.outputs]

    def moment(self, rng: Random, victim: int) -> Moment:
        """Choose a signal, and the change to files or the time at which a command gets it."""
        [number] = rng.choices(list(SIGNALS), list(SIGNALS.values()))
        ending = self.endings[victim]
        if rng.random() < 0.25 or not ending.changes:
            return Moment(number, seconds=rng.uniform(0, ending.seconds))
        return Moment(number, rng.randint(1, ending.changes), rng.choice(AFTER))

    def rerun(self, kind: str) -> list[Ending]:
        """Run it again as a user would after an interruption."""
        resumes = self.resumes and (kind == FREE or any(
            path.suffix == ".run" for path in self.unfinished()))
        exists = any(path.exists() for path in self.outputs) and not (self.resumes and kind == FREE)
        return self.run(kind, *["--resume"] * resumes, *["--overwrite"] * exists)


@pytest.fixture(scope="module")
def find_victim(kit_paths: dict[str, Path], corpus_records: list[dict[str, Any]],  # noqa: F811
                warm_bmtools: Path, tmp_path_factory: pytest.TempPathFactory,
                contents: Callable[[Path], Any]) -> Callable[[tuple[str, ...]], Victim]:
    """Create a command or a pipeline, once."""
    victims: dict[tuple[str, ...], Victim] = {}

    def read(path: Path) -> Any:
        if not path.is_dir():
            return path.read_bytes()
        names = {path.name for path in path.iterdir() if path.is_file()}
        found = contents(path) if "bmtools.json" in names else dict.fromkeys(names)
        return {name: content for name, content in found.items() if not name.startswith(".")}

    def make(names: tuple[str, ...]) -> Victim:
        folder = tmp_path_factory.mktemp(names[-1].replace(" ", "-"))
        kits = [make_kit(name, folder, kit_paths, lambda *call: list(map(str, call)),
                         lambda _, *call: list(map(str, call)), corpus_records) for name in names]
        records = next((ALL[name].records for name in names if ALL[name].records), corpus_records)
        copies = COPIES if names[0] in STREAM else 1
        source = kits[0].write(*(json.dumps(
            {**record, "id": f"{record['id']}-{copy}",
             "text": record["text"] + f" {copy}" * (names[0] != "translate")}
            if copies > 1 else record).encode()
            for copy in range(copies) for record in records), name="records.in")
        commands = [kits[0].on(source)]
        commands += [kit.on_stdin(source, True, "out") for kit in kits[1:]]
        outputs = [folder / "out"]
        if names[-1] not in DIRECTORIES:
            commands[-1] += ["-o", str(folder / "out")]
            for flag, name in FURTHER.get(names[-1], ()):
                commands[-1] += [flag, str(folder / name)]
                outputs.append(folder / name)
        for name, command in zip(names, commands, strict=True):
            command += MORE.get(name, ())
        victim = Victim(commands, folder, outputs, names[-1] in RESUMED, read,
                        warm_bmtools / "socket")
        victim.learn()
        return victim

    def find(names: tuple[str, ...]) -> Victim:
        if names not in victims:
            victims[names] = make(names)
        return victims[names]

    return find


@pytest.mark.parametrize("number", range(KILLS))
def test_a_signal_at_any_moment(number: int, find_victim: Callable[..., Victim]) -> None:
    rng = Random(number)
    names = NAMES[number % len(NAMES)]
    one = find_victim(names)
    one.clear()
    kind = rng.choice([FREE, OLDER, FILLED][:3 if names[-1] in DIRECTORIES else 2])
    before = one.write_older() if kind != FREE else [None] * len(one.outputs)
    place = rng.randrange(len(names))
    moment = one.moment(rng, place)
    endings = one.run(kind, *["--overwrite"] * (kind != FREE), moment=moment, victim=place)
    about = f"{' | '.join(names)}: {moment} to {names[place]}, {kind}; {endings}"

    found = one.found()
    for old, new, whole in zip(before, found, one.whole, strict=True):
        # A directory that cannot be exchanged is filled file by file; the next run completes it.
        assert new in (old, whole) or (kind == FILLED and one.hidden()), about
    codes = [ending.code for ending in endings]
    assert codes[place] in (0, None, 128 + moment.number, *[75] * (names[place] in RESUMED)), about
    assert codes[-1] != 0 or found == one.whole, about
    assert not any("Traceback" in one.err or "unexpected" in one.err for one in endings), about
    if moment.number != signal.SIGKILL:
        assert one.hidden() == [], about

    again = one.rerun(kind)
    assert [ending.code for ending in again] == [0] * len(names), (about, again)
    assert one.found() == one.whole, about
    assert one.hidden() == [], about
    assert one.unfinished() == [], about
