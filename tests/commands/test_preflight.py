"""`bmtools preflight` on the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
KEYS = {"device", "precision", "native", "parameters", "packing_check", "processes", "phases",
        "hours", "kwh", "warnings", "notes"}


@pytest.fixture
def common(tiny_tokenizer: Path) -> list[Any]:
    """Arguments of a quick forecast."""
    return ["preflight", "--architecture", "bert-1x64", "--tokenizer", tiny_tokenizer,
            "--steps", 4, "--max-length", 16, "--batch-size", 4, "--probe-seconds", 0.05]


def test_help_lists_the_options_of_pretrain_too(run: Run) -> None:
    outcome = run("preflight", "--help-all")
    assert outcome.code == 0
    theirs, ours = (set(re.findall(r"--[a-z][\w-]+", text))
                    for text in (run("pretrain", "--help-all").out, outcome.out))
    assert ours - theirs == {"--probe-seconds"}
    assert theirs <= ours
    assert "--probe-seconds" in outcome.out and "Preflight measurement:" in outcome.out


def test_stdout_is_one_line_or_a_summary(run: Run, common: list[Any], corpus: Path,
                                         tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    outcome = run(*common, corpus, "--frozen-layers", 1)
    assert outcome.code == 0, outcome.err
    [found] = outcome.records
    assert set(found) == KEYS
    [phase] = found["phases"]
    assert (phase["name"], phase["steps"], phase["batch_size"]) == ("main", 4, 4)
    assert phase["tokens_per_second"] > 0
    assert outcome.err.splitlines()[-1].startswith("bmtools: the run would take ")
    [note] = found["notes"]
    assert note == ("--mixed-precision auto: no (float32), as matrices 64 wide gain little from "
                    "bf16")
    assert outcome.err.splitlines().count(f"bmtools: {note}") == 1
    shown = run(*common, corpus, "--frozen-layers", 1, "--table").out
    device, weights, main, whole = shown.splitlines()
    assert found["device"]["name"] in device
    assert f"{found['parameters']:,} weights in float32" in weights
    assert main.startswith("main: 4 steps of 4 padded sequences")
    assert "% of the" in main
    assert whole.startswith("total: ")
    assert sorted(tmp_path.iterdir()) == before


def test_it_takes_the_command_line_of_pretrain(run: Run, piped: Run, common: list[Any],
                                               corpus: Path, tmp_path: Path) -> None:
    """Where it would write is left alone, and stdin equals a file."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    more = ("-o", tmp_path / "out", "--overwrite", "--resume", "--processes", 2, "--layout",
            "packed", "--trackers", "tensorboard", "--save-steps", 1)
    found, other = run(*common, corpus, *more), piped(corpus, *common, *more)
    assert found.code == other.code == 0, found.err
    for outcome in (found, other):
        [record] = outcome.records
        assert (record["processes"], record["hours"]) == (2, None)
        assert record["packing_check"] == "passed"
        assert "warning: tokens a second are those of one process alone" in outcome.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "out"]


def test_each_phase_of_a_file_is_measured(run: Run, common: list[Any], corpus: Path,
                                           tmp_path: Path) -> None:
    (tmp_path / "phases.toml").write_text(
        '[[phases]]\nname = "a"\nsteps = 3\n[[phases]]\nname = "b"\nobjective = "causal"\n')
    outcome = run(*common, corpus, "--phases", tmp_path / "phases.toml", "--set", "b.steps=5")
    [found] = outcome.records
    assert [(phase["name"], phase["steps"]) for phase in found["phases"]] == [("a", 4), ("b", 5)]


def test_a_bad_line_stops_or_is_skipped(run: Run, common: list[Any], bad_corpus: Path,
                                            tmp_path: Path) -> None:
    outcome = run(*common, bad_corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: {bad_corpus}:3: key 'text' is missing\n"
    assert run(*common, bad_corpus, "--rejects", tmp_path / "rejects.jsonl").code == 0
    assert not (tmp_path / "rejects.jsonl").exists()


def test_it_is_one_process(run: Run, common: list[Any], corpus: Path,
                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    outcome = run(*common, corpus)
    assert outcome.code == 2
    assert "found several processes, expected one" in outcome.err


def test_a_bad_phases_file_is_one_line(run: Run, common: list[Any], corpus: Path,
                                       tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('[[phases]]\nname = "a"\nstepz = 4\n')
    outcome = run(*common, corpus, "--phases", tmp_path / "bad.toml")
    assert (outcome.code, outcome.out) == (1, "")
    assert len(outcome.err.splitlines()) == 1
    assert "bad.toml" in outcome.err and "did you mean 'steps'?" in outcome.err


def test_what_would_stop_the_run_stops_it(run: Run, tiny_checkpoint: Path, corpus: Path) -> None:
    outcome = run("preflight", "--model", tiny_checkpoint, corpus, "--max-length", 64)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err == "bmtools: --max-length: found 64, but the model has 32 positions; " \
        "expected that or less\n"
