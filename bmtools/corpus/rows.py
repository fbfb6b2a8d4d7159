"""Rows of token ids for training, cut from documents, in an order that needs no history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bmtools.errors import DataError

_WINDOW_BATCHES = 64


@dataclass(frozen=True)
class Rows:
    """Token rows laid end to end; no row holds more than one document.

    Args:
        ids: (all tokens,) ids without special tokens.
        starts: (all tokens,) bool, True where a word begins.
        borders: (rows + 1,) where each row begins.
    """

    ids: np.ndarray
    starts: np.ndarray
    borders: np.ndarray

    def __len__(self) -> int:
        return len(self.borders) - 1

    @property
    def tokens(self) -> int:
        """Tokens in all rows."""
        return len(self.ids)

    def lengths(self) -> np.ndarray:
        """Tokens of each row."""
        return np.diff(self.borders)


def cut_rows(documents: Iterable[tuple[np.ndarray, np.ndarray]], length: int) -> Rows:
    """Cut documents into rows of near equal length, between words where a word allows it.

    Holds the corpus in memory as ids, about five bytes a token.

    Args:
        documents: ids and word starts of each document.
        length: most tokens of a row.

    Raises:
        DataError: no tokens at all.
    """
    ids: list[np.ndarray] = []
    starts: list[np.ndarray] = []
    sizes: list[int] = []
    for document, begins in documents:
        if len(document):
            ids.append(document)
            starts.append(begins)
            sizes.extend(_piece_sizes(begins, length))
    if not ids:
        raise DataError("no text to train on; expected records with some text")
    return Rows(np.concatenate(ids), np.concatenate(starts), np.cumsum([0, *sizes]))


def _piece_sizes(starts: np.ndarray, length: int) -> Iterable[int]:
    """Sizes of a document's rows: as few as can be, alike, none cutting a word that fits."""
    total, position = len(starts), 0
    while total - position > length:
        pieces = -(-(total - position) // length)
        wanted = position + min(length, -(-(total - position) // pieces))
        cut = wanted
        while cut > position and not starts[cut]:
            cut -= 1
        cut = cut if cut > position else wanted
        yield cut - position
        position = cut
    yield total - position


class Sampler:
    """Which rows make batch number n: a function of seed and n alone, so nothing to restore.

    Epochs are permutations. Within windows of some batches rows are sorted by length, to pad
    little, and the batches are shuffled again.

    Args:
        lengths: (rows,) tokens of each row.
        batch_rows: rows in each batch, over all processes.
        seed: seed of the order.
    """

    def __init__(self, lengths: np.ndarray, batch_rows: int, seed: int) -> None:
        self._lengths = lengths
        self._batch_rows = batch_rows
        self._seed = seed
        self._window: tuple[int, np.ndarray] = (-1, np.empty(0))

    def batch(self, number: int) -> np.ndarray:
        """Name the rows of a batch, (batch_rows,)."""
        window, place = divmod(number, _WINDOW_BATCHES)
        if self._window[0] != window:
            self._window = (window, self._batches_of(window))
        return self._window[1][place]

    def _batches_of(self, window: int) -> np.ndarray:
        size = self._batch_rows * _WINDOW_BATCHES
        members = self._members(window * size, size)
        ranked = members[np.argsort(self._lengths[members], kind="stable")]
        order = np.random.default_rng((self._seed, 1, window)).permutation(_WINDOW_BATCHES)
        return ranked.reshape(_WINDOW_BATCHES, -1)[order]

    def _members(self, first: int, count: int) -> np.ndarray:
        """Rows of samples `first` to `first + count` of the endless run of epochs."""
        rows = len(self._lengths)
        epochs = range(first // rows, (first + count - 1) // rows + 1)
        shuffled = [np.random.default_rng((self._seed, 0, epoch)).permutation(rows)
                    for epoch in epochs]
        skip = first - epochs[0] * rows
        return np.concatenate(shuffled)[skip:skip + count]
