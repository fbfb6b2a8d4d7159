"""`bmtools card`."""

from __future__ import annotations

from pathlib import Path

import click

from bmtools.cli.options import Command, existing_directory, writes_file, writes_records
from bmtools.cli.parameters import InputFile, InputPath, InputRecords, NamedInput
from bmtools.cli.results import finish
from bmtools.cli.step import CommandStep
from bmtools.cli.writing import write_lines
from bmtools.io.provenance.manifest import CARD


@click.command("card", cls=Command, examples=(
    "bmtools card model -o model/README.md --overwrite",
    "bmtools card base --about about.toml --scores scores.jsonl --bom bom.json"),
    meanings={"output": "Write the card here."})
@click.argument("model", type=existing_directory, metavar="CKPT")
@click.option("--about", type=InputFile(Path, allow_dash=False),
              metavar="FILE", help="Facts that only you can state, in TOML: intended_use, "
                                   "risks, contact ...")
@click.option("--scores", multiple=True, type=NamedInput(InputRecords()), metavar="[SET=]FILE",
              help="Scores of score-pppl, score-mrr, score-tasks or score-suite; SET names the "
                   "test set.")
@click.option("--search", multiple=True, type=InputPath(Path),
              metavar="PATH", help="Also search here for the model's inputs.")
@writes_file("--bom", "Write a bill of materials (CycloneDX 1.6, JSON) to this file.")
@writes_records()
def command(step: CommandStep, model: Path, about: Path | None, scores: tuple[str, ...],
            search: tuple[Path, ...], bom: str | None, output: str) -> None:
    """Write the card of a checkpoint, an exported model or a vocabulary.

    Facts come from the model's files, from the records of all steps that led to it, from scores
    and, with --about, from you. The card writes "not measured" or "not stated" for every missing
    fact, and the closing line lists the missing facts.
    """
    from bmtools.study.cards.card import make_card

    for file in map(Path, filter(None, (output, bom))):
        # The model's hash covers the files in its directory, but not the card.
        if file.name != CARD and file.resolve().parent == model.resolve():
            raise click.UsageError(f"found {file}, which would change the hash of {model}; write "
                                   "it elsewhere, or to a subdirectory")
    made = make_card(model, about=about, scores=scores, search=search)
    for text, path in ((made.card, output), (made.bom, bom)):
        if path is not None:
            write_lines(step, [text.encode()], path)
    total, missing = len(made.known), [name for name, known in made.known.items() if not known]
    share = 100 * (1 - len(missing) / total)
    finish(step, f"the card of {model} is {share:.0f} % complete, {total - len(missing)} of "
           f"{total} facts" + (f"; missing: {', '.join(missing)}; state facts that only you know "
                               "with --about FILE" if missing else ""))
