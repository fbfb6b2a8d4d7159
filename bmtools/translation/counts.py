"""Counts of a translation or a projection, and their descriptions for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bmtools.errors import count_of
from bmtools.translation.settings import CHECKS

TOTALS = ("inputs", "records", "sentences", "words", "distinct", "unknown")
COUNTED = {
    "missing": "sentences without a translation",
    "stripped": "records left without annotations",
    "passed_on": "records in other languages, kept unchanged",
    "cached": "sentences found in the cache",
    "memory": "sentences from the translation memory",
    "lost_workers": "workers of the Ray cluster lost; others repeated their work",
    "restarts": "times that the engine stopped answering or ended, and was started again",
    "requests": "requests to the server",
    "repeated requests": "requests sent again because the server was busy, broken or silent",
    "prompt tokens": "tokens sent, as counted by the server",
    "answer tokens": "tokens received, as counted by the server",
    "split": "sentences too long for the model, translated clause by clause",
    "terms": "glossary terms and protected terms in sentences",
    "terms_enforced": "sentences translated again with placeholders for terms",
    "terms_lost": "terms lost despite placeholders; their sentences are flagged as terms",
    "retried": "sentences with faults, tried again with the engine's other settings",
    "mended": "retried sentences without a fault afterwards",
    **{f"flagged_{check}": f"sentences flagged as {check}: {meaning}"
       for check, meaning in CHECKS.items()},
}
"""Descriptions of the counts by key, including the counts of translators.

`TOTALS` are described elsewhere: records processed, records translated, their sentences and words,
different sentences, and words unknown to the engine. Every other key is its own description.
"""


def translation_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield lines for people: totals, and counts that are not zero."""
    records, sentences, words, distinct, unknown = (counts.get(key, 0) for key in TOTALS[1:])
    yield (f"{count_of(records, 'records')}, {count_of(sentences, 'sentences')} "
           f"({count_of(distinct, 'different ones')}), {count_of(words, 'words')}")
    if unknown:
        share = 100 * unknown / words
        yield count_of(unknown, f"unknown words ({share:.1f}%), kept unchanged")
    for key, meaning in COUNTED.items():
        if counts.get(key):
            yield count_of(counts[key], meaning)
    yield from count_lines({key: count for key, count in counts.items()
                            if key not in COUNTED and key not in TOTALS})


def count_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each count that is not zero."""
    return (f"{name}: {count:,}" for name, count in counts.items() if count)
