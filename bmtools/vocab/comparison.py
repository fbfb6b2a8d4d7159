"""What vocabularies make of the same text, entities and terms."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import numpy as np

from bmtools.errors import DataError
from bmtools.io.jsonl import read_lines
from bmtools.records import Record
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.fragmentation import Fragmentation, encode_words, find_unknown, fragmentation
from bmtools.vocab.token_text import kind_of, spellings
from bmtools.vocab.tokenizer import Vocabulary
from bmtools.vocab.words import FindStarts, WordCounter, find_words

TEXT = "text"
ENTITIES = "entities"
TERMS = "terms"
OVERLAP = "overlap"
_TEXTS_AT_ONCE = 1_000
_DIGITS = 4


@dataclass(frozen=True)
class Term:
    """A mention or a term; an empty type is none."""

    text: str
    type: str = ""


@dataclass
class ComparisonText:
    """What vocabularies are compared on: only counts of what differs are held.

    Args:
        find_starts: says where words begin where no spaces do.
    """

    find_starts: FindStarts | None = None
    texts: WordCounter = field(init=False)
    mentions: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.texts = WordCounter(self.find_starts)

    def add_mentions(self, source: str, mentions: Iterable[Term]) -> None:
        """Count mentions by type; `source` is entities or terms."""
        for mention in mentions:
            types = self.mentions.setdefault(source, {})
            types.setdefault(mention.type, Counter())[" ".join(mention.text.split())] += 1

    def scopes(self) -> Iterator[tuple[str, Counter[str]]]:
        """Give the mentions of each source: all of them where types differ, then by type."""
        for source, types in self.mentions.items():
            if len(types) > 1 or "" in types:
                yield source, sum(types.values(), Counter())
            for name in sorted(filter(None, types)):
                yield f"{source}:{name}", types[name]


def read_terms(name: str) -> Iterator[Term]:
    """Read terms, one a line, each with a type behind a tab or without one.

    Raises:
        DataError: a line with more columns, or with a type alone.
    """
    for number, line in read_lines(name):
        columns = [column.strip() for column in line.split("\t")]
        if not any(columns):
            continue
        if len(columns) > 2 or not columns[0]:
            raise DataError(f"{name}:{number}: found {line[:40]!r}, expected a term, or a term "
                            "and its type with a tab between them")
        yield Term(*columns)


def compare_vocabularies(vocabularies: Mapping[str, Vocabulary], records: Iterable[Record],
                         terms: Iterable[Term] = (), worst: int = 10,
                         corpus_words: int | None = None,
                         find_starts: FindStarts | None = None) -> Iterator[dict[str, Any]]:
    """Say what each vocabulary makes of the same text, entities and terms.

    Args:
        vocabularies: by name; the first is what the others' tokens are set against.
        records: read once; titles count to the text. Entities are counted mention by mention.
        terms: more to look at beside the records.
        worst: how many of the terms that a vocabulary breaks up worst are named.
        corpus_words: length of a corpus like the text, whose number of tokens is wanted.
        find_starts: says where words begin where no spaces do.

    Yields:
        a line for each vocabulary and scope: the text, entities and terms by type; then a line
        for each pair of vocabularies.

    Raises:
        DataError: not one word.
    """
    material = ComparisonText(find_starts)
    usages = {name: _Usage(one) for name, one in vocabularies.items()}
    pending = iter(records)
    while chunk := list(islice(pending, _TEXTS_AT_ONCE)):
        texts = [text for record in chunk for text in (record.get("title"), record["text"]) if text]
        material.texts.add(texts)
        for usage in usages.values():
            usage.add(texts)
        material.add_mentions(ENTITIES, (mention for record in chunk
                                         for mention in _entities(record)))
    material.add_mentions(TERMS, terms)
    yield from _scope_lines(material, usages, worst, corpus_words)
    yield from _overlap_lines(usages)


class _Usage:
    """A vocabulary, and how often a text uses each of its tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.encoder = Encoder(vocabulary.backend)
        self.spelled = spellings(vocabulary.backend)
        self.counts = np.zeros(max(vocabulary.backend.get_vocab().values()) + 1, dtype=np.int64)
        self.facts = {"size": vocabulary.size, "kind": kind_of(vocabulary.backend),
                      "casing": vocabulary.casing, "casing_assumed": vocabulary.assumed}

    def add(self, texts: Sequence[str]) -> None:
        ids = self.encoder.encode(texts).ids
        self.counts += np.bincount(ids, minlength=len(self.counts))

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    def known_to(self, other: _Usage) -> float | None:
        """Share of the text's tokens, special ones aside, that another vocabulary has too."""
        theirs = set(other.spelled.values())
        ids = np.fromiter(self.spelled, np.int64, len(self.spelled))
        both = np.fromiter((one in theirs for one in self.spelled.values()), bool, len(ids))
        total = int(self.counts[ids].sum())
        return _rounded(int(self.counts[ids[both]].sum()) / total) if total else None


