"""Words, their forms, their links compared with SimAlign's own program, and places by links."""

from itertools import pairwise

import numpy as np
import pytest

from bmtools.translation.projection.links import (
    argmax_links,
    best_match,
    form_likeness,
    likeness_table,
    linked_place,
    monotone_links,
    mutual_links,
    plain_words,
    softmax_links,
    spelling,
    stem,
    word_spans,
)


def place(links, span=(2, 4)):
    """Find the place of a span of one-letter source words, `a b c`."""
    words = [(at, at + 1) for at in range(0, 2 * len(links), 2)]
    others = [(at, at + 1) for at in range(0, 2 * len(links[0]), 2)]
    found = linked_place(np.array(links, float), words, others, span)
    return found and (found.start, found.end, round(found.score, 3))


def test_place_covers_the_links_of_a_span():
    # a b c to a c b: the words of b move.
    assert place([[1, 0, 0], [0, 0, 1], [0, 1, 0]]) == (4, 5, 1.0)
    # b c to two words with an unlinked one between them.
    assert place([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], (2, 5)) == (2, 7, 1.0)


def test_distant_link_does_not_extend_a_place():
    links = np.zeros((2, 16))
    links[0, [0, 1, 14]] = links[1, 15] = 1
    assert place(links.tolist(), (0, 1)) == (0, 3, 1.0)
    # A word of another span ends the place if the gain after it only equals the loss.
    assert place([[1, 0, 1], [0, 1, 0]], (0, 1)) == (0, 1, 1.0)


def test_the_score_falls_with_unlinked_words_and_with_links_that_lead_elsewhere():
    assert place([[1, 0], [0, 0]], (0, 3)) == (0, 1, 0.5)
    assert place([[0.6, 0], [0.4, 0]], (0, 1)) == (0, 1, 0.6)


def test_a_span_without_links_has_no_place():
    assert place([[0, 0], [0, 1]], (0, 1)) is None
    assert place([[1, 1]], (7, 9)) is None
    assert linked_place(np.zeros((0, 0)), [], [], (0, 1)) is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 5), (3, 3), (7, 5), (6, 13)])
def test_links_equal_simalign(shape):
    simalign = pytest.importorskip("simalign").SentenceAligner
    rng = np.random.default_rng(sum(shape))
    similarity = simalign.get_similarity(*(rng.normal(size=(size, 8)) for size in shape))
    forward, backward = simalign.get_alignment_matrix(similarity)
    np.testing.assert_array_equal(argmax_links(similarity), forward * backward)


def test_softmax_links_by_hand():
    # Products 0 and log 3: forward 3/4 and 1/4, backward 3/4 and 1/2 in the two columns.
    left, right = np.array([[np.log(3)], [0.0]]), np.array([[1.0], [0.0]])
    found = softmax_links(left, right, threshold=0.3)
    np.testing.assert_allclose(found, [[0.75, 0], [0, 0.5]])


@pytest.mark.parametrize(("text", "words"), [
    ("L'atassia (A-T) \u00e8 C5D.",
     ["l", "atassia", "(", "a", "-", "t", ")", "\u00e8", "c5d", "."]),
    ("p<0,05 e 1.5 mg", ["p", "<", "0.05", "e", "1.5", "mg"]),
    ("\u80ba\u764c\uff0c \ud55c\uad6d", ["\u80ba", "\u764c", "\uff0c", "\ud55c\uad6d"]),
    ("", [])])
def test_sentence_is_split_into_plain_words(text: str, words: list[str]) -> None:
    assert plain_words(text) == words
    assert "".join(text[start:end] for start, end in word_spans(text)) == "".join(text.split())


@pytest.mark.parametrize(("english", "italian"), [
    ("arrhythmias", "aritmie"), ("psychoses", "psicosi"), ("encephalopathy", "encefalopatia"),
    ("histamine", "istamina"), ("dexamethasone", "desametasone"), ("mutation", "mutazioni"),
    ("quality", "qualit\u00e0")])
