"""Static word vectors from counted company, in moments and the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

_SENTENCES_AT_ONCE = 2_000
_PAIRS_AT_ONCE = 2**22
_TURNS = 4
_SPARE = 10


@dataclass(frozen=True)
class CooccurrenceCounts:
    """How often tokens stand in each other's company.

    Args:
        first, second: (pairs,) ids of tokens, in the order of the text.
        together: (pairs,) float64, counts that fall with the distance.
        alone: (vocabulary,) int64, how often each stands in the text.
    """

    first: np.ndarray
    second: np.ndarray
    together: np.ndarray
    alone: np.ndarray


def count_cooccurrences(tokenizer: Any, texts: Iterable[str], window: int,
                        most: int) -> CooccurrenceCounts:
    """Count pairs of tokens that stand within a window, a neighbour in full, others by distance.

    Weights are those that word2vec's random windows have on average (Levy et al. 2015, section
    3.1). Holds a count for each pair met.

    Args:
        tokenizer: cuts the texts.
        texts: the corpus.
        window: tokens on either side.
        most: tokens to count; what follows is left unread.
    """
    size = len(tokenizer)
    alone = np.zeros(size, dtype=np.int64)
    pairs = _Pairs()
    for ids, text in _read(tokenizer, texts):
        alone += np.bincount(ids, minlength=size)
        for distance in range(1, window + 1):
            same = text[distance:] == text[:-distance]
            pairs.add((ids[:-distance] * size + ids[distance:])[same],
                      (window + 1 - distance) / window)
        if alone.sum() >= most:
            break
    keys, sums = pairs.counted()
    return CooccurrenceCounts(keys // size, keys % size, sums, alone)


class _Pairs:
    """Weights summed by key, in memory that grows with the keys and not with what is counted."""

    def __init__(self) -> None:
        self._keys: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
        self._weights: list[np.ndarray] = [np.zeros(0)]
        self._waiting = 0

    def add(self, keys: np.ndarray, weight: float) -> None:
        """Count keys with a weight each."""
        self._keys.append(keys)
        self._weights.append(np.full(len(keys), weight))
        self._waiting += len(keys)
        if self._waiting > max(_PAIRS_AT_ONCE, len(self._keys[0])):
            self.counted()

    def counted(self) -> tuple[np.ndarray, np.ndarray]:
        """Give keys, ascending, and the sum of each."""
        keys, places = np.unique(np.concatenate(self._keys), return_inverse=True)
        sums = np.bincount(places, np.concatenate(self._weights), minlength=len(keys))
        self._keys, self._weights, self._waiting = [keys], [sums], 0
        return keys, sums


def _read(tokenizer: Any, texts: Iterable[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encode texts: ids end to end, and the number of the text that each belongs to."""
    pending = iter(texts)
    while chunk := list(islice(pending, _SENTENCES_AT_ONCE)):
        encodings = tokenizer.backend_tokenizer.encode_batch_fast(chunk, add_special_tokens=False)
        parts = [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
        yield np.concatenate(parts), np.repeat(np.arange(len(parts)), [*map(len, parts)])


def learn_vectors(counts: CooccurrenceCounts, width: int, least: int, seed: int) -> Tensor:
    """Factorise how much more often tokens meet than by chance.

    Positive pointwise mutual information, its singular vectors weighted by the roots of the
    singular values; skip-gram with negative samples factorises nearly the same matrix.

    Source: Levy and Goldberg 2014; Levy et al. 2015, section 3.3; the factorisation is that of
    Halko et al. 2011, algorithms 4.4 and 5.1.

    Args:
        counts: of the corpus.
        width: numbers of a vector, at most.
        least: occurrences that a token must have.
        seed: of the factorisation's random start.

    Returns:
        (vocabulary, width) of length 1, 0 for tokens that are too rare or keep no company.
    """
    matrix = _information(counts, least)
    generator = torch.Generator().manual_seed(seed)
    tokens = len(counts.alone)
    basis = torch.randn(tokens, min(width + _SPARE, tokens), generator=generator)
    for _ in range(_TURNS):
        basis = torch.linalg.qr(torch.sparse.mm(matrix, basis))[0]
    # In float32 the solver gives up on matrices with many equal eigenvalues, such as 0.
    small = (basis.T @ torch.sparse.mm(matrix, basis)).double()
    values, directions = (each.float() for each in torch.linalg.eigh((small + small.T) / 2))
    # The matrix is symmetric: its singular values are the sizes of its eigenvalues.
    largest = values.abs().argsort(descending=True)[:width]
    vectors = (basis @ directions[:, largest]) * values[largest].abs().sqrt()
    seen = torch.from_numpy(counts.alone >= least) & (vectors.norm(dim=1) > 1e-6)
    return torch.nn.functional.normalize(vectors, dim=1) * seen[:, None]


def _information(counts: CooccurrenceCounts, least: int) -> Tensor:
    """Positive pointwise mutual information of all pairs, sparse and symmetric."""
    size = len(counts.alone)
    frequent = counts.alone >= least
    kept = frequent[counts.first] & frequent[counts.second]
    first, second, together = (each[kept] for each in
                               (counts.first, counts.second, counts.together))
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    keys, places = np.unique(rows * size + columns, return_inverse=True)
    sums = np.bincount(places, np.concatenate([together, together]), minlength=len(keys))
    rows, columns = keys // size, keys % size
    margin = np.bincount(rows, sums, minlength=size)
    information = np.log(sums * margin.sum() / (margin[rows] * margin[columns]))
    better = information > 0
    return torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([rows[better], columns[better]])),
        torch.from_numpy(information[better].astype(np.float32)), (size, size),
        check_invariants=False, is_coalesced=True)
