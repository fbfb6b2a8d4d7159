"""`bmtools score-mrr` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.vocab.tokenizer import fingerprint

# Later words of the vocabulary are more likely: `batte` is first, then `cuore`, then `il`.
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "il", "cuore", "batte"]
MASKINGS = [
    {"id": "a", "text": "il [MASK] batte .", "target": "cuore", "domain": "Cardiologia"},
    {"id": "b", "text": "il cuore [MASK] .", "target": "batte", "domain": "Cardiologia"},
    {"id": "c", "text": "il [MASK] .", "target": "cuore batte"},
    {"id": "d", "text": "[MASK] cuore .", "target": "Il"},
]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A checkpoint that proposes the words of its vocabulary from the last to the first."""
    tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)},
                              do_lower_case=False)
    model = BertForMaskedLM(BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=16, max_position_embeddings=12))
    with torch.no_grad():
        model.cls.predictions.transform.LayerNorm.weight.zero_()
        model.cls.predictions.transform.LayerNorm.bias.zero_()
        model.cls.predictions.bias.copy_(torch.arange(len(WORDS)))
    save_checkpoint(tmp_path / "model", model, tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    return tmp_path / "model"


def test_the_score_of_each_option(
        run: Callable[..., Any], model: Path, write_lines: Callable[..., Path]) -> None:
    path = write_lines("m.jsonl", *MASKINGS)
    outcome = run("score-mrr", "--model", model, path)
    assert outcome.code == 0, outcome.err
    [line] = outcome.records
    assert line["model"] == str(model)
    assert line["mrr"] == pytest.approx((1 / 2 + 1 + 0 + 0) / 4)
    assert (line["maskings"], line["multi_token"], line["unknown"]) == (4, 1, 1)
    assert {name: (one["mrr"], one["maskings"]) for name, one in line["by"]["domain"].items()} \
        == {"Cardiologia": (0.75, 2), "-": (0, 2)}
    [line] = run("score-mrr", "--model", model, "--multi-token", "skip", "--ignore-case",
                 path).records
    assert line["mrr"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3, abs=1e-6)
    [line] = run("score-mrr", "--model", model, "--top-k", 1, path).records
    assert (line["mrr"], line["hits_at_1"], line["hits_at_5"]) == (0.25, 0.25, 0.5)


def test_several_models_a_baseline_and_details(
        run: Callable[..., Any], model: Path, tmp_path: Path,
        write_lines: Callable[..., Path]) -> None:
    corpus = write_lines("corpus.jsonl", {"id": "1", "text": "cuore cuore il"})
    outcome = run("score-mrr", "--model", model, "--model", model, "--baseline", corpus,
                  "--details", tmp_path / "d.jsonl", write_lines("m.jsonl", *MASKINGS))
    names = [str(model), str(model), f"frequency of {corpus}"]
    assert [line["model"] for line in outcome.records[:3]] == names
    [compared] = outcome.records[3:]
    assert compared["compared"] == names[:2]
    assert (compared["metric"], compared["difference"], compared["p"]) == ("mrr", 0, 1)
    # Frequencies propose cuore and il, then unseen tokens: [UNK], `.`, batte.
    assert outcome.records[2]["mrr"] == pytest.approx((1 + 1 / 5) / 4)
    details = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert [(line["id"], line["model"]) for line in details] == [
        (record["id"], name) for record in MASKINGS for name in names]
    assert details[0]["proposals"] == ["batte", "cuore", "il", ".", "[MASK]"]


def test_a_score_below_the_limit_fails_but_is_printed(run: Callable[..., Any], model: Path,
                                                      write_lines: Callable[..., Path]) -> None:
    path = write_lines("m.jsonl", *MASKINGS)
    outcome = run("score-mrr", "--model", model, path, "--fail-under", 0.5)
    assert (outcome.code, outcome.records[0]["mrr"]) == (3, 0.375)
    assert run("score-mrr", "--model", model, path, "--fail-under", 50).code == 2
    assert outcome.err == f"bmtools: mrr: {model} has 0.375, expected at least 0.5\n"
    outcome = run("score-mrr", "--model", model, path, "--fail-under", 0.125)
    assert outcome.code == 0
    assert f"gate passed: mrr: {model} has 0.375, expected at least 0.125, margin 0.25\n" \
        in outcome.err


def test_terms_and_entities_are_masked(
        run: Callable[..., Any], model: Path, tmp_path: Path,
        write_lines: Callable[..., Path]) -> None:
    (tmp_path / "terms.txt").write_text("batte\n")
    path = write_lines(
        "s.jsonl", {"id": "a", "text": "il cuore batte .", "entities": [
            {"start": 3, "end": 8, "type": "Organ"}]}, {"id": "b", "text": "il ."}, MASKINGS[0])
    outcome = run("score-mrr", "--model", model, "--terms", tmp_path / "terms.txt", path,
                  "--details", tmp_path / "d.jsonl")
    assert outcome.code == 0, outcome.err
    details = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert [(line["id"], line["target"]) for line in details] == [
        ("a-m1", "cuore"), ("a-m2", "batte"), ("a", "cuore")]
    assert outcome.err.startswith("bmtools: 1 record without a word to mask skipped\n")


def test_a_stored_baseline_needs_the_same_maskings(run: Callable[..., Any], model: Path,
                                                   tmp_path: Path,
                                                   write_lines: Callable[..., Path]) -> None:
    path = write_lines("m.jsonl", *MASKINGS)
    other = write_lines("other.jsonl", *MASKINGS[:3], {**MASKINGS[3], "target": "il"})
    order = write_lines("order.jsonl", *({**one, "id": one["id"] * 2} for one in MASKINGS[::-1]))
    [line], [second], [third] = (run("score-mrr", "--model", model, one).records
                                 for one in (path, other, order))
    assert line["data"] == third["data"] != second["data"]
    for earlier, mrr, code in ((line, 0.1, 0), (third, 0.1, 0), (line, 0.9, 3), (second, 0.1, 1)):
        bar = write_lines("bar.jsonl", {**earlier, "mrr": mrr})
        outcome = run("score-mrr", "--model", model, path, "--fail-below-baseline", bar)
        assert outcome.code == code
    assert outcome.err == (
        f"bmtools: {bar}: found data '{second['data']}', expected '{line['data']}' as in this run; "
        "score both on the same maskings in the same way\n")
    del second["data"]
    bar = write_lines("bar.jsonl", second)
    outcome = run("score-mrr", "--model", model, path, "--fail-below-baseline", bar)
    assert (outcome.code, len(outcome.err.splitlines())) == (1, 1)
    assert "found data None, expected" in outcome.err


def test_token_frequencies_can_be_the_baseline(run: Callable[..., Any], model: Path,
                                               write_lines: Callable[..., Path]) -> None:
    path = write_lines("m.jsonl", *MASKINGS)
    poor = write_lines("poor.jsonl", {"id": "1", "text": "il il ."})
    outcome = run("score-mrr", "--model", model, path, "--fail-below-baseline", poor,
                  "--baseline", poor)
    assert (outcome.code, len(outcome.records)) == (0, 2)
    rich = write_lines("rich.jsonl", {"id": "1", "text": "cuore cuore batte"})
    outcome = run("score-mrr", "--model", model, path, "--fail-below-baseline", rich,
                  "--baseline", rich)
    # `cuore` first and `batte` second: (1 + 1/2) / 4 equals the score of the model.
    assert outcome.code == 0
    first = write_lines("first.jsonl", MASKINGS[0])  # the model proposes this word second
    outcome = run("score-mrr", "--model", model, first, "--fail-below-baseline", rich,
                  "--baseline", rich)
    assert (outcome.code, [line["mrr"] for line in outcome.records]) == (3, [0.5, 1])
    for baseline in ((), ("--baseline", poor)):
        outcome = run("score-mrr", "--model", model, path, "--fail-below-baseline", rich, *baseline)
        assert outcome.code == 2
        assert f"found records in {rich}, expected lines that score-mrr wrote" in outcome.err
