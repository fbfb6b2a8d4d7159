"""`bmtools import`: a command for each source format of annotated sets and texts."""

from __future__ import annotations

import click

from bmtools.cli.help import Group


class _Formats(Group):
    """A group that loads the commands of all formats when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_formats())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return _formats().get(name)


def _formats() -> dict[str, click.Command]:
    from bmtools.commands.import_ import sets, texts

    return {**sets.FORMATS, **texts.FORMATS}


@click.group("import", cls=_Formats, examples=(
    "bmtools import text notes.txt --lang it -o notes.jsonl",
    "bmtools import pubmed pubmed.xml.gz | bmtools build-vocab --allow-fewer -o words"))
def command() -> None:
    """Convert biomedical source formats to records.

    Give a format, then files. "-" or no file means stdin. Gzip and zstd input is decompressed.
    Records are written to stdout as JSON Lines, and omissions are counted on stderr. Sources
    without records are an error, unless --allow-empty is given.
    """