def _entities(record: Record) -> Iterator[Term]:
    """Give the mentions of a record; the parts of a discontinuous one stand together."""
    text = record["text"]
    for entity in record.get("entities", ()):
        spans = entity.get("spans") or [(entity["start"], entity["end"])]
        yield Term(" ".join(text[start:end] for start, end in spans), entity["type"])


def _scope_lines(material: ComparisonText, usages: Mapping[str, _Usage], worst: int,
                 corpus_words: int | None) -> Iterator[dict[str, Any]]:
    words = material.texts.words()
    scopes = [_Scope(TEXT, words, None, material.find_starts)] if words else []
    scopes += [_Scope.of(name, mentions, material.find_starts)
               for name, mentions in material.scopes()]
    if not any(scope.words for scope in scopes):
        raise DataError("no words in the input; expected records with some text, or --terms with "
                        "some terms")
    for scope in scopes:
        first = None
        for name, usage in usages.items():
            line = scope.line(usage, worst, corpus_words)
            first = first or line["tokens"]
            line["relative_tokens"] = _rounded(line["tokens"] / first) if first else None
            yield {"vocabulary": name, "scope": scope.name, **usage.facts, **line}


def _overlap_lines(usages: Mapping[str, _Usage]) -> Iterator[dict[str, Any]]:
    for (name, one), (other_name, other) in combinations(usages.items(), 2):
        ours, theirs = set(one.spelled.values()), set(other.spelled.values())
        shared = len(ours & theirs)
        yield {"vocabulary": name, "scope": OVERLAP, "other": other_name, "shared": shared,
               "jaccard": _rounded(shared / len(ours | theirs)),
               "shared_share": _rounded(shared / len(ours)),
               "other_shared_share": _rounded(shared / len(theirs)),
               "shared_usage": one.known_to(other), "other_shared_usage": other.known_to(one)}


