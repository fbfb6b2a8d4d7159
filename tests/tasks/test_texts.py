"""Inputs of one text and of two, against the tokenizers' own calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bmtools.tasks.inputs import PairEncoder, longest_first
from bmtools.tasks.task import pad

TEXTS = ["il paziente ha l'asma", "", "due casi di febbre e dolore, con ipertensione arteriosa.",
         "diabete mellito " * 12]


@pytest.fixture(params=["bert", "roberta", "modernbert"])
def own(request: pytest.FixtureRequest, pair_tokenizers: dict[str, Any]) -> Any:
    """A tokenizer whose post-processor knows pairs."""
    return pair_tokenizers[request.param]


def encoder(tokenizer: Any, max_length: int, segments: int = 2) -> PairEncoder:
    config: Any = SimpleNamespace(type_vocab_size=segments)
    return PairEncoder(tokenizer, config, max_length)


@pytest.mark.parametrize("max_length", [8, 9, 16, 23, 512])
def test_inputs_equal_the_tokenizers_own(own: Any, max_length: int) -> None:
    pairs = [(first, second or None) for first in TEXTS for second in TEXTS]
    encoded = list(encoder(own, max_length).encode(pairs))
    for (first, second), found in zip(pairs, encoded, strict=True):
        expected = own(first, second, truncation="longest_first", max_length=max_length)
        assert found.ids.tolist() == expected["input_ids"]
        whole = own(first, second)["input_ids"]
        assert found.truncated == len(whole) - len(expected["input_ids"])
        if "token_type_ids" in expected:
            assert found.token_type_ids.tolist() == expected["token_type_ids"]
    own.backend_tokenizer.no_truncation()


def test_without_a_post_processor_the_format_is_berts(tokenizers: dict[str, Any]) -> None:
    tokenizer = tokenizers["metaspace"]
    [found] = encoder(tokenizer, 64).encode([("asma", "asma")])
    part = tokenizer.backend_tokenizer.encode("asma", add_special_tokens=False).ids
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    assert found.ids.tolist() == [cls, *part, sep, *part, sep]
    assert found.token_type_ids.tolist() == [0] * (len(part) + 2) + [1] * (len(part) + 1)


@pytest.mark.parametrize(("lengths", "size", "expected"), [
    ((3, 4), 9, (3, 4)), ((3, 9), 9, (3, 6)), ((9, 3), 9, (6, 3)), ((9, 9), 9, (4, 5)),
    ((9, 8), 9, (5, 4)), ((0, 9), 4, (0, 4)), ((9, 0), 4, (4, 0))])
def test_the_longer_text_is_truncated_first(lengths: tuple[int, int], size: int,
                                            expected: tuple[int, int]) -> None:
    assert longest_first(*lengths, size) == expected


@pytest.mark.parametrize("segments", [1, 2])
def test_batches_are_padded_and_have_segments_where_the_model_has(own: Any, segments: int) -> None:
    pairs = encoder(own, 32, segments=segments)
    inputs = list(pairs.encode([("asma", None), ("due", "casi di febbre")]))
    batch = pairs.collate(inputs)
    assert ("token_type_ids" in batch) == (segments > 1)
    assert all(value.shape == (2, len(inputs[1])) for value in batch.values())
    assert batch["attention_mask"].sum(axis=1).tolist() == [len(item) for item in inputs]
    assert (batch["input_ids"][0, len(inputs[0]):] == own.pad_token_id).all()


def test_pad() -> None:
    assert pad([np.array([1]), np.array([2, 3])], 7).tolist() == [[1, 7], [2, 3]]
