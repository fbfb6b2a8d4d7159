"""Print the complete help of every command and subcommand of bmtools, in one process."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from bmtools.cli.main import bmtools


def command_names(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of a command and of all commands in it."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from command_names(inner, (*words, name))


def main() -> None:
    """Print `--help`, and `--help-all` of commands that have it."""
    runner = CliRunner()
    for words in command_names(bmtools):
        for option in ("--help", "--help-all"):
            outcome = runner.invoke(bmtools, [*words, option], prog_name="bmtools")
            if outcome.exit_code == 0:
                print(f"== {' '.join(words)} {option}\n{outcome.output}")
            elif option == "--help":
                raise SystemExit(f"{' '.join(words)} {option}: {outcome.output}")


if __name__ == "__main__":
    main()
