"""`bmtools score-pppl` on the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.vocab.tokenizer import fingerprint

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "il", "cuore", "batte", "."]
SENTENCES = [{"id": "a", "text": "il cuore batte .", "kept": {"as": "it is"}},
             {"id": "b", "text": "il cuore ."}]


@pytest.fixture
def make_model(tmp_path: Path) -> Callable[..., Path]:
    """Save a random checkpoint: `make_model("name")`."""

    def make(name: str, *more: str, seed: int = 0) -> Path:
        tokenizer = BertTokenizer(
            vocab={word: number for number, word in enumerate([*WORDS, *more])},
            do_lower_case=False)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = BertForMaskedLM(BertConfig(
                vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1,
                num_attention_heads=1, intermediate_size=16, max_position_embeddings=12,
                initializer_range=0.5))
        save_checkpoint(tmp_path / name, model, tokenizer,
                        Manifest("test", {}, fingerprint(tokenizer)))
        return tmp_path / name

    return make


def test_one_line_per_checkpoint(
        run: Callable[..., Any], make_model: Callable[..., Path],
        write_lines: Callable[..., Path]) -> None:
    one, two = make_model("one"), make_model("two", "rene", seed=1)
    outcome = run("score-pppl", "--model", one, "--model", two, write_lines("s.jsonl", *SENTENCES))
    assert outcome.code == 0
    first, second, compared = outcome.records
    assert compared["compared"] == [str(one), str(two)]
    assert compared["metric"] == "bits_per_character"
    assert compared["difference"] == pytest.approx(
        first["bits_per_character"] - second["bits_per_character"], abs=1e-5)
    assert (first["model"], second["model"]) == (str(one), str(two))
    assert first["sentences"] == second["sentences"] == 2
    assert first["tokens"] == second["tokens"] == 7
    assert first["pppl"] == pytest.approx(math.exp(first["nats_per_token"]), rel=1e-5)
    assert first["vocabulary"] != second["vocabulary"]
    assert first["pppl"] != second["pppl"]


def test_details_and_a_file_for_the_score(
        run: Callable[..., Any], make_model: Callable[..., Path], tmp_path: Path,
        write_lines: Callable[..., Path]) -> None:
    model, other = make_model("one"), make_model("two", seed=1)
    outcome = run("score-pppl", "--model", model, "--model", other, "-o", tmp_path / "o.jsonl",
                  "--details", tmp_path / "d.jsonl", write_lines("s.jsonl", *SENTENCES))
    assert (outcome.code, outcome.out) == (0, "")
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    details = [json.loads(line) for line in (tmp_path / "d.jsonl").read_text().splitlines()]
    assert [(line["id"], line["model"]) for line in details] == [
        (name, str(path)) for name in "ab" for path in (model, other)]
    assert [line["metric"] for line in lines[2:]] == ["bits_per_character", "nats_per_token"]
    for line in lines[:2]:
        own = [detail for detail in details if detail["model"] == line["model"]]
        assert line["nats_per_token"] == pytest.approx(
            sum(detail["nats"] for detail in own) / line["tokens"], abs=1e-6)
        assert line["mean_sentence_pppl"] == pytest.approx(
            sum(detail["pppl"] for detail in own) / 2, abs=1e-6)


def test_units(run: Callable[..., Any], make_model: Callable[..., Path],
               write_lines: Callable[..., Path]) -> None:
    """Sentences by document, too few documents, and a key that one sentence does not have."""
    model = make_model("one")
    path = write_lines("s.jsonl", *({**SENTENCES[number % 2], "id": f"D{number % 5}-s{number}",
                                     "meta": {"patient": number}} for number in range(20)))
    found = run("score-pppl", "--model", model, path)
    assert [(line["unit"], line["units"], "interval" in line) for line in found.records] == [
        ("document", 5, False)]
    assert ("found 5 units by document, but an interval needs 10; if records do not depend on "
            "each other, use --unit id") in found.err
    [line] = run("score-pppl", "--model", model, path, "--unit", "meta.patient").records
    assert (line["unit"], line["units"], "interval" in line) == ("meta.patient", 20, True)
    more = write_lines("more.jsonl", *SENTENCES)
    refused = run("score-pppl", "--model", model, path, more, "--unit", "meta.patient")
    assert refused.code == 1
    assert refused.err.endswith("more.jsonl:1: key 'meta.patient' is missing, expected the unit of "
                                "the record, because --unit is this key\n")


def test_groups_and_variants(
        run: Callable[..., Any], make_model: Callable[..., Path],
        write_lines: Callable[..., Path]) -> None:
    model = make_model("one")
    path = write_lines("s.jsonl", *({**one, "meta": {"year": year}} for one, year in
                                    zip(SENTENCES, (2019, 2020), strict=True)))
    [line] = run("score-pppl", "--model", model, path, "--by", "meta.year").records
    assert run("score-pppl", "--model", model, path, "--fail-over", 1).code == 3
    passed = run("score-pppl", "--model", model, path, "--fail-over", 1e6).err
    assert f"gate passed: pppl: {model} has {line['pppl']}, expected at most 1000000, margin " \
        in passed
    years = line["by"]["meta.year"]
    assert set(years) == {"2019", "2020"}
    assert sum(year["tokens"] for year in years.values()) == line["tokens"]
    for arguments in (("--variant", "within-word"), ("--like", "biobit")):
        outcome = run("score-pppl", "--model", model, path, *arguments)
        assert outcome.code == 0, outcome.err
