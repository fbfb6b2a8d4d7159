"""`bmtools compare-vocab`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import Command, named_paths, takes_rejects
from bmtools.cli.parameters import InputFile, NamedInput
from bmtools.cli.results import Line, finish, print_results, reports
from bmtools.cli.step import CommandStep
from bmtools.cli.streams import say
from bmtools.cli.tables import print_table, print_tables
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.sources import STDIN
from bmtools.status import counted
from bmtools.values import format_figure


@click.command("compare-vocab", cls=Command, examples=(
    "bmtools compare-vocab corpus.jsonl --vocab old=base --vocab new=vocabulary",
    "bmtools compare-vocab --terms terms.txt --vocab base --vocab vocabulary --worst 3"))
@click.argument("files", nargs=-1, metavar="[FILES]...",
                type=InputFile())
@click.option("--vocab", "vocabs", multiple=True, required=True, metavar="[NAME=]PATH",
              type=NamedInput(),
              help="Tokenizer, checkpoint, tokenizer.json or vocab.txt; repeat it. Token counts "
                   "are related to the first one.")
@click.option("--terms", metavar="FILE",
              type=InputFile(),
              help="Terms to compare, one per line, each optionally followed by a tab and a type. "
                   "Records are then optional.")
@click.option("--worst", type=click.IntRange(min=0), default=10, show_default=True, metavar="N",
              help="Number of terms to name that each vocabulary splits into most pieces.")
@click.option("--by-term", is_flag=True,
              help="Print a line for each term and mention instead, with its pieces by vocabulary "
                   "and the labels of a tagger; in a table, a tick marks a single piece.")
@click.option("--segmenter", metavar="NAME",
              help="Segmenter that finds words in text without spaces: japanese, chinese, thai ...")
@takes_rejects
@reports("the JSON Lines", plot="pieces per word")
def command(step: CommandStep, files: tuple[str, ...], vocabs: tuple[str, ...], terms: str | None,
            worst: int, by_term: bool, segmenter: str | None, plot: Path | None,
            reject: Reject, output: str) -> None:
    """Compare how vocabularies split text, entities and terms.

    Prints a JSON line for each scope and vocabulary. Scopes are the records' text, their entities
    by type, and the terms. A line reports the pieces per word, the words that are single pieces or
    unknown, and the number of tokens. It also lists split terms: "worst" have most pieces,
    "costliest" the highest product of pieces and occurrences. Every mention of an entity counts.
    Words are the same for all vocabularies: runs of letters and digits.
    """
    paths = named_paths("--vocab", vocabs,
                        "a tokenizer, a checkpoint, a tokenizer.json or a vocab.txt")
    if STDIN in files and terms == STDIN:
        raise click.UsageError("--terms and FILES: found - in both, expected one from stdin")
    if by_term and plot is not None:
        raise click.UsageError("--plot: found with --by-term, whose lines have no plot; expected "
                               "one of the two")
    from bmtools.study.reports.report import plot_lines, tables_of
    from bmtools.vocab.compare_vocab import compare_terms, compare_vocab, read_terms
    from bmtools.vocab.loading import load_vocabulary
    from bmtools.vocab.segmenters import load_segmenter

    records = RecordReader(step.sources(files) if files or terms is None else (), reject)
    vocabularies = {name: load_vocabulary(Path(path)) for name, path in paths.items()}
    for name, vocabulary in vocabularies.items():
        if vocabulary.casing_assumed:
            what = ("text is lower-cased without accents" if vocabulary.uncased
                    else "text keeps its case")
            say(f"{name}: no file states its casing; its tokens suggest {vocabulary.casing}, so "
                f"{what}")
    compare = compare_terms if by_term else partial(compare_vocab, worst=worst)
    lines = list(compare(
        vocabularies, counted(records, "reading"), read_terms(terms) if terms else (),
        segmenter=load_segmenter(segmenter) if segmenter else None))
    if by_term:
        print_results(step, lines, output, _print_ticks)
        finish(step, f"compared {count_of(len(lines), 'terms')}")
        return
    print_results(step, lines, output, lambda lines: print_tables(tables_of(lines)))
    if plot is not None:
        plot_lines(lines, plot)
    finish(step, closing(lines))


def _print_ticks(lines: Sequence[Line]) -> None:
    """Print terms as rows and vocabularies as columns, like table 1 of Gu et al. 2021."""
    print_table(["term", "type", *lines[0]["vocabularies"]], [
        [line["term"], line.get("type", ""), *(
            "\N{CHECK MARK}" if found["whole"] else " ".join(found["pieces"])
            for found in line["vocabularies"].values())] for line in lines], text_columns=2)


def closing(lines: Sequence[Line]) -> str:
    """Return the closing line of `compare-vocab`."""
    scope = lines[0]["scope"]
    pieces = {line["vocabulary"]: line["pieces_per_word"] for line in lines
              if line.get("scope") == scope and line.get("pieces_per_word") is not None}
    if not pieces:
        return f"compared {count_of(len(lines), 'vocabularies')}"
    least = format_figure("", min(pieces.values()))
    best = [name for name, count in pieces.items() if format_figure("", count) == least]
    rank = f", the fewest of {len(pieces)}" if len(best) < len(pieces) else ""
    return f"pieces per word ({scope}): {least} with {' and '.join(best)}{rank}"
