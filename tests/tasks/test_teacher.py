"""Distillation from a fine-tuned teacher: its losses, what is compared, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_models import learn_wordpiece, save_random
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import bmtools.tasks
from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.manifest import hash_directory

pytestmark = pytest.mark.usefixtures("one_thread")

PHRASES = ["il paziente con asma", "due casi di febbre e diabete", "la dose per la paziente",
           "dolore e febbre", "infarto con asma e dolore", "la insulina"]
LABELS = ["b", "a", "b", "a", "a", "b"]


def _tagged(text: str) -> list[dict[str, Any]]:
    """Make an entity of every word of a text that begins with d or a."""
    found, start = [], 0
    for word in text.split():
        if word[0] in "da":
            found.append({"start": start, "end": start + len(word), "type": word[0].upper(),
                          "id": f"T{len(found)}"})
        start += len(word) + 1
    return found


RECORDS = [{"id": str(number), "text": text, "label": label, "labels": sorted({label, "b"}),
            "entities": _tagged(text), "question": "chi?",
            "relations": [{"head": "T0", "tail": "T1", "type": "with"}]
            if len(_tagged(text)) > 1 else [],
            "answers": [{"text": text.split()[1], "start": text.index(text.split()[1])}]}
           for number, (text, label) in enumerate(zip(PHRASES, LABELS, strict=True))]
TASKS: dict[str, dict[str, Any]] = {"ner": {}, "ner-crf": {"crf": True}, "classification": {},
                                    "multilabel": {}, "qa": {"stride": 4},
                                    "relations": {"pooling": "mentions"}}
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 1, "batch_size": 99, "max_length": 24,
                            "learning_rate": 3e-3, "dropout": 0.0, "mixed_precision": "no"}


def tune(name: str, model: Path, output: Path, **settings: Any) -> list[dict[str, Any]]:
    """Fine-tune on the records, and return the lines of the report."""
    lines: list[dict[str, Any]] = []
    given = {"train": RECORDS, "dev": RECORDS, **settings}
    bmtools.tasks.finetune(name.partition("-")[0], model, output=output, report=lines.append,
                           **{**SETTINGS, **TASKS[name], **given})
    return lines


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a student and a teacher of a task with heads, made once."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer = learn_wordpiece([*PHRASES, "chi?"] * 2, 160)
    base = save_random(folder / "base", tokenizer)
    made: dict[str, tuple[Path, Path]] = {}

    def call(name: str) -> tuple[Path, Path]:
        if name not in made:
            made[name] = folder / f"{name}-s", folder / f"{name}-t"
            for seed, output in enumerate(made[name]):
                tune(name, base, output, seed=seed, epochs=1 + 3 * seed)
        return made[name]

    return call


def divergence(own: torch.Tensor, theirs: torch.Tensor, temperature: float) -> torch.Tensor:
    """Compute the divergence of each row as the definition has it."""
    p, q = (torch.softmax(logits.double() / temperature, dim=-1) for logits in (theirs, own))
    return temperature**2 * (p * (p / q).log()).sum(dim=-1)


def logits_of(name: str, model: Path, text: str) -> torch.Tensor:
    """Compute what is compared by transformers alone, (distributions, classes)."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    kind = {"ner": AutoModelForTokenClassification, "qa": AutoModelForQuestionAnswering}.get(
        name, AutoModelForSequenceClassification)
    loaded: Any = kind.from_pretrained(model).eval()
    encoded = tokenizer(*(("chi?", text) if name == "qa" else (text,)), return_tensors="pt")
    with torch.inference_mode():
        found = loaded(**encoded)
    if name == "qa":
        return torch.cat([found.start_logits, found.end_logits])
    if name == "ner":
        words = encoded.word_ids()
        firsts = [at for at, word in enumerate(words) if word not in (None, *words[:at])]
        return found.logits[0, firsts]
    if name == "multilabel":
        return torch.stack([torch.zeros_like(found.logits[0]), found.logits[0]], dim=-1)
    return found.logits


@pytest.mark.parametrize("name", ["ner", "classification", "multilabel", "qa"])
def test_losses_equal_plain_ones(name: str, tuned: Any, tmp_path: Path) -> None:
    student, teacher = tuned(name)
    pairs = [[logits_of(name, model, text) for model in (student, teacher)] for text in PHRASES]
    kl = torch.cat([divergence(*pair, 1.5) for pair in pairs]).mean().item()
    mse = torch.cat([(own - theirs).square().mean(dim=-1) for own, theirs in pairs]).mean().item()
    assert kl > 1e-5
    [line] = [line for line in tune(name, student, tmp_path / "both", teacher=teacher,
                                    temperature=1.5, kl_weight=0.5, logit_mse_weight=2.0)
              if "dev_loss" in line]
    assert line["kl"] == pytest.approx(kl, abs=2e-6)
    assert line["logit_mse"] == pytest.approx(mse, abs=2e-6)
    [alone] = [line for line in tune(name, student, tmp_path / "alone") if "dev_loss" in line]
    assert line["loss"] == pytest.approx(alone["loss"] + 0.5 * kl + 2 * mse, abs=5e-6)


