"""`bmtools init-weights`."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import (
    Command,
    base_directory,
    takes_files,
    takes_rejects,
    tokenizer_directory,
    writes_directory,
)
from bmtools.cli.results import finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader
from bmtools.models.checkpoint_files import is_decoder
from bmtools.models.settings import (
    READING_METHODS,
    FocusConfig,
    TransferConfig,
)
from bmtools.status import counted


@click.command("init-weights", cls=Command, examples=(
    "bmtools init-weights corpus.jsonl --base base --tokenizer vocabulary -o start",
    "bmtools init-weights --base base --grow 2x128 -o larger"),
    essential="base tokenizer output overwrite grow method layers max-sentences rescale",
    meanings={"output": "Directory for the checkpoint."},
    next_command="pretrain FILE --model {output} -o model")
@takes_files
@takes_rejects
@writes_directory
@click.option("--base", type=base_directory, required=True, metavar="CKPT",
              help="Checkpoint whose weights are kept; a decoder is converted to an encoder.")
@click.option("--tokenizer", type=tokenizer_directory, metavar="DIR",
              help="The new vocabulary (default: vocabulary of the base).")
@click.option("--lang", default="en", show_default=True,
              help="Language of records without one; used to split sentences.")
@takes_settings(TransferConfig, "settings")
@takes_settings(FocusConfig, "focus")
@prints_results
def command(step: CommandStep, files: tuple[str, ...], reject: Reject, output: Path,
            overwrite: bool, base: Path, tokenizer: Path | None, lang: str,
            settings: TransferConfig, focus: FocusConfig) -> None:
    """Give a checkpoint a new vocabulary, a larger size or both.

    New tokens, layers and units are initialised from the base. A decoder (Llama,
    Mistral, Qwen2) becomes an encoder (EuroBERT), to be trained on masked tokens.

    Only a new vocabulary needs records. The methods random and average do not read records.
    Output of "bmtools find-contexts" contains sentences; its key "targets" lists the words to
    use.
    """
    if tokenizer is None and not (settings.grow or is_decoder(base)):
        raise click.UsageError("Missing option '--tokenizer'; without a new vocabulary, expected "
                               "--grow or a decoder as --base")
    reads_text = tokenizer and settings.method in READING_METHODS
    records = RecordReader(step.sources(files) if reads_text else files, reject)
    from bmtools.models.transfer.init_weights import init_weights
    from bmtools.study.cards.card import write_cards

    transferred = init_weights(
        base, tokenizer, records, output, lang=lang, overwrite=overwrite, reject=reject,
        progress=partial(counted, activity="sampling contexts"), step=step,
        **asdict(settings), **asdict(focus))
    write_cards(output)
    made = {} if tokenizer is None else {"method": settings.method}
    [line] = print_results(step, [{"checkpoint": str(output), **made, **transferred.report}])
    facts = [f"{line['parameters']:,} parameters"]
    if "tokens" in line:
        kept = line.get("copied", 0) + line.get("folded", 0)
        facts.append(f"{kept:,} of {line['tokens']:,} tokens keep their weights, the others are "
                     f"set by {line['method']}")
    finish(step, f"wrote {output}: {'; '.join(facts)}")
