"""Masking that prefers listed terms."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bmtools.data.masking.corruption import TokenBatch
from bmtools.data.masking.strategies import TermList, mask_terms, spellings


def plain_find(text: TokenBatch, terms: list[list[int]]) -> list[tuple[int, int]]:
    """The brute-force twin: try every term at every token; the longest at each position."""
    found = []
    for begin in range(len(text.ids)):
        lengths = [len(term) for term in terms if term and fits(text, begin, term)]
        if lengths:
            found.append((begin, max(lengths)))
    return found


def fits(text: TokenBatch, begin: int, term: list[int]) -> bool:
    end = begin + len(term)
    tokens = range(begin, end)
    return (end <= len(text.ids) and text.ids[begin:end].tolist() == term
            and all(text.maskable[tokens]) and len(set(text.sample[tokens].tolist())) == 1
            and not goes_on(text, begin) and not goes_on(text, end))


def goes_on(text: TokenBatch, position: int) -> bool:
    """Whether a token continues the word of the one before it."""
    return bool(position < len(text.ids) and position and not text.word_starts[position]
                and text.maskable[position] and text.maskable[position - 1]
                and text.sample[position] == text.sample[position - 1])


def plain_marks(text: TokenBatch, terms: list[list[int]]) -> tuple[list[bool], list[bool]]:
    inside, begins = [False] * len(text.ids), [False] * len(text.ids)
    reached = 0
    for begin, length in plain_find(text, terms):
        begins[begin] = begin >= reached
        reached = max(reached, begin + length)
        inside[begin:begin + length] = [True] * length
    return inside, begins


@pytest.fixture(scope="module")
def crowded() -> tuple[list[Any], list[list[int]]]:
    """Samples over nine ids, and terms of 1 to 6 tokens that share beginnings and overlap."""
    rng = np.random.default_rng(2)
    samples = [(rng.integers(5, 14, size=n).tolist(), (rng.random(n) < 0.7).tolist())
               for n in rng.integers(0, 60, size=80).tolist()]
    terms = [rng.integers(5, 14, size=length).tolist()
             for length in (1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 6)]
    terms += [[*term, 7] for term in terms[1:5]] + [[300, 5]]
    return samples, terms


def test_found_terms_equal_plain_loops(lay: Callable[..., TokenBatch],
                                       crowded: Any) -> None:
    samples, terms = crowded
    text = lay(samples, special=False)
    found_inside, found_begins = TermList(terms).mark(text)
    inside, begins = plain_marks(text, terms)
    assert found_inside.tolist() == inside
    assert found_begins.tolist() == begins
    assert 100 < sum(begins) < sum(inside) < len(text.ids)


def test_terms_end_at_word_and_sample_borders(lay: Callable[..., TokenBatch]) -> None:
    terms = TermList([[10, 11], [20]])
    for ids, starts, expected in [
            ([10, 11, 12], [1, 0, 1], [1, 1, 0]),
            ([10, 11, 12], [1, 1, 1], [1, 1, 0]),
            ([10, 11, 12], [1, 0, 0], [0, 0, 0]),      # the last word continues
            ([9, 10, 11], [1, 0, 1], [0, 0, 0]),       # begins inside a word
            ([20, 20, 20], [1, 1, 0], [1, 0, 0])]:
        text = lay([(ids, starts)], special=False)
        assert terms.mark(text)[0].tolist() == [bool(one) for one in expected]
    apart = lay([([10], [True]), ([11], [True])], special=False)
    assert not terms.mark(apart)[0].any()
    parted = lay([([10, 1, 11], [True] * 3)], special=False)
    assert not terms.mark(parted)[0].any()


def test_overlapping_terms_are_joined_and_adjacent_terms_are_not(
        lay: Callable[..., TokenBatch]) -> None:
    text = lay([([10, 11, 12, 10, 11, 10, 11], [True] * 7)], special=False)
    inside, begins = TermList([[10, 11], [11, 12]]).mark(text)
    assert begins.tolist() == [True, False, False, True, False, True, False]
    assert inside.all()


def test_terms_come_first_and_words_fill_the_rest(lay: Callable[..., TokenBatch]) -> None:
    # A tenth of the tokens are in terms of two words: less than the budget of 15 %.
    ids = ([10, 11] + [20] * 18) * 10
    text = lay([(ids, [True] * 200)] * 50, special=False)
    picked = TermList([[10, 11]])(text, 0.15)
    assert picked[text.ids < 20].all()
    assert np.bincount(text.sample[picked], minlength=len(text.keys)).tolist() == [30] * 50


def test_marks_of_the_caller_extend_to_whole_words(lay: Callable[..., TokenBatch]) -> None:
    starts = [True, False, True, True, False, False, True, True]
    text = lay([(list(range(10, 18)), starts)] * 400, special=False)
    marks = np.array([0, 1, 1, 0, 0, 0, 0, 0] * 400, dtype=bool)
    picked = mask_terms(text, 3 / 8, marks, np.zeros(3200, dtype=bool)).reshape(400, 8)
    assert picked[:, :3].all() and not picked[:, 3:].any()
    # Adjacent terms are separate if the start of the second one is marked.
    begins = np.array([0, 0, 1, 0, 0, 0, 0, 0] * 400, dtype=bool)
    picked = mask_terms(text, 2 / 8, marks, begins).reshape(400, 8)
    assert set(picked[:, :3].sum(axis=1).tolist()) == {1, 2, 3}
    assert not picked[:, 3:].any()


def test_terms_are_spelled_with_and_without_a_space(
        learn: Callable[..., Any], lay: Callable[..., TokenBatch]) -> None:
    texts = ["asthma and lung cancer in asthma", "lung cancer is cancer of a lung"] * 30
    backend = learn(texts, 300)
    found = spellings(SimpleNamespace(backend_tokenizer=backend), ["lung cancer", "asthma"])
    assert len({tuple(ids) for ids in found}) == len(found)
    samples, words_at = [], []
    for text in ("lung cancer and asthma", "asthma of lung cancer"):
        [encoding] = backend.encode_batch([text], add_special_tokens=False)
        words = encoding.word_ids
        samples.append((encoding.ids, [n == 0 or words[n] != words[n - 1]
                                       for n in range(len(words))]))
        words_at += [text[slice(*encoding.word_to_chars(word))].strip() for word in words]
    text = lay(samples, special=False)
    marked = TermList(found).mark(text)[0]
    assert marked.tolist() == [word not in ("and", "of") for word in words_at]
