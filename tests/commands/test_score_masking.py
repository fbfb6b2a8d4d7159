"""`bmtools score-masking` as people call it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("one_thread")
COMMON = ("--max-length", "16", "--repeats", "2", "--resamples", "20")
RECORDS = [{"id": "a", "text": "Il paziente ha diabete mellito e asma.", "domain": "lungs"},
           {"id": "b", "text": "Il cuore pompa il sangue nelle arterie.", "domain": "heart"},
           {"id": "c", "text": "L'asma riduce il respiro del paziente.", "domain": "lungs"}]


@pytest.fixture
def notes(write_lines: Callable[..., Path]) -> Path:
    return write_lines("notes.jsonl", *RECORDS)


def test_a_line_for_each_model_and_combination(
        run: Callable[..., Any], tiny_checkpoint: Path, make_checkpoint: Callable[..., Path],
        tiny_tokenizer: Path, tmp_path: Path, notes: Path) -> None:
    (tmp_path / "terms.txt").write_text("diabete mellito\nasma\n")
    other = make_checkpoint(tiny_tokenizer, seed=1)
    outcome = run("score-masking", notes, "--model", tiny_checkpoint, "--model", other,
                  "--masking", "tokens,words,spans,terms", "--mask-rate", "0.15,0.4",
                  "--corruption", "80/10/10,100/0/0", "--terms", tmp_path / "terms.txt",
                  "--by", "domain", *COMMON)
    assert outcome.code == 0, outcome.err
    grid = itertools.product((str(tiny_checkpoint), str(other)),
                             ("tokens", "words", "spans", "terms"), (0.15, 0.4),
                             ("80/10/10", "100/0/0"))
    assert [(line["model"], line["masking"], line["mask_rate"], line["corruption"])
            for line in outcome.records] == list(grid)
    for line in outcome.records:
        assert line["perplexity"] == pytest.approx(math.exp(line["nats_per_token"]), rel=1e-5)
        assert line["records"] == 3 and line["repeats"] == 2
        assert set(line["by"]["domain"]) == {"lungs", "heart"}
        if line["corruption"] == "100/0/0":
            assert set(line["by_replacement"]) == {"masked"}
    half = len(outcome.records) // 2
    first, second = outcome.records[:half], outcome.records[half:]
    assert [line["masked_tokens"] for line in first] == [line["masked_tokens"] for line in second]
    assert [line["perplexity"] for line in first] != [line["perplexity"] for line in second]


def test_settings_from_a_file(run: Callable[..., Any], tiny_checkpoint: Path, notes: Path,
                              tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('masking = "spans"\nmask_rate = 0.3\n')
    outcome = run("score-masking", notes, "--model", tiny_checkpoint, *COMMON, "--config", config)
    assert [(line["masking"], line["mask_rate"]) for line in outcome.records] == [("spans", 0.3)]


@pytest.mark.parametrize(("record", "reason"), [
    ({"id": "d"}, "key 'text' is missing"),
    ({"id": "d", "text": " "}, "key 'text': found no tokens to mask, expected words of the "
                               "models' vocabularies"),
])
def test_a_record_without_text_stops_or_is_collected(
        run: Callable[..., Any], tiny_checkpoint: Path, write_lines: Callable[..., Path],
        tmp_path: Path, record: dict[str, Any], reason: str) -> None:
    path = write_lines("bad.jsonl", *RECORDS[:2], record, RECORDS[2])
    command = ("score-masking", path, "--model", tiny_checkpoint, *COMMON)
    outcome = run(*command)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"bmtools: {path}:3: {reason}\n"
    outcome = run(*command, "--rejects", tmp_path / "rejects.jsonl")
    assert outcome.code == 0
    assert [line["records"] for line in outcome.records] == [3, 3]
    assert json.loads((tmp_path / "rejects.jsonl").read_text())["record"] == record


@pytest.mark.parametrize(("arguments", "message"), [
    (("--max-length", "64"), "--max-length: found 64, but {model} has 32 positions; expected that "
                             "or less"),
    (("--segmenter", "klingon"), "--segmenter: found klingon, expected tokenizer or japanese"),
    (("--device", "abacus"), "--device: found 'abacus', which cannot be used"),
    (("--masking", "terms", "--terms", "{empty}"), "{empty}: found no terms, expected one a line"),
])
def test_what_does_not_fit_is_one_line(
        run: Callable[..., Any], tiny_checkpoint: Path, notes: Path, tmp_path: Path,
        arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    places = {"model": tiny_checkpoint, "empty": tmp_path / "empty.txt"}
    outcome = run("score-masking", notes, "--model", tiny_checkpoint, *COMMON,
                  *(word.format(**places) for word in arguments))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"bmtools: {message.format(**places)}")
    assert outcome.err.count("\n") == 1


def test_a_checkpoint_without_a_head_is_refused(
        run: Callable[..., Any], tiny_checkpoint: Path, notes: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    tagger = tmp_path / "tagger"
    AutoModelForTokenClassification.from_pretrained(tiny_checkpoint).save_pretrained(tagger)
    AutoTokenizer.from_pretrained(tiny_checkpoint).save_pretrained(tagger)
    outcome = run("score-masking", notes, "--model", tagger, *COMMON)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {tagger}: found a model that was fine-tuned "
                           "(BertForTokenClassification), expected a masked language model\n")
