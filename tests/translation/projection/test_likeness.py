"""Forms of words, and texts that have them."""

from itertools import pairwise

import numpy as np
import pytest

from bmtools.translation.projection.likeness import (
    best_match,
    form_likeness,
    likeness_table,
    monotone_links,
    mutual_links,
    stem,
)


@pytest.mark.parametrize(("left", "right", "alike"), [
    ("tumore", "tumori", True), ("Età", "eta", True), ("cardiaca", "cardiaci", True),
    ("mastectomía", "mastectomia", True), ("dell'", "dell\u2019", True), ("di", "da", False),
    ("ipertensione", "ipotensione", False), ("tensione", "pensione", False), ("del", "dei", False),
    ("fegato", "polmone", False), ("febbre", "fegato", False), ("lymphoid", "linfoide", True)])
def test_forms_of_a_word(left, right, alike):
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
    # "di mamma" stands for "al seno"; nothing stands for "molto".
    assert [tuple(one) for one in np.argwhere((links > 0) & (links < 0.5)).tolist()] == [
        (2, 2), (2, 3), (3, 2), (3, 3)]


def test_versions_without_a_word_in_common_are_one_block():
    links = monotone_links(np.zeros((2, 3)))
    assert (links == links[0, 0]).all()
    assert links[0, 0] > 0
    assert monotone_links(np.zeros((0, 3))).shape == (0, 3)


def test_phrases_that_moved_are_linked_as_they_are():
    table, *_ = likeness_table("il dolore e poi una febbre alta", "febbre alta e poi il dolore")
    links = mutual_links(table)
    assert [tuple(one) for one in np.argwhere(links > 0.5).tolist()] == [
        (0, 4), (1, 5), (2, 2), (3, 3), (5, 0), (6, 1)]
    assert (links[4] == 0).all()
    # Of equal words the nearer ones.
    table, *_ = likeness_table("di di di", "di di")
    assert mutual_links(table)[[0, 2], [0, 1]].all()
    assert mutual_links(np.zeros((3, 0))).shape == (3, 0)


def best_chain(table):
    """Find the greatest sum of likeness of links in order, trying all."""
    rows, columns = table.shape
    if not rows or not columns:
        return 0.0
    return max(best_chain(table[1:]), *(
        table[0, column] + best_chain(table[1:, column + 1:]) for column in range(columns)))


def test_linked_words_have_the_greatest_likeness_in_order():
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
def test_the_part_of_a_text_that_is_most_like_a_phrase(phrase, text, expected, place):
    found = best_match(phrase, text, expected)
    assert (found and text[found.start:found.end]) == place
    if text.count("fegato") > 1 and phrase == "fegato":
        assert found.start == text.rindex("fegato")
    assert found is None or 0 < found.score <= 1
