"""Text of PDF files, made by hand."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path

import pytest
from toy_documents import pdf, pdf_file

from bmtools.corpus.formats.texts import pdf as reader
from bmtools.corpus.formats.texts.pdf import pdf_records
from bmtools.errors import DataError, RecordError
from bmtools.io.record_size import limiting_records

NAME = "a.pdf"
LINE = "Il paziente ha la febbre e perciò beve molta acqua, ogni giorno e anche di not-"
PAGES = [("Rivista", LINE, "te. Poi dorme.", "1"), ("Rivista", "Secondo giorno.", "2"),
         ("Rivista", "Terzo giorno.", "3")]


def test_pages(write) -> None:
    counts: Counter[str] = Counter()
    record, = pdf_records([write(pdf(
        *PAGES, info="/Title (La febbre) /CreationDate (D:20210304)", catalog="/Lang (it-IT)"))],
        counts)
    text = record["text"]
    assert text == f"Rivista\n{LINE[:-1]}te. Poi dorme.\nSecondo giorno.\nTerzo giorno."
    sections = record["meta"].pop("sections")
    assert [(one["label"], text[one["start"]:one["end"]]) for one in sections] == [
        ("page 1", f"Rivista\n{LINE[:-1]}te. Poi dorme."), ("page 2", "Secondo giorno."),
        ("page 3", "Terzo giorno.")]
    assert {key: value for key, value in record.items() if key != "text"} == {
        "id": "a", "title": "La febbre", "lang": "it", "meta": {"pages": 3, "year": 2021}}
    assert counts == {"running heads, feet and page numbers left out": 5,
                      "hyphens at ends of lines removed": 1}


def test_a_title_that_a_program_gave_is_none(write) -> None:
    record, = pdf_records([write(pdf(["a"], info="/Title (Microsoft Word - x.doc)"))])
    assert "title" not in record


def test_words_that_are_moved_apart_by_less_than_half_of_the_wrong_blank(write) -> None:
    """As TeX sets them; its fonts have another character in place of the blank."""
    content = zlib.compress(b"BT /F1 11 Tf 70 780 Td [(Il) -250 (cu) 30 (ore)] TJ "
                            b"/F1 11 Tf 43.5 0 Td (pompa) Tj ET")
    font = (b"<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+X /FirstChar 31 /LastChar 122 "
            b"/Widths [500 600 " + b"500 " * 90 + b"] /Encoding << /Type /Encoding /Differences "
            b"[73 /I 97 /a 99 /c 101 /e 108 /l /m 111 /o /p 114 /r 117 /u] >> >>")
    whole = pdf(["x"], contents=content)
    start = whole.index(b"<< /Type /Font")
    record, = pdf_records([write(whole[:start] + font + whole[whole.index(b"\nendobj", start):])])
    assert record["text"] == "Il cuore pompa"


def encrypted(tmp_path: Path, password: str) -> bytes:
    import io

    from pypdf import PdfReader, PdfWriter

    writer, out = PdfWriter(PdfReader(io.BytesIO(pdf(*PAGES)))), io.BytesIO()
    writer.encrypt(password, "owner", algorithm="AES-256")
    writer.write(out)
    return out.getvalue()


def test_encrypted(write, tmp_path) -> None:
    with pytest.raises(DataError, match="found an encrypted PDF, expected one that opens without"):
        list(pdf_records([write(encrypted(tmp_path, "secret"))]))
    record, = pdf_records([write(encrypted(tmp_path, ""))])
    assert "Secondo giorno." in record["text"]


RECURSIVE = pdf(["a"]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
IMAGES = pdf([], [])


@pytest.mark.parametrize(("content", "told"), [
    (b"", "found no %PDF- at the start"), (b"plain text", "found no %PDF- at the start"),
    (b"%PDF-1.4\n", "this PDF cannot be read"), (RECURSIVE, "cannot be read .*cyclic"),
    (IMAGES, "found no text in 2 pages, which may be images"), (pdf(), "found no text in 0 pages"),
    (pdf(["a"], contents=zlib.compress(b" " * 40_000_000)), "cannot be read .*[Ll]imit")])
def test_damage_is_one_line_and_the_others_stay(write, content: bytes, told: str) -> None:
    rejected: list[RecordError] = []
    names = [write(content, "bad.pdf"), write(pdf(["a"]), "good.pdf")]
    assert [one["id"] for one in pdf_records(names, reject=rejected.append)] == ["good"]
    error, = rejected
    assert error.place == names[0]
    with pytest.raises(DataError, match=rf"bad\.pdf: .*{told}"):
        raise error


def nested_forms(depth: int) -> bytes:
    """Make a page of a form that shows another twice, which shows another twice, and so on."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources "
               "<< /XObject << /X 5 0 R >> >> >>", "<< /Length 5 >>\nstream\n/X Do\nendstream"]
    objects += [f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X "
                f"{6 + number} 0 R >> >> /Length 11 >>\nstream\n/X Do /X Do\nendstream"
                for number in range(depth)]
    return pdf_file([one.encode() for one in (*objects, "<< >>")])


def test_work_is_limited(write, monkeypatch) -> None:
    monkeypatch.setattr(reader, "_MOST_OPERATORS", 100)
    with pytest.raises(DataError, match="found more than 100 operators"):
        list(pdf_records([write(nested_forms(20))]))
    monkeypatch.setattr(reader, "_MOST_FORMS", 3)
    monkeypatch.setattr(reader, "_MOST_OPERATORS", 3000)
    counts: Counter[str] = Counter()
    with pytest.raises(DataError, match="found no text in 1 pages"):
        list(pdf_records([write(nested_forms(3))], counts))
    assert counts["pages with more than 3 forms, not all read"] == 1
    monkeypatch.setattr(reader, "_MOST_OPERATORS", 100)
    many = pdf(["a"] * 200)
    with pytest.raises(DataError, match="found more than 100 operators"):
        list(pdf_records([write(many)]))
    with limiting_records(1), pytest.raises(DataError, match=r"a\.pdf: found a record of more"):
        list(pdf_records([write(pdf(["a" * 1000]).ljust(9_000_000))]))
