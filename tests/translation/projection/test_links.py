"""Rules for links between words, beside SimAlign's own program; places by links."""

import numpy as np
import pytest

from bmtools.translation.projection.links import (
    argmax_links,
    itermax_links,
    linked_place,
    match_links,
    similarities,
    softmax_links,
)


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


@pytest.fixture(scope="module")
def simalign():
    return pytest.importorskip("simalign").SentenceAligner


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 5), (3, 3), (7, 5), (6, 13)])
def test_links_are_those_of_simalign(simalign, shape):
    rng = np.random.default_rng(sum(shape))
    left, right = (rng.normal(size=(size, 8)) for size in shape)
    similarity = similarities(left, right)
    np.testing.assert_array_equal(similarity, simalign.get_similarity(left, right))
    forward, backward = simalign.get_alignment_matrix(similarity)
    np.testing.assert_array_equal(argmax_links(similarity), forward * backward)
    np.testing.assert_array_equal(itermax_links(similarity), simalign.iter_max(similarity))
    np.testing.assert_array_equal(match_links(similarity),
                                  simalign.get_max_weight_match(similarity))


def test_itermax_links_more_than_argmax():
    rng = np.random.default_rng(0)
    similarity = rng.random((9, 9))
    assert (itermax_links(similarity) >= argmax_links(similarity)).all()
    assert itermax_links(similarity).sum() > argmax_links(similarity).sum()


def test_softmax_links_by_hand():
    # Products 0 and log 3: forward 3/4 and 1/4, backward 3/4 and 1/2 in the two columns.
    left, right = np.array([[np.log(3)], [0.0]]), np.array([[1.0], [0.0]])
    found = softmax_links(left, right, threshold=0.3)
    np.testing.assert_allclose(found, [[0.75, 0], [0, 0.5]])
