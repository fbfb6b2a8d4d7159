"""The complete command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from bmtools.cli.main import COMMANDS, bmtools, message_and_code

Run = Callable[..., object]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_list_and_the_command_agree(name: str) -> None:
    command = bmtools.get_command(click.Context(bmtools), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").split("\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("arguments", [("frobnicate",), ("--nope",), ("pretrain", "--nope"),
                                       ("import", "nonsense")])
def test_wrong_usage_is_one_line_and_exit_2(run, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    assert "--help" in outcome.err


def test_a_message_contains_no_terminal_codes(run, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J\u202eb"
    path.write_bytes(b"%PDF")
    outcome = run("import", "text", path)
    assert outcome.code == 1
    assert "a\ufffd[2J\ufffdb" in outcome.err


def test_traceback_shows_where_an_error_arose(shell, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    arguments = ("build-vocab", bad, "-o", tmp_path / "v")
    short, full, before = (shell(*all) for all in (
        arguments, (*arguments, "--traceback"), ("--traceback", *arguments)))
    assert short.code == 1
    assert short.err == (f"bmtools: {bad}:1: key 'id' is missing; type bmtools import jsonl --help "
                         "for records under other keys\n")
    assert "Traceback" in full.err and "Traceback" in before.err


def test_command_line_overrides_environment_and_config(run, tmp_path: Path, write_lines,
                                                       monkeypatch) -> None:
    text = write_lines("a.jsonl", {"id": "1", "text": "cuore e polmone " * 40})
    config = tmp_path / "c.toml"
    config.write_text("size = 110\nallow-fewer = true\n[build-vocab]\nmin-frequency = 3\n")

    def settings(*arguments: object) -> dict:
        import json

        out = tmp_path / "v"
        assert run("build-vocab", text, "-o", out, "--overwrite", *arguments).code == 0
        return json.loads((out / "bmtools.json").read_text())["settings"]

    monkeypatch.setenv("BMTOOLS_BUILD_VOCAB_MAX_ALPHABET", "77")
    found = settings("--config", config, "--set", "min_frequency=4")
    assert (found["size"], found["min_frequency"], found["max_alphabet"]) == (110, 4, 77)
    monkeypatch.setenv("BMTOOLS_BUILD_VOCAB_SIZE", "120")
    assert settings("--config", config)["size"] == 120


@pytest.mark.parametrize(("arguments", "blocked", "found"), [
    (("report", ".", "-o", "page.html"), "private", "private: found a directory that"),
    (("card", "model"), "config.json", "model/config.json: found a file that"),
    (("lineage", "model"), "config.json", "model/config.json: found a file that")])
def test_paths_without_permission_are_named(run: Callable[..., Any], tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch,
                                            arguments: tuple[str, ...], blocked: str,
                                            found: str) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("private", "model"):
        (tmp_path / folder).mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")

    def refusing(method: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Path, *options: Any, **more: Any) -> Any:
            if path.name == blocked:
                raise PermissionError(13, "Permission denied", str(path))
            return method(path, *options, **more)
        return refuse

    for name in ("iterdir", "open", "read_text"):  # tests may run as root, who may open every file
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    outcome = run(*arguments)
    assert outcome.code == 1
    assert outcome.err.splitlines() == [
        f"bmtools: {found} this user may not open; ask its owner, or leave it out"]


def test_a_path_in_an_unreadable_directory_is_named() -> None:
    assert message_and_code(PermissionError(13, "Permission denied", "gone/model")) == (
        "gone/model: permission denied; ask the owner of gone, or name another place", 1)
    assert message_and_code(PermissionError("no")) == ("no", 1)


def test_a_link_loop_and_a_full_disk_are_one_line_errors(tmp_path: Path, run: Run) -> None:
    loop, dangling, text = tmp_path / "loop", tmp_path / "dangling", tmp_path / "a.txt"
    loop.symlink_to("loop")
    dangling.symlink_to("absent")
    text.write_text("Febbre.\n")
    for option in ("-o", "--rejects"):
        outcome = run("import", "text", text, option, loop)
        assert outcome.err == (f"bmtools: {loop}: found a symbolic link that leads back to itself, "
                               "expected a file; remove it, or name another file\n")
    for link, target in ((loop, "loop"), (dangling, "absent")):
        outcome = run("import", "text", link)
        assert (f"'{link}' is a symbolic link to '{target}', which leads to no file") in outcome.err
        outcome = run("score-pppl", text, "--model", link)
        assert (f"'{link}' is a symbolic link to '{target}', which does not lead to a directory; "
                "remove it") in outcome.err
    assert message_and_code(OSError(28, "No space left on device", "out")) == (
        "out: no space left on device; make room, or write elsewhere", 1)


@pytest.mark.parametrize(("command", "option", "hint"), [
    ("pretrain", "--per_device_train_batch_size",
     "did you mean '--batch-size' or '--micro-batch-size'?"),
    ("pretrain", "--cpu", "did you mean '--device cpu'?"),
    ("pretrain", "--lr-scheduler-type", "expected --set schedule=VALUE."),
    ("pretrain", "--peak-lr", "did you mean '--learning-rate'?"),
    ("dedup", "-q", "progress and messages are on stderr, and 2> /dev/null hides them."),
    ("dedup", "--verbose", "all messages are shown, and --traceback adds the traceback of an"),
    ("pretrain", "--learning-rat", "did you mean '--learning-rate'?"),
    ("clean", "--device", ""), ("clean", "--cpu", ""), ("clean", "--frobnicate", ""),
    ("finetune", "--model", "expected a command before options: ner, pico,"),
    ("import", "--lang", "expected a command before options."),
])
def test_unknown_options_get_suggestions_by_meaning(run: Run, command: str, option: str,
                                                    hint: str) -> None:
    outcome: Any = run(command, option, "x")
    start = f"bmtools: No such option {option!r}"
    assert outcome.code == 2
    assert outcome.err.startswith(f"{start}; {hint}" if hint else f"{start}. See "), outcome.err


@pytest.mark.parametrize(("given", "ours"), [
    (["--lr", "1e-3"], ["--learning-rate", "1e-3"]), (["--lr=1e-3"], ["--learning-rate=1e-3"]),
    (["--max_steps", "5"], ["--steps", "5"]), (["--max_length", "8"], ["--max-length", "8"]),
    (["--num_train_epochs", "2"], ["--epochs", "2"]), (["--fp16"], ["--precision", "fp16"]),
    (["--bf16"], ["--precision", "bf16"]), (["--force"], ["--overwrite"]),
    (["--", "--lr"], ["--", "--lr"]), (["--output_dir", "a"], ["--output", "a"])])
def test_names_of_other_libraries_work_and_are_explained(
        given: list[str], ours: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pretrain: Any = bmtools.get_command(click.Context(bmtools), "pretrain")
    assert pretrain._with_own_names(click.Context(pretrain), given) == ours
    name = given[0].partition("=")[0]
    shown = f"bmtools: {name} is {' '.join(ours[:1 + (len(given) < len(ours))])} here\n"
    assert capsys.readouterr().err == ("" if name == "--" else shown.replace("=1e-3", ""))
