"""Masked spans: variants compared with a simple version, and windows by context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.pppl_sentences import (
    EncodedSentence,
    encode_sentence,
    masked_spans,
)
from bmtools.scoring.predictor import special_ids
from bmtools.scoring.settings import InferenceConfig, Variant


def read(model: Any, text: str) -> EncodedSentence:
    return encode_sentence(model.tokenizer, text)


def made_up(tokens: int, seed: int = 0) -> EncodedSentence:
    """Make words of one to four tokens, with one mark before them and two after them."""
    rng = np.random.default_rng(seed)
    words = np.repeat(np.arange(tokens), rng.integers(1, 5, tokens))[:tokens]
    return EncodedSentence(np.arange(tokens + 3), np.array([-1, *words, -2, -3]),
                           np.arange(1, tokens + 1), np.zeros(tokens + 3))


def simple_spans(sentence: EncodedSentence, variant: Variant) -> list[tuple[int, int]]:
    """Choose spans position by position, as described by Kauf and Ivanova 2023."""
    spans = []
    scored = set(sentence.positions.tolist())
    for position in sorted(scored):
        word = sentence.word_ids[position]
        end = position + 1
        while end in scored and sentence.word_ids[end] == word:
            end += 1
        spans.append((position, position + 1 if variant == "original" else end))
    return spans


@pytest.mark.parametrize("variant", ["original", "within-word"])
def test_spans_equal_a_simple_version(variant: Variant, any_model: CheckpointPredictor) -> None:
    texts = ["L'articolazione della spalla è dolente; perché?", "Il", "già al 60%", "...",
             "La malattia di Parkinsonxyz riduce la dopamina nel cervello."]
    for text in texts:
        sentence = read(any_model, text)
        assert list(map(tuple, masked_spans(sentence, variant))) == simple_spans(sentence, variant)
    for seed in range(5):
        sentence = made_up(50, seed)
        assert list(map(tuple, masked_spans(sentence, variant))) == simple_spans(sentence, variant)


def test_special_tokens_in_a_text_are_read_as_text(any_model: CheckpointPredictor) -> None:
    """Special tokens from an author or an attacker are read and scored as characters."""
    model = CheckpointPredictor(any_model.checkpoint, InferenceConfig())
    special = special_ids(model.tokenizer)
    for token in sorted({*model.tokenizer.all_special_tokens, "[SEP]", "</s>", "[MASK]"}):
        text = f"Il cuore {token} batte."
        sentence = read(model, text)
        assert not special & set(sentence.input_ids[sentence.positions].tolist())
        assert len(sentence.positions) == len(sentence.input_ids) - 2
        plain = read(model, "Il cuore batte.")
        assert len(sentence.positions) > len(plain.positions)
