"""Statements of people about a model, from a TOML file: intended use, contact, risks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from bmtools.errors import DataError, suggestion
from bmtools.recipes.toml import parse_toml

Url = Annotated[str, msgspec.Meta(pattern=r"^https?://\S+$")]
HubId = Annotated[str, msgspec.Meta(pattern=r"^[\w.-]+(/[\w.-]+)?$")]


class Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statement about an input, by the name of its file."""

    hub: HubId = ""
    url: Url = ""
    licence: str = ""
    description: str = ""


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

    def dataset(self, name: str) -> Dataset:
        """Return the statement about an input, by the name of its file."""
        return self.datasets.get(name, Dataset())


_OPTIONAL = ("name", "version", "licence", "base_models", "datasets")
STATED = tuple(name for name in About.__struct_fields__ if name not in _OPTIONAL)
"""Keys that a complete card needs."""


def read_about(path: Path | None) -> About:
    """Read the file; without a file, return empty statements.

    Raises:
        DataError: an unknown key, or a malformed value.
    """
    if path is None:
        return About()
    content = parse_toml(path.read_bytes(), str(path))
    for key, value in content.items():
        if key not in About.__struct_fields__:
            raise DataError(f"{path}: found unknown key {key!r}, "
                            f"{suggestion(key, list(About.__struct_fields__))}")
        if isinstance(value, str | bool):
            content[key] = ("no", "yes")[value] if isinstance(value, bool) else value.strip()
    try:
        return msgspec.convert(content, About)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}; see the keys in docs/cards.md") from error
