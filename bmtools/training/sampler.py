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

    An epoch is a permutation of the rows. It is filled up to whole batches with rows of its
    beginning, so that processes can share each batch, or else its last batch is short. Within
    windows of some batches rows are sorted by length, to pad little, and the batches are shuffled
    again.

    Args:
        lengths: (rows,) tokens of each row.
        batch_rows: rows in each batch, over all processes.
        seed: seed of the order.
        filled: give every batch the same number of rows.
    """

    def __init__(self, lengths: np.ndarray, batch_rows: int, seed: int,
                 filled: bool = True) -> None:
        self._lengths = lengths
        self._filled = filled
        self._batch_rows = batch_rows
        self._seed = seed
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    @property
    def batches_per_epoch(self) -> int:
        """Batches in which every row comes up."""
        return -(-len(self._lengths) // self._batch_rows)

    def batch(self, number: int) -> np.ndarray:
        """Name the rows of a batch, (batch_rows,)."""
        epoch, place = divmod(number, self.batches_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._batches_of(epoch))
        return self._epoch[1][place]

    def _batches_of(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng((self._seed, epoch))
        members = rng.permutation(len(self._lengths))
        if self._filled:
            members = np.resize(members, self._batch_rows * self.batches_per_epoch)
        batches: list[np.ndarray] = []
        for start in range(0, len(members), self._batch_rows * _WINDOW_BATCHES):
            window = members[start:start + self._batch_rows * _WINDOW_BATCHES]
            ranked = window[np.argsort(self._lengths[window], kind="stable")]
            cuts = range(self._batch_rows, len(ranked), self._batch_rows)
            alike = np.split(ranked, cuts)
            batches.extend(alike[place] for place in rng.permutation(len(alike)))
        return batches
