"""Masked spans: variants against a plain twin, windows by the context of each position."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from transformers import BertTokenizer

from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.pppl_sentences import (
    EncodedSentence,
    encode_sentence,
    masked_spans,
    sample_spans,
    split_into_windows,
)
from bmtools.scoring.predictor import special_ids
from bmtools.scoring.settings import InferenceConfig, PpplConfig, Variant


def read(model: Any, text: str) -> EncodedSentence:
    return encode_sentence(model.tokenizer, text)


def made_up(tokens: int, seed: int = 0) -> EncodedSentence:
    """Words of one to four tokens between one mark before and two behind."""
    rng = np.random.default_rng(seed)
    words = np.repeat(np.arange(tokens), rng.integers(1, 5, tokens))[:tokens]
    return EncodedSentence(np.arange(tokens + 3), np.array([-1, *words, -2, -3]),
                           np.arange(1, tokens + 1), np.zeros(tokens + 3), 1, 2)


def twin(sentence: EncodedSentence, variant: Variant) -> list[tuple[int, int]]:
    """Position by position, as Kauf and Ivanova 2023 put it in words."""
    spans = []
    scored = set(sentence.positions.tolist())
    for position in sorted(scored):
        word = sentence.word_ids[position]
        end = position + 1
        while end in scored and sentence.word_ids[end] == word:
            end += 1
        begins = position - 1 not in scored or sentence.word_ids[position - 1] != word
        if variant == "original":
            spans.append((position, position + 1))
        elif variant == "within-word" or begins:
            spans.append((position, end))
    return spans


@pytest.mark.parametrize("variant", ["original", "within-word", "whole-word"])
def test_spans_equal_a_plain_twin(variant: Variant, any_model: CheckpointPredictor) -> None:
    texts = ["L'articolazione della spalla è dolente; perché?", "Il", "già al 60%", "...",
             "La malattia di Parkinsonxyz riduce la dopamina nel cervello."]
    for text in texts:
        sentence = read(any_model, text)
        assert list(map(tuple, masked_spans(sentence, variant))) == twin(sentence, variant)
    for seed in range(5):
        sentence = made_up(50, seed)
        assert list(map(tuple, masked_spans(sentence, variant))) == twin(sentence, variant)


def test_special_tokens_in_a_text_are_text(any_model: CheckpointPredictor) -> None:
    """Written by an author, or put there by an attacker: characters, read and scored as such."""
    model = CheckpointPredictor(any_model.checkpoint, InferenceConfig())
    special = special_ids(model.tokenizer)
    for token in sorted({*model.tokenizer.all_special_tokens, "[SEP]", "</s>", "[MASK]"}):
        text = f"Il cuore {token} batte."
        sentence = read(model, text)
        assert not special & set(sentence.input_ids[sentence.positions].tolist())
        assert len(sentence.positions) == len(sentence.input_ids) - 2
        plain = read(model, "Il cuore batte.")
        assert len(sentence.positions) > len(plain.positions)


def test_unknown_tokens_are_spelled_out_in_bytes(unigram: CheckpointPredictor) -> None:
    """8 bits for each byte of UTF-8, and 8 for the end."""
    tokenizer = BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4,
                                     "il": 5, ".": 6}, do_lower_case=False)
    sentence = encode_sentence(tokenizer, "il caffè è 😀.")
    bits = sentence.spelling_nats / math.log(2)
    assert bits.tolist() == pytest.approx([0, 0, 8 * 7, 8 * 3, 8 * 5, 0, 0])
    sentence = read(unigram, "Il cuore 😀 batte.")
    assert sentence.spelling_nats.sum() / math.log(2) == pytest.approx(8 * 5)


@pytest.mark.parametrize("variant", ["original", "within-word", "whole-word"])
@pytest.mark.parametrize(("tokens", "most", "context"), [
    (10, 13, 2), (11, 13, 2), (100, 23, 3), (100, 23, 8), (101, 64, 20), (500, 60, 1)])
def test_windows_predict_everything_once_with_enough_context(
        variant: Variant, tokens: int, most: int, context: int) -> None:
    sentence = made_up(tokens)
    spans = masked_spans(sentence, variant)
    parts = split_into_windows(sentence, spans, PpplConfig(variant, context_tokens=context), most)
    seen = []
    for part in parts:
        assert len(part.input_ids) <= most
        assert part.input_ids[0] == 0
        assert part.input_ids[-2:].tolist() == [tokens + 1, tokens + 2]
        # Ids are positions here, so a part shows where it was cut out.
        begin, end = int(part.input_ids[1]), int(part.input_ids[-3])
        assert part.input_ids[1:-2].tolist() == list(range(begin, end + 1))
        for first, stop in part.spans + begin - 1:
            seen.append((first, stop))
            assert first - begin >= min(context, first - 1)
            assert end + 1 - stop >= min(context, tokens + 1 - stop)
    assert sorted(seen) == sorted(map(tuple, spans))
    assert (len(parts) == 1) == (tokens + 3 <= most)


def test_a_context_that_leaves_no_room_is_refused() -> None:
    sentence = made_up(100)
    spans = masked_spans(sentence, "original")
    with pytest.raises(ValueError, match="context_tokens: found 10, expected at most 9"):
        split_into_windows(sentence, spans, PpplConfig(context_tokens=10), 23)
    assert split_into_windows(sentence, spans, PpplConfig(context_tokens=9), 23)


def test_samples_depend_on_name_and_seed_alone() -> None:
    spans = masked_spans(made_up(20_000), "original")
    kept = sample_spans(spans, 0.1, "Il cuore batte.", 0)
    assert 1_850 < len(kept) < 2_150
    assert (sample_spans(spans, 0.1, "Il cuore batte.", 0) == kept).all()
    other = sample_spans(spans, 0.1, "Il rene.", 0)
    another = sample_spans(spans, 0.1, "Il cuore batte.", 1)
    for different in (other, another):
        shared = len(set(map(tuple, different)) & set(map(tuple, kept)))
        assert 120 < shared < 290
    assert (sample_spans(spans, 1, "Il cuore batte.", 0) == spans).all()
