"""Counts of a translation or a projection, and what they say to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bmtools.errors import count_of
from bmtools.translation.settings import CHECKS

TOTALS = ("inputs", "records", "sentences", "words", "distinct", "unknown")
COUNTED = {
    "missing": "sentences without a translation",
    "stripped": "records left without annotations",
    "passed_on": "records in other languages, left as they were",
    "cached": "sentences known from the cache",
    "memory": "sentences from the translation memory",
    "lost_workers": "workers of the Ray cluster lost, whose work others did again",
    "restarts": "times that the engine stood still or ended, and was started again",
    "requests": "requests to the server",
    "repeated requests": "requests sent again, since the server was busy, broken or silent",
    "prompt tokens": "tokens sent, as the server counts them",
    "answer tokens": "tokens received, as the server counts them",
    "split": "sentences longer than the model takes, translated by clauses",
    "terms": "terms in sentences, by the glossary and the protected ones",
    "terms_enforced": "sentences translated again with placeholders for terms",
    "terms_lost": "terms lost all the same; their sentences are flagged as terms",
    "retried": "sentences with faults, tried with the engine's other settings",
    "mended": "of them without a fault then",
    **{f"flagged_{check}": f"sentences flagged as {check}: {meaning}"
       for check, meaning in CHECKS.items()},
}
"""Keys of the counts, those of a translator included, and what they count, for people.

Besides these there are `TOTALS`: of records done with, of those translated, their sentences and
words, of different sentences, and of words that the engine does not know. All other keys are
words for people themselves.
"""


def translation_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield lines for people: totals, and counts that deserve a look."""
    records, sentences, words, distinct, unknown = (counts.get(key, 0) for key in TOTALS[1:])
    yield (f"{count_of(records, 'records')}, {count_of(sentences, 'sentences')} "
           f"({count_of(distinct, 'different ones')}), {count_of(words, 'words')}")
    if unknown:
        share = 100 * unknown / words
        yield count_of(unknown, f"unknown words ({share:.1f}%), left as they were")
    for key, meaning in COUNTED.items():
        if counts.get(key):
            yield count_of(counts[key], meaning)
    yield from count_lines({key: count for key, count in counts.items()
                            if key not in COUNTED and key not in TOTALS})


def count_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield what was counted."""
    return (f"{name}: {count:,}" for name, count in counts.items() if count)
