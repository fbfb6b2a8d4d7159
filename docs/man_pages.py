"""Make man pages of all commands and topics from `--help-all` and `bmtools help`.

    python docs/man_pages.py man && man -l man/bmtools-pretrain.1
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from bmtools import __version__
from bmtools.cli.help import (
    DocumentedCommand,
    first_sentence,
    topic_text,
    topics,
    wrapped_example,
)
from bmtools.cli.main import bmtools, stages

_ESCAPES = str.maketrans({"\\": r"\e", "-": r"\-", "^": r"\(ha", "~": r"\(ti", "`": r"\(ga",
                          "'": r"\(aq", "\u2011": r"\-", "\xa0": r"\ "})
_WIDTH = 72
_EXIT = (("0", "done"), ("1", "wrong data"), ("2", "wrong usage"),
         ("3", "a score is beyond the limit that an option sets"),
         ("75", "a run was stopped, saved its state and continues with --resume"))


def write_man_pages(folder: Path) -> list[Path]:
    """Write a page for each command, of section 1, and for each topic, of section 7.

    Args:
        folder: gets the files; made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = dict(_command_pages(bmtools, None, "bmtools"))
    for name, title in topics().items():
        pages[f"bmtools-{name}.7"] = "\n".join([
            _head(f"bmtools-{name}", 7, title), ".SH DESCRIPTION",
            *_verbatim(topic_text(name).partition("\n")[2]), *_see_also(["bmtools"])])
    paths = []
    for name, page in pages.items():
        paths.append(folder / name)
        paths[-1].write_text(page + "\n", encoding="utf-8")
    return paths


def _command_pages(command: click.Command, parent: click.Context | None,
                   name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of the page of a command and of each command in it."""
    context = click.Context(command, parent, name, **command.context_settings)
    page = context.command_path.replace(" ", "-")
    yield f"{page}.1", "\n".join(_command_lines(command, context, page))
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            inner = command.get_command(context, one)
            assert inner is not None
            yield from _command_pages(inner, context, one)


def _command_lines(command: click.Command, context: click.Context, page: str) -> Iterator[str]:
    yield _head(page, 1, first_sentence(command))
    yield f".SH SYNOPSIS\n.B {_escaped(context.command_path)}"
    yield _escaped(" ".join(command.collect_usage_pieces(context)))
    if rest := inspect.cleandoc(command.help or "").partition("\n\n")[2]:
        yield ".SH DESCRIPTION"
        yield from _paragraphs(rest)
    others = []
    if isinstance(command, click.Group):
        yield from _commands(command, context)
        others = [f"{page}-{one}" for one in command.list_commands(context)]
    if isinstance(command, DocumentedCommand):
        yield ".SH OPTIONS"
        before = ""
        for title, _, (term, text) in command.records(context):
            if title != before:
                yield f".SS {_escaped(title)}"
                before = title
            yield f".TP\n.B {_escaped(term)}\n{_escaped(text)}"
    if examples := getattr(command, "examples", ()):
        yield ".SH EXAMPLES"
        yield from _verbatim("\n".join(wrapped_example(one, _WIDTH) for one in examples))
    if context.parent is None:
        yield ".SH EXIT STATUS"
        for code, meaning in _EXIT:
            yield f".TP\n.B {code}\n{_escaped(meaning)}"
    parents = [context.parent.command_path.replace(" ", "-")] if context.parent else []
    about = getattr(command, "topics", ()) if context.parent else topics()
    yield from _see_also(parents + others, about)


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """Yield the commands of a group with their sentences; the main page groups them by stage."""
    parts = stages() if context.parent is None else {"": [
        (name, first_sentence(group.get_command(context, name)))
        for name in group.list_commands(context)]}
    yield ".SH COMMANDS"
    for title, rows in parts.items():
        if title:
            yield f".SS {_escaped(title)}"
        for name, sentence in rows:
            yield f".TP\n.B {_escaped(name)}\n{_escaped(sentence)}"


def _head(page: str, section: int, sentence: str) -> str:
    return (f'.TH {page.upper()} {section} "" "bmtools {__version__}" "bmtools"\n.ad l\n.nh\n'
            f".SH NAME\n{_escaped(page)} \\- {_escaped(sentence).removesuffix('.')}")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n\n")):
        if paragraph.startswith("\b"):
            yield from _verbatim(paragraph[2:])
        else:
            yield f".PP\n{_escaped(paragraph)}"


def _verbatim(text: str) -> Iterator[str]:
    """Yield lines that stay as they are; wide ones begin at the left margin."""
    lines = textwrap.dedent(text.strip("\n")).splitlines()
    yield ".PP\n.nf" + "\n.in 1n" * (max(map(len, lines)) > _WIDTH)
    yield from (_escaped(line, keeps_spaces=True) for line in lines)
    yield ".fi\n.in"


def _see_also(pages: Iterable[str], about: Iterable[str] = ()) -> Iterator[str]:
    named = [*(f"{page}(1)" for page in pages), *(f"bmtools-{topic}(7)" for topic in about)]
    if named:
        yield ".SH SEE ALSO\n" + ",\n".join(
            re.sub(r"(.*)\((\d)\)", r"\\fB\1\\fP(\2)", _escaped(one)) for one in named)


def _escaped(text: str, keeps_spaces: bool = False) -> str:
    """Escape what would be a request or another character."""
    lines = (text if keeps_spaces else " ".join(text.split(" "))).translate(_ESCAPES).splitlines()
    return "\n".join(("\\&" if line.startswith(".") else "") + line for line in (
        line.rstrip() if keeps_spaces else line.strip() for line in lines))


if __name__ == "__main__":
    write_man_pages(Path(sys.argv[1]))
