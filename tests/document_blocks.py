"""The code blocks in README and docs/, and the calls of bmtools in them.

A block whose first line has a title that begins with `needs` does not run, such as
```sh title="needs a GPU". Its commands and options are still checked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from bmtools.cli.main import bmtools

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
             ROOT / "examples/reproduce/README.md", ROOT / "examples/speedrun/README.md"]
FENCED = re.compile(r'^(?:````.*?````|```(\w*)(?: title="([^"]*)")?\n(.*?)^```)$', re.S | re.M)


@dataclass(frozen=True)
class Block:
    """A block of code.

    Args:
        language: language of the block, such as sh; empty if none is given.
        needs: requirement of the block on the machine, or an empty string.
        code: its lines.
    """

    language: str
    needs: str
    code: str


def blocks(document: Path, *languages: str) -> list[Block]:
    """Return the blocks of a document in some languages."""
    found = FENCED.findall(document.read_text(encoding="utf-8"))
    return [Block(language, title.removeprefix("needs ") if title.startswith("needs ") else "",
                  code) for language, title, code in found if language in languages]


def prose(document: Path) -> str:
    """Return the text of a document without blocks."""
    return FENCED.sub("", document.read_text(encoding="utf-8"))


def calls(document: Path) -> Iterator[list[str]]:
    """Yield the words of each call of bmtools in a document, without pipes and comments."""
    shell = [block.code for block in blocks(document, "sh", "bash", "yaml")]
    inline = re.findall(r"`([^`\n]*bmtools [^`\n]*)`", prose(document))
    for code in (*shell, *inline):
        code = re.sub(r"<<'END'\n.*?^END$", "", code.replace("\\\n", " "), flags=re.S | re.M)
        code = re.sub(r"(?:^|\s)#[^\n]*", "", re.sub(r"\$\([^)\n]*\)", "FILE", code))
        for part in re.split(r"\||;|&&|\n|\bdo\b", code):
            plain = re.sub(r"\d?>+ ?\S+", "", part.replace("- run:", ""))
            try:
                words = shlex.split(plain)
            except ValueError:  # a call inside quotes, as the argument of another program
                words = shlex.split(plain.replace("'", ""))
            if "bmtools" in words:
                yield words[words.index("bmtools") + 1:]


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that the words call, and the remaining words."""
    command: click.Command = bmtools
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith(("-", "...")):
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, f"no command {words[0]} {rest[0]}"
        command, rest = found, rest[1:]
    return command, rest


def check_values(command: click.Command, words: list[str]) -> None:
    """Parse the words of a call, and convert values that are not file names."""
    context = click.Context(command)
    values, _, _ = command.make_parser(context).parse_args(list(words))
    for parameter in command.get_params(context):
        found = values.get(parameter.name)
        for value in found if isinstance(found, list | tuple) else [found]:
            is_plain = isinstance(parameter.type, click.Choice | click.types.IntParamType
                                  | click.types.FloatParamType)
            if isinstance(value, str) and is_plain and "$" not in value:
                parameter.type.convert(value, parameter, context)
