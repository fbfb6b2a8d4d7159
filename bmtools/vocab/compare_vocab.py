"""Comparison of vocabularies on the same text, entities and terms."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain, islice
from pathlib import Path

from tokenizers import Tokenizer

from bmtools.errors import DataError, setting
from bmtools.io.sources import read_lines
from bmtools.records import JsonObject, Record
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.loading import Vocabulary, load_vocabulary
from bmtools.vocab.segmenters import Segmenter
from bmtools.vocab.tokenizer import unknown_ids
from bmtools.vocab.words import (
    WordCounter,
    count_words_of,
    encode_words,
    find_words,
    fragmentation,
    word_starts,
)

TEXT = "text"
ENTITIES = "entities"
TERMS = "terms"
_TEXTS_AT_ONCE = 1_000
_DIGITS = 4


@dataclass(frozen=True)
class Term:
    """A mention or a term, with a type that may be empty."""

    text: str
    type: str = ""


def read_terms(name: str) -> Iterator[Term]:
    """Read terms, one per line, each optionally followed by a tab and a type.

    Raises:
        DataError: a line has more columns, or only a type.
    """
    for number, line in read_lines(name):
        columns = [column.strip() for column in line.split("\t")]
        if not any(columns):
            continue
        if len(columns) > 2 or not columns[0]:
            raise DataError(f"{name}:{number}: found {line[:40]!r}, expected a term, or a term, "
                            "a tab and its type")
        yield Term(*columns)


def compare_vocab(vocabularies: Mapping[str, Vocabulary | Path | str],
                  records: Iterable[Record] = (), terms: Iterable[Term] = (), *, worst: int = 10,
                  segmenter: Segmenter | None = None) -> Iterator[JsonObject]:
    """Compare how vocabularies split the same text, entities and terms.

    Args:
        vocabularies: vocabularies or paths by name; `relative_tokens` compares with the first.
        records: read once; titles are part of the text. Each mention of an entity counts.
        terms: more terms to compare on.
        worst: number of terms listed in each ranking of a vocabulary.
        segmenter: finds word starts in languages without spaces.

    Yields:
        a line for each vocabulary and scope. Scopes are the text, and entities and terms by type.

    Raises:
        DataError: there are no words.
        CheckpointError: a path does not contain a vocabulary.
    """
    loaded = _loaded(vocabularies)
    encoders = {name: Encoder(vocabulary.backend) for name, vocabulary in loaded.items()}
    tokens: Counter[str] = Counter()
    counter = WordCounter(segmenter)
    mentions: dict[str, defaultdict[str, Counter[str]]] = {
        ENTITIES: defaultdict(Counter), TERMS: defaultdict(Counter)}
    pending = iter(records)
    while batch := list(islice(pending, _TEXTS_AT_ONCE)):
        texts = [text for record in batch for text in (record.get("title"), record["text"]) if text]
        counter.add(texts)
        for name, encoder in encoders.items():
            tokens[name] += len(encoder.encode(texts).ids)
        _count_mentions(mentions[ENTITIES], (one for record in batch for one in _entities(record)))
    _count_mentions(mentions[TERMS], terms)
    words = counter.words()
    scopes = [_Scope(TEXT, words, None, segmenter)] if words else []
    for source, by_type in mentions.items():
        # All mentions together, if their types differ, then by type.
        named = {f"{source}:{name}": by_type[name] for name in sorted(filter(None, by_type))}
        if len(by_type) > 1 or "" in by_type:
            named = {source: sum(by_type.values(), Counter()), **named}
        scopes += [_Scope(name, count_words_of(counts, segmenter), counts, segmenter)
                   for name, counts in named.items()]
    if not any(scope.words for scope in scopes):
        raise DataError("no words in the input; expected records with some text, or "
                        f"{setting('terms')} with some terms")
    for scope in scopes:
        yield from scope.lines(loaded, tokens, worst)


def compare_terms(vocabularies: Mapping[str, Vocabulary | Path | str],
                  records: Iterable[Record] = (), terms: Iterable[Term] = (), *,
                  segmenter: Segmenter | None = None) -> Iterator[JsonObject]:
    """Show the pieces of each mention and term, and how a tagger labels them.

    Args:
        vocabularies: vocabularies or paths by name.
        records: records whose entities are the mentions; equal mentions are counted.
        terms: more terms, after the mentions.
        segmenter: given for a language without spaces, in which terms have no leading space.

    Yields:
        a line for each distinct term, with `whole`, `pieces` and the labels `first` and `all` for
        each vocabulary. The labels are those of `label_pieces` in `finetune ner`; - means that the
        piece has no label.

    Raises:
        DataError: there are no mentions and no terms.
    """
    lead = " " if segmenter is None else ""
    backends = {name: one.backend for name, one in _loaded(vocabularies).items()}
    counts = Counter(Term(" ".join(one.text.split()), one.type) for one in chain(
        chain.from_iterable(map(_entities, records)), terms))
    if not counts:
        raise DataError("no entities in the input; expected records with entities, or "
                        f"{setting('terms')} with some terms")
    for term, count in counts.items():
        yield {"term": term.text, **({"type": term.type} if term.type else {}), "count": count,
               "vocabularies": {name: _pieces(backend, lead, term.text)
                                for name, backend in backends.items()}}


def _pieces(backend: Tokenizer, lead: str, term: str) -> JsonObject:
    """Encode a term, without tokens that contain only the space before it."""
    text = lead + term
    encoding = backend.encode(text, add_special_tokens=False)
    starts = word_starts(backend, [text], [encoding])
    kept = [number for number, (_, end) in enumerate(encoding.offsets) if end > len(lead)]
    labels = ["B", *["I"] * len(kept)][:len(kept)]
    return {"whole": len(kept) == 1 and encoding.ids[kept[0]] not in unknown_ids(backend),
            "pieces": [encoding.tokens[number] for number in kept],
            "first": [label if label == "B" or starts[number] else "-"
                      for number, label in zip(kept, labels, strict=True)],
            "all": labels}


def _loaded(vocabularies: Mapping[str, Vocabulary | Path | str]) -> dict[str, Vocabulary]:
    return {name: one if isinstance(one, Vocabulary) else load_vocabulary(Path(one))
            for name, one in vocabularies.items()}


def _count_mentions(by_type: dict[str, Counter[str]], mentions: Iterable[Term]) -> None:
    for mention in mentions:
        by_type[mention.type][" ".join(mention.text.split())] += 1


def _entities(record: Record) -> Iterator[Term]:
    """Yield the mentions of a record, joining the parts of a discontinuous mention."""
    text = record["text"]
    for entity in record.get("entities", ()):
        spans = entity.get("spans") or [(entity["start"], entity["end"])]
        yield Term(" ".join(text[start:end] for start, end in spans), entity["type"])


@dataclass(frozen=True)
class _Scope:
    """Words to compare on, and the mentions that contain them, if any.

    Args:
        name: text, entities:TYPE, terms ...
        words: how often each word occurs.
        mentions: how often each mention occurs; None for running text.
        segmenter: finds word starts in languages without spaces.
    """

    name: str
    words: Mapping[str, int]
    mentions: Mapping[str, int] | None
    segmenter: Segmenter | None

    def lines(self, vocabularies: Mapping[str, Vocabulary], text_tokens: Mapping[str, int],
              worst: int) -> Iterator[JsonObject]:
        """Yield a line for each vocabulary; the tokens of running text include punctuation."""
        first = None
        for name, vocabulary in vocabularies.items():
            found = fragmentation(vocabulary.backend, self.words, self.segmenter is None)
            tokens, whole, ranked = self._rank_terms(vocabulary.backend, worst)
            line: JsonObject = {"words": found.words, "pieces": found.pieces, **found.shares()}
            if self.mentions is None:
                tokens = text_tokens[name]
            else:
                count = sum(self.mentions.values())
                line |= {"mentions": count, "whole_mentions_share": round(whole / count, _DIGITS)}
            first = first or tokens
            yield {"vocabulary": name, "scope": self.name, **vocabulary.facts(), **line,
                   "tokens": tokens, "tokens_per_1000_words":
                   round(1000 * tokens / found.words, 1) if found.words else None, **ranked,
                   "relative_tokens": round(tokens / first, _DIGITS) if first else None}

    def _rank_terms(self, backend: Tokenizer, worst: int,
                    ) -> tuple[int, int, dict[str, list[JsonObject]]]:
        """Encode each mention, or each word of running text, as one string.

        Returns:
            the number of tokens, the number of occurrences that are one token, and three rankings.
            `worst` ranks terms by their extra tokens compared with unbroken words,
            then by occurrences. `costliest` ranks terms by the extra tokens of all occurrences.
            `unknown` ranks terms with unknown tokens by occurrences. Ties keep the input order.
        """
        spaced = self.segmenter is None
        unknowns = unknown_ids(backend)
        terms = self.words if self.mentions is None else self.mentions
        tokens = whole = 0
        unbroken = 1
        broken: list[tuple[int, int, str]] = []
        unknown: list[tuple[int, str]] = []
        for (term, count), ids in zip(terms.items(), encode_words(backend, terms, spaced),
                                      strict=True):
            is_unknown = not unknowns.isdisjoint(ids)
            tokens += count * len(ids)
            whole += count * (len(ids) == 1 and not is_unknown)
            if self.mentions is not None:  # its words, and each sign
                words = find_words(term, self.segmenter)
                visible = sum(not character.isspace() for character in term)
                unbroken = len(words) + visible - sum(map(len, words))
            if len(ids) > unbroken:
                broken.append((len(ids) - unbroken, count, term))
            if is_unknown:
                unknown.append((count, term))
        costliest = nlargest(worst, broken, key=lambda one: (one[0] * one[1], one[0]))
        highest = {"worst": [one[1:] for one in nlargest(worst, broken, key=lambda one: one[:2])],
                   "costliest": [one[1:] for one in costliest],
                   "unknown": nlargest(worst, unknown, key=lambda one: one[0])}
        return tokens, whole, {
            name: [{"term": term, "count": count, "pieces": [*map(backend.id_to_token, ids)]}
                   for (count, term), ids in zip(ranked, encode_words(
                       backend, [term for _, term in ranked], spaced), strict=True)]
            for name, ranked in highest.items()}
