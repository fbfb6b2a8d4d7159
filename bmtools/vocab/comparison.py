"""Comparison of vocabularies on the same text, entities and terms."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from bmtools.errors import DataError, setting
from bmtools.io.jsonl import read_lines
from bmtools.records import Record
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.fragmentation import Fragmentation, encode_words, fragmentation
from bmtools.vocab.tokenizer import Vocabulary, load_vocabulary
from bmtools.vocab.tokenizer_json import model_name, token_texts, unknown_ids
from bmtools.vocab.words import Segmenter, WordCounter, count_words_of, find_words

TEXT = "text"
ENTITIES = "entities"
TERMS = "terms"
OVERLAP = "overlap"
_TEXTS_AT_ONCE = 1_000
_DIGITS = 4


@dataclass(frozen=True)
class Term:
    """A mention or a term; its type may be empty."""

    text: str
    type: str = ""


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


def compare_vocab(vocabularies: Mapping[str, Vocabulary | Path | str],
                  records: Iterable[Record] = (), terms: Iterable[Term] = (), *, worst: int = 10,
                  corpus_words: int | None = None,
                  segmenter: Segmenter | None = None) -> Iterator[dict[str, Any]]:
    """Compare how vocabularies split the same text, entities and terms.

    Args:
        vocabularies: by name, loaded or as paths; the others' tokens are related to the first's.
        records: read once; titles are part of the text. Entities are counted mention by mention.
        terms: more to compare on.
        worst: number of terms named that a vocabulary breaks up worst.
        corpus_words: length of a corpus like the text, to estimate its number of tokens.
        segmenter: finds word starts where no spaces do.

    Yields:
        a line for each vocabulary and scope: the text, entities and terms by type; then a line
        for each pair of vocabularies.

    Raises:
        DataError: no words.
        CheckpointError: a path without a vocabulary.
    """
    usages = {name: _Usage(one if isinstance(one, Vocabulary) else load_vocabulary(Path(one)))
              for name, one in vocabularies.items()}
    counter = WordCounter(segmenter)
    entities, listed = _Mentions(ENTITIES), _Mentions(TERMS)
    pending = iter(records)
    while batch := list(islice(pending, _TEXTS_AT_ONCE)):
        texts = [text for record in batch for text in (record.get("title"), record["text"]) if text]
        counter.add(texts)
        for usage in usages.values():
            usage.add(texts)
        entities.add(mention for record in batch for mention in _entities(record))
    listed.add(terms)
    words = counter.words()
    scopes = [_Scope(TEXT, words, None, segmenter)] if words else []
    scopes += [_Scope(name, count_words_of(mentions, segmenter), mentions, segmenter)
               for source in (entities, listed) for name, mentions in source.scopes()]
    if not any(scope.words for scope in scopes):
        raise DataError("no words in the input; expected records with some text, or "
                        f"{setting('terms')} with some terms")
    for scope in scopes:
        yield from scope.lines(usages, worst, corpus_words)
    yield from _overlap_lines(usages)


class _Mentions:
    """Counts of mentions by type.

    Args:
        source: entities or terms.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._by_type: dict[str, Counter[str]] = {}

    def add(self, mentions: Iterable[Term]) -> None:
        for mention in mentions:
            counts = self._by_type.setdefault(mention.type, Counter())
            counts[" ".join(mention.text.split())] += 1

    def scopes(self) -> Iterator[tuple[str, Counter[str]]]:
        """Yield the mentions: all of them where types differ, then by type."""
        if len(self._by_type) > 1 or "" in self._by_type:
            yield self._source, sum(self._by_type.values(), Counter())
        for name in sorted(filter(None, self._by_type)):
            yield f"{self._source}:{name}", self._by_type[name]


class _Usage:
    """A vocabulary, and how often a text uses each of its tokens."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.backend = vocabulary.backend
        self.encoder = Encoder(self.backend)
        self.token_texts = token_texts(self.backend)
        self.counts = np.zeros(max(self.backend.get_vocab().values()) + 1, dtype=np.int64)
        self.facts = {"vocab_size": self.backend.get_vocab_size(),
                      "tokenizer_model": model_name(self.backend),
                      "casing": vocabulary.casing, "casing_assumed": vocabulary.casing_assumed}

    def add(self, texts: Sequence[str]) -> None:
        ids = self.encoder.encode(texts).ids
        self.counts += np.bincount(ids, minlength=len(self.counts))

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    def shared_with(self, other: _Usage) -> float | None:
        """Return the share of the text's tokens, special ones aside, that the other has too."""
        theirs = set(other.token_texts.values())
        ids = np.fromiter(self.token_texts, np.int64, len(self.token_texts))
        shared = np.fromiter((text in theirs for text in self.token_texts.values()), bool, len(ids))
        total = int(self.counts[ids].sum())
        return _rounded(int(self.counts[ids[shared]].sum()) / total) if total else None


def _entities(record: Record) -> Iterator[Term]:
    """Yield the mentions of a record; the parts of a discontinuous one are joined."""
    text = record["text"]
    for entity in record.get("entities", ()):
        spans = entity.get("spans") or [(entity["start"], entity["end"])]
        yield Term(" ".join(text[start:end] for start, end in spans), entity["type"])


