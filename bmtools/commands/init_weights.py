"""`bmtools init-weights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from bmtools.cli.options import (
    Command,
    base_directory,
    takes_files,
    takes_overwrite,
    takes_rejects,
    tokenizer_directory,
)
from bmtools.cli.parameters import InputFile, OutputDirectory
from bmtools.cli.results import Closing, Line, command_line, finish, print_results, prints_results
from bmtools.cli.settings import takes_settings
from bmtools.cli.step import CommandStep
from bmtools.cli.tables import print_table
from bmtools.errors import Reject, count_of
from bmtools.io.jsonl import RecordReader
from bmtools.models.checkpoint_files import is_decoder
from bmtools.models.settings import (
    READING_METHODS,
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.records import JsonMapping
from bmtools.status import counted
from bmtools.values import format_figure

_COLUMNS = ("start.loss", "start.new_loss", "start.old_loss", "probe.loss", "probe.new_loss",
            "probe.old_loss", "seconds")
_NEAREST = 3


@click.command("init-weights", cls=Command, examples=(
    "bmtools init-weights corpus.jsonl --base base --tokenizer vocabulary -o start",
    "bmtools init-weights corpus.jsonl --base base --tokenizer vocabulary "
    "--compare average,contextual --probe-steps 10"),
    essential="base tokenizer output overwrite grow method compare layers max-sentences rescale "
              "held-out",
    groups={"Models": "base tokenizer output overwrite",
            "Size": "grow max-positions rope-base",
            "Embeddings of new tokens": "method average-of layers rescale max-sentences "
                                        "lang batch-tokens seed",
            "Comparison of methods": "compare held-out held-out-ratio probe-steps "
                                     "probe-learning-rate probe-batch-size probe-max-length "
                                     "sample-tokens"},
    meanings={"output": "Directory for the checkpoint; required without --compare."})
@takes_files
@takes_rejects
@click.option("-o", "--output", type=OutputDirectory(), metavar="DIR",
              help="Directory to write; required without --compare.")
@takes_overwrite
@click.option("--base", type=base_directory, required=True, metavar="CKPT",
              help="Checkpoint whose weights are kept; of a decoder, an encoder is made.")
@click.option("--tokenizer", type=tokenizer_directory, metavar="DIR",
              help="The new vocabulary; without it, the base's stays.")
@click.option("--lang", default="en", show_default=True,
              help="Language of records without one; sentences are split by it.")
@takes_settings(TransferConfig, "settings")
@takes_settings(FocusConfig, "focus")
@takes_settings(TokenDistillationConfig, "distil")
@takes_settings(CompareConfig, "compare")
@click.option("--held-out", type=InputFile(allow_dash=False), metavar="FILE",
              help="Records on which --compare evaluates; without it, a share of the input.")
@prints_results
def command(step: CommandStep, files: tuple[str, ...], reject: Reject, output: Path | None,
            overwrite: bool, base: Path, tokenizer: Path | None, lang: str,
            settings: TransferConfig, focus: FocusConfig, distil: TokenDistillationConfig,
            compare: CompareConfig, held_out: str | None) -> None:
    """Give a checkpoint a new vocabulary, a larger size or longer positions.

    Tokens, layers and units that are new get a head start from those of the base. A decoder
    (Llama, Mistral, Qwen2) becomes an encoder (EuroBERT), to be trained on masked tokens.

    Only a new vocabulary needs records. Methods random and average read no records. Records with
    the key "targets", as "bmtools find-contexts" writes them, are sentences already, with the
    words of them to use.

    --compare tries methods and writes no checkpoint: it prints a JSON line for each with the loss
    on held-out text before and after a short pretraining run, and with the nearest old tokens of
    some new ones.
    """
    if tokenizer is None and (compare.methods() or not (
            settings.grow or settings.max_positions or settings.rope_base or is_decoder(base))):
        raise click.UsageError("Missing option '--tokenizer'; without a new vocabulary, expected "
                               "--grow, --max-positions, --rope-base or a decoder as --base")
    reads_text = tokenizer and (compare.methods() or settings.method in READING_METHODS)
    records = RecordReader(step.sources(files) if reads_text else files, reject)
    if compare.methods():
        if output is not None or settings.grow:
            raise click.UsageError("found both --compare, which writes no checkpoint, and "
                                   f"{'-o' if output else '--grow'}; compare first, then write "
                                   "with --method")
        from bmtools.training.init_comparison import compare_inits

        lines = compare_inits(
            base, str(tokenizer), counted(records, "reading"), compare,
            held_out=RecordReader([held_out], reject) if held_out else None, lang=lang,
            transfer=settings, focus=focus, distil=distil, reject=reject)
        finish(step, *comparison_closing(print_results(step, lines, print_tables=_print_tables)))
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    from bmtools.models.transfer.init_weights import init_weights
    from bmtools.study.cards.card import write_cards

    transferred = init_weights(
        base, tokenizer, records, output, lang=lang, overwrite=overwrite, reject=reject,
        progress=partial(counted, activity="sampling contexts"), step=step,
        **asdict(settings), **asdict(focus), **asdict(distil))
    write_cards(output)
    made = {} if tokenizer is None else {"method": settings.method}
    [line] = print_results(step, [{"checkpoint": str(output), **made, **transferred.report}])
    finish(step, *closing(line))


def _print_tables(lines: Sequence[JsonMapping]) -> None:
    """Print losses and neighbours."""
    from bmtools.statistics.table import gather_rows, get_nested

    columns = tuple(name for name in _COLUMNS if any(get_nested(line, name) is not None
                                                     for line in lines))
    print_table(("method", *columns), gather_rows(lines, "method", columns),
                "Nats per masked token of held-out text")
    methods = [line["method"] for line in lines]
    nearest = ((tokens[0]["token"], *(" ".join(one["neighbours"][:_NEAREST]) for one in tokens))
               for tokens in zip(*(line["neighbours"] for line in lines), strict=True))
    print_table(("new token", *methods), nearest, "Nearest old tokens",
                text_columns=1 + len(methods))


def closing(line: Line) -> Closing:
    """Close `init-weights`."""
    facts = [f"{line['parameters']:,} parameters"]
    if "tokens" in line:
        kept = line.get("copied", 0) + line.get("folded", 0)
        facts.append(f"{kept:,} of {line['tokens']:,} tokens keep their weights, the rest are made "
                     f"by {line['method']}")
    return (f"wrote {line['checkpoint']}: {'; '.join(facts)}",
            command_line("pretrain FILE --model {} -o model", line["checkpoint"]))


def comparison_closing(lines: Sequence[Line]) -> Closing:
    """Close `init-weights --compare`."""
    stage = "probe" if all("probe" in line for line in lines) else "start"
    best = min(lines, key=lambda line: line[stage]["loss"])
    when = "after training" if stage == "probe" else "before training"
    return (f"{best['method']} has the lowest loss of {count_of(len(lines), 'methods')} {when}, "
            f"{format_figure('loss', best[stage]['loss'])} nats a masked token",
            f"the same with --method {best['method']} -o DIR in place of --compare")
