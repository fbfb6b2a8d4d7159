"""The frame of commands: declared files, and state that belongs to one command."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from every_command import every_command

from bmtools.cli.outputs import declared_paths
from bmtools.cli.parameters import NamedPath, OutputFile
from bmtools.errors import setting, settings_spelled_as_flags
from bmtools.status import Status, counted, watching_status

Run = Callable[..., Any]
TRANSLATE = ("translate", "en.jsonl", "--source-lang", "en", "--target-lang", "it",
             "--engine", "memory", "--memory", "memory.tsv")


LEAVES = {" ".join(words): command for words, command, _ in every_command()
          if not isinstance(command, click.Group)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with a small example of each kind of handwritten input."""
    monkeypatch.chdir(tmp_path)
    texts = {"memory.tsv": "en\tit\nFever.\tFebbre.\n", "g.tsv": "fever\tfebbre\n",
             "p.txt": "TNF\n", "t.toml": 'Fevers = ["fever"]\n',
             "s.toml": 'title = "x"\n',
             "en.jsonl": '{"id":"1","text":"Fever.","lang":"en"}\n'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("arguments", "name"), [
    ((*TRANSLATE, "--glossary", "g.tsv", "-o", "g.tsv"), "g.tsv"),
    ((*TRANSLATE, "--protect", "p.txt", "-o", "p.txt"), "p.txt"),
    ((*TRANSLATE, "--cache", "c", "--abbreviations", "p.txt", "-o", "p.txt"), "p.txt"),
    (("describe", "en.jsonl", "--topics", "t.toml", "-o", "t.toml"), "t.toml"),
    (("score-suite", "en.jsonl", "--suite", "s.toml", "-o", "s.toml"), "s.toml"),
    (("find-contexts", "en.jsonl", "--words", "p.txt", "-o", "p.txt"), "p.txt"),
    (("clean", "en.jsonl", "--remove", "p.txt", "-o", "p.txt"), "p.txt"),
    (("mix", "--corpus", "a=en.jsonl", "-o", "en.jsonl"), "en.jsonl"),
])
def test_an_input_is_never_overwritten(folder: Path, run: Run, arguments: tuple[str, ...],
                                       name: str) -> None:
    before = (folder / name).read_bytes()
    outcome = run(*arguments, "--overwrite")
    assert outcome.code != 0
    assert (folder / name).read_bytes() == before
    if not name.startswith("s."):  # a suite is read first, and this file is not a suite
        assert outcome.code == 2 and "are the same" in outcome.err


def test_records_hash_every_file_that_was_read(folder: Path, run: Run) -> None:
    assert run(*TRANSLATE, "--glossary", "g.tsv", "--protect", "p.txt", "-o", "it.jsonl").code == 0
    inputs = json.loads((folder / "it.jsonl.bmtools.json").read_text())["inputs"]
    assert inputs.keys() == {"en.jsonl", "memory.tsv", "g.tsv", "p.txt"}
    assert run("verify", "it.jsonl").code == 0
    (folder / "g.tsv").write_text("fever\tfebbri\n")
    assert run("verify", "it.jsonl").code == 1


class Terminal(io.TextIOWrapper):
    """Stdin in which a user types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [
    ("describe",), ("describe", "-"), ("score-tasks", "en.jsonl"), ("score-tasks", "-", "en.jsonl"),
    ("score-translation", "en.jsonl"), ("mix", "--corpus", "a=-"), ("import", "text"),
    ("compare-vocab", "--terms", "-", "--vocab", "words"),
], ids=" ".join)
def test_a_command_that_reads_the_terminal_announces_it(
        folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch,
        arguments: tuple[str, ...]) -> None:
    (folder / "words").mkdir()
    with (folder / "en.jsonl").open(encoding="utf-8") as typed:
        monkeypatch.setattr(sys, "stdin", Terminal(typed.buffer))
        outcome = run(*arguments)
    assert outcome.err.count("bmtools: reading from the terminal; end with Ctrl-D\n") == 1


def test_parameters_that_name_files_have_a_path_type() -> None:
    """Users read a path's metavar, but the frame reads only types."""
    words = ("FILE", "DIR", "PATH", "CKPT")
    for name, command in LEAVES.items():
        for param in command.params:
            metavar = param.metavar or ""
            if any(word in metavar for word in words):
                assert isinstance(param.type, NamedPath), (name, param.name, metavar)
            assert type(param.type) is not click.Path, (name, param.name)


def test_outputs_are_declared_as_outputs() -> None:
    for name, command in LEAVES.items():
        for param in command.params:
            if param.name == "output" and isinstance(param.type, NamedPath):
                assert param.type.is_output, name
            if isinstance(param.type, OutputFile):
                assert list(param.type.paths("x")) == ["x"]


def test_a_file_in_a_pair_of_name_and_path_is_declared(folder: Path) -> None:
    command = LEAVES["mix"]
    context = click.Context(command)
    context.params = {"files": ("a=en.jsonl", "en.jsonl")}
    assert [path.name for path in declared_paths(context)] == ["en.jsonl", "en.jsonl"]


def test_two_functions_at_once_keep_their_state_apart() -> None:
    """Status and the spelling of settings belong to a thread, not to the process."""
    seen: dict[str, list[Status]] = {"one": [], "two": []}
    spelled: dict[str, str] = {}
    both = threading.Barrier(2)

    def work(name: str) -> None:
        with watching_status(seen[name].append), settings_spelled_as_flags(name == "one"):
            both.wait(20)
            for _ in counted(range(3), name):
                pass
            spelled[name] = setting("max_length")
            both.wait(20)

    threads = [threading.Thread(target=work, args=[name]) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {status.activity for status in seen["one"]} == {"one"}
    assert {status.activity for status in seen["two"]} == {"two"}
    assert spelled == {"one": "--max-length", "two": "max_length"}