@pytest.mark.parametrize("name", TASKS)
def test_a_model_differs_from_itself_by_nothing(name: str, tuned: Any, tmp_path: Path) -> None:
    _, teacher = tuned(name)
    before = hash_directory(teacher)
    unlabelled = [{"id": "u", "text": "la dose e due asma con dolore", "question": "chi?",
                   "entities": _tagged("la dose e due asma con dolore")}] * 3
    lines = tune(name, teacher, tmp_path / "out", teacher=teacher, unlabelled=unlabelled,
                 label_weight=0, batch_size=2, learning_rate=1e-12)
    assert [line["split"] for line in lines if "split" in line] == ["train", "dev", "unlabelled"]
    [line] = [line for line in lines if "dev_loss" in line]
    assert abs(line["loss"]) <= 1e-6
    assert any("emissions" in line.get("note", "") for line in lines) == (name == "ner-crf")
    assert hash_directory(teacher) == before
    manifest = read_manifest(tmp_path / "out")
    assert manifest["parents"]["teacher"] == before
    assert manifest["settings"]["kl_weight"] == 1


def test_texts_without_labels_have_the_loss_of_the_teacher_alone(tuned: Any,
                                                                 tmp_path: Path) -> None:
    student, teacher = tuned("classification")
    [alone] = [line for line in tune("classification", student, tmp_path / "alone",
                                     train=RECORDS[:3]) if "dev_loss" in line]
    [line] = [line for line in tune("classification", student, tmp_path / "out", teacher=teacher,
                                    train=(*RECORDS[:3],), unlabelled=RECORDS[3:], temperature=1.0)
              if "dev_loss" in line]
    kl = torch.cat([divergence(*(logits_of("classification", model, text)
                                 for model in (student, teacher)), 1.0) for text in PHRASES])
    assert line["kl"] == pytest.approx(kl.mean().item(), abs=2e-6)
    assert line["loss"] == pytest.approx(alone["loss"] + kl.mean().item(), abs=5e-6)


def test_a_teacher_of_texts_may_have_another_vocabulary(
        tuned: Any, tmp_path: Path, pair_tokenizers: dict[str, Any]) -> None:
    _, teacher = tuned("classification")
    base = save_random(tmp_path / "base", pair_tokenizers["modernbert"], "modernbert-1x64")
    lines = tune("classification", base, tmp_path / "out", teacher=teacher, epochs=60,
                 label_weight=0, temperature=1.0, unlabelled=[{"id": "u", "text": "asma"}])
    first, *_, last = (line["loss"] for line in lines if "dev_loss" in line)
    assert last < 0.05 * first
    wanted = [torch.softmax(logits_of("classification", teacher, text)[0], -1) for text in PHRASES]
    for record, probabilities in zip(bmtools.tasks.predict(RECORDS, tmp_path / "out"), wanted,
                                     strict=True):
        found = record["predicted"]["probabilities"]
        assert [found["a"], found["b"]] == pytest.approx(probabilities.tolist(), abs=0.1)


def test_teachers_that_do_not_fit_are_refused_in_a_line(
        tuned: Any, tmp_path: Path, pair_tokenizers: dict[str, Any]) -> None:
    base = tuned("ner")[0]
    other = save_random(tmp_path / "other", pair_tokenizers["bert"])
    for name, model, settings, told in (
            ("ner", other, {"teacher": base}, "found a teacher with vocabulary"),
            ("ner", base, {"teacher": tuned("qa")[1]}, "found a teacher for qa, expected one"),
            ("ner", base, {"teacher": base, "label_pieces": "all"},
             "label_pieces first, expected that of the student, all"),
            ("ner", base, {"teacher": base, "types": "D"},
             "labels O, B-A, I-A, B-D, I-D, expected that of the student, O, B-D, I-D")):
        with pytest.raises(CheckpointError, match=told):
            tune(name, model, tmp_path / "out", **settings)
    with pytest.raises(BmtoolsError, match="expected one for a task with labels"):
        bmtools.tasks.finetune("similarity", base, RECORDS, RECORDS, tmp_path / "out",
                               teacher=other)
    for settings, told in (({"unlabelled": RECORDS}, "found some, expected none without teacher"),
                           ({"unlabelled": RECORDS, "teacher": base, "dev": None, "folds": 3},
                            "unlabelled: found some, expected none beside folds"),
                           ({"temperature": 3.0}, "2.0 without teacher")):
        with pytest.raises(ValueError, match=told):
            tune("ner", base, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()
