"""Vocabularies that commands take by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bmtools.vocab.vocabulary import Vocabulary


def named_paths(vocabs: Sequence[str]) -> dict[str, Path]:
    """Parse NAME=PATH; a path that exists as a whole is its own name.

    Raises:
        UsageError: there is no such path, or a name twice.
    """
    paths: dict[str, Path] = {}
    for given in vocabs:
        name, separator, path = ("", "", given) if Path(given).exists() else given.partition("=")
        if not separator:
            name = path = given
        if not Path(path).exists() or not name:
            raise click.UsageError(f"--vocab: found {given!r}, expected a tokenizer, a checkpoint, "
                                   "a tokenizer.json or a vocab.txt, or NAME=PATH of one")
        if name in paths:
            raise click.UsageError(f"--vocab: found the name {name!r} twice; give them names of "
                                   "their own, NAME=PATH")
        paths[name] = Path(path)
    return paths


def load_vocabularies(paths: Mapping[str, Path]) -> dict[str, Vocabulary]:
    """Load vocabularies, and tell the user about casings that no file states."""
    from bmtools.vocab.vocabulary import load_vocabulary

    vocabularies = {name: load_vocabulary(path) for name, path in paths.items()}
    for name, vocabulary in vocabularies.items():
        if vocabulary.casing_assumed:
            what = ("text is lower-cased without accents" if vocabulary.uncased
                    else "text keeps its case")
            click.echo(f"bmtools: {name}: no file says its casing; by its tokens it is "
                       f"{vocabulary.casing}, so {what}", err=True)
    return vocabularies
