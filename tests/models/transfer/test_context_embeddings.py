"""States of new tokens in sentences: sampled as asked, read once, as if each were read alone."""

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
    pieces_alone,
    sample_occurrences,
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


def sampled(base: Checkpoint, sentences: Any, most: int = 20, words: Any = NEW_WORDS,
            new: Any = NEW) -> Any:
    is_new = np.zeros(len(words), dtype=bool)
    is_new[words.convert_tokens_to_ids(new)] = True
    return sample_occurrences(base, words, is_new, sentences, most, np.random.default_rng(0))


def spelled(base: Checkpoint, found: Any, words: Any = NEW_WORDS) -> dict[str, Any]:
    """Tokens with their pieces, by sentence."""
    names, by_sentence = base.tokenizer.convert_ids_to_tokens, dict[str, Any]()
    for number, token, start, end in zip(found.sentences, found.tokens, found.starts, found.ends,
                                         strict=True):
        ids = found.input_ids[number]
        by_sentence.setdefault(" ".join(names(ids[1:-1])), []).append(
            (words.convert_ids_to_tokens(int(token)), *names(ids[start:end])))
    return by_sentence


def base_of(model: Any) -> Checkpoint:
    return Checkpoint(Path(), model, OLD_WORDS, "")


def small_bert() -> Checkpoint:
    config = build_config("bert-1x64", OLD_WORDS)
    config.max_position_embeddings = 40
    return base_of(build_model(config).eval())


BASE = small_bert()


@torch.inference_mode()
def one_at_a_time(base: Checkpoint, occurrences: Any, layers: list[int]) -> dict[int, Any]:
    """Each sentence alone, without padding, through transformers' own output."""
    found: dict[int, list[torch.Tensor]] = {}
    for number, token, start, end in zip(occurrences.sentences, occurrences.tokens.tolist(),
                                         occurrences.starts, occurrences.ends, strict=True):
        ids = torch.from_numpy(occurrences.input_ids[number])[None]
        output = base.model.base_model(input_ids=ids, output_hidden_states=True)
        every = [*output.hidden_states[:-1], output.last_hidden_state]
        states = torch.stack([every[number][0] for number in layers]).mean(dim=0)
        found.setdefault(token, []).append(states[start:end].mean(dim=0))
    return {token: torch.stack(vectors).mean(dim=0) for token, vectors in found.items()}


@pytest.mark.parametrize(("layers", "numbers"), [
    ("last", [-1]), ("all", [0, 1, 2, 3]), ("0,-1", [0, 3]), ("2", [2])])
def test_batches_equal_one_sentence_at_a_time(model: Any, layers: str,
                                              numbers: list[int]) -> None:
    base = base_of(model)
    occurrences = sampled(base, map(Sentence, TEXTS))
    expected = one_at_a_time(base, occurrences, numbers)
    for batch_tokens in (1, 20, 4_096):
        tokens, vectors = contextual_embeddings(base, occurrences, layers, batch_tokens)
        assert tokens.tolist() == sorted(expected)
        for token, vector in zip(tokens.tolist(), vectors, strict=True):
            torch.testing.assert_close(vector, expected[token], atol=1e-5, rtol=0)


def test_targets_replace_other_occurrences_of_their_tokens() -> None:
    """`lymphoma` is a target somewhere, so it is used where it is one, and nowhere else."""
    sentences = [Sentence(TEXTS[0], (("lymphoma", 4, 12),)), Sentence(TEXTS[1]),
                 Sentence(TEXTS[3], (("cells", 51, 56), ("carcinoma", 7, 16)))]
    last = "in the car ##cin ##oma , the lym ##pho ##ma grew of cell ##s , of cell ##s"
    for given in (sentences, sentences[::-1]):
        assert spelled(BASE, sampled(BASE, given)) == {
            "the lym ##pho ##ma grew": [("lymphoma", "lym", "##pho", "##ma")],
            last: [("carcinoma", "car", "##cin", "##oma"), ("cells", "cell", "##s")]}


def test_sentences_too_long_for_the_base_are_left_out() -> None:
    number = NEW_WORDS.convert_tokens_to_ids("lymphoma")
    found = sampled(BASE, map(Sentence, ["the lymphoma " * 30, TEXTS[0], "\u200b"]))
    assert len(found.input_ids) == 1
    assert (found.starts.tolist(), found.ends.tolist()) == ([2], [5])
    nothing = pieces_alone(BASE, {number: [5] * 50})
    assert not len(contextual_embeddings(BASE, nothing, "last", 100)[0])


@pytest.mark.parametrize("most", [1, 20])
def test_only_occurrences_that_pieces_cover_exactly_are_sampled(most: int) -> None:
    """`##oma` is two pieces of `glauc ##o ##ma`, and begins inside one of `lym ##pho ##ma`."""
    old = tokenizer(["the", "lym", "##pho", "##ma", "glauc", "##o", ","])
    new = tokenizer(["the", "lymph", "glauc", "##oma", "of"])
    base = Checkpoint(Path(), BASE.model, old, "")
    texts = [*["the lymphoma"] * 30, "the lymphoma, glaucoma", "of " * 50]
    named = (new, ["lymph", "##oma", "of"])
    found = sampled(base, map(Sentence, texts), most, *named)
    assert spelled(base, found, new) == {
        "the lym ##pho ##ma , glauc ##o ##ma": [("##oma", "##o", "##ma")]}
    targets = (("lymph", 4, 9),)
    assert not len(sampled(base, [Sentence(texts[0], targets)], most, *named).tokens)
