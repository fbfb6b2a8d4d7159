from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_tokenizers import train_tokenizer

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.tasks.heads import load_encoder, with_new_head
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["il paziente ha l'asma", "", "🧬🧬 caffe\u0301 e febbre. " * 30, "due giorni"]
RECORDS = [{"id": str(number), "text": text, "note": {"kept": [number]}}
           for number, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`language`, a random masked language model, and `tagger`, a random classifier based on it."""
    directory = tmp_path_factory.mktemp("models")
    tokenizer = train_tokenizer(TEXTS * 3, VocabularyConfig(size=100, allow_fewer=True))
    torch.manual_seed(0)
    model = build_model(build_config("bert-1x64", tokenizer))
    vocabulary = fingerprint(tokenizer)
    save_checkpoint(directory / "language", model, tokenizer, Manifest("test", {}, vocabulary))
    encoder = load_encoder(directory / "language", "AutoModelForTokenClassification")
    tagger = with_new_head(encoder, ["O", "B-DIS", "I-DIS"], 0)
    tagger.classifier.weight.data *= 50
    save_checkpoint(directory / "tagger", tagger, tokenizer,
                    Manifest("test", {"task": "ner", "max_length": 16}, vocabulary))
    return directory


def test_records_keep_order_and_keys(run: Callable[..., Any], models: Path,
                                     write_lines: Callable[..., Path]) -> None:
    outcome = run("predict", "--model", models / "tagger", write_lines("in.jsonl", *RECORDS),
                  "--batch-size", "2")
    assert outcome.code == 0, outcome.err
    found = outcome.records
    assert [{key: value for key, value in record.items() if key != "predicted"}
            for record in found] == RECORDS
    assert found[1]["predicted"] == {"entities": []}
    entities = [(record["text"], entity) for record in found
                for entity in record["predicted"]["entities"]]
    assert entities
    for text, entity in entities:
        assert list(entity) == ["id", "start", "end", "type", "text", "score"]
        assert text[entity["start"]:entity["end"]] == entity["text"] == entity["text"].strip()
        assert 0 <= entity["score"] <= 1


def test_half_precision_changes_scores_only_by_rounding(run: Callable[..., Any], models: Path,
                                                        write_lines: Callable[..., Path]) -> None:
    path = write_lines("in.jsonl", *RECORDS)
    exact, half = (run("predict", "--model", models / "tagger", path, "--precision", precision)
                   for precision in ("float32", "bf16"))
    assert half.code == 0, half.err
    entities = [[entity for record in outcome.records for entity in record["predicted"]["entities"]]
                for outcome in (exact, half)]
    spans = [{(one["start"], one["end"], one["type"]) for one in own} for own in entities]
    assert len(spans[0] & spans[1]) > 0.8 * len(spans[0])
    assert [one["score"] for one in entities[0]] != [one["score"] for one in entities[1]]


ANNOTATED = {"id": "1", "text": TEXTS[0],
             "entities": [{"id": "A", "start": 0, "end": 2, "type": "X"},
                          {"id": "B", "start": 3, "end": 11, "type": "X"}],
             "relations": [{"head": "A", "tail": "B", "type": "R"}]}


@pytest.mark.parametrize("into", ["predicted", "first_model"])
def test_annotations_are_kept(run: Callable[..., Any], models: Path, into: str,
                              write_lines: Callable[..., Path]) -> None:
    outcome = run("predict", "--model", models / "tagger", write_lines("in.jsonl", ANNOTATED),
                  *(("--into", into) if into != "predicted" else ()))
    [record] = outcome.records
    predicted = record.pop(into)
    assert record == ANNOTATED
    assert predicted["entities"] and all(e["type"] == "DIS" for e in predicted["entities"])
    assert "replaced" not in outcome.err


def test_titles_that_a_tagger_ignores_are_counted(run: Callable[..., Any], models: Path,
                                                  write_lines: Callable[..., Path]) -> None:
    path = write_lines("in.jsonl", *({**record, **({"title": "asma"} if number < 3 else {})}
                                     for number, record in enumerate(RECORDS)))
    outcome = run("predict", "--model", models / "tagger", path)
    assert outcome.code == 0
    assert "found 3 titles of records, which this task does not read" in outcome.err


def test_a_value_that_is_not_a_prediction_is_never_replaced(
        run: Callable[..., Any], models: Path, write_lines: Callable[..., Path],
) -> None:
    path = write_lines("in.jsonl", {"id": "1", "text": TEXTS[0], "predicted": "by hand"})
    outcome = run("predict", "--model", models / "tagger", path)
    assert outcome.code == 1
    assert outcome.err == (f"bmtools: {path}:1: key 'predicted': found a value that is not "
                           "an object of predictions; set --into to another key\n")


@pytest.mark.parametrize("key", ["text", "id", "label", ""])
def test_required_keys_of_records_are_never_overwritten(run: Callable[..., Any], models: Path,
                                                        key: str,
                                                        write_lines: Callable[..., Path]) -> None:
    outcome = run("predict", "--model", models / "tagger", "--into", key,
                  write_lines("in.jsonl", ANNOTATED))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"--into: found {key!r}, expected 'entities', whose values predictions replace, or a " \
        "key that records do not have, such as 'predicted'" in outcome.err


def test_a_model_for_another_task_is_rejected(run: Callable[..., Any], models: Path,
                                              write_lines: Callable[..., Path]) -> None:
    outcome = run("predict", "--model", models / "tagger", "--task", "classification",
                  write_lines("in.jsonl", *RECORDS))
    assert outcome.code == 1
    assert outcome.err == (f"bmtools: {models / 'tagger'}: found a model for ner, expected one for "
                           "classification; leave --task out or name ner\n")


def test_a_model_of_another_program_needs_its_task(run: Callable[..., Any], models: Path,
                                                   write_lines: Callable[..., Path],
                                                   tmp_path: Path) -> None:
    path = write_lines("in.jsonl", *RECORDS)
    shutil.copytree(models / "tagger", tmp_path / "elsewhere",
                    ignore=shutil.ignore_patterns("bmtools.json"))
    outcome = run("predict", "--model", tmp_path / "elsewhere", path)
    assert outcome.code == 1
    assert "for one fine-tuned elsewhere set --task (ner or pico or " in outcome.err
    known = run("predict", "--model", models / "tagger", path)
    outcome = run("predict", "--model", tmp_path / "elsewhere", "--task", "ner", "--max-length",
                  "16", path)
    assert outcome.code == 0 and outcome.out == known.out
