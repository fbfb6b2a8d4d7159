"""Help of all commands: layout, topics, suggestions for mistyped names, and completion."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from every_command import every_command

from bmtools.cli.help import (
    Choice,
    DocumentedCommand,
    KeyOption,
    first_sentence,
    long_name,
    topic_text,
    topics,
)
from bmtools.cli.main import bmtools
from bmtools.cli.parameters import InputFile
from bmtools.cli.pass_options import ShardParam
from bmtools.commands.import_ import sets, texts

Run = Callable[..., object]
TWO_SCREENS = 2 * 25


FOUND = {words: (command, context) for words, command, context in every_command()}
EVERY = pytest.mark.parametrize("words", [*FOUND], ids=lambda words: " ".join(words))
LEAVES = pytest.mark.parametrize(
    "words", [words for words in FOUND if isinstance(FOUND[words][0], DocumentedCommand)],
    ids=lambda words: " ".join(words))


@EVERY
def test_help_has_a_sentence_then_examples_in_80_columns(run, words: tuple[str, ...]) -> None:
    command, _ = FOUND[words]
    outcome = run(*words, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith(f"Usage: {' '.join(('bmtools', *words))} ")
    sentence = " ".join(lines[2:lines.index("Examples:")]).strip()
    assert re.fullmatch(r"[A-Z][^.!?]+\.", sentence), sentence
    assert lines[lines.index("Examples:") + 1].startswith("  bmtools ")
    full = run(*words, "--help-all") if isinstance(command, DocumentedCommand) else outcome
    assert not [line for line in [*lines, *full.out.splitlines()] if len(line) > 79]


@LEAVES
def test_help_lists_essential_options_and_help_all_lists_all(run, words: tuple[str, ...]) -> None:
    command, context = FOUND[words]
    short, full = (run(*words, flag).out for flag in ("--help", "--help-all"))
    flags = [f"--set {option.name}" if isinstance(option, KeyOption) else f"--{long_name(option)}"
             for option in command.get_params(context)
             if isinstance(option, click.Option) and option.name != "help_all"]

    def is_listed(flag: str, shown: str) -> bool:
        end = r" \S*KEY" if flag == "--set" else r"\b(?!-)"  # and not one of its keys
        return bool(re.search(rf"^  (-\w, )?{flag}{end}", shown, re.MULTILINE))

    listed = [flag for flag in flags if is_listed(flag, short)]
    assert all(is_listed(flag, full) for flag in flags)
    assert len(listed) <= 10 and len(short.splitlines()) <= 40
    if len(listed) < len(flags):
        assert f"--help-all lists {len(flags) - len(listed)} further options." in short
        required = [max(option.opts, key=len) for option in command.params if option.required
                    and isinstance(option, click.Option)]
        assert set(required) <= set(listed)


LIGHT = [*([*words, "--help"] for words in FOUND), ["--version"], ["help"],
         ["help", "phases"], ["pretran"], ["recipe", "list"], ["recipe", "show", "laptop"],
         ["import", "text", "TEXT"], ["table", "--columns", "pppl", "SCORES"]]


# Libraries that slow down the start: torch needs a second, and these commands a fifth of one.
HEAVY = {"accelerate", "jinja2", "lxml", "scipy", "sklearn", "tokenizers", "torch",
         "transformers"}


def test_light_commands_import_no_heavy_libraries(tmp_path: Path,
                                                  write_lines: Callable[..., Path]) -> None:
    (tmp_path / "notes.txt").write_text("Il cuore.\n")
    paths = {"TEXT": str(tmp_path / "notes.txt"),
             "SCORES": str(write_lines("scores.jsonl", {"model": "a", "pppl": 2.5}))}
    lines = [[paths.get(word, word) for word in line] for line in LIGHT]
    code = ("import sys\nfrom bmtools.cli.main import main\n"
            f"for line in {lines}:\n"
            "    try: main(line)\n"
            "    except SystemExit as end: assert end.code in (0, 2)\n"
            f"    loaded = {HEAVY} & set(sys.modules)\n"
            "    assert not loaded, (line, loaded)")
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_declared_names_are_options() -> None:
    known, declared = {"files"}, set()
    for words in FOUND:
        command, context = FOUND[words]
        known |= {long_name(option) for option in command.get_params(context)}
        if isinstance(command, DocumentedCommand):
            declared |= {*command.essential, *command.meanings}
    assert declared <= known


@pytest.mark.parametrize("words", [(), ("import",), ("recipe",), ("finetune",)])
def test_a_group_without_a_command_prints_its_help_on_stderr(run, words: tuple[str, ...]) -> None:
    outcome, asked = run(*words), run(*words, "--help")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == asked.out


@pytest.mark.parametrize("words", [(), ("import",), ("recipe",), ("finetune",)])
def test_a_group_lists_commands_with_their_complete_sentences(run, words: tuple[str, ...]) -> None:
    group, context = FOUND[words]
    shown = " ".join(run(*words, "--help").out.split())
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        inner = group.get_command(context, name)
        assert f" {name} {first_sentence(inner)}" in shown


@pytest.mark.parametrize(("arguments", "meant"), [
    (("pretran",), "'pretrain'"), (("train",), "'pretrain'"), (("pubmed",), "'import pubmed'"),
    (("ner",), "'finetune ner'"), (("Score_PPPL",), "'score-pppl'"),
    (("score",), "'score-tasks' or 'score-suite' or 'score-translation' or 'score-pppl' or "
                 "'score-mrr' or 'score-masking' or 'score-space'"),
    (("import", "pubmedd"), "'pubmed'"), (("recipe", "shwo"), "'show'"),
    (("help", "phase"), "'phases'"), (("help", "finetune", "nre"), "'ner'"),
    (("recipe", "show", "pubmedbrt"), "'pubmedbert'"),
    (("pretrain", "--layout", "Packed"), "'packed'"),
    (("score-mrr", "--multi-token", "jont"), "'joint'"),
    (("translate", "--engine", "transformer"), "'transformers'"),
    (("pretrain", "--max-lenght", "9"), "'--max-length'"),
    (("pretrain", "-o", "out", "--set", "mask_rat=0.1"), "'mask_rate'")])
def test_a_mistyped_name_gets_a_suggestion(run, arguments: tuple[str, ...], meant: str,
                                           tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"did you mean {meant}?" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize("command", [("pretrain",), ("distill",), ("finetune", "ner")])
def test_a_key_used_as_an_option_gets_a_hint_to_set(run, command: tuple[str, ...]) -> None:
    outcome = run(*command, "--weight-decay", "0.1")
    assert (outcome.code, outcome.out) == (2, "")
    assert "No such option '--weight-decay'; expected --set weight_decay=VALUE." in outcome.err


def test_a_file_instead_of_a_format_lists_the_formats(run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    formats = ", ".join(sorted({**sets.FORMATS, **texts.FORMATS}))
    assert "conll, curated, ddi, " in formats
    assert run("import", tmp_path / "notes.txt").err == (
        f"bmtools: found the file '{tmp_path}/notes.txt', expected a command before it: {formats}. "
        "See 'bmtools import --help'.\n")
    assert run("import", "docx").err == (
        "bmtools: No such command 'docx'. See 'bmtools import --help'.\n")


@pytest.mark.parametrize("topic", topics())
def test_a_topic_fits_two_screens(run, topic: str) -> None:
    outcome = run("help", topic)
    assert (outcome.code, outcome.err, outcome.out) == (0, "", topic_text(topic))
    lines = outcome.out.splitlines()
    # The topic phases ends with a list of all keys.
    assert (len(lines) <= TWO_SCREENS or topic == "phases") and max(map(len, lines)) <= 79
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", outcome.out))
    known = {opt for words in FOUND for option in FOUND[words][0].get_params(FOUND[words][1])
             for opt in (*option.opts, *option.secondary_opts)}
    assert flags <= known | {"--local-dir"}


@EVERY
def test_help_command_prints_the_help_of_the_command(run, words: tuple[str, ...]) -> None:
    if words:
        assert run("help", *words).out == run(*words, "--help").out


@pytest.mark.parametrize(("arguments", "start", "offered"), [
    ([], "pre", ["pretrain", "predict"]),
    (["import"], "pu", ["pubmed", "pubmedqa", "pubtator"]),
    (["pretrain"], "--max-l", ["--max-length"]),
    (["pretrain", "--layout"], "", ["auto", "padded", "packed"]),
    (["pretrain", "--recipe"], "pubmedbert-a", ["pubmedbert-adversarial"]),
    (["recipe", "show"], "lap", ["laptop"]),
    (["pretrain", "--architecture"], "modernbert-", [
        "modernbert-17m", "modernbert-32m", "modernbert-68m",
        "modernbert-base", "modernbert-large"]),
    (["distill", "--architecture"], "bert-t", ["bert-tiny"]),
    (["help"], "ph", ["phases"]),
    (["help"], "score-m", ["score-mrr", "score-masking"]),
    (["help", "finetune"], "n", ["ner", "nli"])])
def test_completion_offers_values(arguments: list[str], start: str, offered: list[str]) -> None:
    completion = ShellComplete(bmtools, {}, "bmtools", "_BMTOOLS_COMPLETE")
    assert [item.value for item in completion.get_completions(arguments, start)] == offered


@pytest.mark.parametrize("arguments", [["score-pppl", "--model"], ["pretrain", "--tokenizer"],
                                       ["distill", "--teacher"], ["predict", "--model"]])
def test_completion_of_checkpoints_offers_directories(arguments: list[str]) -> None:
    completion = ShellComplete(bmtools, {}, "bmtools", "_BMTOOLS_COMPLETE")
    assert [item.type for item in completion.get_completions(arguments, "")] == ["dir"]


def test_completion_in_bash(tmp_path) -> None:
    """The line of `bmtools help completion` makes bash complete a recipe."""
    [line] = re.findall(r"~/.bashrc +(.*)", topic_text("completion"))
    (tmp_path / "bmtools").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bmtools "$@"\n')
    (tmp_path / "bmtools").chmod(0o755)
    script = (f'PATH="{tmp_path}:$PATH"\n{line}\nCOMP_WORDS=(bmtools pretrain --recipe lap)\n'
              'COMP_CWORD=3\n$(complete -p bmtools | sed "s/.*-F \\([^ ]*\\).*/\\1/") bmtools\n'
              'echo "${COMPREPLY[@]}"\n')
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("laptop\n", "")


ONE_MEANING = {  # meaning of each option's value, equal in all commands
    "workers": click.INT, "processes": click.IntRange, "part": ShardParam, "shard": click.BOOL,
    "precision": click.Choice, "device": (click.STRING, click.Choice), "baseline": InputFile}
OTHER_NAMES = {"jobs", "threads", "n-jobs", "num-workers", "mixed-precision", "dtype",
               "compute-type", "nproc"}


def test_an_option_has_one_name_and_one_meaning() -> None:
    found: dict[str, set[str]] = {}
    for words in FOUND:
        for option in FOUND[words][0].params:
            if isinstance(option, click.Option) and not isinstance(option, KeyOption):
                name = long_name(option)
                found.setdefault(name, set()).add(words[0] if words else "")
                kinds = ONE_MEANING.get(name, object)
                kinds = kinds if isinstance(kinds, tuple) else (kinds,)
                assert isinstance(option.type, tuple(
                    kind if isinstance(kind, type) else type(kind) for kind in kinds)), words
    assert not OTHER_NAMES & found.keys()
    assert found["processes"] - {"finetune"} == found["shard"] == {"pretrain", "distill"}


@pytest.mark.parametrize(("choices", "given", "expected"), [
    (("auto", "no", "bf16"), "float32", "no"), (("auto", "no", "bf16"), "fp32", "no"),
    (("float32", "bf16"), "no", "float32"), (("auto", "no", "bf16"), "bf16", "bf16")])
def test_every_command_knows_the_names_of_float32(
        choices: tuple[str, ...], given: str, expected: str) -> None:
    assert Choice(choices).convert(given, None, None) == expected
    with pytest.raises(click.BadParameter):
        Choice(("tree", "json")).convert("no", None, None)
