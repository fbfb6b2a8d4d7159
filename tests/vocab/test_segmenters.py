"""Words in languages without spaces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from bmtools.errors import BmtoolsError
from bmtools.vocab import segmenters
from bmtools.vocab.segmenters import load_segmenter, segmented_starts

PACKAGES = {"japanese": "sudachipy", "chinese": "rjieba", "thai": "pythainlp"}
WORDS = {
    "japanese": ["慢性", "骨髄", "性", "白血病", "の", "患者", "に", "イマチニブ", "を", "投与",
                 "し", "た", "。"],
    "chinese": ["急性", "心肌梗死", "患者", "应", "尽早", "使用", "阿司匹林", "。"],
    "thai": ["ผู้ป่วย", "มี", "อาการ", "เจ็บ", "หน้าอก", "และ", "หายใจ", "ลำบาก"],
}


def marked(text: str, offsets: list[tuple[int, int]], *words: int) -> list[int]:
    """Return the tokens that begin a word, for a segmenter that returns the offsets of `words`."""
    found = segmented_starts(text, np.array(offsets).reshape(-1, 2), lambda _: words)
    return np.flatnonzero(found).tolist()


def test_a_leading_space_belongs_to_the_word_even_in_a_separate_token() -> None:
    assert marked("ab cd", [(0, 2), (2, 5)], 0, 3) == [0, 1]
    assert marked("ab cd", [(0, 2), (2, 5)], 0, 2, 3) == [0, 1]
    assert marked("ab cd", [(0, 2), (2, 3), (3, 5)], 0, 3) == [0, 1]
    assert marked("ab \n cd", [(0, 2), (2, 3), (3, 4), (4, 7)], 0, 2, 3, 4, 5) == [0, 1]
    assert marked("ab cd", [(0, 2), (3, 5)], 0, 3) == [0, 1]
    assert marked("ab ", [(0, 2), (2, 3)], 0) == [0, 1]


def test_only_the_first_token_of_a_character_begins_a_word() -> None:
    assert marked("心臓", [(0, 1), (0, 1), (0, 1), (1, 2), (1, 2)], 0, 1) == [0, 3]
    # The second token contains the end of one character and the beginning of the next.
    assert marked("心臓", [(0, 1), (0, 2), (1, 2)], 0, 1) == [0]


def test_a_token_across_a_border_joins_two_words() -> None:
    assert marked("abcdef", [(0, 1), (1, 3), (3, 6)], 0, 2) == [0]
    assert marked("abcdef", [(0, 2), (2, 4), (4, 6)], 0, 2, 3, 4) == [0, 1, 2]


@pytest.mark.parametrize("offset", [-1, 4])
def test_offsets_outside_the_text_are_an_error(offset: int) -> None:
    with pytest.raises(ValueError, match=r"segmenter: found offsets .* expected 0 to 3"):
        marked("abc", [(0, 3)], 0, offset)


@pytest.mark.parametrize("language", PACKAGES)
def test_words_of_each_language_are_found(language: str) -> None:
    pytest.importorskip(PACKAGES[language])
    segment = load_segmenter(language)
    assert segment is not None
    text = "".join(WORDS[language])
    borders = [*segment(text), len(text)]
    assert [text[a:b] for a, b in pairwise(borders)] == WORDS[language]
    assert segment("") == []


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BmtoolsError, match="segmenter: found pairs, expected tokenizer or"):
        load_segmenter("pairs")
    monkeypatch.setitem(segmenters._SEGMENTERS, "thai", lambda _: __import__("no_such_package"))
    with pytest.raises(BmtoolsError, match=r"segmenter thai: .*install .*\[thai\]'"):
        load_segmenter("thai")


def test_long_japanese_texts_are_split_at_sentence_ends() -> None:
    pytest.importorskip("sudachipy")
    sentence = "".join(WORDS["japanese"])
    one = segmenters.japanese(sentence)
    many = segmenters.japanese(sentence * 2_000)
    assert many == [begin + len(sentence) * n for n in range(2_000) for begin in one]
    endless = segmenters.japanese("あ" * 30_000)
    assert endless == sorted(set(endless)) and endless[0] == 0
