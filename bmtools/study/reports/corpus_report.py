"""Tables of the description of corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bmtools.study.reports.labels import printable

Line = Mapping[str, Any]
Table = tuple[str, list[str], list[list[str]]]
"""Title, header and rows, whose first column is text."""
_MOST_ROWS = 15
_SIZES = ("records", "documents", "megabytes", "words", "distinct_words")
_LENGTHS = ("median", "p95", "max")
NOT_COUNTED = {"length_histogram", "words_per_record", "tokens", "label_bias"}
"""Keys of objects that do not count records or annotations by value."""


def corpus_tables(lines: Sequence[Line]) -> Iterator[Table]:
    """Yield the tables of a description: sizes, tokens, then a table for each kind of count.

    Args:
        lines: as from `describe`.
    """
    corpora = [line for line in lines if "records" in line]
    yield ("Corpora", ["corpus", *(key.replace("_", " ") for key in _SIZES),
                       *(f"{key} words" for key in _LENGTHS)],
           [[line["corpus"], *(_cell(line[key]) for key in _SIZES),
             *(_cell(line["words_per_record"][key]) for key in _LENGTHS)] for line in corpora])
    tokens = [[line["corpus"], name, *(_cell(found[key]) for key in (
        "tokens", "tokens_per_word", "unknown_share")),
        *(_cell(found["tokens_per_record"][key]) for key in _LENGTHS)]
        for line in corpora for name, found in line.get("tokens", {}).items()]
    if tokens:
        yield ("Tokens", ["corpus", "vocabulary", "tokens", "per word", "unknown",
                          *(f"{key} a record" for key in _LENGTHS)], tokens)
    for key in counted_keys(corpora):
        yield _counts(key, {line["corpus"]: line[key] for line in corpora if key in line})
    for line in lines:
        if "other" in line:
            yield _shared(line)


def counted_keys(corpora: Sequence[Line]) -> list[str]:
    """List the keys of counts by value, in order."""
    return list(dict.fromkeys(key for line in corpora for key, value in line.items()
                              if isinstance(value, Mapping) and key not in NOT_COUNTED))


def _counts(key: str, by_corpus: Mapping[str, Mapping[str, int]]) -> Table:
    values = list(dict.fromkeys(value for counts in by_corpus.values() for value in counts))
    if key == "years":
        values.sort(key=lambda year: (year.isdecimal(), year), reverse=True)
    rows = [[printable(value), *(_cell(counts.get(value, 0)) for counts in by_corpus.values())]
            for value in values[:_MOST_ROWS]]
    rows += [["...", *[""] * len(by_corpus)]] * (len(values) > _MOST_ROWS)
    return heading(key).capitalize(), [heading(key), *by_corpus], rows


def heading(key: str) -> str:
    """Return the words for a key: `meta.journal` is "journal"."""
    return key.rpartition(".")[2].replace("_", " ")


def _shared(line: Line) -> Table:
    one, other = line["corpus"], line["other"]
    return (f"Words of {one} and {other}: {line['shared_words']:,} in both",
            ["times", one, f"of them in {other}", other, f"of them in {one}"],
            [[name, *(_cell(band[key]) for key in ("words", "shared", "other_words",
                                                   "other_shared"))]
             for name, band in line["bands"].items()])


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
