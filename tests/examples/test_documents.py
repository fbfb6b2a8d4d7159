"""README and docs/: what they name exists, what they show runs."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from document_blocks import (
    DOCUMENTS,
    README,
    ROOT,
    blocks,
    calls,
    check_values,
    find_command,
    prose,
)
from every_command import every_command

from bmtools.recipes.toml import read_run_config
from bmtools.study.cards.about import read_about
from bmtools.study.corpora.topics import read_topics

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])


def section(title: str) -> str:
    """Return a section of README."""
    _, _, rest = README.read_text(encoding="utf-8").partition(f"\n## {title}\n")
    assert rest, title
    return rest.partition("\n## ")[0]


def options(command: click.Command) -> set[str]:
    names = {name for parameter in command.params for name in (
        *parameter.opts, *parameter.secondary_opts)}
    return names | {"--help", "-h", "--traceback"}


def every_option() -> set[str]:
    """Return the options of all commands."""
    return {"--version"}.union(*(options(command) for _, command, _ in every_command()))


@each_document
def test_commands_and_options_exist(document: Path) -> None:
    for words in calls(document):
        if words and (words[0].isupper() or words[0] in ("...", "COMMAND")):
            continue
        command, rest = find_command(words)
        named = {word.partition("=")[0] for word in rest if re.match("--?[a-z]", word)}
        assert named <= options(command), " ".join(words)
        check_values(command, rest)


@each_document
def test_options_named_in_prose_exist(document: Path) -> None:
    alone = {found for code in re.findall(r"`(--[^`]+)`", prose(document))
             for found in re.findall(r"(?<![\w-])--[a-z][\w-]*", code)}
    foreign = {"--torch-backend", "--extra-index-url"}
    assert alone - foreign <= every_option()


@each_document
def test_links_resolve(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, target


def test_every_document_is_linked() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", README.read_text(encoding="utf-8")))
    table = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    linked |= {f"docs/{name}" for name in re.findall(r"\]\(([^)#]+)", table)}
    assert linked >= {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}


@each_document
def test_functions_of_the_api_exist(document: Path) -> None:
    for block in blocks(document, "python"):
        compile(block.code, str(document), "exec")
    text = document.read_text(encoding="utf-8")
    for room, name in set(re.findall(r"\bbmtools\.([a-z]+)\.([a-z_]+)\(", text)):
        assert callable(getattr(importlib.import_module(f"bmtools.{room}"), name))


def test_settings_files_in_documents_are_valid(tmp_path: Path) -> None:
    for document in DOCUMENTS:
        for number, block in enumerate(blocks(document, "toml")):
            path = tmp_path / f"{document.stem}-{number}.toml"
            path.write_text(block.code, encoding="utf-8")
            if document.stem == "cards":
                assert read_about(path).contact
            else:
                is_of_topics = document.stem == "corpus"
                assert read_topics(str(path)) if is_of_topics else read_run_config(str(path)).phases


@pytest.mark.slow
def test_the_six_commands_run_as_written(tmp_path: Path,
                                         run_script: Callable[..., str]) -> None:
    shutil.copytree(ROOT / "examples/quickstart", tmp_path / "examples/quickstart",
                    ignore=shutil.ignore_patterns("out"))
    first = section("From text to a model in six commands")
    [commands] = re.findall(r"```sh\n(.*?)```", first, re.S)
    assert len(re.findall(r"^bmtools ", commands, re.M)) == 6
    [code] = re.findall(r"```python\n(.*?)```", first, re.S)
    [tagger] = re.findall(r"```sh\n(.*?)```", section("Your own text"), re.S)
    script = tmp_path / "six.sh"
    (tmp_path / "fill.py").write_text(code, encoding="utf-8")
    script.write_text(f"set -euo pipefail\ncd {shlex.quote(str(tmp_path))}\n{commands}\n"
                      f"echo END\n{tagger}\npython ../fill.py\n", encoding="utf-8")
    shown, _, _ = run_script(script).partition("END")
    score = float(re.findall(r"\| model +\| +([\d.]+)", shown)[0])
    [low, high] = map(float, re.findall(r"the MRR is ([\d.]+) to ([\d.]+)\.", first)[0])
    assert low - 0.03 < score < high + 0.03
    found: list[Any] = [json.loads(line) for line in
                        (tmp_path / "out/found.jsonl").read_text(encoding="utf-8").splitlines()]
    assert any(record["predicted"]["entities"] for record in found)
    results = json.loads((tmp_path / "out/tagger/bmtools.json").read_text("utf-8"))["results"]
    assert results["test_f1"]["mean"] == pytest.approx(0.69, abs=0.1)
