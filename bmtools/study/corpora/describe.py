"""Description of corpora and sets: a line for each file, and one for all files.

Statistics are counted block by block and added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath

import msgspec
import numpy as np

from bmtools.corpus.split import values_of
from bmtools.errors import Reject, refuse
from bmtools.io.jsonl import Block, RecordReader, refuse_empty
from bmtools.io.record_size import MEGABYTE
from bmtools.io.sources import source_stem
from bmtools.io.workers import ONE_WORKER, Outcome, Workers, collected
from bmtools.records import JsonObject, document_of, full_text
from bmtools.settings import split_settings
from bmtools.study.corpora.frequencies import WordFrequencies
from bmtools.study.corpora.settings import NO_TOPIC, OTHERS, UNSTATED, DescribeConfig
from bmtools.study.corpora.topics import Topics
from bmtools.tasks.metrics.annotation_counts import AnnotationCounts
from bmtools.text.reservoir import word_keys
from bmtools.vocab.words import ChunkWords

TOTAL = "total"
ORIGINS = {"languages": "lang", "licences": "licence", "years": "meta.year", "sources": "source"}
"""Keys of records whose values are counted, by name in the description."""
_MOST_VALUES = 100_000
_UNIQUE_FIRST = 1 << 20
_DIGITS = 4


def describe(corpora: Mapping[str, str | PathLike[str]] | Sequence[str | PathLike[str]], *,
             topics: Mapping[str, Sequence[str]] | None = None, total: bool = False,
             reject: Reject = refuse, workers: Workers = ONE_WORKER, **settings: object,
             ) -> Iterator[JsonObject]:
    """Describe corpora, and sets with their annotations: `describe(["train.jsonl"], uncased=True)`.

    Memory holds up to a million distinct words, 8 bytes per document, and distinct lengths and
    values of keys. Words are counted exactly; further distinct words are kept in temporary files.

    Args:
        corpora: files of records, or files by the name for their line. Default names have no
            directories and endings, unless two files would then have the same name.
        topics: keywords by topic, as from `read_topics`.
        total: add a line about all corpora together.
        reject: receives bad records.
        workers: processes that count.
        settings: fields of `DescribeConfig`.

    Yields:
        a line for each corpus, and for `total`.

    Raises:
        DataError: a corpus without records.
        ValueError: a setting is out of range.
    """
    config: DescribeConfig
    [config] = split_settings(settings, DescribeConfig)
    keys = {**ORIGINS, **{key: key for key in config.key_list}}
    make_worker = partial(BlockDescriber, keys, topics or {}, config.uncased)
    everything, all_words = Statistics(), WordFrequencies()
    for name, path in _named(corpora).items():
        statistics, words = Statistics(), WordFrequencies()
        for found in collected(RecordReader([path]), make_worker, workers, reject, "describing"):
            block = decode_block(found)
            for own, frequencies in ((statistics, words), (everything, all_words))[:1 + total]:
                own.merge(block)
                frequencies.add(block.words)
        if not statistics.lengths:
            refuse_empty([path])
        yield _line(name, statistics, words, config)
    if total:
        yield _line(TOTAL, everything, all_words, config)


def _named(corpora: Mapping[str, str | PathLike[str]] | Sequence[str | PathLike[str]],
           ) -> dict[str, str]:
    if isinstance(corpora, Mapping):
        return {name: fspath(path) for name, path in corpora.items()}
    paths = [fspath(path) for path in corpora]
    stems = Counter(map(source_stem, paths))
    return {source_stem(path) if stems[source_stem(path)] == 1 else str(path): path
            for path in paths}


def _line(name: str, statistics: Statistics, frequencies: WordFrequencies,
          config: DescribeConfig) -> JsonObject:
    words = _sum(statistics.lengths)
    bands = frequencies.bands(config.bounds)
    return {
        "corpus": name, "records": statistics.lengths.total(),
        "documents": statistics.count_documents(),
        "megabytes": round(statistics.bytes / MEGABYTE, 6), "characters": statistics.characters,
        "words": words, "distinct_words": sum(bands.values()), "frequency_bands": bands,
        "words_per_record": quantiles(statistics.lengths),
        "length_histogram": histogram(statistics.lengths),
        **{key: found for key, counts in statistics.values.items()
           if (found := _values(key, counts, config.most))},
        **({"topics": dict(statistics.topics.most_common())} if statistics.topics else {}),
        **statistics.annotations.line()}


def _sum(counts: Mapping[int, int]) -> int:
    """Return the sum of numbers that occur several times."""
    return sum(number * count for number, count in counts.items())


def _values(key: str, counts: Counter[str], most: int) -> dict[str, int]:
    """Return the most frequent values, or all years in order, and count the others together.

    The result is empty if no record has the key.
    """
    if not counts.keys() - {UNSTATED}:
        return {}
    last = {name: counts[name] for name in (OTHERS, UNSTATED) if name in counts}
    named = [one for one in counts.most_common() if one[0] not in last]
    if key == "years":
        return dict(sorted(named)) | last
    rest = sum(count for _, count in named[most:])
    if rest:
        last = {OTHERS: rest + last.pop(OTHERS, 0), **last}
    return dict(named[:most]) | last


@dataclass
class Statistics:
    """Statistics of some records; memory grows only with distinct values.

    Attributes:
        bytes: bytes of titles and texts in UTF-8.
        characters: characters of titles and texts.
        lengths: number of records by their number of words.
        values: number of records by value, for each key; a list counts for each of its values.
            If there are too many values, only the first ones are counted separately.
        topics: number of records by their main topic.
        annotations: counts of annotations.
        documents: hashes of document names, 8 bytes each.
        words: word frequencies of a block; `WordFrequencies` adds them up.
    """

    bytes: int = 0
    characters: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    values: dict[str, Counter[str]] = field(default_factory=dict)
    topics: Counter[str] = field(default_factory=Counter)
    annotations: AnnotationCounts = field(default_factory=AnnotationCounts)
    documents: list[np.ndarray] = field(default_factory=list)
    words: Counter[str] = field(default_factory=Counter)

    def merge(self, other: Statistics) -> None:
        """Add the statistics of other records."""
        self.bytes += other.bytes
        self.characters += other.characters
        self.lengths.update(other.lengths)
        for key, counts in other.values.items():
            own = self.values.setdefault(key, Counter())
            for value, count in counts.items():
                known = value in own or len(own) < _MOST_VALUES
                own[value if known else OTHERS] += count
        self.topics.update(other.topics)
        self.annotations.merge(other.annotations)
        self.documents += other.documents
        sizes = [*map(len, self.documents)]
        if sum(sizes[1:]) > max([_UNIQUE_FIRST, *sizes[:1]]):
            self.count_documents()

    def count_documents(self) -> int:
        """Count distinct documents; in a corpus of 22 million, hashes collide once in 70,000 cases.
        """
        self.documents = [np.unique(np.concatenate(self.documents))] if self.documents else []
        return len(self.documents[0]) if self.documents else 0


_encode = msgspec.msgpack.Encoder(enc_hook=np.ndarray.tobytes).encode
decode_block = msgspec.msgpack.Decoder(Statistics, dec_hook=lambda kind, found: (
    np.frombuffer(found, "u8") if kind is np.ndarray else kind(found))).decode
"""Decode the statistics from a `BlockDescriber`."""


class BlockDescriber:
    """Worker that computes the statistics of blocks.

    Args:
        keys: keys whose values are counted, by name in the description.
        topics: keywords by topic; topics are not counted if it is empty.
        uncased: ignore case when counting words.
    """

    def __init__(self, keys: Mapping[str, str], topics: Mapping[str, Sequence[str]],
                 uncased: bool) -> None:
        self._keys, self._uncased = keys, uncased
        self._words = ChunkWords()
        self._topics = Topics(topics) if topics else None

    def __call__(self, block: Block) -> list[Outcome]:
        """Compute the statistics of a block."""
        outcome = Outcome()
        records = list(block.records(outcome.reject))
        texts = [full_text(record) for record in records]
        statistics = Statistics(
            sum(len(text.encode()) for text in texts), sum(map(len, texts)),
            Counter(map(self._words.number, texts)),
            {name: Counter(value for record in records for value in values_of(record, key)
                           or [UNSTATED]) for name, key in self._keys.items()},
            Counter(self._topics.main_topic(self._topics.count(text)) or NO_TOPIC
                    for text in texts) if self._topics else Counter(),
            documents=[np.unique(word_keys(map(document_of, records), 0))])
        statistics.annotations.add(records)
        folded = [text.casefold() for text in texts] if self._uncased else texts
        statistics.words = self._words.frequencies(folded)
        outcome.lines = _encode(statistics)
        return [outcome]


def quantiles(counts: Mapping[int, int]) -> JsonObject:
    """Return the mean and the quantiles of numbers, by the number of their occurrences."""
    values = np.array(sorted(counts), dtype=np.int64)
    sums = np.cumsum([counts[value] for value in values.tolist()])
    shares = {"min": 0.0, "p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95,
              "max": 1.0}
    return {"mean": round(_sum(counts) / int(sums[-1]), 2), **{
        name: int(values[np.searchsorted(sums, share * sums[-1])]) for name, share
        in shares.items()}}


def histogram(counts: Mapping[int, int]) -> dict[str, int]:
    """Count numbers from each power of 2 up to the next, by the power."""
    found = Counter[int]()
    for value, count in counts.items():
        found[1 << (value.bit_length() - 1) if value else 0] += count
    highest = max(found)
    steps = [0] * (0 in found) + [1 << power for power in range(highest.bit_length())]
    return {str(step): found[step] for step in steps if step >= min(found)}
