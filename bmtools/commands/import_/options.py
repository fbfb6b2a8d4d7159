"""Options that several source formats share."""

from typing import get_args

import click

from bmtools.cli.help import Choice
from bmtools.cli.options import Decorator
from bmtools.cli.parameters import InputFile
from bmtools.corpus.formats.settings import MentionPairs

takes_id_key = click.option("--id-key", default="id", show_default=True, metavar="KEY",
                            help="Column of the id.")
takes_text_key = click.option("--text-key", default="text", show_default=True, metavar="KEY",
                              help="Column of the text.")
takes_mention_pairs = click.option(
    "--mention-pairs", type=Choice(get_args(MentionPairs)), default="closest", show_default=True,
    help="Mentions of two related concepts that make relations: each of the one that has more, "
         "with the closest of the other; as BioBIT, only where the head comes first; all.")


def takes_tables(name: str, help: str = "", required: bool = False) -> Decorator:
    """Add an option for tables of annotations, which may be given again.

    Args:
        name: of the option.
        help: what the tables hold.
        required: whether there must be one.
    """
    return click.option(f"--{name}", multiple=True, required=required, metavar="FILE",
                        type=InputFile(allow_dash=False),
                        help=f"{help or f'Table of {name} by tab.'} May be given again.")
