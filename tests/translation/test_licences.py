"""Licences from the first record to an exported model, and conflicts reported before a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_models import save_random

Run = Callable[..., Any]
SENTENCES = ("Fever is common.", "No patient died.", "We studied the drug.",
             "The drug reduces pain.", "The patient has a fever.")
TINY = ("--steps", "1", "--batch-size", "2", "--max-length", "16", "--precision", "no")
SWITCH = "BMTOOLS_ALLOW_LICENCE_CONFLICT"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def engine(marian: Path) -> Iterator[Path]:
    """A translation model for non-commercial use."""
    card = marian / "README.md"
    card.write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    yield marian
    card.unlink()


@pytest.fixture
def tiny_checkpoint(tokenizer: Any, tmp_path: Path) -> Path:
    """A checkpoint without a stated licence."""
    return save_random(tmp_path / "tiny", tokenizer)


def write(path: Path, *licences: str) -> Path:
    """Write one record per licence; an empty string stands for a record without licence."""
    path.write_text("".join(json.dumps(
        {"id": str(number), "text": SENTENCES[number % 5], "lang": "en",
         "entities": [{"start": 0, "end": 3, "type": "X"}],
         **({"licence": licence} if licence else {})}) + "\n"
        for number, licence in enumerate(licences)))
    return path


def record_of(directory: Path) -> tuple[dict[str, list[str]], str | None]:
    content = json.loads((directory / "bmtools.json").read_text())
    return content.get("licences", {}), content.get("licence")


@pytest.mark.slow
def test_non_commercial_translator_makes_all_later_outputs_non_commercial(
        run: Run, engine: Path, tmp_path: Path) -> None:
    def done(*arguments: object) -> None:
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err

    text, corpus, ner, vocabulary, model, student, tagger, merged, graph = (
        tmp_path / name for name in ("en.txt", "it.jsonl", "ner.jsonl", "vocabulary", "model",
                                     "student", "tagger", "merged", "graph"))
    text.write_text("\n".join(SENTENCES * 4))
    done("import", "text", text, "--lang", "en", "--licence", "CC BY 4.0", "-o",
         tmp_path / "en.jsonl")
    done("translate", tmp_path / "en.jsonl", "--engine", "transformers", "--model", engine,
         "--source-lang", "en", "--target-lang", "it", "--missing", "keep", "-o", corpus)
    assert {json.loads(line)["licence"] for line in corpus.read_text().splitlines()} == {
        "CC-BY-NC-4.0"}
    done("build-vocab", corpus, "--size", "120", "--allow-fewer", "-o", vocabulary)
    done("pretrain", corpus, "--architecture", "bert-1x64", "--tokenizer", vocabulary, *TINY,
         "-o", model)
    done("distill", corpus, "--teacher", model, "--architecture", "bert-1x64", *TINY,
         "-o", student)
    write(ner, "CC0-1.0", "MIT", "")
    done("finetune", "ner", "--model", student, "--train", ner, "--dev", ner, "--seeds", "1",
         "--epochs", "1", "--max-length", "16", "-o", tagger)
    done("merge", tagger, tagger, "-o", merged)
    done("export", "model", student, "-o", graph)
    own = {"text": ["CC-BY-NC-4.0"]}
    assert record_of(vocabulary) == (own, "CC-BY-NC-4.0")
    assert record_of(model) == (own, "CC-BY-NC-4.0")
    assert record_of(student) == ({"teacher": ["CC-BY-NC-4.0"], **own}, "CC-BY-NC-4.0")
    licences, licence = record_of(tagger)
    assert licences == {"model": ["CC-BY-NC-4.0"], "train": ["unknown", "CC0-1.0", "MIT"]}
    assert licence == "CC-BY-NC-4.0 AND unknown AND MIT"
    assert record_of(merged)[1] == licence
    [exported] = [path.parent for path in graph.rglob("bmtools.json")]
    assert record_of(exported)[1] == "CC-BY-NC-4.0"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Corpora with one licence each, and a corpus with two licences."""
    return {"sa": write(tmp_path / "wiki.jsonl", "CC-BY-SA-4.0", "CC-BY-SA-4.0"),
            "nc": write(tmp_path / "nc.jsonl", "CC-BY-NC-4.0", "CC-BY-NC-4.0"),
            "both": write(tmp_path / "both.jsonl", "CC-BY-SA-4.0", "", "CC-BY-NC-SA-4.0"),
            "nd": write(tmp_path / "nd.jsonl", "CC-BY-ND-4.0")}