@dataclass(frozen=True)
class _Scope:
    """Some words, and the mentions that they stand in, if they do.

    Args:
        name: text, entities:TYPE, terms ...
        words: how often each occurs.
        mentions: how often each occurs; None for running text.
        find_starts: says where words begin where no spaces do.
    """

    name: str
    words: Mapping[str, int]
    mentions: Mapping[str, int] | None
    find_starts: FindStarts | None

    @classmethod
    def of(cls, name: str, mentions: Mapping[str, int], find_starts: FindStarts | None) -> _Scope:
        return cls(name, _words_of(mentions, find_starts), mentions, find_starts)

    @property
    def spaced(self) -> bool:
        return self.find_starts is None

    def line(self, usage: _Usage, worst: int, corpus_words: int | None) -> dict[str, Any]:
        """Say what a vocabulary makes of the words and mentions."""
        found = fragmentation(usage.vocabulary.backend, self.words, self.spaced)
        broken = self._broken(usage.vocabulary.backend, worst)
        tokens = usage.tokens if self.mentions is None else broken.tokens
        per_word = tokens / found.words if found.words else None
        return {
            "words": found.words, "pieces": found.pieces, **_shares(found),
            **({} if self.mentions is None else self._mention_figures(usage, broken)),
            "tokens": tokens,
            "tokens_per_1000_words": None if per_word is None else round(1000 * per_word, 1),
            **({"corpus_tokens": round(corpus_words * per_word)}
               if corpus_words and per_word and self.mentions is None else {}),
            "worst": broken.worst.named(), "costliest": broken.costliest.named(),
            "unknown": broken.unknown.named()}

    def _broken(self, backend: Any, most: int) -> _Broken:
        """Look at each mention, or each word of running text, as one string."""
        broken = _Broken(_Ranking(backend, most), _Ranking(backend, most), _Ranking(backend, most))
        unknowns = find_unknown(backend)
        terms = self.words if self.mentions is None else self.mentions
        for (term, count), ids in zip(
                terms.items(), encode_words(backend, terms, self.spaced), strict=True):
            least = 1 if self.mentions is None else self._least_tokens(term)
            broken.add(term, count, ids, least, lost=not unknowns.isdisjoint(ids))
        return broken

    def _least_tokens(self, mention: str) -> int:
        """Tokens of a mention none of whose words is broken up: words, and signs one by one."""
        words = find_words(mention, self.find_starts)
        visible = sum(not character.isspace() for character in mention)
        return len(words) + visible - sum(map(len, words))

    def _mention_figures(self, usage: _Usage, broken: _Broken) -> dict[str, Any]:
        mentions = self.mentions or {}
        count = sum(mentions.values())
        once = fragmentation(usage.vocabulary.backend,
                             _words_of(dict.fromkeys(mentions, 1), self.find_starts), self.spaced)
        return {"mentions": count, "whole_mentions_share": _rounded(broken.whole / count),
                "distinct_mentions": len(mentions),
                **{f"distinct_{key}": value for key, value in _shares(once).items()}}


class _Ranking:
    """The few terms that rank highest.

    Args:
        backend: the tokenizer whose ids are given.
        most: how many are kept.
    """

    def __init__(self, backend: Any, most: int) -> None:
        self._backend = backend
        self._most = most
        self._kept: list[tuple[tuple[int, ...], int, str, int, list[int]]] = []
        self._seen = 0

    def add(self, rank: tuple[int, ...], term: str, count: int, ids: list[int]) -> None:
        """Take a term in; of equals, the one that came first stays."""
        self._seen += 1
        heapq.heappush(self._kept, (rank, -self._seen, term, count, ids))
        if len(self._kept) > self._most:
            heapq.heappop(self._kept)

    def named(self) -> list[dict[str, Any]]:
        """Give the terms, highest first, with their pieces."""
        return [{"term": term, "count": count,
                 "pieces": [self._backend.id_to_token(number) for number in ids]}
                for _, _, term, count, ids in sorted(self._kept, reverse=True)]


@dataclass
class _Broken:
    """Terms that a vocabulary breaks up, and sums over all.

    Args:
        worst: by tokens beyond those of unbroken words, then by how often they occur.
        costliest: by tokens beyond those of unbroken words, all occurrences together.
        unknown: those that cannot be spelled, by how often they occur.
        tokens: of all terms, each as often as it occurs.
        whole: occurrences of terms that are one token.
    """

    worst: _Ranking
    costliest: _Ranking
    unknown: _Ranking
    tokens: int = 0
    whole: int = 0

    def add(self, term: str, count: int, ids: list[int], least: int, lost: bool) -> None:
        self.tokens += count * len(ids)
        self.whole += count * (len(ids) == 1 and not lost)
        beyond = len(ids) - least
        if beyond > 0:
            self.worst.add((beyond, count), term, count, ids)
            self.costliest.add((beyond * count, beyond), term, count, ids)
        if lost:
            self.unknown.add((count,), term, count, ids)


def _words_of(mentions: Mapping[str, int], find_starts: FindStarts | None) -> Counter[str]:
    words: Counter[str] = Counter()
    for mention, count in mentions.items():
        for word in find_words(mention, find_starts):
            words[word] += count
    return words


def _shares(found: Fragmentation) -> dict[str, float]:
    return {"pieces_per_word": _rounded(found.pieces_per_word),
            "whole_share": _rounded(found.whole_share),
            "unknown_share": _rounded(found.unknown_share)}


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
