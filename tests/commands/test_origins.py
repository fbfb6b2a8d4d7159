"""Wrong values from the environment and from TOML files are reported by their names there."""

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


def test_the_command_line_overrides_and_is_named_by_its_flag(
        run: Run, corpus: Path, tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BMTOOLS_PRETRAIN_STEPS", "x")
    outcome = run("pretrain", corpus, "-o", "out", "--model", tiny_checkpoint, "--steps", "-1")
    assert outcome.err == f"bmtools: --steps: found -1, expected 0 or more. {HELP}"


def test_one_wrong_key_among_all_keys_is_named(run: Run, corpus: Path, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("table", ["", "[text]", "[import]", "[import.text]", "[import .text]",
                                   '["import text"]', "[clean]\n[import.text]"])
def test_tables_of_a_command_and_of_its_group_are_read(run: Run, tmp_path: Path,
                                                       table: str) -> None:
    (tmp_path / "notes.txt").write_text("Il cuore.\n")
    (tmp_path / "all.toml").write_text(f'{table}\nlang = "it"\n')
    outcome = run("import", "text", tmp_path / "notes.txt", "--config", tmp_path / "all.toml")
    assert (outcome.code, outcome.records[0]["lang"]) == (0, "it")


def test_the_most_specific_table_overrides_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Il cuore.\n")
    (tmp_path / "all.toml").write_text(
        '[import.text]\nlang = "it"\n[text]\nlang = "fr"\n[import]\nlang = "de"\n')
    outcome = run("import", "text", tmp_path / "notes.txt", "--config", tmp_path / "all.toml")
    assert outcome.records[0]["lang"] == "it"


def test_a_gate_is_read_from_either_spelling_of_its_table(
        run: Run, corpus: Path, tiny_checkpoint: Path, tmp_path: Path) -> None:
    for table in ("score_pppl", "score-pppl"):
        (tmp_path / "gate.toml").write_text(f"[{table}]\nfail-over = 1\n")
        outcome = run("score-pppl", corpus, "--model", tiny_checkpoint,
                      "--config", tmp_path / "gate.toml")
        assert outcome.code == 3, table


@pytest.mark.parametrize(("text", "line", "fault"), [
    ("# all\n[improt]\nlang = 'it'\n", 2, "found unknown table [improt], did you mean 'import'?"),
    ("[import.txt]\n", 1, "found unknown table [import.txt], did you mean 'import text'?"),
    ("[clean]\n[import.text.more]\n", 2, "found unknown table [import.text.more], did you mean "
                                         "'import text'?"),
    ("[frobnicate]\n", 1, "found unknown table [frobnicate], expected the name of a command."),
    ("whole-files = true\n[clean]\nlang = 'it'\n[text]\nlang = 'it'\n'lnag' = 'it'\n", 6,
     "found unknown key 'lnag', did you mean 'lang'?"),
    ("[text]\nwhole-files = true\nwhole_files = true\n", 3,
     "found the key 'whole_files' twice, expected it once."),
])
def test_misspelt_tables_and_keys_are_rejected(run: Run, tmp_path: Path, text: str, line: int,
                                               fault: str) -> None:
    config = tmp_path / "all.toml"
    config.write_text(text)
    outcome = run("import", "text", tmp_path / "notes.txt", "--config", config)
    assert outcome.code == 2
    assert outcome.err == f"bmtools: {config}:{line}: {fault} See 'bmtools import text --help'.\n"


@pytest.mark.parametrize(("name", "fault"), [
    ("BMTOOLS_IMPORT_TEXT_LNAG", "found unknown option 'lnag', did you mean 'lang'?"),
    ("BMTOOLS_IMPORT_TXT_LANG", "found no command of this name, expected "
                                "BMTOOLS_IMPORT_TEXT_LANG."),
    ("BMTOOLS_IMPROT_TEXT_LANG", "found no command of this name, expected "
                                 "BMTOOLS_IMPORT_TEXT_LANG."),
    ("BMTOOLS_IMPORT_LANG", "found no command of this name, expected BMTOOLS_IMPORT_TEXT_OPTION."),
])
def test_misspelt_variables_are_rejected(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         name: str, fault: str) -> None:
    (tmp_path / "notes.txt").write_text("Il cuore.\n")
    for other in ("BMTOOLS_COUNTRY", "BMTOOLS_HOME", "BMTOOLS_CLEAN_WRONG",
                  "BMTOOLS_IMPORT_TABLE_WRONG"):
        monkeypatch.setenv(other, "ITA")
    assert run("import", "text", tmp_path / "notes.txt").code == 0
    monkeypatch.setenv(name, "it")
    outcome = run("import", "text", tmp_path / "notes.txt")
    assert outcome.code == 2
    assert outcome.err == f"bmtools: {name}: {fault} See 'bmtools import text --help'.\n"


@pytest.mark.parametrize(("key", "value", "fault"), [
    ("mask-rate", "true", "found true, expected a number"),
    ("learning_rate", "nan", "found nan, expected a number"),
    ("seed", "1.9", "found 1.9, expected a whole number"),
    ("seed", "[2]", "found a list, expected a whole number"),
    ("seed", "2020-01-01", "found 2020-01-01, expected a whole number"),
    ("seed", '"2"', "found '2', expected a whole number"),
    ("steps", "1e400", "found inf, expected a whole number"),
    ("output", "5", "found 5, expected text"),
    ("lang", "[1]", "found a list, expected text"),
    ("objective", "1", "found 1, expected text"),
    ("overwrite", "2", "found 2, expected true or false"),
    ("corpus", "[1]", "found a list, expected a list of texts"),
])
def test_values_of_another_type_are_rejected(run: Run, corpus: Path, tiny_checkpoint: Path,
                                             tmp_path: Path, key: str, value: str,
                                             fault: str) -> None:
    config = tmp_path / "run.toml"
    config.write_text(f"[pretrain]\n{key} = {value}\n")
    output = () if key == "output" else ("-o", "out")
    outcome = run("pretrain", corpus, *output, "--model", tiny_checkpoint, "--config", config)
    assert outcome.code == 2
    assert outcome.err == f"bmtools: {config}:2: key '{key}': {fault}. {HELP}"


@pytest.mark.parametrize(("text", "records"), [
    ("paragraphs = true", 2), ("paragraphs = false", 3), ("whole-files = true", 1),
    ("whole-files = true\nmax-record-megabytes = 2.0", 1)])
def test_flags_and_whole_numbers_are_read(run: Run, tmp_path: Path, text: str,
                                          records: int) -> None:
    (tmp_path / "notes.txt").write_text("Il cuore.\nIl sangue.\n\nIl polmone.\n")
    (tmp_path / "all.toml").write_text(text)
    outcome = run("import", "text", tmp_path / "notes.txt", "--config", tmp_path / "all.toml")
    assert len(outcome.records) == records


def test_numbers_are_accepted_in_lists_of_text(run: Run, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text("records = 3")
    assert len(run("sample", corpus, "--config", tmp_path / "all.toml").records) == 3
    (tmp_path / "all.toml").write_text("lang = 5")
    outcome = run("import", "text", corpus, "--config", tmp_path / "all.toml")
    assert outcome.err.startswith(
        f"bmtools: {tmp_path}/all.toml:1: key 'lang': found '5', expected an ISO 639 code")
