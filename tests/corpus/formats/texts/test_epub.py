"""Text of handmade EPUB books."""

from __future__ import annotations

import zipfile
from collections import Counter

import pytest
from toy_documents import CONTAINER, epub

from bmtools.corpus.formats.texts.epub import epub_records
from bmtools.errors import DataError
from bmtools.io.record_size import limiting_records

NAME = "book.epub"
CHAPTERS = {
    "b": "<h1>La <i>febbre</i></h1><p>Il paziente&nbsp;ha<br/>sete.</p>tail<script>no</script>",
    "a": "<div><p>Uno.</p><ul><li>Due&eacute;</li><li><p>Tre</p></li></ul></div><!-- no -->"
         "<svg><text>no</text></svg><table><tr><td>1</td><td>2</td></tr></table>"}
METADATA = ("<dc:title>Cura</dc:title><dc:language>it-IT</dc:language>"
            "<dc:creator>Rossi</dc:creator><dc:date>2021-03</dc:date>"
            "<dc:rights>CC BY-SA 4.0, Rossi</dc:rights>")


def test_a_book_is_read_in_reading_order(write) -> None:
    book, = epub_records([write(epub(CHAPTERS, METADATA))])
    sections = book["meta"].pop("sections")
    assert book == {
        "id": "book", "title": "Cura", "lang": "it", "licence": "CC-BY-SA-4.0",
        "text": "La febbre\nIl paziente ha\nsete.\ntail\nUno.\nDueé\nTre\n1\n2",
        "meta": {"author": "Rossi", "date": "2021-03", "year": 2021,
                 "rights": "CC BY-SA 4.0, Rossi"}}
    assert [(one["label"], book["text"][one["start"]:one["end"]]) for one in sections] == [
        ("La febbre", "La febbre\nIl paziente ha\nsete.\ntail"),
        ("file 2", "Uno.\nDueé\nTre\n1\n2")]
    other, = epub_records([write(epub(CHAPTERS, spine=["a", "b"]))])
    assert other["text"].startswith("Uno.")


@pytest.mark.parametrize(("encoding", "declared"), [
    ("utf-8", ""), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16"), ("utf-16-be", ""),
    ("iso-8859-1", "ISO-8859-1"), ("cp1252", "windows-1252"), ("iso-8859-2", "ISO-8859-2")])
def test_encodings_and_cdata_are_decoded(write, encoding: str, declared: str) -> None:
    head = f'<?xml version="1.0" encoding="{declared}"?>' * bool(declared)
    text = "č" if encoding == "iso-8859-2" else "è"
    page = f"{head}<html><p>{text} <![CDATA[{text} < 5 & b]]>, <![CDATA[c]]>.</p></html>"
    book, = epub_records([write(epub({"a": ""}, **{"book__a.xhtml": page.encode(encoding)}))])
    assert book["text"] == f"{text} {text} < 5 & b, c."


def test_exponents_are_superscript_characters(write) -> None:
    book, = epub_records([write(epub({"a": "<p>2x10<sup>6</sup> U, <b>10</b><sup>\u22123</sup>,"
                                           " in 2010<sup><a>6</a></sup>, m<sup>2</sup></p>"}))])
    assert book["text"] == "2x10⁶ U, 10⁻³, in 20106, m2"


def test_formulas_are_kept_without_tex(write) -> None:
    formula = ("<math><semantics><mrow><mi>p</mi><mo>&lt;</mo><mn>0.05</mn></mrow>"
               '<annotation encoding="application/x-tex">p&lt;0.05</annotation></semantics></math>')
    book, = epub_records([write(epub({"a": f"<p>Equation {formula} holds.</p>"}))])
    assert book["text"] == "Equation p<0.05 holds."


def test_omitted_files_are_counted(write) -> None:
    counts: Counter[str] = Counter()
    content = epub({"a": "<p>x</p>", "toc": "y", "c": "z"}, spine=["a", "toc", "absent", "c"])
    path = write(content)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    files["book/content.opf"] = files["book/content.opf"].replace(
        'id="toc"', 'id="toc" properties="nav"').replace(
        'id="c" href="c.xhtml" media-type="application/xhtml+xml"',
        'id="c" href="c.xhtml" media-type="image/svg+xml"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    book, = epub_records([path], counts=counts)
    assert book["text"] == "x"
    assert counts == {"files missing in a book": 1, "tables of contents left out": 1,
                      "non-HTML files of books left out": 1}


LAUGHS = "".join(f'<!ENTITY a{number} "{f"&a{number - 1};" * 10}">' for number in range(1, 12))
ENTITIES = (f'<!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">{LAUGHS}'
            '<!ENTITY b SYSTEM "file:///etc/passwd">]>')


def test_entities_are_not_expanded_or_downloaded(write) -> None:
    container = ENTITIES + CONTAINER.replace("<rootfiles>", "<rootfiles>&b;")
    book, = epub_records([write(epub({"a": "<p>x &b; &a11;</p>"},
                                     **{"META-INF__container.xml": container}))])
    assert book["text"] == "x &b; &a11;"
    bomb = container.replace("&b;</", "&a11;</").replace("<rootfiles>&b;", "<rootfiles>&a11;")
    with pytest.raises(DataError, match="entity amplification"):
        list(epub_records([write(epub(CHAPTERS, **{"META-INF__container.xml": bomb}))]))


@pytest.mark.parametrize(("content", "message"), [
    (b"", "this archive cannot be read"), (epub(CHAPTERS)[:-40], "this archive cannot be read"),
    (epub(CHAPTERS, **{"META-INF__container.xml": "<a"}), "damaged META-INF/container.xml"),
    (epub(CHAPTERS, **{"META-INF__container.xml": "<a/>"}), "found no package document"),
    (epub(CHAPTERS, **{"book__content.opf": "<package/>"}), "found no text in 0 files"),
    (epub({"a": "<img/>"}), "found no text in 1 files"),
    (epub(CHAPTERS, **{"META-INF__encryption.xml": "<encryption><CipherReference "
                       'URI="book/a.xhtml"/></encryption>'}), "found an encrypted book")])
def test_damaged_files_are_a_one_line_error(write, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=rf"book\.epub: .*{message}"):
        list(epub_records([write(content)]))


def test_encrypted_fonts_are_allowed_and_zip_bombs_are_errors(write) -> None:
    fonts = {"META-INF__encryption.xml": '<encryption><CipherReference URI="a.otf"/></encryption>'}
    assert len(list(epub_records([write(epub(CHAPTERS, **fonts))]))) == 1
    many = {f"c{number}": "<p>" + "a " * 300_000 for number in range(3)}
    with limiting_records(1), pytest.raises(DataError, match=r"book\.epub/book/c1\.xhtml: found"):
        list(epub_records([write(epub(many))]))