def test_words_from_greek_and_latin_get_a_common_spelling(english: str, italian: str) -> None:
    common = 0
    for one, other in zip(spelling(english), spelling(italian), strict=False):
        common += one == other
    assert common >= len(spelling(english)) - 1


@pytest.mark.parametrize(("left", "right", "alike"), [
    ("tumore", "tumori", True), ("Età", "eta", True), ("cardiaca", "cardiaci", True),
    ("mastectomía", "mastectomia", True), ("dell'", "dell\u2019", True), ("di", "da", False),
    ("ipertensione", "ipotensione", False), ("tensione", "pensione", False), ("del", "dei", False),
    ("fegato", "polmone", False), ("febbre", "fegato", False), ("lymphoid", "linfoide", True)])
def test_forms_of_a_word_are_similar(left, right, alike):
    value = form_likeness(stem(left), stem(right))
    assert (value > 0) is alike
    assert value == form_likeness(stem(right), stem(left))
    assert value <= 1


def test_versions_of_a_sentence_are_linked_in_order():
    table, *_ = likeness_table("il cancro di mamma avanzata era raro",
                               "il cancro al seno avanzato era molto raro")
    links = monotone_links(table)
    assert [tuple(one) for one in np.argwhere(links > 0.5).tolist()] == [
        (0, 0), (1, 1), (4, 4), (5, 5), (6, 7)]
    # "di mamma" corresponds to "al seno"; no word corresponds to "molto".
    assert [tuple(one) for one in np.argwhere((links > 0) & (links < 0.5)).tolist()] == [
        (2, 2), (2, 3), (3, 2), (3, 3)]


def test_moved_phrases_are_linked():
    table, *_ = likeness_table("il dolore e poi una febbre alta", "febbre alta e poi il dolore")
    links = mutual_links(table)
    assert [tuple(one) for one in np.argwhere(links > 0.5).tolist()] == [
        (0, 4), (1, 5), (2, 2), (3, 3), (5, 0), (6, 1)]
    assert (links[4] == 0).all()
    # Of equal words, the nearer ones are linked.
    table, *_ = likeness_table("di di di", "di di")
    assert mutual_links(table)[[0, 2], [0, 1]].all()
    assert mutual_links(np.zeros((3, 0))).shape == (3, 0)


def best_chain(table):
    """Find the greatest total similarity of links in order, by trying all."""
    rows, columns = table.shape
    if not rows or not columns:
        return 0.0
    return max(best_chain(table[1:]), *(
        table[0, column] + best_chain(table[1:, column + 1:]) for column in range(columns)))


def test_linked_words_have_the_greatest_total_similarity():
    rng = np.random.default_rng(0)
    for shape in ((1, 1), (2, 4), (4, 4), (5, 3)):
        table = rng.integers(0, 4, size=shape) * 1.0
        links = monotone_links(table)
        chosen = [(row, column) for row, column in np.argwhere(links >= 1).tolist()]
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(chosen))
        assert links[links >= 1].sum() == best_chain(table)


@pytest.mark.parametrize(("phrase", "text", "expected", "place"), [
    ("tumore maligno", "Dei tumori maligni del fegato.", 0.5, "tumori maligni"),
    ("fegato", "Un fegato e un altro fegato.", 0.9, "fegato"),
    ("malattia del fegato", "La malattia rara del fegato sano.", 0.5, "malattia rara del fegato"),
    ("del fegato", "Le cure del medico del fegato.", 0.1, "del fegato"),
    ("aspirina", "Nessun farmaco.", 0.5, None), ("", "Nessun farmaco.", 0.5, None),
    ("aspirina", "", 0.5, None)])
def test_most_similar_part_of_a_text_is_found(phrase, text, expected, place):
    found = best_match(phrase, text, expected)
    assert (found and text[found.start:found.end]) == place
    if text.count("fegato") > 1 and phrase == "fegato":
        assert found.start == text.rindex("fegato")
    assert found is None or 0 < found.score <= 1
