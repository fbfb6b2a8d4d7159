"""Statements of people about a model, in a TOML or Markdown file: intended use, contact, risks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from bmtools.errors import DataError, suggestion
from bmtools.recipes.toml import parse_toml
from bmtools.records import JsonObject

_TITLE = re.compile(r"\s*# +(.+)")
_HEADING = re.compile(r"^## +(.+?)\s*$", re.M)
Url = Annotated[str, msgspec.Meta(pattern=r"^https?://\S+$")]
HubId = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(/[\w.-]+)?$")]


class Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statement about an input, by the name of its file."""

    hub: HubId = ""
    url: Url = ""
    licence: str = ""
    description: str = ""


class Benchmark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Benchmark of the Hub that a set of scores is, by the name of the set."""

    dataset: HubId
    task: str
    revision: str = ""
    source: Url = ""


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of the file, all optional; `docs/cards.md` explains each."""

    name: str = ""
    version: str = ""
    description: str = ""
    intended_use: str = ""
    out_of_scope: str = ""
    users: str = ""
    limitations: str = ""
    risks: str = ""
    personal_data: str = ""
    autonomy: str = ""
    domain: str = ""
    explainability: str = ""
    decision_threshold: str = ""
    preprocessing: str = ""
    standards: str = ""
    developed_by: str = ""
    contact: str = ""
    licence: str = ""
    repository: HubId = ""
    code: Url = ""
    website: Url = ""
    paper: Url = ""
    citation: str = ""
    base_models: dict[str, HubId] = {}
    datasets: dict[str, Dataset] = {}
    benchmarks: dict[str, Benchmark] = {}

    def dataset(self, name: str) -> Dataset:
        """Return what is stated about an input, by the name of its file."""
        return self.datasets.get(name, Dataset())


_OPTIONAL = ("name", "version", "licence", "base_models", "datasets", "benchmarks")
STATED = tuple(name for name in About.__struct_fields__ if name not in _OPTIONAL)
"""Keys that a complete card needs."""


def read_about(path: Path | None) -> About:
    """Read the file; without one, nothing is stated.

    Of a Markdown file the title is the name, the text below it the description, and each heading
    of level two a key, in any case and with blanks. TOML may stand between `+++` lines before.

    Raises:
        DataError: an unknown key, or a value of another form.
    """
    if path is None:
        return About()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: found bytes that are no UTF-8, expected text") from error
    content = parse_toml(text.encode(), str(path)) if path.suffix == ".toml" \
        else _sections(text, path)
    for key in content:
        if key not in About.__struct_fields__:
            raise DataError(f"{path}: found unknown key {key!r}, "
                            f"{suggestion(key, list(About.__struct_fields__))}")
    try:
        return msgspec.convert(_stripped(content), About)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}; docs/cards.md has the keys") from error


def _sections(text: str, path: Path) -> JsonObject:
    """Split Markdown by its headings."""
    tables: JsonObject = {}
    if text.startswith("+++\n"):
        front, _, text = text[4:].partition("\n+++\n")
        tables = parse_toml(front.encode(), str(path))
    beginning, *parts = _HEADING.split(text)
    if title := _TITLE.match(beginning):
        tables["name"], beginning = title[1], beginning[title.end():]
    if beginning.strip():
        tables["description"] = beginning
    return {**tables, **{re.sub("[ -]", "_", heading.lower()): body
                         for heading, body in zip(parts[::2], parts[1::2], strict=True)}}


def _stripped(content: JsonObject) -> JsonObject:
    """Strip texts, and write one for true and false."""
    return {key: value.strip() if isinstance(value, str) else value if not isinstance(value, bool)
            else "yes" if value else "no" for key, value in content.items()}
