"""`bmtools compare-vocab`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bmtools.cli.options import Command, sources, takes_rejects, writes_plot, writes_records
from bmtools.cli.progress import tracked
from bmtools.cli.tables import print_table
from bmtools.errors import Reject
from bmtools.io.jsonl import STDIN, RecordReader, write_records
from bmtools.reports.vocab_plot import plot_pieces

if TYPE_CHECKING:
    from bmtools.vocab.tokenizer import Vocabulary

_SHOWN_TERMS = 3
_SHARES = (("Pieces per word", "pieces_per_word", ("vocab_size", "tokenizer_model", "casing")),
           ("Share of words kept whole", "whole_share", ()),
           ("Share of words unknown", "unknown_share", ()))
_COSTS = ("tokens", "tokens_per_1000_words", "relative_tokens", "corpus_tokens")
_PAIR_COLUMNS = {"shared": "shared", "jaccard": "Jaccard", "shared_share": "of the first",
                 "other_shared_share": "of the other", "shared_usage": "of the first's text",
                 "other_shared_usage": "of the other's text"}


@click.command("compare-vocab", cls=Command)
@click.argument("files", nargs=-1, metavar="[FILES]...",
                type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--vocab", "vocabs", multiple=True, required=True, metavar="[NAME=]PATH",
              help="Tokenizer, checkpoint, tokenizer.json or vocab.txt; repeat it. Tokens are "
                   "related to the first one's.")
@click.option("--terms", metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, allow_dash=True),
              help="Terms to look at, one a line, each with a type behind a tab or without. "
                   "Records are not needed then.")
@click.option("--worst", type=click.IntRange(min=0), default=10, show_default=True, metavar="N",
              help="Number of terms named that each vocabulary breaks up worst.")
@click.option("--corpus-words", type=click.IntRange(min=1), metavar="N",
              help="Also estimate the tokens of a corpus of so many words.")
@click.option("--segmenter", metavar="NAME",
              help="Segmenter that finds words where no spaces do: japanese, chinese, thai ...")
@click.option("--table", "as_table", is_flag=True,
              help="Show tables on stdout; JSON Lines go to --output only.")
@writes_plot("pieces per word")
@takes_rejects
@writes_records
def command(files: tuple[str, ...], vocabs: tuple[str, ...], terms: str | None, worst: int,
            corpus_words: int | None, segmenter: str | None, as_table: bool, plot: Path | None,
            reject: Reject, output: str) -> None:
    """Compare how vocabularies split text, entities and terms.

    Prints a JSON line for each scope and vocabulary: the records' text, their entities by type,
    the terms. It reports the pieces of a word, the words that stay whole or are unknown, the
    tokens of the text, and the terms that are broken up: "worst" by pieces, "costliest" by
    pieces times occurrences. Entities are counted mention by mention. A line for each pair of
    vocabularies reports what they share. Words are the same for all: runs of letters and digits.
    """
    paths = _named(vocabs)
    if STDIN in files and terms == STDIN:
        raise click.UsageError("--terms and FILES: found - in both, expected one from stdin")
    from bmtools.masking.segmenters import load_segmenter
    from bmtools.vocab.comparison import compare_vocab, read_terms

    records = RecordReader(sources(files) if files or terms is None else (), reject)
    lines = list(compare_vocab(
        _load(paths), tracked(records, "reading"), read_terms(terms) if terms else (),
        worst=worst, corpus_words=corpus_words,
        segmenter=load_segmenter(segmenter) if segmenter else None))
    if plot is not None:
        plot_pieces(_pieces_by_scope(lines), plot)
    if not as_table or output != STDIN:
        write_records(lines, output)
    if as_table:
        _show(lines)


def _named(vocabs: Sequence[str]) -> dict[str, Path]:
    """Parse NAME=PATH; a path that exists as a whole is its own name."""
    paths: dict[str, Path] = {}
    for given in vocabs:
        name, separator, path = ("", "", given) if Path(given).exists() else given.partition("=")
        if not separator:
            name = path = given
        if not Path(path).exists() or not name:
            raise click.UsageError(f"--vocab: found {given!r}, expected a tokenizer, a checkpoint, "
                                   "a tokenizer.json or a vocab.txt, or NAME=PATH of one")
        if name in paths:
            raise click.UsageError(f"--vocab: found the name {name!r} twice; give them names of "
                                   "their own, NAME=PATH")
        paths[name] = Path(path)
    return paths


def _load(paths: dict[str, Path]) -> dict[str, Vocabulary]:
    """Load vocabularies, and tell the user about casings that no file states."""
    from bmtools.vocab.tokenizer import load_vocabulary

    vocabularies = {name: load_vocabulary(path) for name, path in paths.items()}
    for name, vocabulary in vocabularies.items():
        if vocabulary.casing_assumed:
            what = ("text is lower-cased without accents" if vocabulary.uncased
                    else "text keeps its case")
            click.echo(f"bmtools: {name}: no file says its casing; by its tokens it is "
                       f"{vocabulary.casing}, so {what}", err=True)
    return vocabularies


def _pieces_by_scope(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for line in lines:
        if "pieces_per_word" in line:
            figures.setdefault(line["vocabulary"], {})[line["scope"]] = line["pieces_per_word"]
    return figures


def _show(lines: Sequence[dict[str, Any]]) -> None:
    """Print the lines as tables: fragmentation first, then cost, terms and overlap."""
    scoped = [line for line in lines if "words" in line]
    _show_shares(scoped)
    _show_cost([line for line in scoped if line["scope"] == scoped[0]["scope"]])
    terms = list(_term_rows(scoped))
    if terms:
        print_table(["scope", "vocabulary", "broken up at most cost", "times"], terms,
                    text_columns=3)
    pairs = [line for line in lines if "other" in line]
    if pairs:
        print_table(["vocabulary", "other", *_PAIR_COLUMNS.values()], _pair_rows(pairs),
                    "Tokens in common", text_columns=2)


def _show_shares(lines: Sequence[dict[str, Any]]) -> None:
    """Print a table for each share: a row for each vocabulary, a column for each scope."""
    from bmtools.scoring.table import gather_rows

    scopes = list(dict.fromkeys(line["scope"] for line in lines))
    # A type may hold a dot, which in a key reaches into objects; numbers do not.
    places = {scope: str(number) for number, scope in enumerate(scopes)}
    for title, key, facts in _SHARES:
        if any(line[key] for line in lines):
            rows = gather_rows(({**line, places[line["scope"]]: line[key]} for line in lines),
                               "vocabulary", (*facts, *places.values()))
            print_table(["vocabulary", *facts, *scopes], rows, title)


def _show_cost(lines: Sequence[dict[str, Any]]) -> None:
    from bmtools.scoring.table import gather_rows

    keys = tuple(key for key in _COSTS if lines[0].get(key) is not None)
    print_table(["vocabulary", *(key.replace("_", " ") for key in keys)],
                gather_rows(lines, "vocabulary", keys), f"Tokens of {lines[0]['scope']}")


def _term_rows(lines: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield rows for each scope, but not for all types together where each has its own."""
    scopes = {line["scope"] for line in lines}
    together = {scope for scope in scopes if any(one.startswith(f"{scope}:") for one in scopes)}
    for line in lines:
        for one in line["costliest"][:_SHOWN_TERMS] if line["scope"] not in together else ():
            yield (line["scope"], line["vocabulary"],
                   f"{one['term']}: {' '.join(one['pieces'])}", str(one["count"]))


def _pair_rows(pairs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for line in pairs:
        cells = (line[key] for key in _PAIR_COLUMNS)
        yield (line["vocabulary"], line["other"],
               *("" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell)
                 for cell in cells))
