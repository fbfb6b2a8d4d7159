"""Running text of printed pages."""

from __future__ import annotations

from collections import Counter

import pytest

from bmtools.corpus.formats.texts.page_text import paragraphs

HEADS = "running heads, feet and page numbers left out"
LINE = "The patient had a fever and drank a lot of water on every day of the week"


def text(*pages: str) -> str:
    return "\n".join(one.text for one in paragraphs(pages, Counter()))


def body(name: str) -> str:
    """Make a paragraph of eight lines that no other page has."""
    return "".join(f"{LINE} {name}{number}\n" for number in "abcdefgh").strip() + "."


BODIES = [body(name) for name in "abcdefgh"]


def joined(one: str) -> str:
    return one.replace("\n", " ")


def test_running_heads_feet_and_page_numbers_are_left_out() -> None:
    counts: Counter[str] = Counter()
    pages = [f"Rossi et al. 2020;12:345\n{one}\nPage {number} of 9\nJournal of Fever"
             for number, one in enumerate(BODIES[:4], 7)]
    found = paragraphs(pages, counts)
    # The first page keeps its head, which may be the title.
    assert [one.text for one in found] == ["Rossi et al. 2020;12:345", *map(joined, BODIES[:4])]
    assert [one.page for one in found] == [1, 1, 2, 3, 4]
    assert counts[HEADS] == 4 * 3 - 1


@pytest.mark.parametrize("numbers", [
    ["1", "2", "3"], ["x", "xi", "xii"], ["- 8 -", "- 9 -", "- 10 -"], ["1/9", "2/9", "3/9"]])
def test_page_numbers(numbers: list[str]) -> None:
    pages = [f"{number}\n{one}" for number, one in zip(numbers, BODIES[:3], strict=True)]
    assert text(*pages) == "\n".join(map(joined, BODIES[:3]))


def test_lines_that_do_not_grow_with_the_pages_stay() -> None:
    tables = [f"Table {number}\n{number * 12} 30\n{one}"
              for number, one in zip((1, 1, 3), BODIES, strict=False)]
    assert text(*tables).count("Table") == 3
    assert text("7\nA.", "3\nB.", "9\nC.") == "7\nA.\n3\nB.\n9\nC."
    assert text(BODIES[0]) == joined(BODIES[0])


def test_even_and_odd_pages_have_their_own_heads() -> None:
    pages = [f"{('Left', 'Right')[number % 2]}\n{one}" for number, one in enumerate(BODIES)]
    assert text(*pages).count("Left") == 1
    assert "Right" not in text(*pages)


@pytest.mark.parametrize(("lines", "expected"), [
    ("The informa-\ntion is here", "The information is here"),
    ("A post-\noperative day, post-operative as", "A post-operative day, post-operative as"),
    ("The dose-\nresponse of dose and response, x", "The dose-response of dose and response, x"),
    ("A dose-\nresponse and a doseresponse of response, dose, x",
     "A doseresponse and a doseresponse of response, dose, x"),
    ("In COVID-\n19 it", "In COVID-19 it"), ("The T-\ncell is", "The T-cell is"),
    ("An Anglo-\nSaxon word", "An Anglo-Saxon word"), ("L'infe\u00ad\nzione è", "L'infezione è"),
    ("so\u00adft", "so\u00adft"), ("a \ufb01bre of \ufb02our", "a fibre of flour"),
    ("Trattamento farma\u2010\ncologico", "Trattamento farmacologico"),
    ("range 5 -\nand more", "range 5 - and more")])
def test_words_divided_at_ends_of_lines(lines: str, expected: str) -> None:
    assert text(lines) == expected


def test_words_divided_between_pages() -> None:
    found = paragraphs([f"{LINE}\nthe informa-", f"tion of the week.\n{LINE}\nEnd."], Counter())
    assert [(one.page, one.text) for one in found] == [
        (1, f"{LINE} the information of the week."), (2, f"{LINE} End.")]


def test_paragraphs() -> None:
    lines = ["Methods", LINE, LINE, "ends here.", LINE, "", LINE, "• one", "• two", "goes on",
             "3) three", "1 Aims . . . . . . 4", "2 Ends . . . . . . 5"]
    assert text("\n".join(lines)).split("\n") == [
        "Methods", f"{LINE} {LINE} ends here.", LINE, LINE, "• one", "• two goes on", "3) three",
        "1 Aims . . . . . . 4", "2 Ends . . . . . . 5"]
    assert [one.page for one in paragraphs([LINE, "", f"and so on.\n{LINE}"], Counter())] == [1, 3]


def test_pages_without_lines() -> None:
    assert paragraphs(["", "\n \n", "\0"], Counter()) == []
    assert text("a", "", "a.") == "a a."
