"""Clusters of duplicates: records with equal digests, or with equal bands and similar signatures.

Memory contains some fifty bytes per record. Signatures are kept in files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np

from bmtools.corpus.duplicates.settings import Bands, DedupConfig
from bmtools.corpus.duplicates.sketches import Records
from bmtools.io.output import temporary_file
from bmtools.status import set_status
from bmtools.text.hashing import mix

_MOST_NEIGHBOURS = 128
"""Maximum number of records with the same band that a record is compared with. This is enough,
except for very common boilerplate, in which each record is similar to its neighbours anyway."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def find_clusters(records: Records, config: DedupConfig, first: int = 0) -> np.ndarray:
    """Return the first record of each record's cluster, (records,) int64.

    A record without words is a separate cluster.

    Args:
        records: sketches of all corpora.
        config: settings.
        first: number of the first record that can be left out.
    """
    parents = np.arange(len(records))
    has_words = records.rows("lengths") > 0
    digests = records.rows("digests")
    for members, borders in _equal(digests.view("<u8")[::2].copy()):
        firsts = members[borders].repeat(np.diff(np.append(borders, len(members))))
        is_equal = digests[members] == digests[firsts]  # compares both halves
        parents[members[is_equal]] = firsts[is_equal]
    del digests
    parents[~has_words] = np.flatnonzero(~has_words)
    if config.duplicates == "near":
        equal = parents.copy()
        numbers = np.flatnonzero(has_words & (parents == np.arange(len(records))))
        with ExitStack() as stack:
            bands = _BandFile(stack, Bands.of(config.threshold, config.permutations))
            for signatures in records.signatures():
                bands.add(signatures)
            for done, keys in enumerate(bands.columns()):
                set_status("comparing", done, bands.shape.bands, "bands")
                parents = _join(parents, records, numbers, keys[numbers], config.threshold)
        if config.no_chains:
            parents = _unchained(parents, records, numbers, first, config.threshold)[equal]
    return parents


def _equal(keys: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the numbers of keys that occur several times, grouped by key, and the group starts."""
    order = np.argsort(keys)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    in_run = np.append(same, False) | np.append(False, same)
    if in_run.any():
        members = order[in_run]
        members = members[np.lexsort((members, keys[members]))]  # the sort above is not stable
        yield members, np.flatnonzero(~np.append(False, same)[in_run])


def _join(parents: np.ndarray, records: Records, numbers: np.ndarray, keys: np.ndarray,
          threshold: float) -> np.ndarray:
    """Join the clusters of similar records that have equal keys."""
    for places, borders in _equal(keys):
        members = numbers[places]
        run = np.zeros(len(members), np.int64)
        run[borders[1:]] = 1
        run = run.cumsum()
        for step in range(1, _MOST_NEIGHBOURS + 1):
            near = np.flatnonzero(run[step:] == run[:-step])
            if not len(near):
                break
            ones, others = members[near], members[near + step]
            apart = parents[ones] != parents[others]
            ones, others = ones[apart], others[apart]
            alike = records.similarity(ones, others) >= threshold
            parents = _united(parents, ones[alike], others[alike])
    return parents


def _unchained(parents: np.ndarray, records: Records, numbers: np.ndarray, first: int,
               threshold: float) -> np.ndarray:
    """Split clusters so that all records are similar to the first record of their cluster.

    Records before `first` are always kept, so each of them begins a cluster.
    """
    kept = np.arange(len(parents))
    left = numbers[np.isin(parents[numbers], parents[numbers[parents[numbers] != numbers]])]
    while len(left):
        _, firsts, clusters = np.unique(parents[left], return_index=True, return_inverse=True)
        leaders = left[firsts[clusters]]
        least = np.where(left < first, 1, threshold)
        is_like = records.similarity(left, leaders) >= least
        kept[left[is_like]] = leaders[is_like]
        left = left[~is_like]
    return kept


def _united(parents: np.ndarray, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Join the clusters of pairs; every record points to the first record of its cluster."""
    if not len(ones):
        return parents

    def root(number: int) -> int:
        while (above := int(parents[number])) != number:
            number = above
        return number

    for one, other in zip(ones.tolist(), others.tolist(), strict=True):
        first, last = sorted((root(one), root(other)))
        parents[last] = first
    while ((above := parents[parents]) != parents).any():
        parents = above
    return parents


class _BandFile:
    """File with the band hashes of all signatures; one band is read at a time."""

    def __init__(self, stack: ExitStack, shape: Bands) -> None:
        self.shape = shape
        self._file = stack.enter_context(temporary_file())
        self._sizes: list[int] = []
        self._factors = _FACTOR ** np.arange(1, shape.rows + 1, dtype=np.uint64)

    def add(self, signatures: np.ndarray) -> None:
        """Add the bands of some records."""
        used = signatures[:, :self.shape.bands * self.shape.rows]
        bands = np.zeros((len(used), self.shape.bands), np.uint64)
        for row, factor in enumerate(self._factors):
            bands += used[:, row::self.shape.rows] * factor
        self._file.write(mix(bands).T.tobytes())
        self._sizes.append(len(used))

    def columns(self) -> Iterator[np.ndarray]:
        """Yield, for each band, the hashes of all records."""
        self._file.flush()
        starts = np.cumsum([0, *self._sizes]) * self.shape.bands * 8
        for band in range(self.shape.bands):
            found = [np.empty(0, np.uint64)]
            for start, size in zip(starts.tolist(), self._sizes, strict=False):
                self._file.seek(start + band * size * 8)
                found.append(np.frombuffer(self._file.read(size * 8), np.uint64))
            yield np.concatenate(found)
