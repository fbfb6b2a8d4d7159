"""Description of corpora and sets: a line for each file, for all together, and for two by two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from os import PathLike, fspath

from bmtools.errors import Reject, refuse
from bmtools.io.jsonl import RecordReader, refuse_empty
from bmtools.io.record_size import MEGABYTE
from bmtools.io.workers import ONE_WORKER, Workers, collected
from bmtools.records import JsonObject
from bmtools.settings import split_settings
from bmtools.study.corpora.frequencies import WordFrequencies, compare_words, count_bands
from bmtools.study.corpora.settings import OTHERS, UNSTATED, DescribeConfig
from bmtools.study.corpora.statistics import (
    ORIGINS,
    BlockDescriber,
    Statistics,
    decode_block,
    histogram,
    quantiles,
)

TOTAL = "total"
_DIGITS = 4


def describe(corpora: Mapping[str, str | PathLike[str]], *,
             vocabularies: Mapping[str, str] | None = None,
             topics: Mapping[str, Sequence[str]] | None = None, total: bool = False,
             compare: bool = False, reject: Reject = refuse, workers: Workers = ONE_WORKER,
             **settings: object) -> Iterator[JsonObject]:
    """Describe corpora, and sets with their annotations: `describe({"train": "train.jsonl"})`.

    Memory holds distinct words up to a million, 8 bytes a document, and distinct lengths and
    values of keys; words are counted exactly, with temporary files where there are more.

    Args:
        corpora: files of records by the names that lines give them.
        vocabularies: tokenizers as JSON, by name, to count tokens of.
        topics: keywords by topic, as from `read_topics`.
        total: add a line about all corpora together.
        compare: add a line about the words of each two corpora.
        reject: receives bad records.
        workers: do the work.
        settings: fields of `DescribeConfig`.

    Yields:
        a line for each corpus, for `total`, and for each two corpora if `compare` is true.

    Raises:
        DataError: a corpus without records.
        ValueError: a setting out of range.
    """
    config: DescribeConfig
    [config] = split_settings(settings, DescribeConfig)
    keys = {**ORIGINS, **{key: key for key in config.key_list}}
    make_worker = partial(BlockDescriber, keys, vocabularies or {}, topics or {}, config.uncased)
    everything, all_words = Statistics(), WordFrequencies()
    kept: dict[str, WordFrequencies] = {}
    for name, path in ((name, fspath(path)) for name, path in corpora.items()):
        statistics, words = Statistics(), WordFrequencies()
        for found in collected(RecordReader([path]), make_worker, workers, reject, "describing"):
            block = decode_block(found)
            for own, frequencies in ((statistics, words), (everything, all_words))[:1 + total]:
                own.merge(block.statistics)
                frequencies.add(block.words)
        if not statistics.lengths:
            refuse_empty([path])
        yield _line(name, statistics, words, config)
        if compare:
            words.put_aside()
            kept[name] = words
    if total:
        yield _line(TOTAL, everything, all_words, config)
    for (one, words), (other, others) in combinations(kept.items(), 2):
        yield {"corpus": one, "other": other, **compare_words(
            words.word_counts(), others.word_counts(), config.bounds)}


def _line(name: str, statistics: Statistics, frequencies: WordFrequencies,
          config: DescribeConfig) -> JsonObject:
    words = _sum(statistics.lengths)
    bands = count_bands(frequencies.word_counts(), config.bounds)
    return {
        "corpus": name, "records": statistics.lengths.total(),
        "documents": statistics.count_documents(),
        "megabytes": round(statistics.bytes / MEGABYTE, 6), "characters": statistics.characters,
        "words": words, "distinct_words": sum(bands.values()), "frequency_bands": bands,
        "words_per_record": quantiles(statistics.lengths),
        "length_histogram": histogram(statistics.lengths),
        **({"tokens": _tokens(statistics, words)} if statistics.tokens else {}),
        **{key: found for key, counts in statistics.values.items()
           if (found := _values(key, counts, config.most))},
        **({"topics": dict(statistics.topics.most_common())} if statistics.topics else {}),
        **statistics.annotations.line()}


def _sum(counts: Mapping[int, int]) -> int:
    """Add up numbers that are counted."""
    return sum(number * count for number, count in counts.items())


def _tokens(statistics: Statistics, words: int) -> JsonObject:
    found = {}
    for name, counts in statistics.tokens.items():
        total = _sum(counts.lengths)
        found[name] = {
            "tokens": total, "tokens_per_word": round(total / words, _DIGITS) if words else None,
            "unknown_share": round(counts.unknown / total, _DIGITS) if total else None,
            "tokens_per_record": quantiles(counts.lengths)}
    return found


def _values(key: str, counts: Counter[str], most: int) -> dict[str, int]:
    """Name the most frequent values, years in their order, and count the rest together.

    Nothing is named where no record has the key.
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
