"""Every command and group of bmtools."""

from __future__ import annotations

from collections.abc import Iterator

import click

from bmtools.cli.main import bmtools


def every_command(command: click.Command = bmtools, parent: click.Context | None = None,
                  words: tuple[str, ...] = (),
                  ) -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Yield the words of each command and group, the command itself and a context for it."""
    context = click.Context(command, parent, words[-1] if words else "bmtools")
    yield words, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from every_command(inner, context, (*words, name))
