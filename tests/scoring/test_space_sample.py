"""Words sampled by frequency, and their occurrences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bmtools.errors import DataError
from bmtools.records import Record
from bmtools.scoring.settings import EmbeddingSpaceConfig
from bmtools.scoring.space_sample import (
    WordContext,
    band_ends,
    choose_words,
    cut_context,
    sample_contexts,
)

LETTERS = "abcdefghijklmnopqrst"


def few(**changed: Any) -> EmbeddingSpaceConfig:
    return EmbeddingSpaceConfig(**{"bands": 2, "words_per_band": 2, "occurrences": 3,
                                   "min_count": 1, "neighbours": 1, **changed})


def read(texts: list[str]) -> Iterator[Record]:
    for number, text in enumerate(texts):
        yield Record(id=str(number), text=text)


def test_bands_are_equal_steps_of_rank_on_a_log_scale() -> None:
    settings = few(bands=4, words_per_band=10)
    assert band_ends(10 * 3**3, settings) == [10, 30, 90, 270]


def test_words_are_from_bands_with_decreasing_counts() -> None:
    counts = {letter * 3: 2 ** (20 - rank) for rank, letter in enumerate(LETTERS)}
    settings = few(bands=3, words_per_band=3)
    words = choose_words(counts, settings)
    ranks = [LETTERS.index(word[0]) for word in words.words]
    first, second, _ = band_ends(20, settings)
    assert sorted(ranks[:3]) == [0, 1, 2]
    assert ranks[:3] == sorted(ranks[:3])
    assert all(first <= rank < second for rank in ranks[3:6])
    assert all(second <= rank for rank in ranks[6:])
    assert words.counts.tolist() == [counts[word] for word in words.words]
    assert words.bands.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_only_words_of_letters_are_counted_ignoring_case() -> None:
    texts = ["Asma! asma ASMA l'asma il il il il il 123 h1n1 H1N1 cuore-polmone",
             "cuore, polmone; e\u0301tat \u00c9TAT"]
    words, contexts = sample_contexts(read(texts), few(context_characters=0))
    assert dict(zip(words.words, words.counts.tolist(), strict=True)) == {
        "asma": 4, "cuore": 2, "polmone": 2, "\u00e9tat": 2}
    forms = {(words.words[one.word], one.text[one.start:one.end]) for one in contexts}
    assert {("\u00e9tat", "e\u0301tat"), ("\u00e9tat", "\u00c9TAT"), ("cuore", "cuore")} <= forms
    assert len([one for one in contexts if words.words[one.word] == "asma"]) == 3


def test_positions_are_sampled_uniformly_from_the_text() -> None:
    texts = [f"asma n{number}" for number in range(30)] + ["cuore cuore rene polmone"]
    met: Counter[str] = Counter()
    for seed in range(300):
        words, contexts = sample_contexts(read(texts), few(seed=seed))
        drawn = [one.text for one in contexts if words.words[one.word] == "asma"]
        assert len(drawn) == len(set(drawn)) == 3
        met.update(drawn)
    # 900 samples over 30 positions: chi-square with 29 degrees of freedom, 0.1 % and 99.9 %.
    statistic = sum((met[text] - 30) ** 2 / 30 for text in texts[:30])
    # Three different positions at a time vary slightly less than independent ones.
    assert 9.0 < statistic < 58.3


def test_only_chosen_forms_are_counted_and_sampled() -> None:
    texts = ["Asma asma asma cuore rene polmone"]

    def choose(forms: list[str]) -> list[bool]:
        return [form != "Asma" for form in forms]

    words, contexts = sample_contexts(read(texts), few(context_characters=0), choose)
    assert dict(zip(words.words, words.counts.tolist(), strict=True))["asma"] == 2
    assert {one.text for one in contexts} == {"asma", "cuore", "rene", "polmone"}


@pytest.mark.parametrize(("reach", "text"), [
    (0, "asma"), (1, "asma"), (2, "asma"), (3, "ha asma"), (4, "ha asma"), (7, "ha asma"),
    (8, "ha asma, grave"), (11, "malato ha asma, grave"), (99, "il malato ha asma, grave.")])
def test_context_contains_complete_words_within_reach(reach: int, text: str) -> None:
    whole = "il malato ha asma, grave."
    start = whole.index("asma")
    cut = cut_context(WordContext(7, whole, start, start + 4), reach)
    assert cut.text[cut.start:cut.end] == "asma"
    assert cut.word == 7
    assert cut.text.strip(" ,.") == text.strip(" ,.")
    assert len(cut.text) <= 4 + 2 * reach


@pytest.mark.parametrize(("texts", "message"), [
    ([], "no words in the input; expected records with some text"),
    (["", " . "], "no words in the input; expected records with some text"),
    (["uno due tre 4 5 6"], "found 3 words that occur in the text 1 times or more, expected 4 or "
                            "more for 2 bands of 2; give more text, or lower words_per_band, "
                            "bands or min_count")])
def test_too_few_words_are_a_one_line_error(texts: list[str], message: str) -> None:
    with pytest.raises(DataError) as raised:
        sample_contexts(read(texts), few())
    assert str(raised.value) == message
