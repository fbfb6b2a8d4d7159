"""States of new tokens in sentences: sampled as requested, read once, as in separate sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.transfer.context_embeddings import (
    Sentence,
    contextual_embeddings,
    locate_pieces,
    sample_sentences,
)

pytestmark = pytest.mark.usefixtures("one_thread")
SPECIAL = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
PIECES = ["the", "in", "of", "was", "grew", "lym", "##pho", "##ma", "car", "##cin", "##oma",
          "cell", "##s", ","]
NEW = ["lymphoma", "carcinoma", "cells", "Cells"]
TEXTS = ["the lymphoma grew", "the lymphoma was in cells", "cells of the carcinoma",
         "in the carcinoma , the lymphoma grew of cells , of cells", "the car was in the car"]


def tokenizer(tokens: list[str], uncased: bool = True) -> Any:
    return BertTokenizer(vocab={token: n for n, token in enumerate([*SPECIAL, *tokens])},
                         do_lower_case=uncased)


OLD_WORDS, NEW_WORDS = tokenizer(PIECES), tokenizer([*PIECES, *NEW], uncased=False)


def drawn(sentences: list[Sentence], most: int = 20, seed: int = 0) -> dict[str, Any]:
    is_new = np.zeros(len(NEW_WORDS), dtype=bool)
    is_new[NEW_WORDS.convert_tokens_to_ids(NEW)] = True
    found = sample_sentences(BASE, NEW_WORDS, is_new, sentences, most,
                             np.random.default_rng(seed))
    return {text: [(NEW_WORDS.convert_ids_to_tokens(token), start, end)
                   for token, start, end in spans] for text, spans in found.items()}


def base_of(model: Any) -> Checkpoint:
    return Checkpoint(Path(), model, OLD_WORDS, "")


def small_bert() -> Checkpoint:
    config = build_config("bert-1x64", OLD_WORDS)
    config.max_position_embeddings = 40
    return base_of(build_model(config).eval())


BASE = small_bert()


@torch.inference_mode()
def one_at_a_time(base: Checkpoint, occurrences: Any, layers: list[int]) -> dict[int, Any]:
    """Read each sentence separately, without padding, with transformers."""
    found: dict[int, list[torch.Tensor]] = {}
    for text, spans in occurrences.items():
        given = base.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = given["offset_mapping"][0].tolist()
        output = base.model.base_model(input_ids=given["input_ids"], output_hidden_states=True)
        every = [*output.hidden_states[:-1], output.last_hidden_state]
        states = torch.stack([every[number][0] for number in layers]).mean(dim=0)
        for token, start, end in spans:
            inside = [n for n, (first, last) in enumerate(offsets) if first < end and start < last]
            found.setdefault(token, []).append(states[inside].mean(dim=0))
    return {token: torch.stack(vectors).mean(dim=0) for token, vectors in found.items()}


@pytest.mark.parametrize(("layers", "numbers"), [
    ("last", [-1]), ("all", [0, 1, 2, 3]), ("0,-1", [0, 3]), ("2", [2])])
def test_batches_equal_one_sentence_at_a_time(model: Any, layers: str,
                                              numbers: list[int]) -> None:
    base = base_of(model)
    is_new = np.zeros(len(NEW_WORDS), dtype=bool)
    is_new[NEW_WORDS.convert_tokens_to_ids(NEW)] = True
    occurrences = sample_sentences(base, NEW_WORDS, is_new, map(Sentence, TEXTS), 20,
                                   np.random.default_rng(0))
    expected = one_at_a_time(base, occurrences, numbers)
    for batch_tokens in (1, 20, 4_096):
        found = contextual_embeddings(base, locate_pieces(base, occurrences), layers, batch_tokens)
        assert found.tokens.tolist() == sorted(expected)
        for token, vector in zip(found.tokens.tolist(), found.vectors, strict=True):
            torch.testing.assert_close(vector, expected[token], atol=1e-5, rtol=0)


def test_targets_replace_other_occurrences_of_their_tokens() -> None:
    """`lymphoma` is a target in one sentence, so only its occurrences as a target are used."""
    sentences = [Sentence(TEXTS[0], (("lymphoma", 4, 12),)), Sentence(TEXTS[1]),
                 Sentence(TEXTS[3], (("cells", 51, 56), ("carcinoma", 7, 16)))]
    found = drawn(sentences)
    assert found[TEXTS[0]] == [("lymphoma", 4, 12)]
    assert found[TEXTS[3]] == [("carcinoma", 7, 16), ("cells", 51, 56)]
    assert TEXTS[1] not in found
    late = drawn(sentences[::-1])
    assert {text: sorted(spans) for text, spans in late.items()} == {
        text: sorted(spans) for text, spans in found.items()}


def test_sentences_too_long_for_the_base_are_skipped() -> None:
    base = small_bert()
    number = NEW_WORDS.convert_tokens_to_ids("lymphoma")
    long = "the lymphoma " * 30
    located = locate_pieces(base, {long: [(number, 4, 12)], TEXTS[0]: [(number, 4, 12)],
                                   "\u200b": [(number, 0, 1)]})
    assert len(located.input_ids) == 1
    assert (located.starts.tolist(), located.ends.tolist()) == ([2], [5])
    nothing = locate_pieces(base, {})
    assert not len(contextual_embeddings(base, nothing, "last", 100).tokens)


@pytest.mark.parametrize("most", [1, 20])
def test_only_occurrences_that_pieces_cover_exactly_are_sampled(most: int) -> None:
    """`##oma` is two pieces of `glauc ##o ##ma`, and begins inside one of `lym ##pho ##ma`."""
    old = tokenizer(["the", "lym", "##pho", "##ma", "glauc", "##o"])
    new = tokenizer(["the", "lymph", "glauc", "##oma", "of"])
    base = Checkpoint(Path(), BASE.model, old, "")
    is_new = np.zeros(len(new), dtype=bool)
    is_new[new.convert_tokens_to_ids(["lymph", "##oma", "of"])] = True
    texts = [*["the lymphoma"] * 30, "the lymphoma, glaucoma", "of " * 50]
    found = sample_sentences(base, new, is_new, map(Sentence, texts), most,
                             np.random.default_rng(0))
    assert found == {texts[-2]: [(new.convert_tokens_to_ids("##oma"), 19, 22)]}
    targets = (("lymph", 4, 9),)
    again = sample_sentences(base, new, is_new, [Sentence(texts[0], targets)], most,
                             np.random.default_rng(0))
    assert again == {}
