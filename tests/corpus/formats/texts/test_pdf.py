"""Text of handmade PDF files."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pytest
from toy_documents import pdf

from bmtools.corpus.formats.texts.pdf import Page, paragraphs, pdf_records
from bmtools.errors import DataError, RecordError

NAME = "a.pdf"
LINE = "Il paziente ha la febbre e perciò beve molta acqua, ogni giorno e anche di not-"
PAGES = [("Rivista", "", LINE, "te. Poi dorme.", "1"), ("Rivista", "", "Secondo giorno.", "2"),
         ("Rivista", "", "Terzo giorno.", "3")]


def test_pages_become_sections(write) -> None:
    counts: Counter[str] = Counter()
    record, = pdf_records([write(pdf(
        *PAGES, info="/Title (La febbre) /CreationDate (D:20210304)", catalog="/Lang (it-IT)"))],
        counts=counts)
    text = record["text"]
    assert text == f"Rivista\n{LINE[:-1]}te. Poi dorme.\nSecondo giorno.\nTerzo giorno."
    sections = record["meta"].pop("sections")
    assert [(one["label"], text[one["start"]:one["end"]]) for one in sections] == [
        ("page 1", f"Rivista\n{LINE[:-1]}te. Poi dorme."), ("page 2", "Secondo giorno."),
        ("page 3", "Terzo giorno.")]
    assert {key: value for key, value in record.items() if key != "text"} == {
        "id": "a", "title": "La febbre", "lang": "it", "meta": {"pages": 3, "year": 2021}}
    assert counts == {"running heads, feet and page numbers left out": 5,
                      "hyphens at line ends removed": 1}
    record, = pdf_records([write(pdf(["a"], info="/Title (Microsoft Word - x.doc)"))])
    assert "title" not in record


def encrypted(tmp_path: Path, password: str) -> bytes:
    import io

    from pypdf import PdfReader, PdfWriter

    writer, out = PdfWriter(PdfReader(io.BytesIO(pdf(*PAGES)))), io.BytesIO()
    writer.encrypt(password, "owner", algorithm="AES-256")
    writer.write(out)
    return out.getvalue()


def test_encrypted_files_are_errors(write, tmp_path) -> None:
    with pytest.raises(DataError, match="found an encrypted PDF, expected one that opens without"):
        list(pdf_records([write(encrypted(tmp_path, "secret"))]))
    record, = pdf_records([write(encrypted(tmp_path, ""))])
    assert "Secondo giorno." in record["text"]


def test_equal_lines_without_a_gap_are_kept(write) -> None:
    sheets = [("University Hospital", "", "", f"Visit {number}", f"Weight: {80 + number**2} kg",
               "Treatment: aspirin 100 mg", "Adverse events: none", "", f"Page {number} of 3")
              for number in (1, 2, 3)]
    counts: Counter[str] = Counter()
    record, = pdf_records([write(pdf(*sheets))], counts=counts)
    for line, times in (("Treatment: aspirin 100 mg", 3), ("Adverse events: none", 3),
                        ("Visit", 3), ("University Hospital", 1), ("Page", 3)):
        assert record["text"].count(line) == times
    assert counts[HEADS] == 2  # "Page 1 of 3" is in the middle of its page, not in a margin
    low = [(*sheet[:-1], *[""] * 40, sheet[-1]) for sheet in sheets]
    record, = pdf_records([write(pdf(*low))])
    assert "Page" not in record["text"]
    equal = ("a line", "Treatment: aspirin 100 mg", "", "Patient well", "Adverse events: none")
    record, = pdf_records([write(pdf(equal, equal, equal))], counts=(counts := Counter()))
    assert [record["text"].count(line) for line in equal if line] == [3] * 4
    assert counts[HEADS] == 0


@pytest.mark.parametrize("box", [b"", b"/MediaBox [0 0 595]", b"/MediaBox [0 0 595 0]"])
def test_pages_without_a_size_keep_their_lines(write, box: bytes) -> None:
    content = pdf(*PAGES).replace(b"/MediaBox [0 0 595 842]", box.ljust(23))
    record, = pdf_records([write(content)])
    assert record["text"].count("Rivista") == 3


RECURSIVE = pdf(["a"]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
IMAGES = pdf([], [])


@pytest.mark.parametrize(("content", "message"), [
    (b"", "found no %PDF- at the start"), (b"plain text", "found no %PDF- at the start"),
    (b"%PDF-1.4\n", "this PDF cannot be read"), (RECURSIVE, "cannot be read .*cyclic"),
    (IMAGES, "found no text in 2 pages, which may be images"), (pdf(), "found no text in 0 pages"),
    (pdf(["a"], contents=zlib.compress(b" " * 40_000_000)), "cannot be read .*[Ll]imit")])
def test_damaged_files_are_rejected_and_others_read(write, content: bytes, message: str) -> None:
    rejected: list[RecordError] = []
    names = [write(content, "bad.pdf"), write(pdf(["a"]), "good.pdf")]
    assert [one["id"] for one in pdf_records(names, reject=rejected.append)] == ["good"]
    error, = rejected
    assert error.place == names[0]
    with pytest.raises(DataError, match=rf"bad\.pdf: .*{message}"):
        raise error


HEADS = "running heads, feet and page numbers left out"
FULL = "The patient had a fever and drank a lot of water on every day of the week"


def printed(text: str) -> Page:
    """Make a page with blank lines between head, body and foot; the foot may be only a number."""
    parts = text.split("\n\n")
    numbers = [line.strip("- /0123456789") == "" for line in (text.strip().split("\n")[::-1])]
    return Page(text.split("\n"),
                parts[0].count("\n") + 1 if len(parts) > 1 else int(numbers[-1]),
                parts[-1].count("\n") + 1 if len(parts) > 2 else int(numbers[0]))


def text(*pages: str) -> str:
    return "\n".join(one[1] for one in paragraphs([*map(printed, pages)], Counter()))


def body(name: str) -> str:
    """Make a paragraph of eight lines that are not on other pages."""
    return "".join(f"{FULL} {name}{number}\n" for number in "abcdefgh").strip() + "."


BODIES = [body(name) for name in "abcdefgh"]


def joined(one: str) -> str:
    return one.replace("\n", " ")


def test_running_heads_feet_and_page_numbers_are_left_out() -> None:
    counts: Counter[str] = Counter()
    pages = [f"Rossi et al. 2020;12:345\n\n{one}\n\nPage {number} of 9\nJournal of Fever"
             for number, one in enumerate(BODIES[:4], 7)]
    found = paragraphs([*map(printed, pages)], counts)
    # The first page keeps its head, which may be the title.
    assert [one[1] for one in found] == ["Rossi et al. 2020;12:345", *map(joined, BODIES[:4])]
    assert [one[0] for one in found] == [1, 1, 2, 3, 4]
    assert counts[HEADS] == 4 * 3 - 1
    for numbers in (("1", "2", "3"), ("- 8 -", "- 9 -", "- 10 -"), ("1/9", "2/9", "3/9")):
        assert text(*map("\n".join, zip(numbers, BODIES[:3], strict=True))) == "\n".join(
            map(joined, BODIES[:3]))


def test_numbers_that_do_not_grow_with_the_pages_are_kept() -> None:
    assert paragraphs([Page([""]), Page(["", " ", ""]), Page(["\0"])], Counter()) == []
    assert text("a", "", "a.") == "a a."
    tables = [f"Table {number}\n{number * 12} 30\n\n{one}"
              for number, one in zip((1, 1, 3), BODIES, strict=False)]
    assert text(*tables).count("Table") == 3
    assert text("7\nA.", "3\nB.", "9\nC.") == "7\nA.\n3\nB.\n9\nC."
    assert text(BODIES[0]) == joined(BODIES[0])


def test_heads_may_differ_on_even_and_odd_pages() -> None:
    pages = [f"{('Left', 'Right')[number % 2]}\n\n{one}" for number, one in enumerate(BODIES)]
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
    ("range 5 -\nand more", "range 5 - and more"),
    ("A well-\nknown non-\nsmall tumour, beta-\nblockers at follow-\nup, meta-\nanalysis",
     "A well-known non-small tumour, beta-blockers at follow-up, meta-analysis"),
    # The start of the second line is not a word in the document.
    ("It is in the group, an in-\ncrease of it", "It is in the group, an increase of it")])
def test_words_divided_at_line_ends_are_joined(lines: str, expected: str) -> None:
    assert text(lines) == expected


def test_words_divided_between_pages_are_joined() -> None:
    found = paragraphs([Page([FULL, "the informa-"]), Page(["tion of the week.", FULL, "End."])],
                       Counter())
    assert [(one[0], one[1]) for one in found] == [
        (1, f"{FULL} the information of the week."), (2, f"{FULL} End.")]


def test_lines_are_joined_to_paragraphs() -> None:
    lines = ["Methods", FULL, FULL, "ends here.", FULL, "", FULL, "• one", "• two", "goes on",
             "3) three"]
    assert text("\n".join(lines)).split("\n") == [
        "Methods", f"{FULL} {FULL} ends here.", FULL, FULL, "• one", "• two goes on", "3) three"]
    assert [one[0] for one in paragraphs(
        [Page([FULL]), Page([""]), Page(["and so on.", FULL])], Counter())] == [1, 3]
