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
              metavar="FILE", help="What only people know, in TOML: intended_use, "
                                   "risks, contact ...")
@click.option("--scores", multiple=True, type=NamedInput(InputRecords()), metavar="[SET=]FILE",
              help="Scores of score-pppl, score-mrr, score-tasks or score-suite; SET names what "
                   "they were measured on.")
@click.option("--search", multiple=True, type=InputPath(Path),
              metavar="PATH", help="Also look here for what it was made from.")
@writes_file("--bom", "Write a bill of materials here, CycloneDX 1.6 in JSON.")
@writes_records()
def command(step: CommandStep, model: Path, about: Path | None, scores: tuple[str, ...],
            search: tuple[Path, ...], bom: str | None, output: str) -> None:
    """Write the card of a checkpoint, an exported model or a vocabulary.

    Facts come from the model's files, from records of all steps that led to it, from scores and,
    with --about, from people. What nobody measured or stated is called so, and what is missing is
    counted at the end.
    """
    from bmtools.study.cards.card import make_card

    for file in map(Path, filter(None, (output, bom))):
        # The model's hash covers the files in its directory, but not the card.
        if file.name != CARD and file.resolve().parent == model.resolve():
            raise click.UsageError(f"found {file}, which would change the hash of {model}; "
                                   "expected a place outside, or a folder in it")
    made = make_card(model, about=about, scores=scores, search=search)
    for text, path in ((made.card, output), (made.bom, bom)):
        if path is not None:
            write_lines(step, [text.encode()], path)
    total, missing = len(made.known), [name for name, known in made.known.items() if not known]
    share = 100 * (1 - len(missing) / total)
    finish(step, f"the card of {model} is {share:.0f} % complete, {total - len(missing)} of "
           f"{total} things" + (f"; missing: {', '.join(missing)}; --about FILE states what only "
                                "people know" if missing else ""))
