"""Mixtures of known tokens: the projection against brute force, the mixture against a toy world."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertTokenizer

from bmtools.models.focus import focus_embeddings, sparsemax
from bmtools.models.settings import FocusConfig
from bmtools.models.vocab_overlap import find_overlap

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DRUGS, ORGANS = ("aspirin", "codeine", "morphine"), ("liver", "kidney", "heart")


def nearest_shares(scores: np.ndarray) -> np.ndarray:
    """Try every support: the projection on shares that add up to 1 is the nearest that is one."""
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


@pytest.mark.parametrize("likely", [1, 64])
def test_sparsemax_is_the_projection_on_shares(likely: int,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.models.focus._SPARSEMAX_CANDIDATES", likely)
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(scale=scale, size=(20, 9)) for scale in (0.05, 0.5, 3)])
    found = sparsemax(torch.from_numpy(scores)).numpy()
    np.testing.assert_allclose(found, [nearest_shares(row) for row in scores], atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_sparsemax_of_many_alike_gives_each_a_share() -> None:
    np.testing.assert_allclose(sparsemax(torch.zeros(2, 700)), 1 / 700, atol=1e-6)


def words(*tokens: str) -> Any:
    return BertTokenizer(vocab={token: n for n, token in enumerate([*SPECIAL, *tokens])})


@pytest.fixture(scope="module")
def world() -> list[str]:
    """Drugs are taken and organs hurt."""
    return [text for drug, organ in itertools.product(DRUGS, ORGANS)
            for text in (f"we take {drug} each day", f"my {organ} hurts at night")]


def test_a_new_token_is_mixed_of_those_that_keep_its_company(world: list[str]) -> None:
    common = ("we", "take", "each", "day", "my", "hurts", "at", "night")
    old = words(*common, *DRUGS[:2], *ORGANS[:2], "mor", "##phine", "he", "##art")
    new = words(*common, *DRUGS, *ORGANS, "unseen")
    found = focus_embeddings(new, find_overlap(old, new), world,
                             FocusConfig(focus_dim=8, focus_min_count=3), 0)
    names = {new.convert_ids_to_tokens(int(token)): number
             for number, token in enumerate(found.tokens)}
    assert set(names) == {"morphine", "heart"}
    table = torch.eye(len(old))
    for token, kin in (("morphine", DRUGS[:2]), ("heart", ORGANS[:2])):
        shares = found.rows(table)[names[token]]
        assert shares.sum().item() == pytest.approx(1, abs=1e-5) and (shares >= 0).all()
        assert shares[old.convert_tokens_to_ids(list(kin))].sum() > 0.9
        assert not shares[old.all_special_ids].any()


def test_without_company_nothing_is_mixed(world: list[str]) -> None:
    old, new = words("we", "x", "##y"), words("we", "xy")
    assert not len(focus_embeddings(new, find_overlap(old, new), world, FocusConfig(), 0).tokens)