def checkpoint(path: Path, model: Path, licence: str) -> Path:
    """Copy a checkpoint with another licence."""
    path.mkdir()
    for file in model.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    (path / "bmtools.json").unlink(missing_ok=True)
    (path / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    return path


def test_conflicts_stop_a_run_with_a_one_line_error(
        run: Run, tiny_checkpoint: Path, files: dict[str, Path], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    shared, teacher = (checkpoint(tmp_path / name, tiny_checkpoint, licence) for name, licence
                       in (("shared", "cc-by-sa-4.0"), ("teacher", "cc-by-nc-4.0")))
    output = tmp_path / "out"
    commands: dict[tuple[object, ...], tuple[str, str]] = {
        ("pretrain", files["both"], "--model", tiny_checkpoint, *TINY):
            ("both.jsonl has CC-BY-NC-SA-4.0 and CC-BY-SA-4.0", ""),
        ("pretrain", files["nc"], "--model", shared, *TINY): (str(shared), "nc.jsonl has"),
        ("distill", files["sa"], "--teacher", teacher, "--architecture", "bert-1x64", *TINY):
            (str(teacher), "wiki.jsonl has"),
        ("finetune", "ner", "--model", shared, "--train", files["nc"], "--dev", files["nc"],
         "--epochs", "1", "--seeds", "1"): (str(shared), "nc.jsonl has"),
        ("merge", shared, teacher): (str(shared), str(teacher)),
        ("mix", "--corpus", files["sa"], "--corpus", files["nc"]):
            ("wiki.jsonl has CC-BY-SA-4.0", "nc.jsonl has CC-BY-NC-4.0")}
    for command, names in commands.items():
        outcome = run(*command, "-o", output)
        assert outcome.code == 1, command
        [line] = [one for one in outcome.err.splitlines() if "cannot both be met" in one]
        assert all(name in line for name in names), line
        assert SWITCH in line and "non-commercial" in line
        assert not output.exists()
    monkeypatch.setenv(SWITCH, "1")
    outcome = run("mix", "--corpus", files["sa"], "--corpus", files["nc"], "-o", output)
    assert outcome.code == 0 and "cannot both be met" in outcome.err


def test_texts_that_may_not_be_changed_are_not_translated(
        run: Run, engine: Path, tiny_checkpoint: Path, files: dict[str, Path],
        tmp_path: Path) -> None:
    translate = ("translate", "--engine", "transformers", "--model", engine, "--source-lang", "en",
                 "--target-lang", "it", "--drop-annotations", "--missing", "keep")
    for name, reason in (("nd", "CC-BY-ND-4.0, which allows no translation"),
                         ("sa", "CC-BY-SA-4.0, and CC-BY-NC-4.0 of the engine's model")):
        outcome = run(*translate, files[name])
        assert outcome.code == 1 and not outcome.out
        assert f"{files[name]}:1: key 'licence': found {reason}" in outcome.err
    rejects = tmp_path / "rejects.jsonl"
    outcome = run(*translate, files["nd"], "--rejects", rejects, "--allow-empty")
    assert outcome.code == 0 and len(rejects.read_text().splitlines()) == 1
    outcome = run("pretrain", files["nd"], "--model", tiny_checkpoint, *TINY, "-o", tmp_path / "m")
    assert outcome.code == 0
    assert "nd.jsonl has CC-BY-ND-4.0, which allows no changed versions" in outcome.err


def test_a_declared_licence_keeps_the_conditions(run: Run, engine: Path, files: dict[str, Path],
                                                 tmp_path: Path) -> None:
    outcome = run("import", "jsonl", files["nc"], "--licence", "MIT")
    assert outcome.code == 1
    assert "found CC-BY-NC-4.0, and --licence MIT leaves out its conditions: non-commercial" in \
        outcome.err
    assert run("import", "jsonl", files["nc"], "--licence", "CC BY-NC-SA 4.0").code == 0
    outcome = run("translate", files["nc"], "--engine", "transformers", "--model", engine,
                  "--source-lang", "en", "--target-lang", "it", "--set", "model_licence=MIT")
    assert outcome.code == 1
    assert "found CC-BY-NC-4.0, and --set model_licence MIT leaves out" in outcome.err
