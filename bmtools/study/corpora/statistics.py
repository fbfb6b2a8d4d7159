"""Statistics of records that are counted block by block and added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from tokenizers import Tokenizer

from bmtools.corpus.splits import values_of
from bmtools.io.jsonl import Block
from bmtools.io.workers import Outcome
from bmtools.records import JsonObject, Record, document_of, full_text
from bmtools.study.corpora.settings import NO_TOPIC, OTHERS, UNSTATED
from bmtools.study.corpora.topics import Topics
from bmtools.tasks.metrics.annotation_counts import AnnotationCounts
from bmtools.text.reservoir import word_keys
from bmtools.text.words import ChunkWords
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.tokenizer import unknown_ids

ORIGINS = {"languages": "lang", "licences": "licence", "years": "meta.year", "sources": "source"}
"""Keys of records whose values are counted, by their names in a description."""
_MOST_VALUES = 100_000
_UNIQUE_FIRST = 1 << 20


@dataclass
class TokenCounts:
    """Tokens of texts under a vocabulary, special ones left out.

    Attributes:
        lengths: number of records by their tokens.
        unknown: tokens that stand for what the vocabulary cannot spell.
    """

    lengths: Counter[int] = field(default_factory=Counter)
    unknown: int = 0

    def merge(self, other: TokenCounts) -> None:
        """Add the counts of other records."""
        self.lengths.update(other.lengths)
        self.unknown += other.unknown


@dataclass
class Statistics:
    """Statistics of some records, in memory that grows with what is distinct in them alone.

    Attributes:
        bytes: of titles and texts in UTF-8.
        characters: of titles and texts.
        lengths: number of records by their words.
        tokens: by the name of the vocabulary.
        values: number of records by value, for each key; of many, those that came first.
        topics: number of records by their main topic.
        annotations: of sets.
        documents: hashes of their names, 8 bytes each.
    """

    bytes: int = 0
    characters: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    tokens: dict[str, TokenCounts] = field(default_factory=dict)
    values: dict[str, Counter[str]] = field(default_factory=dict)
    topics: Counter[str] = field(default_factory=Counter)
    annotations: AnnotationCounts = field(default_factory=AnnotationCounts)
    documents: list[np.ndarray] = field(default_factory=list)

    def merge(self, other: Statistics) -> None:
        """Add the statistics of other records."""
        self.bytes += other.bytes
        self.characters += other.characters
        self.lengths.update(other.lengths)
        for name, tokens in other.tokens.items():
            self.tokens.setdefault(name, TokenCounts()).merge(tokens)
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
        """Count distinct documents; two of 22 million share a hash once in 70,000 corpora."""
        self.documents = [np.unique(np.concatenate(self.documents))] if self.documents else []
        return len(self.documents[0]) if self.documents else 0


@dataclass(frozen=True)
class DescribedBlock:
    """Statistics of a block, and how often its words occur."""

    statistics: Statistics
    words: Counter[str]


_encode = msgspec.msgpack.Encoder(enc_hook=np.ndarray.tobytes).encode
decode_block = msgspec.msgpack.Decoder(DescribedBlock, dec_hook=lambda kind, found: (
    np.frombuffer(found, "u8") if kind is np.ndarray else kind(found))).decode
"""Read what a `BlockDescriber` has found."""


class BlockDescriber:
    """Worker that counts what is in blocks.

    Args:
        keys: whose values are counted, by their names in the description.
        vocabularies: tokenizers as JSON, by name.
        topics: keywords by topic; none if empty.
        uncased: count words without regard to case.
    """

    def __init__(self, keys: Mapping[str, str], vocabularies: Mapping[str, str],
                 topics: Mapping[str, Sequence[str]], uncased: bool) -> None:
        self._keys, self._uncased = keys, uncased
        self._words = ChunkWords()
        self._topics = Topics(topics) if topics else None
        backends = {name: Tokenizer.from_str(text) for name, text in vocabularies.items()}
        self._encoders = {name: (Encoder(backend), sorted(unknown_ids(backend)))
                          for name, backend in backends.items()}

    def __call__(self, block: Block) -> list[Outcome]:
        """Count what is in a block."""
        outcome = Outcome()
        records = list(block.records(outcome.reject))
        texts = [full_text(record) for record in records]
        statistics = Statistics(
            sum(len(text.encode()) for text in texts), sum(map(len, texts)),
            Counter(map(self._words.number, texts)),
            {name: self._tokens(texts, name) for name in self._encoders},
            {name: self._values(records, key) for name, key in self._keys.items()},
            self._count_topics(texts),
            documents=[np.unique(word_keys(map(document_of, records), 0))])
        statistics.annotations.add(records)
        folded = [text.casefold() for text in texts] if self._uncased else texts
        outcome.lines = _encode(DescribedBlock(statistics, self._words.frequencies(folded)))
        return [outcome]

    def _tokens(self, texts: Sequence[str], name: str) -> TokenCounts:
        encoder, unknown = self._encoders[name]
        found = encoder.encode(texts)
        return TokenCounts(Counter(found.lengths.tolist()),
                           int(np.isin(found.ids, unknown).sum()))

    def _values(self, records: Sequence[Record], key: str) -> Counter[str]:
        """Count records by the values of a key; one that holds a list counts for each."""
        return Counter(value for record in records for value in values_of(record, key)
                       or [UNSTATED])

    def _count_topics(self, texts: Sequence[str]) -> Counter[str]:
        if self._topics is None:
            return Counter()
        return Counter(self._topics.main_topic(self._topics.count(text)) or NO_TOPIC
                       for text in texts)


def quantiles(counts: Mapping[int, int]) -> JsonObject:
    """Return the mean and quantiles of numbers that are counted: the least that so many reach."""
    values = np.array(sorted(counts), dtype=np.int64)
    sums = np.cumsum([counts[value] for value in values.tolist()])
    mean = sum(value * count for value, count in counts.items()) / int(sums[-1])
    shares = {"min": 0.0, "p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95,
              "max": 1.0}
    return {"mean": round(mean, 2), **{
        name: int(values[np.searchsorted(sums, share * sums[-1])]) for name, share
        in shares.items()}}


def histogram(counts: Mapping[int, int]) -> dict[str, int]:
    """Count numbers from each power of 2 to the next, by the power."""
    found = Counter[int]()
    for value, count in counts.items():
        found[1 << (value.bit_length() - 1) if value else 0] += count
    highest = max(found)
    steps = [0] * (0 in found) + [1 << power for power in range(highest.bit_length())]
    return {str(step): found[step] for step in steps if step >= min(found)}
