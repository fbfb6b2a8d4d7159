"""Share of a text's tokens that a vocabulary does not contain."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np

from bmtools.errors import BmtoolsWarning
from bmtools.records import Record

MOST_UNKNOWN = 0.1
"""Maximum share of unknown tokens in a text that the model was made for."""


class UnknownTokens:
    """Count of all tokens and of unknown tokens that a model reads.

    Args:
        name: name of the model, for the warning.
        unknown_id: id of the unknown token; None if the tokenizer can encode any text.
    """

    def __init__(self, name: str, unknown_id: int | None) -> None:
        self._name, self._unknown_id = name, unknown_id
        self._source = ""
        self.unknown = self.tokens = 0

    def add(self, ids: np.ndarray, record: Record) -> None:
        """Count the tokens of a text."""
        self.add_counts(int(np.count_nonzero(ids == self._unknown_id)), len(ids), record)

    def add_counts(self, unknown: int, tokens: int, record: Record) -> None:
        """Add the numbers of unknown tokens and of all tokens in a text."""
        self.unknown += unknown
        self.tokens += tokens
        self._source = self._source or record.place.rpartition(":")[0]

    @property
    def share(self) -> float:
        """Share of unknown tokens; 0 if no tokens were counted."""
        return self.unknown / self.tokens if self.tokens else 0.0

    def warn(self) -> None:
        """Warn if too many tokens were unknown."""
        warn_of_unknown_tokens(self._name, self.unknown, self.tokens, [self._source])


def warn_of_unknown_tokens(name: str, unknown: int, tokens: int, sources: Iterable[str],
                           unit: str = "tokens") -> None:
    """Warn if a model does not know more than `MOST_UNKNOWN` of a text's tokens."""
    if unknown > MOST_UNKNOWN * tokens:
        text = ", ".join(filter(None, sources)) or "the text"
        warnings.warn(
            f"{name}: {unknown:,} of {tokens:,} {unit} of {text} are unknown to it; use text in "
            "the language and script that its vocabulary was made for",
            BmtoolsWarning, stacklevel=2)
