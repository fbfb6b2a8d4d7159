"""Lists of function words."""

import pytest

from bmtools.translation.function_words import function_words, words_of_all_languages

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


def test_languages_without_a_list_have_none() -> None:
    assert not function_words("xx")
    assert not function_words("")


def test_words_are_those_of_all_languages() -> None:
    found = words_of_all_languages("conjunctions", "clauses")
    assert {"though", "which", "oppure", "qui", "aunque", "embora", "weil", "die"} <= set(found)
    assert "the" not in found
