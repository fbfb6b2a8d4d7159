"""Vectors of words in their surroundings, against what transformers itself gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.scoring.embedding_space import prepare_spaces
from bmtools.scoring.settings import EmbeddingSpaceConfig, StateReadingConfig
from bmtools.scoring.space_sample import WordContext
from bmtools.scoring.space_vectors import (
    WordVectors,
    are_single_tokens,
    fit_contexts,
    read_vectors,
)

TEXT = "Il cuore pompa il sangue nelle arterie."
LONG = " ".join(["Il cuore pompa"] * 30)

pytestmark = pytest.mark.usefixtures("one_thread")


def vectors(contexts: list[WordContext], *models: Any, layers: str = "last",
            **inference: Any) -> list[WordVectors]:
    return list(read_vectors(contexts, [model.checkpoint for model in models], layers,
                             StateReadingConfig(**inference)))


def contexts_of(text: str, *words: str) -> list[WordContext]:
    return [WordContext(number, text, text.index(word), text.index(word) + len(word))
            for number, word in enumerate(words)]


def states_by_hand(model: Any, context: WordContext, layer: int) -> np.ndarray:
    """Run one text through transformers and average the tokens that touch the word."""
    tokenizer = model.tokenizer
    encoding = tokenizer.backend_tokenizer.encode(context.text, add_special_tokens=False)
    ids = [tokenizer.cls_token_id, *encoding.ids, tokenizer.sep_token_id]
    with torch.no_grad():
        hidden = model.checkpoint.model(
            input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    states = hidden[layer][0]
    touching = [position for position, (start, end) in enumerate(encoding.offsets, 1)
                if context.text[start:end].strip() and start < context.end and end > context.start]
    return states[touching].mean(dim=0).numpy()


@pytest.mark.parametrize(("layers", "layer"), [("0", 0), ("1", 1), ("2", 2), ("last", -1)])
def test_vectors_are_means_of_transformers_own_states(any_model: Any, layers: str,
                                                      layer: int) -> None:
    contexts = [*contexts_of(TEXT, "cuore", "sangue", "arterie"),
                *contexts_of("L'asma riduce il respiro.", "asma", "respiro")]
    [found] = vectors(contexts, any_model, layers=layers, batch_tokens=30)
    assert found.contexts.tolist() == [0, 1, 2, 3, 4]
    expected = np.stack([states_by_hand(any_model, context, layer) for context in contexts])
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)


def test_all_layers_are_their_mean(wordpiece: Any) -> None:
    contexts = contexts_of(TEXT, "cuore", "sangue")
    [found] = vectors(contexts, wordpiece, layers="all")
    expected = np.mean([[states_by_hand(wordpiece, context, layer) for context in contexts]
                        for layer in range(3)], axis=0)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)


def test_the_size_of_batches_changes_nothing(any_model: Any) -> None:
    contexts = [*contexts_of(TEXT, "cuore", "sangue"), *contexts_of("L'asma.", "asma"),
                *contexts_of(TEXT[3:20], "pompa")]
    [one], [other] = (vectors(contexts, any_model, batch_tokens=tokens) for tokens in (1, 4096))
    np.testing.assert_allclose(one.vectors, other.vectors, atol=2e-6)
    assert one.token_counts.tolist() == other.token_counts.tolist()


def test_token_counts_and_unknown_words(wordpiece: Any) -> None:
    contexts = contexts_of("\u0416\u0416\u0416 cuore", "\u0416\u0416\u0416", "cuore")
    [found] = vectors(contexts, wordpiece)
    own = wordpiece.tokenizer.backend_tokenizer.encode("cuore", add_special_tokens=False)
    assert found.token_counts.tolist() == [1, len(own.ids)]
    assert found.unknown.tolist() == [True, False]


def test_contexts_shrink_for_all_until_all_fit(wordpiece: Any, modernbert: Any) -> None:
    checkpoints = [wordpiece.checkpoint, modernbert.checkpoint]
    position = LONG.index("cuore", 200)
    contexts = [WordContext(0, LONG, position, position + 5), *contexts_of(TEXT, "sangue")]
    fitting = fit_contexts(contexts, checkpoints, len(LONG))
    assert fitting[1] == contexts[1]
    assert fitting[0].text[fitting[0].start:fitting[0].end] == "cuore"
    assert 20 < len(fitting[0].text) < len(LONG)
    sizes = [len(one.tokenizer(fitting[0].text)["input_ids"]) for one in checkpoints]
    assert max(sizes) <= 64
    assert [found.contexts.tolist() for found in vectors(fitting, wordpiece, modernbert)] \
        == [[0, 1], [0, 1]]


def test_a_word_that_no_model_can_read_is_left_out_for_all(wordpiece: Any) -> None:
    monster = "".join(chr(ord("a") + number % 26) for number in range(400))
    contexts = [WordContext(0, f"{monster} cuore", 0, 400), *contexts_of(TEXT, "sangue")]
    fitting = fit_contexts(contexts, [wordpiece.checkpoint], 150)
    sizes = len(wordpiece.tokenizer(fitting[0].text)["input_ids"])
    [found] = vectors(fitting, wordpiece)
    assert found.contexts.tolist() == ([0, 1] if sizes <= 64 else [1])


def test_whole_words_are_one_token_to_all(known: Any) -> None:
    one, other = (known(dict.fromkeys(words, 1)).checkpoint
                  for words in (("cuore", "asma"), ("cuore", "rene")))
    forms = ["cuore", "asma", "rene"]
    assert are_single_tokens(forms, [one]).tolist() == [True, True, False]
    assert are_single_tokens(forms, [one, other]).tolist() == [True, False, False]


def test_a_layer_that_is_not_there(wordpiece: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_checkpoint(path, wordpiece.checkpoint.model, wordpiece.tokenizer,
                    Manifest("test", {}, wordpiece.vocabulary))
    inference = StateReadingConfig(device="cpu")
    with pytest.raises(DataError, match="no words in the input"):
        prepare_spaces([], path, EmbeddingSpaceConfig(layers="-3,2"), inference)
    for number in (3, -4):
        with pytest.raises(BmtoolsError) as raised:
            prepare_spaces([], path, EmbeddingSpaceConfig(layers=f"0,{number}"), inference)
        assert str(raised.value) == (f"layers: found {number}, but {path} has layers 1 to 2, and "
                                     "0 for its embeddings")
