"""Vocabularies that commands take by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bmtools.vocab.loading import Vocabulary

VOCABULARY = "a tokenizer, a checkpoint, a tokenizer.json or a vocab.txt"
"""What such a name leads to, in messages."""


def load_vocabularies(paths: Mapping[str, str]) -> dict[str, Vocabulary]:
    """Load vocabularies, and tell the user about casings that no file states."""
    from bmtools.vocab.loading import load_vocabulary

    vocabularies = {name: load_vocabulary(Path(path)) for name, path in paths.items()}
    for name, vocabulary in vocabularies.items():
        if vocabulary.casing_assumed:
            what = ("text is lower-cased without accents" if vocabulary.uncased
                    else "text keeps its case")
            click.echo(f"bmtools: {name}: no file says its casing; by its tokens it is "
                       f"{vocabulary.casing}, so {what}", err=True)
    return vocabularies
