"""Wrong values from the environment and from TOML files, by their names there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from bmtools.cli.main import bmtools
from bmtools.cli.options import Command

Run = Callable[..., Any]
HELP = "See 'bmtools pretrain --help'.\n"
FAULTS = [
    ("steps", "x", "found 'x', expected a whole number"),
    ("steps", "-1", "found -1, expected 0 or more"),
    ("mask-rate", "0", "found 0.0, expected above 0, at most 1"),
    ("learning-rate", "fast", "found 'fast', expected a number"),
    ("objective", "maskd", "found 'maskd', expected one of 'masked', 'masked+nsp', 'masked+sop', "
                           "'causal'; did you mean 'masked'?"),
    ("processes", "0", "found 0, expected a number in the range x>=1"),
    ("shard", "maybe", "found 'maybe', expected true or false"),
]


@pytest.mark.parametrize(("option", "value", "fault"), FAULTS)
def test_variables_are_named(run: Run, corpus: Path, tiny_checkpoint: Path,
                             monkeypatch: pytest.MonkeyPatch, option: str, value: str,
                             fault: str) -> None:
    name = f"BMTOOLS_PRETRAIN_{option.upper().replace('-', '_')}"
    monkeypatch.setenv(name, value)
    outcome = run("pretrain", corpus, "-o", "out", "--model", tiny_checkpoint)
    assert outcome.code == 2
    assert outcome.err == f"bmtools: {name}: {fault}{'' if fault[-1] == '?' else '.'} {HELP}"


@pytest.mark.parametrize(("option", "value", "fault"), FAULTS)
def test_keys_are_named_with_their_line(run: Run, corpus: Path, tiny_checkpoint: Path,
                                        tmp_path: Path, option: str, value: str,
                                        fault: str) -> None:
    config = tmp_path / "run.toml"
    text = value if value in ("-1", "0") else f'"{value}"'
    config.write_text(f"# all of it\n[pretrain]\n{option} = {text}\nseed = 3\n")
    outcome = run("pretrain", corpus, "-o", "out", "--model", tiny_checkpoint, "--config", config)
    assert outcome.code == 2
    assert outcome.err == (f"bmtools: {config}:3: key '{option}': {fault}"
                           f"{'' if fault[-1] == '?' else '.'} {HELP}")


def test_the_command_line_wins_and_is_named_as_itself(run: Run, corpus: Path, tiny_checkpoint: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMTOOLS_PRETRAIN_STEPS", "x")
    outcome = run("pretrain", corpus, "-o", "out", "--model", tiny_checkpoint, "--steps", "-1")
    assert outcome.err == f"bmtools: --steps: found -1, expected 0 or more. {HELP}"


def test_one_wrong_key_among_all_is_named_alone(run: Run, corpus: Path, tmp_path: Path) -> None:
    command = bmtools.get_command(click.Context(bmtools), "pretrain")
    assert isinstance(command, Command)
    keys = [max(option.opts, key=len).lstrip("-") for option in command.params
            if isinstance(option, click.Option)]
    assert len(keys) > 40
    at = keys.index("steps")
    keys[at] = "stepz"
    config = tmp_path / "run.toml"
    config.write_text("".join(f"{key} = 1\n" for key in keys))
    outcome = run("pretrain", corpus, "-o", "out", "--config", config)
    assert outcome.err == (f"bmtools: {config}:{at + 1}: found unknown key 'stepz', did you mean "
                           f"'steps'? {HELP}")
