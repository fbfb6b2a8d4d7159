"""`bmtools verify` on the command line, for a small chain."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
TINY = ("--steps", "1", "--batch-size", "2", "--max-length", "16", "--precision", "no",
        "--architecture", "bert-1x64")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, records, distinct records, a vocabulary, a model, its student, and their mean."""
    from bmtools.cli.main import main

    folder = tmp_path_factory.mktemp("chain")
    (folder / "notes.txt").write_text("".join(
        f"Il paziente {number} ha febbre e tosse da {number * 7} giorni.\n"
        for number in range(30)) + "Nulla.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
                ("import", "text", "notes.txt", "--lang", "it", "-o", "raw.jsonl"),
                ("clean", "raw.jsonl", "--min-words", "3", "-o", "corpus.jsonl.gz"),
                ("build-vocab", "corpus.jsonl.gz", "--size", "120", "--allow-fewer", "-o", "words"),
                ("pretrain", "corpus.jsonl.gz", "--tokenizer", "words", *TINY, "-o", "model"),
                ("distill", "corpus.jsonl.gz", "--teacher", "model", *TINY, "-o", "small"),
                ("merge", "model", "small", "-o", "merged")):
            with pytest.raises(SystemExit) as ended:
                main(list(arguments))
            assert not ended.value.code, arguments
    return folder


