"""Tests of writers and a score command: help, stdin, empty input, bad lines and wrong usage.

The frame does all this, and every command uses it. `CASES` contains commands that write records,
checkpoints and results. The layout of help is tested in `cli/test_help.py`, and its examples are
tested in `test_examples.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import pytest
from every_command import every_command

from bmtools.cli.help import Group
from bmtools.cli.main import bmtools
from bmtools.cli.options import Command
from bmtools.io.provenance.manifest import hash_directory

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
NO_TEXT = "no text in the input; give records with text"
NO_RECORDS = "FILE: found no records, expected at least one"
ALLOWED = "; use --allow-empty to accept it"
STEPS = ("--steps", "4", "--max-length", "16", "--batch-size", "4")
TAGGED = tuple({"id": str(number), "text": "Il paziente ha asma.", "entities": [
    {"start": 15, "end": 19, "type": "DIS"}]} for number in range(4))
NOTES = ({"id": "a", "text": "No pain. Fever."}, {"id": "b", "text": "Fever."})


@dataclass(frozen=True)
class Case:
    """A command with its smallest arguments.

    Args:
        arguments: required arguments; words in capitals stand for paths that `Kit` makes.
        empty: the message for empty input.
        blank: the message for a text without words; None if that is not an error.
        records: records of the input; the corpus by default.
        bad: a faulty line among them.
        fault: the message for this line.
        option: name of the option for the input.
    """

    arguments: tuple[str, ...]
    empty: str = NO_RECORDS
    blank: str | None = NO_TEXT
    records: tuple[dict[str, Any], ...] = ()
    bad: bytes = b'{"id": "c"}'
    fault: str = "key 'text' is missing"
    option: str = ""


CASES = {
    "clean": Case(("--min-words", "8"), NO_RECORDS + ALLOWED, None),
    "pretrain": Case(
        ("--architecture", "bert-1x64", "--tokenizer", "TOKENIZER", *STEPS, "-o", "OUT")),
    "finetune ner": Case(
        ("--model", "MODEL", "--dev", "DEV", "--seeds", "1", "--epochs", "1", "--max-length",
         "16", "-o", "OUT"),
        blank="FILE:1: key 'entities' is missing; expected a list, empty without entities",
        records=TAGGED, option="--train"),
    "score-pppl": Case(
        ("--model", "MODEL"),
        blank="FILE:1: key 'text': found no tokens to score, expected a sentence"),
    "translate": Case(
        ("--source-lang", "en", "--target-lang", "it", "--engine", "memory", "--memory", "MEMORY"),
        NO_RECORDS + ALLOWED, None, NOTES),
}

# Arguments before each row of `USAGE`.
BEFORE = {
    "pretrain": ("-o", "out"),
    "finetune ner": (*CASES["finetune ner"].arguments, "--train", "corpus.jsonl"),
    "translate": ("--source-lang", "en", "--target-lang", "it"),
}

USAGE: dict[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "clean": (
        (("--repairs", "basic,whitespace"), "--repairs: found 'whitespace', expected names from"),
        (("--min-words", "9", "--max-words", "8"), "--min-words: found 9, expected at most"),
        (("--remove", "absent"), "'absent' does not exist"),
    ),
    "pretrain": (
        ((), "expected one of --model and --architecture"),
        (("--architecture", "bert-1x64"), "--architecture and --tokenizer go together"),
        (("--model", "MODEL", "--seed", "-1"), "--seed: found -1, expected 0 to 4294967295"),
        (("--model", "MODEL", "--mask-rate", "0"), "--mask-rate: found 0.0, expected above 0"),
        (("--model", "MODEL", "--set", "mask_replace_prob=0.95"),
         "shares that add up to 1 at most"),
        (("--model", "MODEL", "--recipe", "pubmedbertt"), "did you mean 'pubmedbert'?"),
        (("--model", "MODEL", "--recipe", "laptop", "--phases", "corpus.jsonl"),
         "expected one of --recipe and --phases"),
        (("--model", "MODEL", "--set", "stepz=4"),
         "found unknown key 'stepz', did you mean 'steps'"),
        (("--model", "MODEL", "--budget", "soon"),
         "--budget: found soon, expected a number and s, m"),
        (("--model", "MODEL", "--replay", "MODEL"), "--replay and --set replay_steps go together"),
        (("--model", "MODEL", "--corpus", "MODEL"), "expected NAME=PATH of a file of records or"),
        (("--model", "MODEL", "--corpus", "text=corpus.jsonl"),
         "found the name 'text', which FILES"),
        (("--model", "MODEL", "--shard"), "--shard: found one process"),
        (("--model", "MODEL", "--set", "optimizer=sgd"),
         "optimizer: found 'sgd', expected adamw or"),
    ),
    "finetune ner": (
        (("--crf", "--loss", "dice"), "--loss: found dice, expected cross-entropy, because --crf"),
        (("--train", "-", "--dev", "-"),
         "read only one of --train, --dev and --test from stdin"),
    ),
    "score-pppl": (
        (("--model", "MODEL", "--details", "-"), "--details and --output are the same"),
    ),
    "translate": (
        (("--engine", "memory"), "--engine memory needs --memory"),
        (("--engine", "apertium", "--model", "."), "--model is not supported by --engine apertium"),
        (("--engine", "transformers", "--model", ".", "--precision", "int8"),
         "--precision int8 needs --engine ctranslate2"),
    ),
}


@dataclass(frozen=True)
class Kit:
    """A command ready to run on inputs in the test's folder."""

    name: str
    case: Case
    folder: Path
    paths: dict[str, Path]
    run: Run
    piped: Run

    def write(self, *lines: bytes, name: str = "in.jsonl") -> Path:
        path = self.folder / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def good(self) -> Path:
        return self.write(*(json.dumps(record).encode() for record in self.case.records))

    def arguments(self, out: str = "out") -> list[object]:
        paths = {**self.paths, "OUT": self.folder / out}
        return [*self.name.split(), *(paths.get(word, word) for word in self.case.arguments)]

    def on(self, source: object, *more: object, out: str = "out") -> Any:
        given = (self.case.option, source) if self.case.option else (source,)
        return self.run(*self.arguments(out), *more, *given)

    def on_stdin(self, source: Path, dash: bool, out: str) -> Any:
        given = ("-",) if dash else ()
        given = (self.case.option, "-") if self.case.option else given
        return self.piped(source, *self.arguments(out), *given)

    @property
    def writes_directory(self) -> bool:
        return "OUT" in self.case.arguments

    def left(self) -> list[str]:
        """Files that the command left in the folder, without its input."""
        return sorted(path.name for path in self.folder.iterdir() if path.name != "in.jsonl")


