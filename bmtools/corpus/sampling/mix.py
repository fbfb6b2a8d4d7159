"""Mixtures of corpora: an amount of text from each, in random order and limited memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from struct import Struct
from typing import BinaryIO

import msgspec
import numpy as np

from bmtools.corpus.record_files import record_files
from bmtools.corpus.sampling.measures import Measures, measure, selected_lines
from bmtools.corpus.sampling.settings import MixConfig
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.jsonl import RecordReader, refuse_empty
from bmtools.io.output import temporary_file
from bmtools.io.parts import rereadable
from bmtools.io.provenance.licence_check import check_licences, known_licences
from bmtools.io.record_size import MEGABYTE
from bmtools.io.workers import ONE_WORKER, Workers
from bmtools.keyed_random import derive
from bmtools.records import JsonObject, Record, RecordSource
from bmtools.settings import split_settings

_BUCKET_BYTES = 64 * MEGABYTE
_MOST_BUCKETS = 256  # open files
_HEAD = Struct("<QI")  # key and length of a line


@dataclass(frozen=True)
class _Chosen:
    """Records chosen from a corpus: how often each line is in the mixture."""

    reader: RecordReader
    measures: Measures
    copies: np.ndarray


@dataclass(frozen=True)
class Mixture:
    """A mixture, whose records are read when they are written.

    Args:
        corpora: the chosen records of each corpus, by name.
        parts: records, megabytes and epochs of each corpus, for reports.
        seed: seed of the order.
    """

    corpora: Mapping[str, _Chosen]
    parts: list[JsonObject]
    seed: int

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of all corpora in the order of their keys.

        The lines are distributed over temporary files by key. Each file is sorted in memory: some
        64 MB, or a 256th of more than 16 GB of text.
        """
        size = sum(part["megabytes"] for part in self.parts) * MEGABYTE
        count = min(_MOST_BUCKETS, 1 + int(size) // _BUCKET_BYTES)
        with ExitStack() as stack:
            buckets = [stack.enter_context(temporary_file()) for _ in range(count)]
            for number, name in enumerate(sorted(self.corpora)):
                for key, line in _keyed_lines(self.corpora[name], derive(self.seed, number)):
                    bucket = buckets[key * count >> 64]
                    bucket.write(_HEAD.pack(key, len(line)) + line)
            for bucket in buckets:
                for _, line in sorted(_read_bucket(bucket), key=lambda entry: entry[0]):
                    yield line
                bucket.truncate(0)


def _keyed_lines(chosen: _Chosen, seed: np.ndarray) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a corpus, with a key for each copy that depends only on the record."""
    for number, line in selected_lines(chosen.reader, chosen.copies > 0):
        keys = derive(seed, int(chosen.measures.lines["priority"][number]),
                      int(chosen.measures.lines["tie"][number]), np.arange(chosen.copies[number]))
        for key in keys.tolist():
            yield key, line


def _read_bucket(bucket: BinaryIO) -> Iterator[tuple[int, bytes]]:
    bucket.seek(0)
    while head := bucket.read(_HEAD.size):
        key, length = _HEAD.unpack(head)
        yield key, bucket.read(length)


def mix(corpora: Mapping[str, RecordSource], *, workers: int = 1, reject: Reject = refuse,
        **settings: object) -> Iterator[Record]:
    """Yield a mixture: `mix({"general": "a.jsonl", "notes": "b.jsonl"}, size="1GB")`.

    Args:
        corpora: by name, one or several files, or dictionaries with `id` and `text`, which are
            copied to a temporary file.
        workers: number of processes; 0 for one per core.
        reject: receives bad records.
        settings: fields of `MixConfig`.

    Raises:
        DataError: a corpus is smaller than its part, or licences are not compatible.
        ValueError: a setting is out of range.
    """
    [config] = split_settings(settings, MixConfig)
    with ExitStack() as stack:
        files = {name: stack.enter_context(record_files(records, reject))
                 for name, records in corpora.items()}
        mixture = stack.enter_context(opened_mixture(files, config, reject, Workers(workers)))
        for line in mixture.lines():
            yield Record(msgspec.json.decode(line))


@contextmanager
def opened_mixture(corpora: Mapping[str, str | Sequence[str]], config: MixConfig, reject: Reject,
                   workers: Workers = ONE_WORKER) -> Iterator[Mixture]:
    """Choose the records of a mixture, which can be read until the block ends.

    Args:
        corpora: one or several files of records by corpus name; read twice.
        config: settings of the mixture.
        reject: receives bad records.
        workers: processes that read the records.

    Raises:
        ValueError: the weights name other corpora.
        DataError: a corpus is smaller than its part and must not be repeated, or licences are not
            compatible.
    """
    given = {name: [files] if isinstance(files, str) else files for name, files in corpora.items()}
    check_licences({file: known_licences(file) for files in given.values() for file in files})
    with ExitStack() as stack:
        readers = {name: RecordReader(stack.enter_context(rereadable(files)), reject)
                   for name, files in given.items()}
        measured = {name: measure(reader, reject, config.seed, workers=workers)
                    for name, reader in readers.items()}
        check_licences({", ".join(given[name]): one.licences for name, one in measured.items()})
        totals = {name: int(one.lines["size"][one.order()].sum(dtype="u8"))
                  for name, one in measured.items()}
        for name, total in totals.items():
            if not total:
                refuse_empty(given[name])
        chosen = {}
        parts = []
        for name, amount in config.parts(totals).items():
            copies = _copies(name, measured[name], amount, config)
            chosen[name] = _Chosen(readers[name], measured[name], copies)
            sizes = measured[name].lines["size"] * copies.astype("u8")
            parts.append({"corpus": name, "records": int(copies.sum(dtype="u8")),
                          "megabytes": round(int(sizes.sum()) / MEGABYTE, 6),
                          "epochs": round(amount / totals[name], 4)})
        yield Mixture(chosen, parts, config.seed)


def _copies(name: str, measures: Measures, amount: float, config: MixConfig) -> np.ndarray:
    """Return how often each line is in the mixture: complete passes plus a sample."""
    order = measures.order()
    sums = np.cumsum(measures.lines["size"][order], dtype="u8")
    passes, rest = divmod(amount, int(sums[-1]))
    if amount > sums[-1] * (1 + 1e-9) and not config.repeat:
        raise DataError(f"{name}: found {int(sums[-1]) / MEGABYTE:,.6g} MB of text, expected "
                        f"{amount / MEGABYTE:,.6g} for its part; set a smaller size, or set "
                        f"{setting('repeat')} to repeat its records")
    copies = np.zeros(len(measures.lines), dtype="u4")
    copies[order] = int(passes)
    copies[order[:np.searchsorted(sums, rest + 0.5, side="right")]] += 1
    return copies
