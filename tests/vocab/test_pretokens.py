"""Counts of words, which equal the counts of separately split texts."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bmtools.vocab.pretokens import count_pretokens, pretokenize, train_model
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import make_pipeline

SIGNS = ["a", "Be", "tNF", "7", "10", " ", " ", "  ", "\n", "\t ", ",", "-", "'", "è", "e\u0301",
         "\u03b1", "\u00b5g", "\u4e2d", "\u00a0", "\ufb01", "'s"]
CHOICES: list[dict[str, Any]] = [
    {}, {"uncased": True, "strip_accents": True, "split_digits": True},
    {"unicode": "nfkc"}, {"unicode": "none"}]
TYPES = ("wordpiece", "bpe", "unigram")


def backend(tokenizer_type: str, choices: dict[str, Any]) -> Tokenizer:
    return make_pipeline(VocabularyConfig(tokenizer_type=tokenizer_type, **choices))


@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: ",".join(choices) or "plain")
@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_counts_equal_counts_of_complete_texts(tokenizer_type: str,
                                               choices: dict[str, Any]) -> None:
    rng = random.Random(0)
    texts = ["".join(rng.choices(SIGNS, k=rng.randrange(40))) for _ in range(400)]
    made = backend(tokenizer_type, choices)
    expected = Counter(word for text in texts for word in pretokenize(text, made))
    assert count_pretokens(texts, made) == expected
    assert len(expected) > 200


@pytest.mark.data
@pytest.mark.parametrize("tokenizer_type", TYPES)
def test_counts_of_real_text_equal_counts_of_complete_texts(tokenizer_type: str,
                                                            data: Path) -> None:
    lines = (data / "it/corpus/native-clinical.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["text"] for line in lines[:150]]
    made = backend(tokenizer_type, {"split_digits": True})
    assert count_pretokens(texts, made) == Counter(
        word for text in texts for word in pretokenize(text, made))


def test_texts_are_not_split_if_the_tokenizer_forbids_it() -> None:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    assert count_pretokens(["il cuore", "il cuore"], made) == {"\u2581il\u2581cuore": 2}


def test_training_on_counts_equals_training_on_repeated_words() -> None:
    words = Counter({"abab": 2_500, "abc": 3, "bc": 1})
    trainer = trainers.BpeTrainer(vocab_size=6, show_progress=False)
    expected = Tokenizer(models.BPE())
    expected.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    expected.train_from_iterator(words.elements(), trainer)
    assert json.loads(Tokenizer(train_model(models.BPE(), trainer, words)).to_str())["model"] == \
        json.loads(expected.to_str())["model"]
