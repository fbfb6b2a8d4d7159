"""`bmtools help`."""

from __future__ import annotations

import click

from bmtools.cli.help import DocumentedCommand, meant, topic_text, topics, write_rows


def _complete(ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    """Complete topics and commands, then the subcommands of a group."""
    words = ctx.params.get("words") or ()
    names = _names(_command_context(ctx, words)) if words else [
        *topics(), *_names(ctx.find_root())]
    return [name for name in names if name.startswith(start)]


def _names(context: click.Context) -> list[str]:
    group = context.command
    return group.list_commands(context) if isinstance(group, click.Group) else []


@click.command("help", cls=DocumentedCommand, examples=("bmtools help", "bmtools help phases"))
@click.argument("words", nargs=-1, metavar="[TOPIC | COMMAND...]", shell_complete=_complete)
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, or a topic such as phases.

    Without arguments, lists the topics.
    """
    if not words:
        click.echo(_list_topics(ctx))
    elif len(words) == 1 and words[0] in topics():
        click.echo(topic_text(words[0]), nl=False)
    else:
        click.echo(_command_context(ctx, words).get_help())


def _list_topics(ctx: click.Context) -> str:
    formatter = ctx.make_formatter()
    with formatter.section("Topics"):
        write_rows(topics().items(), formatter)
    formatter.write_paragraph()
    formatter.write("bmtools help TOPIC explains a topic, bmtools help COMMAND a command.\n"
                    "bmtools --help lists the commands.\n")
    return formatter.getvalue().replace("\u2011", "-").rstrip()


def _command_context(ctx: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of a command given by its names; its help equals `--help`."""
    found = ctx.find_root()
    for word in words:
        group = found.command
        inner = group.get_command(found, word) if isinstance(group, click.Group) else None
        if inner is None:
            known = [*topics(), *_names(found)] if found.parent is None else _names(found)
            raise click.UsageError(
                f"No topic or command {' '.join(words)!r}{meant(word, known)}", ctx)
        found = click.Context(inner, found, word)
    return found
