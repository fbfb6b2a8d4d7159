"""Man pages: one for every command and topic, formatted without a warning, with all options."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from every_command import every_command

from bmtools.cli.help import DocumentedCommand, topic_text, topics

SCRIPT = Path(__file__).parents[1] / "docs" / "man_pages.py"


COMMANDS = {"-".join(("bmtools", *words)): command for words, command, _ in every_command()}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    runpy.run_path(str(SCRIPT))["write_man_pages"](folder)
    return folder


@pytest.fixture(scope="module")
def shown(pages: Path) -> dict[str, str]:
    """The pages as a terminal shows them, without bold markup."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    files = sorted(pages.iterdir())
    done = subprocess.run(
        ["groff", "-ww", "-man", "-k", "-Tutf8", "-P-c", "-rLL=78n", *map(str, files)],
        capture_output=True, check=True)
    assert done.stderr.decode() == ""
    text = re.sub(".\b", "", done.stdout.decode())
    starts = [found.start() for found in re.finditer(r"^BMTOOLS[A-Z0-9-]*\([17]\) ", text, re.M)]
    found = [text[at:end] for at, end in zip(starts, [*starts[1:], None], strict=True)]
    return dict(zip((file.name for file in files), found, strict=True))


def test_a_page_for_each_command_and_topic(pages: Path) -> None:
    expected = {f"{page}.1" for page in COMMANDS} | {f"bmtools-{name}.7" for name in topics()}
    assert {path.name for path in pages.iterdir()} == expected


def test_pages_contain_everything_in_help(shown: dict[str, str]) -> None:
    for page, command in COMMANDS.items():
        text = " ".join(shown[f"{page}.1"].replace("\u2010", "-").split())
        assert f"NAME {page} - " in text
        for example in getattr(command, "examples", ()):
            assert example in text.replace(" \\ ", " ")
        if isinstance(command, DocumentedCommand):
            names = [name for one in command.params if isinstance(one, click.Option)
                     and not one.hidden for name in one.opts if name != "--help-all"]
            assert [name for name in names if name not in text] == []


def test_topics_are_unchanged(shown: dict[str, str]) -> None:
    for name in topics():
        text = shown[f"bmtools-{name}.7"]
        for line in filter(None, topic_text(name).splitlines()[1:]):
            assert line.strip() in text