@pytest.fixture
def copy(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the chain in another folder, in which the commands run."""
    shutil.copytree(chain, tmp_path / "chain")
    monkeypatch.chdir(tmp_path / "chain")
    return tmp_path / "chain"


def differing(outcome: Any) -> dict[str, str]:
    """Return the lines about files that differ."""
    return {line["path"]: line["state"] for line in outcome.records if line["state"] != "same"}


def test_an_unchanged_chain_has_no_differences(run: Run, copy: Path) -> None:
    outcome = run("verify", "merged", "--strict")
    assert outcome.code == 0, outcome.err
    assert {line["path"]: line["state"] for line in outcome.records} == dict.fromkeys(
        ("merged", "model", "small", "words", "corpus.jsonl.gz", "raw.jsonl", "notes.txt"), "same")
    assert "7 as recorded" in outcome.err
    [root] = [line for line in run("verify", "model", "--table").out.splitlines()
              if line.startswith("| notes")]
    assert "same" in root


def test_an_input_is_verified_even_if_another_file_equals_it(run: Run, copy: Path) -> None:
    run("clean", "raw.jsonl", "--min-words", "1", "-o", "same.jsonl")
    run("build-vocab", "same.jsonl", "--size", "120", "--allow-fewer", "-o", "others")
    assert run("verify", "others").code == 0
    Path("same.jsonl").write_text(Path("same.jsonl").read_text().replace("febbre", "fabbre", 1))
    outcome = run("verify", "others")
    assert (outcome.code, differing(outcome)) == (1, {"same.jsonl": "changed"})
    run("clean", "raw.jsonl", "--min-words", "3", "-o", "same.jsonl", "--overwrite")
    assert run("verify", "others").code == 0, "made anew, by a record of its own"


def test_a_changed_source_is_named_despite_unchanged_copies(run: Run, copy: Path) -> None:
    below = copy / "a" / "b"
    below.mkdir(parents=True)
    for name in ("notes.txt", "raw.jsonl", "raw.jsonl.bmtools.json"):
        shutil.copy(copy / name, below)
    run("clean", below / "raw.jsonl", "--min-words", "3", "-o", below / "some.jsonl")
    assert run("verify", below / "some.jsonl").code == 0
    (below / "notes.txt").write_text("Altro.\n")
    outcome = run("verify", below / "some.jsonl")
    assert (outcome.code, differing(outcome)) == (1, {"a/b/notes.txt": "changed"})
    assert "notes.txt" not in {line["path"] for line in outcome.records}
    (below / "notes.txt").unlink()
    (below / "raw.jsonl.bmtools.json").unlink()
    assert run("verify", below / "some.jsonl").code == 0, "copies count where it is missing"
    (below / "raw.jsonl").write_text("{}\n")
    outcome = run("verify", below / "some.jsonl", "--search", copy)
    assert (outcome.code, differing(outcome)) == (1, {"a/b/raw.jsonl": "changed"})


def test_a_changed_byte_is_named_wherever_it_is(run: Run, copy: Path) -> None:
    files = [path.relative_to(copy) for path in sorted(copy.rglob("*")) if path.is_file()
             and path.name != "README.md" and not path.name.endswith("bmtools.json")]
    assert len(files) >= 25
    for file in files:
        content = bytearray((copy / file).read_bytes())
        before = (copy / file).stat()
        content[len(content) // 2] ^= 1
        (copy / file).write_bytes(content)
        outcome = run("verify", "merged")
        assert outcome.code == 1, file
        assert differing(outcome) == {str(file): "changed"}, outcome.out
        assert str(file) in outcome.err.splitlines()[-1]
        content[len(content) // 2] ^= 1
        (copy / file).write_bytes(content)
        os.utime(copy / file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_missing_files_added_files_and_missing_inputs(run: Run, copy: Path) -> None:
    (copy / "model" / "vocab.txt").unlink()
    (copy / "model" / "more.txt").touch()
    outcome = run("verify", "model")
    assert outcome.code == 1
    assert differing(outcome) == {"model/vocab.txt": "missing", "model/more.txt": "added"}
    shutil.rmtree(copy / "model")
    (copy / "notes.txt").unlink()
    outcome = run("verify", "merged")
    assert outcome.code == 0, outcome.err  # missing files are named but cannot be compared
    assert "2 not found (search more with --search DIR) in " in outcome.err
    assert sorted(differing(outcome).values()) == ["not found", "not found"]
    strict = run("verify", "merged", "--strict")
    assert (strict.code, strict.records) == (1, outcome.records)
    absent = "2 not found: model, notes.txt; search more with --search DIR"
    assert strict.err.splitlines()[-1] == f"bmtools: {absent}"
    (copy / "merged" / "vocab.txt").unlink()
    both = run("verify", "merged", "--strict")
    assert both.code == 1 and both.err.splitlines()[-1] == (
        f"bmtools: 1 different from the record: merged/vocab.txt; {absent}")
    elsewhere = copy.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(copy / "raw.jsonl", elsewhere / "notes.txt")
    outcome = run("verify", "raw.jsonl", "--search", elsewhere)
    assert outcome.code == 1 and list(differing(outcome).values()) == ["changed"]


@pytest.mark.parametrize(("path", "old", "new"), [
    ("model/bmtools.json", '"sha256": "', '"sha256": "0'),
    ("model/bmtools.json", '"config.json": "', '"config.json": "0'),
    ("model/bmtools.json", "{", ""),
    ("raw.jsonl.bmtools.json", '"sha256": "', '"sha256": "0'),
    ("raw.jsonl.bmtools.json", "{", "")])
def test_an_edited_record_is_named(run: Run, copy: Path, path: str, old: str, new: str) -> None:
    record = copy / path
    record.write_text(record.read_text().replace(old, new, 1))
    outcome = run("verify", "merged")
    assert outcome.code == 1, outcome.out
    assert path in differing(outcome)


def test_a_complete_folder(run: Run, copy: Path) -> None:
    """Each output with a record is verified, even if two have the same content."""
    shutil.copytree("model", "deeper/model")
    shutil.copytree("model", "deeper/other.run/step-1")
    (copy / "deeper" / "other.run" / "step-1" / "state.json").touch()
    shutil.copytree("small", "deeper/.hidden/small")
    (copy / "deeper" / ".hidden" / "small" / "more.txt").touch()
    outcome = run("verify", ".")
    assert outcome.code == 0, outcome.err
    assert {line["path"]: line["state"] for line in outcome.records} == dict.fromkeys(
        ("merged", "model", "small", "words", "corpus.jsonl.gz", "raw.jsonl", "notes.txt",
         "deeper/model"), "same")
    (copy / "deeper" / "model" / "vocab.txt").write_text("other")
    (copy / "small" / "bmtools.json").write_text("{")
    (copy / "raw.jsonl").unlink()
    outcome = run("verify", ".")
    assert outcome.code == 1
    assert differing(outcome) == {"deeper/model/vocab.txt": "changed", "raw.jsonl": "missing",
                                  "small/bmtools.json": "changed"}
    assert all(name in outcome.err for name in differing(outcome))
    assert len(outcome.records) == len({line["path"] for line in outcome.records})


def test_an_input_in_a_subfolder_is_verified(run: Run, copy: Path) -> None:
    (copy / "below").mkdir()
    (copy / "below" / "about.toml").write_text('name = "Febbre"\n')
    assert run("card", "model", "--about", "below/about.toml", "-o", "card.md").code == 0
    assert run("verify", "card.md").code == 0
    (copy / "below" / "about.toml").write_text('name = "Tosse"\n')
    outcome = run("verify", "card.md")
    assert outcome.code == 1 and differing(outcome) == {"below/about.toml": "changed"}


def test_a_page_about_its_own_folder(run: Run, copy: Path) -> None:
    assert run("report", ".", "-o", "page.html").code == 0
    assert run("report", ".", "-o", "page.html", "--overwrite").code == 0
    inputs = json.loads((copy / "page.html.bmtools.json").read_text())["inputs"]
    assert set(inputs) == {"merged", "model", "small", "words", "corpus.jsonl.gz", "raw.jsonl"}
    outcome = run("verify", ".")
    assert outcome.code == 0 and not differing(outcome)
    (copy / "model" / "vocab.txt").write_text("other")
    outcome = run("verify", "page.html")
    assert outcome.code == 1 and differing(outcome) == {"model/vocab.txt": "changed"}


def test_every_file_of_every_output_directory_is_verified(run: Run, copy: Path) -> None:
    """This includes files in subfolders, with and without separate records."""
    Path("labelled.jsonl").write_text("".join(json.dumps({
        "id": str(number), "text": f"Il paziente {number} ha febbre.", "label": "ab"[number % 3 > 0]
        }) + "\n" for number in range(9)))
    for arguments in (
            ("tokenize", "raw.jsonl", "--tokenizer", "words", "-o", "shards"),
            ("split", "labelled.jsonl", "--folds", "3", "--stratify", "label", "-o", "folds"),
            ("sample", "raw.jsonl", "--size", "1kB,500B", "--ladder", "ladder"),
            ("init-weights", "--base", "model", "--grow", "2x64", "-o", "larger"),
            ("convert", "model", "-o", "converted"), ("export", "model", "model", "-o", "deployed"),
            ("finetune", "classification", "--model", "model", "--negative", "a", "--train",
             "folds", "--seeds", "1", "--epochs", "1", "-o", "tagger")):
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err
    directories = [path for path in copy.iterdir() if path.is_dir()]
    assert len(directories) == 11
    for directory in directories:
        assert not run("verify", directory).code, directory
        for file in [path for path in directory.rglob("*") if path.is_file()
                     and path.name not in ("README.md", "bmtools.json")]:
            content = file.read_bytes()
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            outcome = run("verify", directory.name)
            assert (outcome.code, differing(outcome)) == (
                1, {str(file.relative_to(copy)): "changed"}), outcome.err
            file.write_bytes(content)
    (copy / "folds" / "fold-1" / "test.jsonl").unlink()
    assert differing(run("verify", "folds")) == {"folds/fold-1/test.jsonl": "missing"}
    shutil.rmtree(copy / "tagger" / "fold-1")  # it had a separate record
    assert differing(run("verify", "tagger")) == {"tagger/fold-1": "missing"}