def _overlap_lines(usages: Mapping[str, _Usage]) -> Iterator[dict[str, Any]]:
    for (name, one), (other_name, other) in combinations(usages.items(), 2):
        ours, theirs = set(one.token_texts.values()), set(other.token_texts.values())
        shared = len(ours & theirs)
        yield {"vocabulary": name, "scope": OVERLAP, "other": other_name, "shared": shared,
               "jaccard": _rounded(shared / len(ours | theirs)),
               "shared_share": _rounded(shared / len(ours)),
               "other_shared_share": _rounded(shared / len(theirs)),
               "shared_usage": one.shared_with(other), "other_shared_usage": other.shared_with(one)}


@dataclass(frozen=True)
class _Scope:
    """Words to compare on, and the mentions that they are part of, if any.

    Args:
        name: text, entities:TYPE, terms ...
        words: how often each occurs.
        mentions: how often each occurs; None for running text.
        segmenter: finds word starts where no spaces do.
    """

    name: str
    words: Mapping[str, int]
    mentions: Mapping[str, int] | None
    segmenter: Segmenter | None

    @property
    def spaced(self) -> bool:
        return self.segmenter is None

    def lines(self, usages: Mapping[str, _Usage], worst: int,
              corpus_words: int | None) -> Iterator[dict[str, Any]]:
        """Yield a line for each vocabulary."""
        first = None
        for name, usage in usages.items():
            line = self._line(usage, worst, corpus_words)
            first = first or line["tokens"]
            line["relative_tokens"] = _rounded(line["tokens"] / first) if first else None
            yield {"vocabulary": name, "scope": self.name, **usage.facts, **line}

    def _line(self, usage: _Usage, worst: int, corpus_words: int | None) -> dict[str, Any]:
        found = fragmentation(usage.backend, self.words, self.spaced)
        terms = self._term_figures(usage.backend, worst)
        tokens = usage.tokens if self.mentions is None else terms.tokens
        per_word = tokens / found.words if found.words else None
        return {
            "words": found.words, "pieces": found.pieces, **_shares(found),
            **({} if self.mentions is None else
               self._mention_figures(usage.backend, self.mentions, terms)),
            "tokens": tokens,
            "tokens_per_1000_words": None if per_word is None else round(1000 * per_word, 1),
            **({"corpus_tokens": round(corpus_words * per_word)}
               if corpus_words and per_word and self.mentions is None else {}),
            "worst": terms.worst.named(), "costliest": terms.costliest.named(),
            "unknown": terms.unknown.named()}

    def _term_figures(self, backend: Tokenizer, worst: int) -> _TermFigures:
        """Encode each mention, or each word of running text, as one string."""
        figures = _TermFigures(_Ranking(backend, worst), _Ranking(backend, worst),
                               _Ranking(backend, worst))
        unknowns = unknown_ids(backend)
        terms = self.words if self.mentions is None else self.mentions
        for (term, count), ids in zip(
                terms.items(), encode_words(backend, terms, self.spaced), strict=True):
            unbroken = 1 if self.mentions is None else self._unbroken_tokens(term)
            figures.add(term, count, ids, unbroken, is_unknown=not unknowns.isdisjoint(ids))
        return figures

    def _unbroken_tokens(self, mention: str) -> int:
        """Count the tokens of a mention with no word broken up: words, and signs one by one."""
        words = find_words(mention, self.segmenter)
        visible = sum(not character.isspace() for character in mention)
        return len(words) + visible - sum(map(len, words))

    def _mention_figures(self, backend: Tokenizer, mentions: Mapping[str, int],
                         terms: _TermFigures) -> dict[str, Any]:
        count = sum(mentions.values())
        distinct_words = count_words_of(dict.fromkeys(mentions, 1), self.segmenter)
        distinct = fragmentation(backend, distinct_words, self.spaced)
        return {"mentions": count, "whole_mentions_share": _rounded(terms.whole / count),
                "distinct_mentions": len(mentions),
                **{f"distinct_{key}": value for key, value in _shares(distinct).items()}}


class _Ranking:
    """The terms that rank highest.

    Args:
        backend: tokenizer of the ids.
        size: number of terms kept.
    """

    def __init__(self, backend: Tokenizer, size: int) -> None:
        self._backend = backend
        self._size = size
        self._kept: list[tuple[tuple[int, ...], int, str, int, list[int]]] = []
        self._seen = 0

    def add(self, rank: tuple[int, ...], term: str, count: int, ids: list[int]) -> None:
        """Add a term; of equal ranks, the first one stays."""
        self._seen += 1
        heapq.heappush(self._kept, (rank, -self._seen, term, count, ids))
        if len(self._kept) > self._size:
            heapq.heappop(self._kept)

    def named(self) -> list[dict[str, Any]]:
        """Return the terms, highest first, with their pieces."""
        return [{"term": term, "count": count,
                 "pieces": [self._backend.id_to_token(number) for number in ids]}
                for _, _, term, count, ids in sorted(self._kept, reverse=True)]


@dataclass
class _TermFigures:
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

    def add(self, term: str, count: int, ids: list[int], unbroken: int, is_unknown: bool) -> None:
        self.tokens += count * len(ids)
        self.whole += count * (len(ids) == 1 and not is_unknown)
        excess = len(ids) - unbroken
        if excess > 0:
            self.worst.add((excess, count), term, count, ids)
            self.costliest.add((excess * count, excess), term, count, ids)
        if is_unknown:
            self.unknown.add((count,), term, count, ids)


def _shares(found: Fragmentation) -> dict[str, float]:
    return {"pieces_per_word": _rounded(found.pieces_per_word),
            "whole_share": _rounded(found.whole_share),
            "unknown_share": _rounded(found.unknown_share)}


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
