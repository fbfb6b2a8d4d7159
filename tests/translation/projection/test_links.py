"""Words, and places by links between them."""

import numpy as np
import pytest

from bmtools.translation.projection.links import linked_place, word_spans


@pytest.mark.parametrize(("text", "words"), [
    ("Il 30,5% dell'acqua", ["Il", "30,5", "%", "dell'", "acqua"]),
    ("X-ray (p<0.05).", ["X", "-", "ray", "(", "p", "<", "0.05", ")", "."]),
    ("肺癌 의 한국어", ["肺", "癌", "의", "한국어"]),
    (" \n", []),
])
def test_words_and_signs(text, words):
    assert [text[start:end] for start, end in word_spans(text)] == words


def place(links, span=(2, 4)):
    """Find the place of source words that are one letter each, `a b c`."""
    words = [(at, at + 1) for at in range(0, 2 * len(links), 2)]
    others = [(at, at + 1) for at in range(0, 2 * len(links[0]), 2)]
    found = linked_place(np.array(links, float), words, others, span)
    return found and (found.start, found.end, round(found.score, 3))


def test_a_place_is_what_the_links_of_a_span_cover():
    # a b c to a c b: the words of b move.
    assert place([[1, 0, 0], [0, 0, 1], [0, 1, 0]]) == (4, 5, 1.0)
    # b c to two words with an unlinked one between them.
    assert place([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], (2, 5)) == (2, 7, 1.0)


def test_a_stray_link_far_off_does_not_stretch_a_place():
    links = np.zeros((2, 16))
    links[0, [0, 1, 14]] = links[1, 15] = 1
    assert place(links.tolist(), (0, 1)) == (0, 3, 1.0)
    # A word of another span ends it, where as much would be gained as lost.
    assert place([[1, 0, 1], [0, 1, 0]], (0, 1)) == (0, 1, 1.0)


def test_the_score_falls_with_unlinked_words_and_with_links_that_lead_elsewhere():
    assert place([[1, 0], [0, 0]], (0, 3)) == (0, 1, 0.5)
    assert place([[0.6, 0], [0.4, 0]], (0, 1)) == (0, 1, 0.6)


def test_a_span_without_links_has_no_place():
    assert place([[0, 0], [0, 1]], (0, 1)) is None
    assert place([[1, 1]], (7, 9)) is None
    assert linked_place(np.zeros((0, 0)), [], [], (0, 1)) is None