@pytest.fixture(scope="session")
def kit_paths(tiny_tokenizer: Path, tiny_checkpoint: Path,
              tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Paths that replace the words in capitals in the arguments of cases."""
    folder = tmp_path_factory.mktemp("kit")
    (folder / "memory.tsv").write_text("en\tit\nNo pain.\tNessun dolore.\nFever.\tFebbre.\n",
                                       encoding="utf-8")
    (folder / "dev.jsonl").write_text("".join(json.dumps(one) + "\n" for one in TAGGED[:2]))
    return {"TOKENIZER": tiny_tokenizer, "MODEL": tiny_checkpoint,
            "MEMORY": folder / "memory.tsv", "DEV": folder / "dev.jsonl"}


@pytest.fixture(params=CASES)
def kit(request: pytest.FixtureRequest, kit_paths: dict[str, Path], tmp_path: Path, run: Run,
        piped: Run, corpus_records: list[dict[str, Any]]) -> Kit:
    case = CASES[request.param]
    if not case.records:
        case = replace(case, records=tuple(corpus_records))
    return Kit(request.param, case, tmp_path, kit_paths, run, piped)


def test_every_command_uses_the_tested_frame() -> None:
    assert [command.name for _, command, _ in every_command()
            if not isinstance(command, Command | Group) and command.name != "help"] == []


def test_a_file_equals_stdin(kit: Kit, contents: Callable[[Path], Any],
                             manifest: Callable[[Path], Any]) -> None:
    source = kit.good()
    named = kit.on(source)
    assert named.code == 0, named.err
    for dash in (False, True):
        out = f"piped-{dash}"
        piped = kit.on_stdin(source, dash, out)
        assert piped.code == 0, piped.err
        if kit.writes_directory:
            assert contents(kit.folder / out) == contents(kit.folder / "out")
            made = manifest(kit.folder / out)
            assert "<stdin>" in made["inputs"]
            assert made["sha256"] == hash_directory(kit.folder / out)
        else:
            assert piped.out.replace('"stdin"', '"in"') == named.out


@pytest.mark.parametrize("blank", [False, True], ids=["no records", "no words"])
def test_empty_input_is_a_one_line_error(kit: Kit, blank: bool) -> None:
    message = kit.case.blank if blank else kit.case.empty
    source = kit.write(*[b'{"id": "a", "text": " \\n"}'] * blank)
    outcome = kit.on(source)
    if message is None:
        assert outcome.code == 0, outcome.err
        return
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: {message.replace('FILE', str(source))}\n"
    assert kit.left() == []
    allowed = kit.on(source, "--allow-empty")
    assert (allowed.code, allowed.out) == (0 if ALLOWED in message else 2, "")


def test_incomplete_records_are_rejected(kit: Kit) -> None:
    """A failed producer or a kill cut the records off; --rejects does not accept such lines."""
    lines = [json.dumps(record).encode() for record in kit.case.records]
    marked = kit.write(*lines, json.dumps({
        "bmtools": "incomplete", "command": "bmtools import pubmed", "reason": "cut"}).encode())
    told = (f"bmtools: {marked}:{len(lines) + 1}: the records are incomplete, because 'bmtools "
            "import pubmed' failed (cut); fix that, then run both again\n")
    cut = kit.write(name="cut.jsonl")
    cut.write_bytes(b"\n".join([*lines, b'{"id": "z", "text": "Il cuo']))
    for source, message in ((marked, told), (
            cut, f"bmtools: {cut}:{len(lines) + 1}: the last line is cut off, after '{{\"id\": "
                 "\"z\", \"text\": \"Il cuo'; the records are incomplete, so make or copy them "
                 "again\n")):
        outcome = kit.on(source)
        assert outcome.code == 1
        assert outcome.err.endswith(message)
        assert kit.left() == ["cut.jsonl"]
        outcome = kit.on(source, "--rejects", kit.folder / "rejects.jsonl")
        assert outcome.code == 1
        assert outcome.err.endswith(message)
        assert (kit.folder / "rejects.jsonl").read_bytes() == b""
        (kit.folder / "rejects.jsonl").unlink()


def test_a_record_that_is_too_large_is_rejected(kit: Kit) -> None:
    lines = [json.dumps(record).encode() for record in kit.case.records]
    source = kit.write(*lines, b'{"id": "z", "text": "' + b"a" * 1_100_000 + b'"}', *lines)
    outcome = kit.on(source, "--max-record-megabytes", "1")
    assert outcome.code == 1
    assert outcome.err.endswith(
        f"bmtools: {source}:{len(lines) + 1}: found a record of more than 1 megabyte, expected a "
        "smaller one; raise the limit with --max-record-megabytes\n")
    assert kit.left() == []


def test_a_bad_line_stops_or_is_collected(kit: Kit) -> None:
    first, *rest = (json.dumps(record).encode() for record in kit.case.records)
    source = kit.write(first, kit.case.bad, *rest)
    outcome = kit.on(source)
    assert outcome.code == 1
    assert outcome.err.startswith(f"bmtools: {source}:2: {kit.case.fault}")
    assert outcome.err.count("\n") == 1
    assert kit.left() == []
    outcome = kit.on(source, "--rejects", kit.folder / "rejects.jsonl")
    assert outcome.code == 0, outcome.err
    assert "1 bad record in" in outcome.err
    [rejected] = (kit.folder / "rejects.jsonl").read_text().splitlines()
    assert json.loads(rejected)["place"] == f"{source}:2"
    assert json.loads(rejected)["record"] == json.loads(kit.case.bad)


@pytest.mark.parametrize(("name", "arguments", "message"), [
    (name, *wrong) for name, wrongs in USAGE.items() for wrong in wrongs])
def test_wrong_usage_exits_with_2(name: str, arguments: tuple[str, ...], message: str, run: Run,
                                  corpus: Path, kit_paths: dict[str, Path], tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w").write_text("asma\n")
    Path("small.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    paths = {**kit_paths, "OUT": tmp_path / "out"}
    given = [paths.get(word, word) for word in (*BEFORE.get(name, ()), *arguments)]
    files = () if name.startswith(("finetune", "mix", "translate")) else (corpus,)
    outcome = run(*name.split(), *given, *files)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.startswith("bmtools: ") and outcome.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.jsonl", "small.txt", "w"}


def test_it_ends_with_a_closing_line_and_the_next_command(kit: Kit) -> None:
    outcome = kit.on(kit.good())
    last = outcome.err.splitlines()[-1]
    said = re.fullmatch(r"bmtools: .+ in [\d.]+ (?:ms|s|min|h)(?:; next: (.+))?", last)
    assert said, last
    if said[1] and said[1].startswith("bmtools "):
        _, name, *words = said[1].split()
        command: Any = bmtools.get_command(click.Context(bmtools), name)
        flags = {flag for option in command.params for flag in option.opts}
        assert flags >= {word for word in words if word.startswith("-")}
