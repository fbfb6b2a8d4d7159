"""`bmtools export`: records to common file formats, and models to other engines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import get_args

import click

from bmtools.cli.help import Choice, Group
from bmtools.cli.options import (
    Command,
    checkpoint_directory,
    input_file,
    reads_records,
    writes_directory,
    writes_records,
)
from bmtools.cli.results import (
    finish,
    print_results,
    prints_results,
    records_written,
    to_output,
)
from bmtools.cli.step import CommandStep
from bmtools.corpus.formats.settings import Scheme, Tokenization
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import open_output
from bmtools.records import Record
from bmtools.status import counted


@click.group("export", cls=Group, examples=(
    "bmtools export conll train.jsonl -o train.tsv",
    "bmtools export model tagger --int8 -o ward"))
def command() -> None:
    """Convert records to common file formats, and models for other engines.

    Give a format, then files of records; "-" or no file means stdin. Annotations that a format
    cannot represent are counted on stderr. `bmtools import` can read all formats except files of
    predicted answers. `bmtools export model` converts a checkpoint.
    """


_takes_key = click.option("--predicted", default="predicted", show_default=True, metavar="KEY",
                          help="Key of the predictions, as predict --into names it.")


def _format(name: str, options: str, *examples: str) -> Callable[..., click.Command]:
    return command.command(
        name, cls=Command, examples=[f"bmtools export {name} {example}" for example in examples],
        topics="records")


@_format("conll", "scheme tokenization", "train.jsonl -o train.tsv",
         "train.jsonl --scheme iobes --tokenization punctuation")
@click.option("--scheme", type=Choice(get_args(Scheme)), default="iob2", show_default=True,
              help="Prefixes of the tags.")
@click.option("--tokenization", type=Choice(get_args(Tokenization)), default="whitespace",
              show_default=True,
              help="Separators of tokens: white space, or also punctuation.")
@reads_records
@writes_records()
def conll(step: CommandStep, records: RecordReader, reject: Reject, output: str, scheme: Scheme,
          tokenization: Tokenization) -> None:
    """Write tokens and tags separated by tabs, with a blank line after every sentence.

    Every line of a text is a sentence. Discontinuous entities, and entities that overlap a longer
    one, are left out. The format does not contain relations and other keys.
    """
    from bmtools.corpus.formats.sets.conll import conll_lines

    counts: Counter[str] = Counter()
    kept = _counting(records, counts, ("entities",))
    _write(step, conll_lines(kept, scheme, tokenization, counts), output, counts)


@_format("squad", "", "answers.jsonl -o answers.json",
         "answers.jsonl --rejects bad.jsonl")
@reads_records
@writes_records()
def squad(step: CommandStep, records: RecordReader, reject: Reject, output: str) -> None:
    """Write questions and answers in SQuAD's format.

    The format is version 2.0, which tools for 1.1 can also read. Consecutive records with the same
    text form a paragraph.
    """
    from bmtools.corpus.formats.sets.squad import squad_parts

    counts: Counter[str] = Counter()
    kept = _counting(records, counts, ("question", "answers", "title"))
    _write(step, squad_parts(kept, counts, reject), output, counts)


@_format("squad-answers", "", "answered.jsonl -o answers.json",
         "answered.jsonl --rejects bad.jsonl")
@_takes_key
@reads_records
@writes_records()
def squad_answers(step: CommandStep, records: RecordReader, reject: Reject, output: str,
                  predicted: str) -> None:
    """Write predicted answers or labels by id, for the scripts of SQuAD and PubMedQA.

    Each record has its best answer, or "" without an answer; a record with a label has its label.
    """
    from bmtools.tasks.metrics import answers

    found = answers.squad_answers(counted(records, "exporting"), reject, predicted)
    _write_answers(step, found, len(found), output)


@_format("bioasq-answers", "", "answered.jsonl -o answers.json",
         "answered.jsonl --rejects bad.jsonl")
@_takes_key
@reads_records
@writes_records()
def bioasq_answers(step: CommandStep, records: RecordReader, reject: Reject, output: str,
                   predicted: str) -> None:
    """Write predicted answers to factoid and yes/no questions in BioASQ's format.

    Answers to a factoid question are merged over its texts, and the five best are written.
    """
    from bmtools.tasks.metrics import answers

    found = answers.bioasq_answers(counted(records, "exporting"), reject, predicted)
    _write_answers(step, {"questions": found}, len(found), output)


@_format("brat", "", "train.jsonl -o folder",
         "train.jsonl -o folder --rejects bad.jsonl")
@reads_records
@writes_directory
def brat(step: CommandStep, records: RecordReader, reject: Reject, output: Path,
         overwrite: bool) -> None:
    """Write texts and annotations in BRAT's format, in files named by record ids.

    Ids of entities other than T1, T2 and so on are replaced. Further annotations that import brat
    kept are written again, unless they refer to an annotation that the record does not have.
    """
    from bmtools.corpus.formats.sets.brat import write_brat

    counts: Counter[str] = Counter()
    kept = _counting(records, counts, ("entities", "relations"))
    write_brat(kept, output, overwrite, counts, reject)
    finish(step, records_written(counts.pop(_RECORDS, 0), counts, str(output)))


@command.command("model", cls=Command, examples=(
    "bmtools export model tagger -o deployed",
    "bmtools export model tagger --int8 --calibration notes.jsonl -o ward"),
    topics="checkpoints devices")
@click.argument("model", type=checkpoint_directory, metavar="CKPT")
@click.option("--calibration", type=input_file, multiple=True, metavar="FILE",
              help="Records with texts for the calibration of int8 and the comparison of outputs.")
@click.option("--int8", is_flag=True,
              help="Round matrices, and the states they multiply, to eight bits.")
@writes_directory
@prints_results
def model(step: CommandStep, model: Path, calibration: tuple[str, ...], int8: bool,
          output: Path, overwrite: bool) -> None:
    """Export a checkpoint to OpenVINO, and compare its outputs with the checkpoint's.

    Prints a JSON line: the precision, the size, and the difference of logits from the checkpoint's
    on random tokens and on the texts. predict, score-pppl and score-mrr accept the directory as
    --model.
    """
    from bmtools.export.export import export_model
    from bmtools.study.cards.card import write_cards
    from bmtools.tasks.predict import load_for_export

    line = export_model(model, output, calibration, int8=int8, overwrite=overwrite,
                        load=load_for_export, step=step)
    write_cards(output)
    print_results(step, [line])
    worst = max(found["max"] for found in line["difference"].values())
    finish(step, f"wrote {line['model']}: {line['format']} in {line['precision']}, logits within "
                 f"{worst:.2g} of the checkpoint's")


_RECORDS = "records"
_ALWAYS = ("id", "text", "meta")


def _counting(records: Iterable[Record], counts: Counter[str],
              keys: Sequence[str]) -> Iterator[Record]:
    """Count records, and their keys that the format does not contain."""
    held = {*_ALWAYS, *keys}
    for record in counted(records, "exporting"):
        counts[_RECORDS] += 1
        for key in record.keys() - held:
            counts[f"left out: {key}"] += bool(record[key])
        yield record


def _write_answers(step: CommandStep, content: object, count: int, output: str) -> None:
    with open_output(output) as stream:
        stream.write(f"{json.dumps(content, ensure_ascii=False, indent=1)}\n".encode())
    finish(step, f"answers to {count_of(count, 'questions')}{to_output(output)}")


def _write(step: CommandStep, parts: Iterable[str], output: str, counts: Counter[str]) -> None:
    with open_output(output) as stream:
        for part in parts:
            stream.write(part.encode())
    finish(step, records_written(counts.pop(_RECORDS, 0), counts, output))
