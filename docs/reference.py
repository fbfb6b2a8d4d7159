"""Make the command reference as Markdown: a page for each command, from `--help-all`."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from bmtools.cli.help import (
    DocumentedCommand,
    first_sentence,
    topic_text,
    topics,
    wrapped_example,
)
from bmtools.cli.main import bmtools, stages

INTRODUCTION = """# Commands

These pages are made from the commands, and have what `bmtools COMMAND --help-all` prints.

An option can also come from the environment, `BMTOOLS_PRETRAIN_STEPS=500` for
`bmtools pretrain --steps 500`, or from a file, `--config FILE.toml`. The command line wins over the
environment, and that over the file. The keys at the top of the file apply to every command that
reads it. A table such as `[pretrain]`, `[finetune]` or `[finetune.ner]` applies to that command or
group only. Names may be written with `-` or `_`. A name that no command or option has is an error.
"""


def write_reference(folder: Path) -> None:
    """Write the pages of all commands, their list and the topics into a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    context = click.Context(bmtools, info_name="bmtools")
    lines = [INTRODUCTION]
    for title, rows in stages().items():
        lines += [f"## {title}", "", "| command | |", "| --- | --- |"]
        for name, sentence in rows:
            lines.append(f"| [`{name}`]({name}.md) | {escaped(sentence)} |")
            command = bmtools.get_command(context, name)
            assert command is not None
            page = "\n".join(command_lines(command, context, name))
            (folder / f"{name}.md").write_text(page, encoding="utf-8")
        lines.append("")
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")
    (folder / "topics.md").write_text("\n".join(topic_lines()), encoding="utf-8")


def command_lines(command: click.Command, parent: click.Context, name: str,
                  level: int = 1) -> Iterator[str]:
    """Yield the lines of a command: its text, its examples, its options by group, its commands."""
    context = click.Context(command, parent, name)
    yield f"{'#' * level} {name}\n"
    yield f"{escaped(first_sentence(command))}\n"
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{context.command_path} {pieces}\n```\n"
    if examples := getattr(command, "examples", ()):
        lines = [textwrap.dedent(wrapped_example(example, 84)) for example in examples]
        yield "\n".join(["```sh", *lines, "```\n"])
    yield from paragraphs(inspect.cleandoc(command.help or "").partition("\n\n")[2])
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            inner = command.get_command(context, one)
            assert inner is not None
            yield from command_lines(inner, context, one, level + 1)
    elif isinstance(command, DocumentedCommand):
        yield from option_lines(command, context, level + 1)
        if command.topics:
            links = ", ".join(f"[{topic}](topics.md#{topic})" for topic in command.topics)
            yield f"More: {links}\n"


def option_lines(command: DocumentedCommand, context: click.Context, level: int) -> Iterator[str]:
    """Yield a table for each group of options."""
    before = ""
    for title, _, (term, text) in command.records(context):
        if title != before:
            yield f"\n{'#' * level} {title}\n\n| option | meaning |\n| --- | --- |"
            before = title
        text = text.replace("\xa0", " ")
        [(meaning, default)] = re.findall(r"(?s)(.*?)(?:  \[(?:default: )?(.*)\])?$", text)[:1]
        default = {"": "", "required": " Required."}.get(default, f" Default: {code(default)}")
        flags, values = re.findall(r"((?:-[\w-]+(?:, | / )?)+|FILES)(.*)", term)[0]
        yield f"| {code(flags)}{escaped_bars(values)} | {escaped(meaning)}{default} |"
    yield ""


def topic_lines() -> Iterator[str]:
    """Yield the lines of the topics, with their texts unchanged."""
    yield "# Topics\n\n`bmtools help TOPIC` shows these texts.\n"
    for name in topics():
        yield f"## {name}\n\n```text\n{topic_text(name).rstrip()}\n```\n"


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text. Paragraphs that click does not wrap become code."""
    for paragraph in filter(None, text.split("\n\n")):
        is_code = paragraph.startswith("\b")
        yield f"```text\n{paragraph[2:]}\n```\n" if is_code else f"{escaped(paragraph)}\n"


def escaped(text: str) -> str:
    """Write options as code, and escape what Markdown would take for markup."""
    text = re.sub(r"(?<![\w`-])(--[a-z][\w-]*)", r"`\1`", " ".join(text.split()))
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part)
                   for part in parts)


def code(text: str) -> str:
    """Write text as code in a table's cell."""
    return f"<code>{escaped_bars(html.escape(text, quote=False))}</code>"


def escaped_bars(text: str) -> str:
    """Escape text for a table's cell: bars would end the cell, and brackets would begin a link."""
    for sign in "|[]":
        text = text.replace(sign, f"&#{ord(sign)};")
    return text
