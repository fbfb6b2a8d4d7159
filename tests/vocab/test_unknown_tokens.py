"""Shares of unknown tokens, and the warning above a limit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bmtools.errors import BmtoolsWarning
from bmtools.records import Record
from bmtools.vocab.unknown_tokens import UnknownTokens, warn_of_unknown_tokens

UNKNOWN = 1


def test_tokens_of_all_texts_are_counted() -> None:
    found = UnknownTokens("model", UNKNOWN)
    assert found.share == 0
    for number in (1, 2):
        record = Record(id="1", text="x", place=f"a:b.jsonl:{number}")
        found.add(np.array([2, UNKNOWN, 3, 4]), record)
    assert (found.unknown, found.tokens, found.share) == (2, 8, 0.25)
    with pytest.warns(BmtoolsWarning) as caught:
        found.warn()
    assert [str(one.message) for one in caught] == [
        "model: 2 of 8 tokens of a:b.jsonl are unknown to it; use text in the language and script "
        "that its vocabulary was made for"]


@pytest.mark.parametrize(("unknown", "tokens", "warned"), [(0, 0, 0), (10, 100, 0), (11, 100, 1)])
def test_up_to_a_tenth_unknown_tokens_cause_no_warning(unknown: int, tokens: int,
                                                       warned: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_unknown_tokens("model", unknown, tokens, [])
    assert len(caught) == warned
    assert all("tokens of the text are unknown" in str(one.message) for one in caught)
