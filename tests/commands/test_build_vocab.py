"""`bmtools build-vocab` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForMaskedLM, AutoTokenizer

Run = Callable[..., Any]


def test_stdout_is_one_line_that_describes_the_directory(run: Run, corpus: Path, tmp_path: Path,
                                                         manifest: Callable[..., Any]) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120")
    assert outcome.code == 0, outcome.err
    size = len("".join(json.loads(line)["text"] for line in corpus.read_text().splitlines())
               .encode())
    assert outcome.records == [{
        "tokenizer": str(tmp_path / "tok"), "vocab_size": 120, "requested_size": 120,
        "tokenizer_type": "wordpiece", "special_tokens": "bert", "uncased": False,
        "sample": {"documents": 8, "total_documents": 8, "bytes": size, "total_bytes": size},
        "vocabulary": manifest(tmp_path / "tok")["vocabulary"]}]


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe", "unigram"])
def test_a_limit_samples_the_same_documents_from_file_and_pipe(run: Run, piped: Run,
                                                               write_lines: Run, tmp_path: Path,
                                                               contents: Callable[..., Any],
                                                               tokenizer_type: str) -> None:
    syllables = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in "lmnrst"]
    path = write_lines("big.jsonl", *(
        {"id": str(number), "text": " ".join(syllables[number % 7::3] * 2)}
        for number in range(60)))
    asked = ("--tokenizer-type", tokenizer_type, "--size", "300", "--allow-fewer",
             "--sample-megabytes", "0.01")
    named = run("build-vocab", path, "-o", tmp_path / "named", *asked)
    assert named.code == 0, named.err
    assert piped(path, "build-vocab", "-o", tmp_path / "piped", *asked).code == 0
    assert contents(tmp_path / "named") == contents(tmp_path / "piped")
    sample = named.records[0]["sample"]
    assert 5_000 < sample["bytes"] <= 10_000 < sample["total_bytes"]
    assert 3 < sample["documents"] < sample["total_documents"] == 60
    other = run("build-vocab", path, "-o", tmp_path / "other", *asked, "--seed", "1")
    assert other.records[0]["vocabulary"] != named.records[0]["vocabulary"]
    all_of_it = run("build-vocab", path, "-o", tmp_path / "all", *asked[:-1], "0")
    assert all_of_it.records[0]["sample"]["documents"] == 60


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe"])
def test_a_checkpoint_is_extended(run: Run, corpus: Path, write_lines: Run, tmp_path: Path,
                                  manifest: Callable[..., Any], tokenizer_type: str) -> None:
    new = write_lines("new.jsonl", *(
        {"id": str(n), "text": "gonartrosi e coxartrosi, la terapia del linfoma"}
        for n in range(9)))
    old = run("build-vocab", corpus, "-o", tmp_path / "old", "--tokenizer-type", tokenizer_type,
              "--size", "280", "--allow-fewer").records[0]["vocab_size"]
    outcome = run("build-vocab", new, "-o", tmp_path / "tok", "--extend", tmp_path / "old",
                  "--size", max(old + 3, 100), "--allow-fewer")
    assert outcome.code == 0, outcome.err
    [line] = outcome.records
    assert (line["kept_tokens"], line["tokenizer_type"]) == (old, tokenizer_type)
    assert line["vocab_size"] == old + line["added_tokens"] and line["added_tokens"] > 0
    # WordPiece now splits words that were one unknown token before.
    assert tokenizer_type == "wordpiece" or line["text_tokens_after"] <= line["text_tokens_before"]
    before, after = (AutoTokenizer.from_pretrained(tmp_path / name).get_vocab()
                     for name in ("old", "tok"))
    assert {token: after[token] for token in before} == before
    assert set(manifest(tmp_path / "tok")["parents"]) == {"extended"}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("tokenizer_type", "special_tokens", "architecture", "layout"), [
    ("wordpiece", "bert", "bert-1x64", "packed"), ("bpe", "roberta", "roberta-1x64", "padded"),
    ("bpe", "modernbert", "modernbert-2x64", "packed"),
    ("unigram", "roberta", "roberta-1x64", "packed"),
    ("unigram", "bert", "megatron-bert-1x64", "padded")])
def test_models_train_with_it_and_load_in_transformers(run: Run, corpus: Path, tmp_path: Path,
                                                       tokenizer_type: str, special_tokens: str,
                                                       architecture: str, layout: str) -> None:
    made = run("build-vocab", corpus, "-o", tmp_path / "tok", "--tokenizer-type", tokenizer_type,
               "--special-tokens", special_tokens, "--size", "280", "--allow-fewer")
    assert made.code == 0, made.err
    outcome = run("pretrain", corpus, "--architecture", architecture, "--tokenizer",
                  tmp_path / "tok", "--layout", layout, "--max-length", 32, "--batch-size", 8,
                  "--steps", 20, "--set", "logging_steps=20", "--learning-rate", "3e-3",
                  "-o", tmp_path / "model")
    assert outcome.code == 0, outcome.err
    assert outcome.records[0]["loss"] < 5.5
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    text = "Il cuore pompa il sangue"
    assert tokenizer(text)["input_ids"] == \
        AutoTokenizer.from_pretrained(tmp_path / "tok")(text)["input_ids"]
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "model")
    logits = model(**tokenizer(text, return_tensors="pt")).logits
    assert logits.shape[-1] >= len(tokenizer)
