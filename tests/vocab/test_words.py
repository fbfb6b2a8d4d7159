"""Words that are the same to every tokenizer."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest

from bmtools.vocab.words import WordCounter, count_words, find_words


@pytest.mark.parametrize(("text", "words"), [
    ("The beta-blocker (50mg) didn't help.", "The beta blocker 50mg didn t help"),
    ("CYP2D6, IL-2 and H1N1", "CYP2D6 IL 2 and H1N1"),
    ("l'asma: 0,5 ml/kg", "l asma 0 5 ml kg"),
    ("snake_case <b>TNF-\u03b1</b> x² µg", "snake case b TNF \u03b1 b x² µg"),
    ("Größe naïve cafe\u0301", "Größe naïve cafe\u0301"),
    ("मधुमेह रोग है।", "मधुमेह रोग है"),
    ("مرض السكري، نوع ٢", "مرض السكري نوع ٢"),
    ("می\u200cشود \u200fسیب\u200f", "می\u200cشود سیب"),
    ("東京 の 病院。心臓", "東京 の 病院 心臓"),
    ("\ufeffone\u00a0two\u2003three\u200bfour", "one two three four"),
    ("co\u00adoperate \u00ad - \u0301 … ❤️ ++", "co\u00adoperate"),
    ("", ""),
])
def test_words_of_many_scripts(text: str, words: str) -> None:
    assert find_words(text) == words.split(" ") if words else find_words(text) == []


def test_every_letter_and_number_is_in_a_word() -> None:
    """Against Unicode's own categories, character by character."""
    for code in range(0x20000):
        character = chr(code)
        if unicodedata.category(character)[0] in "LN":
            assert find_words(f"a {character} b") == ["a", character, "b"], hex(code)
        elif unicodedata.category(character)[0] in "PSZC" and not "\ud800" <= character <= "\udfff":
            assert "".join(find_words(f"({character})")) == "", hex(code)


def test_counts_are_those_of_words_one_by_one() -> None:
    texts = ["a b-c a", "c. a,b", "\tb\n", ""]
    expected = Counter(word for text in texts for word in find_words(text))
    assert count_words(texts) == expected == {"a": 3, "b": 3, "c": 2}
    counter = WordCounter()
    for text in texts:
        counter.add([text])
    assert counter.words() == expected


def test_texts_are_read_as_they_come() -> None:
    seen = []

    def texts():
        for number in range(3):
            seen.append(number)
            yield "word"

    assert count_words(texts())["word"] == 3 and seen == [0, 1, 2]


def test_a_segmenter_finds_words_where_no_spaces_do() -> None:
    def starts(text: str) -> list[int]:
        return [0, *(number for number in range(1, len(text)) if number % 2 == 0)]

    assert find_words("心臓病院。東", starts) == ["心臓", "病院", "東"]
    assert count_words(["心臓病院", "心臓"], starts) == {"心臓": 2, "病院": 1}
    assert count_words(["心臓病院"]) == {"心臓病院": 1}
