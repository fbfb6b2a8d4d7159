"""`bmtools build-vocab` as people call it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

Run = Callable[..., Any]


def test_stdout_is_one_line_about_the_directory(
        run: Run, corpus: Path, tmp_path: Path, manifest: Callable[..., Any]) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120")
    assert outcome.code == 0, outcome.err
    size = len("".join(json.loads(line)["text"] for line in corpus.read_text().splitlines())
               .encode())
    assert outcome.records == [{
        "tokenizer": str(tmp_path / "tok"), "vocab_size": 120, "requested_size": 120,
        "tokenizer_type": "wordpiece", "special_tokens": "bert", "uncased": False,
        "sample": {"documents": 8, "total_documents": 8, "bytes": size, "total_bytes": size},
        "vocabulary": manifest(tmp_path / "tok")["vocabulary"]}]


def test_the_directory_says_how_it_was_made(
        run: Run, corpus: Path, tmp_path: Path, manifest: Callable[..., Any]) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "120", "--uncased")
    content = manifest(tmp_path / "tok")
    assert content["command"] == "build-vocab"
    assert content["settings"].items() >= {
        "size": 120, "uncased": True, "strip_accents": False, "min_frequency": 2,
        "max_alphabet": 1000, "tokenizer_type": "wordpiece", "unicode": "nfc",
        "extend": None}.items()
    assert content["inputs"] == {corpus.name: hashlib.sha256(corpus.read_bytes()).hexdigest()}
    assert content["results"].items() >= {"vocab_size": 120, "requested_size": 120}.items()
    assert (content["seed"], content["parents"], content["tokens_seen"]) == (0, {}, 0)
    assert content["wall_seconds"] > 0
    assert {"bmtools", "tokenizers", "transformers"} <= set(content["versions"])


def test_transformers_loads_it_with_its_casing(run: Run, corpus: Path, tmp_path: Path) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "cased", "--size", "150", "--allow-fewer")
    run("build-vocab", corpus, "-o", tmp_path / "uncased", "--size", "150", "--uncased",
        "--allow-fewer")
    cased, uncased = (AutoTokenizer.from_pretrained(tmp_path / name)
                      for name in ("cased", "uncased"))
    assert cased.decode(cased("Il cuore")["input_ids"]) == "[CLS] Il cuore [SEP]"
    assert uncased.decode(uncased("Il cuore")["input_ids"]) == "[CLS] il cuore [SEP]"
    lines = (tmp_path / "cased/vocab.txt").read_text("utf-8").splitlines()
    assert cased.get_vocab() == {token: number for number, token in enumerate(lines)}


def test_titles_are_read_too(run: Run, write_lines: Run, tmp_path: Path) -> None:
    path = write_lines("t.jsonl", {"id": "a", "title": "zzz zzz", "text": "il cuore"})
    run("build-vocab", path, "-o", tmp_path / "tok", "--size", "100", "--allow-fewer")
    assert "zzz" in (tmp_path / "tok/vocab.txt").read_text().splitlines()


def test_several_files_are_one_corpus(run: Run, corpus: Path, write_lines: Run, tmp_path: Path,
                                      manifest: Callable[..., Any]) -> None:
    more = write_lines("more.jsonl", {"id": "x", "text": "xyxy xyxy"})
    run("build-vocab", corpus, more, "-o", tmp_path / "tok", "--size", "150", "--allow-fewer")
    assert set(manifest(tmp_path / "tok")["inputs"]) == {corpus.name, more.name}
    assert "xyxy" in (tmp_path / "tok/vocab.txt").read_text().splitlines()


def test_a_full_directory_is_kept_unless_told(run: Run, corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "tok"
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    outcome = run("build-vocab", corpus, "-o", target, "--size", "120")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {target} is not empty; give another name, or --overwrite "
                           "to replace it\n")
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert run("build-vocab", corpus, "-o", target, "--size", "120", "--overwrite").code == 0
    assert {path.name for path in target.iterdir()} == {
        "tokenizer.json", "tokenizer_config.json", "vocab.txt", "bmtools.json"}


def test_a_size_beyond_the_text_is_an_error_unless_told(run: Run, corpus: Path,
                                                        tmp_path: Path) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "5000")
    assert (outcome.code, outcome.out) == (1, "")
    assert "--size: found 5000, but the text supports " in outcome.err
    assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "5000", "--allow-fewer")
    assert (outcome.code, outcome.records[0]["requested_size"]) == (0, 5000)
    assert 100 < outcome.records[0]["vocab_size"] < 300


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe", "unigram"])
def test_a_bound_draws_the_same_documents_from_a_file_and_a_pipe(
        run: Run, piped: Run, write_lines: Run, tmp_path: Path, contents: Callable[..., Any],
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


def test_a_bound_without_room_for_a_document_is_an_error(run: Run, corpus: Path,
                                                         tmp_path: Path) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--sample-megabytes", "1e-6")
    assert (outcome.code, outcome.out) == (1, "")
    assert "--sample-megabytes: found a bound of 1 bytes" in outcome.err


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe", "unigram"])
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
    # WordPiece spells words now that were one unknown token before.
    assert tokenizer_type == "wordpiece" or line["text_tokens_after"] <= line["text_tokens_before"]
    before, after = (AutoTokenizer.from_pretrained(tmp_path / name).get_vocab()
                     for name in ("old", "tok"))
    assert {token: after[token] for token in before} == before
    assert set(manifest(tmp_path / "tok")["parents"]) == {"extended"}


def test_what_cannot_be_extended_is_one_clear_line(run: Run, corpus: Path, tmp_path: Path) -> None:
    run("build-vocab", corpus, "-o", tmp_path / "old", "--size", "120")
    asked = ("build-vocab", corpus, "-o", tmp_path / "tok", "--extend", tmp_path / "old")
    for more, message in (
            (("--tokenizer-type", "bpe"),
             "old: found a wordpiece tokenizer, expected bpe; leave --tokenizer-type out"),
            (("--size", "110"), "old holds 120 tokens already; expected more"),
            (("--size", "9000"), "tokens beside those of")):
        outcome = run(*asked, *more)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (1, "", 1)
        assert message in outcome.err
    backend = Tokenizer(models.WordLevel({"<unk>": 0, "il": 1}, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(tmp_path / "words")
    outcome = run(*asked[:-1], tmp_path / "words")
    assert outcome.err == (
        f"bmtools: {tmp_path / 'words'}: found a tokenizer of the type WordLevel, expected one of "
        "WordPiece, BPE, Unigram; train a new vocabulary instead\n")


@pytest.mark.data
def test_a_size_is_chosen_by_data(run: Run, data: Path, tmp_path: Path,
                                  manifest: Callable[..., Any]) -> None:
    source = data / "it/corpus/native-clinical.jsonl"
    terms = tmp_path / "terms.txt"
    terms.write_text("diabete mellito\n\npolmonite\n", encoding="utf-8")
    outcome = run("build-vocab", source, "-o", tmp_path / "tok", "--size", "auto", "--set",
                  "candidates=1000,2000,4000,8000", "--terms", terms, "--set", "hidden_size=100",
                  "--set", "held_out_ratio=0.2")
    assert outcome.code == 0, outcome.err
    [line] = outcome.records
    assert (line["requested_size"], line["vocab_size"]) == ("auto", line["chosen_size"])
    assert [point["size"] for point in line["curve"]] == [1000, 2000, 4000, 8000]
    assert line["curve"][0]["parameters"] == 100_000
    assert {"tokens", "pieces_per_word", "whole_share", "term_pieces_per_word",
            "term_whole_share", "relative_tokens"} <= set(line["curve"][0])
    assert line["chosen_size"] == max(line["knee"], line["term_knee"])
    assert manifest(tmp_path / "tok")["results"]["curve"] == line["curve"]
    terms.write_text("\n")
    outcome = run("build-vocab", source, "-o", tmp_path / "none", "--size", "auto", "--terms",
                  terms)
    assert outcome.err == f"bmtools: {terms}: found no terms, expected one a line\n"


def test_too_little_text_for_candidates_is_one_clear_line(run: Run, corpus: Path,
                                                          tmp_path: Path) -> None:
    outcome = run("build-vocab", corpus, "-o", tmp_path / "tok", "--size", "auto",
                  "--set",
                  "held_out_ratio=0.5")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "of which the text supports 0; expected 3 at least" in outcome.err
    assert re.search(r"give others, more text, or a number in place of auto: --size \d+ "
                     r"--allow-fewer$", outcome.err.strip())


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("tokenizer_type", "special_tokens", "architecture", "layout"), [
    ("wordpiece", "bert", "bert-1x64", "packed"), ("bpe", "roberta", "roberta-1x64", "padded"),
    ("bpe", "modernbert", "modernbert-2x64", "packed"),
    ("unigram", "roberta", "roberta-1x64", "packed"),
    ("unigram", "bert", "megatron-bert-1x64", "padded")])
def test_models_train_on_it_and_load_elsewhere(run: Run, corpus: Path, tmp_path: Path,
                                               tokenizer_type: str,
                                               special_tokens: str, architecture: str,
                                               layout: str) -> None:
    made = run("build-vocab", corpus, "-o", tmp_path / "tok", "--tokenizer-type", tokenizer_type,
               "--special-tokens", special_tokens, "--size", "280", "--allow-fewer")
    assert made.code == 0, made.err
    outcome = run("pretrain", corpus, "--architecture", architecture, "--tokenizer",
                  tmp_path / "tok", "--layout", layout, "--max-length", 32, "--batch-size", 8,
                  "--steps", 20, "--logging-steps", 20, "--learning-rate", "3e-3",
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
