"""Counts of a translation, and what they say to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bmtools.errors import count_of
from bmtools.translation.settings import CHECKS

COUNTED = {
    "memory": "sentences from the translation memory",
    "fuzzy": "sentences from similar ones in the translation memory, flagged fuzzy-match",
    "lost_workers": "workers of the Ray cluster lost, whose work others did again",
    "restarts": "times that the engine stood still or ended, and was started again",
    "requests": "requests to the server",
    "repeated requests": "requests sent again, since the server was busy, broken or silent",
    "prompt tokens": "tokens sent, as the server counts them",
    "answer tokens": "tokens received, as the server counts them",
    "split": "sentences longer than the model takes, translated by clauses",
    "terms": "terms in sentences, by the glossary, the protected ones and kinds",
    "terms_enforced": "sentences translated again with placeholders for terms",
    "terms_lost": "terms lost all the same; their sentences are flagged as terms",
    "retried": "sentences with faults, tried with the engine's other settings",
    "mended": "of them without a fault then",
    **{f"flagged_{check}": f"sentences flagged as {check}: {meaning}"
       for check, meaning in CHECKS.items()},
}
"""Keys of a translator's counts, and what they count, for people."""
EDGES = "edges corrected: "
"""Before the rule by which they were."""


@dataclass
class TranslationCounts:
    """Counts of a translation so far.

    Args:
        records: translated records.
        sentences: sentences in them.
        words: white-space words of those sentences.
        distinct: different sentences given to the engine.
        unknown: words that the engine reports as unknown.
        missing: sentences kept or dropped for lack of a translation.
        stripped: records that lost annotations.
        passed_on: records in another language that were left as they are.
        cached: sentences whose translations the cache had from earlier runs.
        stored: sentences in a cache that stays, and its bytes.
        inputs: records read, those rejected included, that are done with.
        engine: the engine's own counts, see `COUNTED`.
        projection: counts of annotations that were carried along, or lost.
        round_trips: sentences translated back.
        round_trip_sum: of their chrF.
        worst_round_trip: the lowest of them.
        worst_sentence: that it is of.
    """

    records: int = 0
    sentences: int = 0
    words: int = 0
    distinct: int = 0
    unknown: int = 0
    missing: int = 0
    stripped: int = 0
    passed_on: int = 0
    cached: int = 0
    stored: tuple[int, int] | None = None
    inputs: int = 0
    engine: Counter[str] = field(default_factory=Counter)
    projection: Counter[str] = field(default_factory=Counter)
    round_trips: int = 0
    round_trip_sum: float = 0.0
    worst_round_trip: float = 100.0
    worst_sentence: str = ""

    def add_round_trip(self, score: float, sentence: str) -> None:
        """Count a sentence that was translated back."""
        self.round_trips += 1
        self.round_trip_sum += score
        if score < self.worst_round_trip or not self.worst_sentence:
            self.worst_round_trip, self.worst_sentence = score, sentence

    def lines(self) -> Iterator[str]:
        """Yield lines for people: totals, and counts that deserve a look."""
        ones = count_of(self.distinct, "different ones")
        yield (f"{count_of(self.records, 'records')}, {count_of(self.sentences, 'sentences')} "
               f"({ones}), {count_of(self.words, 'words')}")
        if self.unknown:
            share = 100 * self.unknown / self.words
            yield count_of(self.unknown, f"unknown words ({share:.1f}%), left as they were")
        for count, meaning in (
                (self.missing, "sentences without a translation"),
                (self.stripped, "records left without annotations"),
                (self.passed_on, "records in other languages, left as they were"),
                (self.cached, "sentences known from the cache")):
            if count:
                yield count_of(count, meaning)
        if self.stored:
            sentences, size = self.stored
            yield count_of(sentences, f"sentences in the cache, {size / 1e6:,.1f} MB")
        for key, meaning in COUNTED.items():
            if self.engine[key]:
                yield count_of(self.engine[key], meaning)
        yield from count_lines(self.projection)
        if self.round_trips:
            mean = self.round_trip_sum / self.round_trips
            yield count_of(self.round_trips, f"sentences translated back: chrF {mean:.1f} in the "
                           f"mean, at worst {self.worst_round_trip:.1f}: "
                           f"{self.worst_sentence[:80]!r}")


def count_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what was counted, the corrected edges together and last, the most frequent first."""
    rules = {name.removeprefix(EDGES): count for name, count in counts.items()
             if count and name.startswith(EDGES)}
    yield from (f"{name}: {count:,}" for name, count in counts.items()
                if count and not name.startswith(EDGES))
    if rules:
        each = ", ".join(f"{rule} {count:,}" for rule, count in sorted(
            rules.items(), key=lambda item: -item[1]))
        yield f"edges corrected by rules: {each}"
