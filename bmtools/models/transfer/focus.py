"""FOCUS: embeddings of new tokens as mixtures of known tokens with similar static vectors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from bmtools.models.settings import FocusConfig
from bmtools.models.transfer.vocab_overlap import VocabOverlap, WeightedRows
from bmtools.vocab.tokenizer import special_tokens_as_text

_TOKENS_AT_ONCE = 256
_SENTENCES_AT_ONCE = 2_000
_PAIRS_AT_ONCE = 2**22
_POWER_ITERATIONS = 4
_OVERSAMPLING = 10


def focus_embeddings(tokenizer: PreTrainedTokenizerFast, overlap: VocabOverlap,
                     texts: Iterable[str], config: FocusConfig, seed: int) -> WeightedRows:
    """Mix each new token from known tokens, weighted by the similarity of their static vectors.

    Known tokens are in both vocabularies and are not special. Weights are the sparsemax of cosines.
    There are two departures from the paper. Static vectors are factorized counts instead of
    fastText vectors, which need another package and are not reproducible. A token that is too rare
    for a vector is the mean of its pieces instead of random.

    Source: Dobler and de Melo 2023 (FOCUS), section 3.

    Args:
        tokenizer: the new tokenizer.
        overlap: overlap of the vocabularies.
        texts: the corpus.
        config: settings of the static vectors.
        seed: seed of the factorization.

    Returns:
        mixtures of old rows for the new tokens with a static vector.
    """
    counts = count_cooccurrences(tokenizer, texts, config.focus_window, config.focus_max_tokens)
    vectors = factorize_counts(counts, config.focus_dim, config.focus_min_count, seed)
    has_vector = vectors.norm(dim=1) > 0
    special_ids = {*tokenizer.all_special_ids}
    known = [token for token in overlap.shared if token not in special_ids and has_vector[token]]
    new = [token for token in overlap.pieces if has_vector[token]]
    if not known or not new:
        return WeightedRows.means({})
    old = np.array([overlap.shared[token] for token in known])
    sources, weights, sizes = [], [], []
    for start in range(0, len(new), _TOKENS_AT_ONCE):
        cosines = vectors[new[start:start + _TOKENS_AT_ONCE]] @ vectors[known].T
        probabilities = sparsemax(cosines)
        rows, columns = torch.nonzero(probabilities, as_tuple=True)
        sources.append(old[columns.numpy()])
        weights.append(probabilities[rows, columns].numpy())
        sizes.append(torch.bincount(rows, minlength=len(probabilities)).numpy())
    return WeightedRows.of(np.array(new), np.concatenate(sources), np.concatenate(sizes),
                           np.concatenate(weights))


def sparsemax(scores: Tensor) -> Tensor:
    """Project each row onto sparse probabilities.

    Source: Martins and Astudillo 2016, algorithm 1.

    Args:
        scores: (rows, choices).
    """
    highest = scores.sort(dim=1, descending=True).values
    sums = highest.cumsum(dim=1)
    ranks = torch.arange(1, scores.shape[1] + 1)
    support = (1 + ranks * highest > sums).sum(dim=1, keepdim=True)
    threshold = (sums.gather(1, support - 1) - 1) / support
    return (scores - threshold).clamp(min=0)


@dataclass(frozen=True)
class CooccurrenceCounts:
    """Counts of tokens and of neighbouring pairs of tokens.

    Args:
        first, second: (pairs,) token ids, in the order of the text.
        pair_counts: (pairs,) float64, weighted by distance.
        token_counts: (vocabulary,) int64.
    """

    first: np.ndarray
    second: np.ndarray
    pair_counts: np.ndarray
    token_counts: np.ndarray


def count_cooccurrences(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str], window: int,
                        max_tokens: int) -> CooccurrenceCounts:
    """Count pairs of tokens within a window, weighted by distance; neighbours count 1.

    A weight is the mean weight in word2vec's random windows (Levy et al. 2015, section 3.1). One
    count for each pair is kept in memory.

    Args:
        tokenizer: tokenizer of the counted tokens.
        texts: the corpus.
        window: tokens on either side.
        max_tokens: number of tokens to count; the rest is not read.
    """
    size, remaining = len(tokenizer), iter(texts)
    token_counts = np.zeros(size, dtype=np.int64)
    # The first entries are sums by key; their memory is proportional to the number of distinct
    # pairs.
    keys, weights, pending = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], 0
    while token_counts.sum() < max_tokens \
            and (chunk := list(islice(remaining, _SENTENCES_AT_ONCE))):
        backend = tokenizer.backend_tokenizer
        encodings = backend.encode_batch_fast(list(special_tokens_as_text(backend, chunk)),
                                              add_special_tokens=False)
        parts = [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
        ids, text_numbers = np.concatenate(parts), np.repeat(np.arange(len(parts)),
                                                             [*map(len, parts)])
        token_counts += np.bincount(ids, minlength=size)
        for distance in range(1, window + 1):
            same_text = text_numbers[distance:] == text_numbers[:-distance]
            keys.append((ids[:-distance] * size + ids[distance:])[same_text])
            weights.append(np.full(len(keys[-1]), (window + 1 - distance) / window))
            pending += len(keys[-1])
            if pending > max(_PAIRS_AT_ONCE, len(keys[0])):
                unique, sums = _sum_by_key(keys, weights)
                keys, weights, pending = [unique], [sums], 0
    unique, sums = _sum_by_key(keys, weights)
    return CooccurrenceCounts(unique // size, unique % size, sums, token_counts)


def _sum_by_key(keys: list[np.ndarray], weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    unique, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    return unique, np.bincount(inverse, np.concatenate(weights), minlength=len(unique))


def factorize_counts(counts: CooccurrenceCounts, dim: int, min_count: int, seed: int) -> Tensor:
    """Factorize positive pointwise mutual information into static vectors.

    Singular vectors are weighted by the roots of the singular values; skip-gram with negative
    sampling factorizes nearly the same matrix.

    Source: Levy and Goldberg 2014; Levy et al. 2015, section 3.3. Source of the factorization:
    Halko et al. 2011, algorithms 4.4 and 5.1.

    Args:
        counts: counts of the corpus.
        dim: maximum dimensions of a vector.
        min_count: minimum occurrences of a token with a vector.
        seed: seed of the factorization's random start.

    Returns:
        (vocabulary, dim) of norm 1, or 0 for tokens that are too rare or never co-occur.
    """
    matrix = _positive_pmi(counts, min_count)
    generator = torch.Generator().manual_seed(seed)
    tokens = len(counts.token_counts)
    basis = torch.randn(tokens, min(dim + _OVERSAMPLING, tokens), generator=generator)
    for _ in range(_POWER_ITERATIONS):
        basis = torch.linalg.qr(torch.sparse.mm(matrix, basis))[0]
    # In float32 the solver fails on matrices with many equal eigenvalues, such as 0.
    projected = (basis.T @ torch.sparse.mm(matrix, basis)).double()
    values, directions = (each.float() for each in torch.linalg.eigh((projected + projected.T) / 2))
    # The matrix is symmetric: its singular values are the absolute values of its eigenvalues.
    largest = values.abs().argsort(descending=True)[:dim]
    vectors = (basis @ directions[:, largest]) * values[largest].abs().sqrt()
    has_vector = torch.from_numpy(counts.token_counts >= min_count) & (vectors.norm(dim=1) > 1e-6)
    return torch.nn.functional.normalize(vectors, dim=1) * has_vector[:, None]


def _positive_pmi(counts: CooccurrenceCounts, min_count: int) -> Tensor:
    """Compute positive pointwise mutual information of all pairs, sparse and symmetric."""
    size = len(counts.token_counts)
    is_frequent = counts.token_counts >= min_count
    kept = is_frequent[counts.first] & is_frequent[counts.second]
    first, second, pair_counts = (each[kept] for each in
                                  (counts.first, counts.second, counts.pair_counts))
    keys, sums = _sum_by_key([first * size + second, second * size + first],
                             [pair_counts, pair_counts])
    rows, columns = keys // size, keys % size
    margin = np.bincount(rows, sums, minlength=size)
    information = np.log(sums * margin.sum() / (margin[rows] * margin[columns]))
    is_positive = information > 0
    return torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([rows[is_positive], columns[is_positive]])),
        torch.from_numpy(information[is_positive].astype(np.float32)), (size, size),
        check_invariants=False, is_coalesced=True)
