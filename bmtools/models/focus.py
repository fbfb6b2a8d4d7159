"""New embeddings as mixtures of those of known tokens that keep the same company."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bmtools.models.settings import FocusConfig
from bmtools.models.static_vectors import count_cooccurrences, learn_vectors
from bmtools.models.vocab_overlap import VocabOverlap
from bmtools.models.weighted_rows import WeightedRows

_TOKENS_AT_ONCE = 256
_LIKELY = 64


def focus_embeddings(tokenizer: Any, origins: VocabOverlap, texts: Iterable[str],
                     settings: FocusConfig, seed: int) -> WeightedRows:
    """Mix each new token of known ones, weighted by how alike their static vectors are.

    Known tokens are those that both vocabularies have, special ones left out. Weights are the
    sparsemax of cosines. Departures from the paper: static vectors come of counts and not of
    fastText, which would have to be installed and draws at random; a token too rare for one is
    the mean of its pieces and not random.

    Source: Dobler and de Melo 2023 (FOCUS), section 3.

    Args:
        tokenizer: the new one.
        origins: of its tokens.
        texts: the corpus.
        settings: of the static vectors.
        seed: of their random start.

    Returns:
        mixtures of old rows, for the tokens that have a static vector.
    """
    vectors = learn_vectors(count_cooccurrences(tokenizer, texts, settings.focus_window,
                                                settings.focus_tokens),
                            settings.focus_width, settings.focus_least, seed)
    seen = vectors.norm(dim=1) > 0
    special = {*tokenizer.all_special_ids}
    known = [ours for ours in origins.shared if ours not in special and seen[ours]]
    fresh = [token for token in origins.pieces if seen[token]]
    if not known or not fresh:
        return WeightedRows.means({})
    old = np.array([origins.shared[ours] for ours in known])
    sources, weights, sizes = [], [], []
    for start in range(0, len(fresh), _TOKENS_AT_ONCE):
        cosines = vectors[fresh[start:start + _TOKENS_AT_ONCE]] @ vectors[known].T
        shares = sparsemax(cosines)
        rows, columns = torch.nonzero(shares, as_tuple=True)
        sources.append(old[columns.numpy()])
        weights.append(shares[rows, columns].numpy())
        sizes.append(torch.bincount(rows, minlength=len(shares)).numpy())
    return WeightedRows.of(np.array(fresh), np.concatenate(sources), np.concatenate(sizes),
                           np.concatenate(weights))


def sparsemax(scores: Tensor) -> Tensor:
    """Project each row onto shares that add up to 1; most of them are 0.

    Only the highest scores are sorted, and more of them where all of those get a share.

    Source: Martins and Astudillo 2016, algorithm 1.

    Args:
        scores: (rows, choices).
    """
    likely = _LIKELY
    while True:
        highest = scores.topk(min(likely, scores.shape[1]), dim=1).values
        sums = highest.cumsum(dim=1)
        counted = torch.arange(1, highest.shape[1] + 1)
        within = (1 + counted * highest > sums).sum(dim=1, keepdim=True)
        if highest.shape[1] == scores.shape[1] or int(within.max()) < highest.shape[1]:
            threshold = (sums.gather(1, within - 1) - 1) / within
            return (scores - threshold).clamp(min=0)
        likely *= 8
