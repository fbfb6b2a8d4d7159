"""FOCUS: sparsemax against brute force, static vectors against plain computations, a toy corpus."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizer, PreTrainedTokenizerFast

from bmtools.models.settings import FocusConfig
from bmtools.models.transfer import focus
from bmtools.models.transfer.focus import (
    CooccurrenceCounts,
    count_cooccurrences,
    factorize_counts,
    focus_embeddings,
    sparsemax,
)
from bmtools.models.transfer.vocab_overlap import find_overlap

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DRUGS, ORGANS = ("aspirin", "codeine", "morphine"), ("liver", "kidney", "heart")


def nearest_probabilities(scores: np.ndarray) -> np.ndarray:
    """Try every support: the projection is the nearest vector of probabilities."""
    best, found = np.inf, scores
    for size in range(1, len(scores) + 1):
        for support in itertools.combinations(range(len(scores)), size):
            chosen = list(support)
            shares = np.zeros(len(scores))
            shares[chosen] = scores[chosen] - (scores[chosen].sum() - 1) / size
            distance = ((scores - shares) ** 2).sum()
            if shares.min() >= 0 and distance < best:
                best, found = distance, shares
    return found


def test_sparsemax_projects_onto_probabilities() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(scale=scale, size=(20, 9)) for scale in (0.05, 0.5, 3)])
    found = sparsemax(torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(found, [nearest_probabilities(row) for row in scores], atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def words(*tokens: str) -> Any:
    return BertTokenizer(vocab={token: n for n, token in enumerate([*SPECIAL, *tokens])})


@pytest.fixture(scope="module")
def world() -> list[str]:
    """Drugs are taken and organs hurt."""
    return [text for drug, organ in itertools.product(DRUGS, ORGANS)
            for text in (f"we take {drug} each day", f"my {organ} hurts at night")]


def test_new_tokens_are_mixtures_of_tokens_in_similar_contexts(world: list[str]) -> None:
    common = ("we", "take", "each", "day", "my", "hurts", "at", "night")
    old = words(*common, *DRUGS[:2], *ORGANS[:2], "mor", "##phine", "he", "##art")
    new = words(*common, *DRUGS, *ORGANS, "unseen")
    found = focus_embeddings(new, find_overlap(old, new), world,
                             FocusConfig(focus_dim=8, focus_min_count=3), 0)
    names = {new.convert_ids_to_tokens(int(token)): number
             for number, token in enumerate(found.tokens)}
    assert set(names) == {"morphine", "heart"}
    table = torch.eye(len(old))
    for token, similar in (("morphine", DRUGS[:2]), ("heart", ORGANS[:2])):
        shares = found.sum_rows(table)[names[token]]
        assert shares.sum().item() == pytest.approx(1, abs=1e-5) and (shares >= 0).all()
        assert shares[old.convert_tokens_to_ids(list(similar))].sum() > 0.9
        assert not shares[old.all_special_ids].any()


TEXTS = ["il cuore pompa il sangue", "il polmone", "sangue",
         "la milza accumula il sangue e la bile", "il cuore pompa"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    words = sorted({word for text in TEXTS for word in text.split()})
    listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    return BertTokenizer(vocab={token: n for n, token in enumerate(listed)})


def dense(counts: CooccurrenceCounts) -> np.ndarray:
    size = len(counts.token_counts)
    table = np.zeros((size, size))
    np.add.at(table, (counts.first, counts.second), counts.pair_counts)
    return table


@pytest.mark.parametrize("at_once", [1, 2**22])
def test_counts_equal_a_loop(tokenizer: Any, monkeypatch: pytest.MonkeyPatch,
                             at_once: int) -> None:
    monkeypatch.setattr(focus, "_SENTENCES_AT_ONCE", 2)
    monkeypatch.setattr(focus, "_PAIRS_AT_ONCE", at_once)
    expected: Counter[tuple[int, int]] = Counter()
    alone: Counter[int] = Counter()
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        alone.update(ids)
        for position, one in enumerate(ids):
            for distance, other in enumerate(ids[position + 1:position + 4], 1):
                expected[one, other] += {1: 1.0, 2: 2 / 3, 3: 1 / 3}[distance]
    found = count_cooccurrences(tokenizer, TEXTS, 3, 10_000)
    table = dense(found)
    assert {pair: table[pair] for pair in expected} == pytest.approx(dict(expected))
    assert table.sum() == pytest.approx(sum(expected.values()))
    assert {token: count for token, count in enumerate(found.token_counts) if count} == alone


def test_special_tokens_in_texts_are_not_counted() -> None:
    pieces = ["<s>", "</s>", "<unk>", "▁", "a", "b"]
    backend = Tokenizer(models.Unigram([(one, -1.0) for one in pieces], unk_id=2))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")
    found = count_cooccurrences(unigram, ["a </s> b", "a</s>b"], 3, 100)
    assert dict(zip(pieces, found.token_counts, strict=True)) | {"<unk>": 0, "▁": 0} == {
        "<s>": 0, "</s>": 0, "<unk>": 0, "▁": 0, "a": 2, "b": 2}


def test_vectors_equal_a_full_decomposition() -> None:
    """Cosines are compared, because directions may be rotated."""
    rng = np.random.default_rng(0)
    size, width = 60, 6
    first, second = (each.flatten() for each in np.mgrid[:size, :size])
    likes = np.eye(width)[np.arange(size) % width] * [3, 2.5, 2, 1.5, 1.2, 1] + 0.1
    counts = CooccurrenceCounts(first, second,
                                rng.poisson(20 * (likes @ likes.T)).flatten().astype(float),
                                np.full(size, 100))
    kept = counts.pair_counts > 0
    counts = CooccurrenceCounts(first[kept], second[kept], counts.pair_counts[kept],
                                counts.token_counts)
    both = dense(counts) + dense(counts).T
    margin = both.sum(axis=0)
    with np.errstate(divide="ignore"):
        information = np.log(both * margin.sum() / np.outer(margin, margin))
    left, values, _ = np.linalg.svd(np.maximum(information, 0))
    expected = left[:, :width] * np.sqrt(values[:width])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = factorize_counts(counts, width, 1, seed=0).numpy()
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.01)
