"""Lists of function words."""

import pytest

from bmtools.translation.function_words import function_words

KINDS = {"determiners", "prepositions", "conjunctions", "pronouns", "auxiliaries"}


@pytest.mark.parametrize("language", ["en", "it", "es", "fr", "pt", "de"])
def test_function_words_have_one_kind_each(language: str) -> None:
    kinds = function_words(f"{language}-XX")
    assert set(kinds) - {"clauses"} == KINDS
    words = [word for kind, group in kinds.items() for word in group
             if kind not in ("auxiliaries", "clauses")]
    assert all(word == word.casefold() for word in words)
    assert len(words) == len(set(words))
    assert not kinds.get("clauses", frozenset()) & kinds["conjunctions"]
