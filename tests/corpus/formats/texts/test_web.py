"""Main text of HTML pages and WARC archives."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections import Counter

import pytest
from backports import zstd
from toy_documents import PAGE, SENTENCE, warc

from bmtools.corpus.formats.texts.web import html_records, warc_records
from bmtools.errors import DataError, RecordError
from bmtools.io.record_size import limiting_records

NAME = "page.html"


def test_a_page_is_read(write) -> None:
    page, = html_records([write(PAGE.encode())])
    text = page.pop("text")
    assert SENTENCE * 4 in text
    assert text.endswith("Fine della voce.")
    assert not any(word in text for word in ("Contatti", "Note legali", "var x"))
    assert page == {"id": "page", "title": "La febbre", "lang": "it", "licence": "CC-BY-4.0",
                    "meta": {"date": "2021-03-04", "year": 2021}}


def test_white_space_is_as_displayed_and_not_as_in_the_source(write) -> None:
    body = ("<article>\n\t<p>\n  Il paziente\n\t\tha la  <i> febbre</i>\n</p>\n"
            f"<p>{SENTENCE * 4}</p><ul>\n<li>\n  Uno\n  due</li></ul><pre>a\n  b</pre></article>")
    page, = html_records([write(f'<html xml:lang="it">{body}</html>'.encode())])
    assert page["text"].split("\n") == [
        "Il paziente ha la febbre", (SENTENCE * 4).strip(), "- Uno due", "a", "  b"]
    assert page["lang"] == "it"


def test_exponents_are_superscript_characters(write) -> None:
    page, = html_records([write(PAGE.replace("Fine", "Dose 10<sup>6</sup>").encode())])
    assert page["text"].endswith("Dose 10⁶ della voce.")


@pytest.mark.parametrize(("body", "expected"), [
    ("<p>Equation <math><mi>p</mi><mo>&lt;</mo><mn>0.05</mn></math> holds.</p>",
     "Equation p<0.05 holds."),
    ("<p>A <math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> of <math><msup><mn>10</mn><mn>6</mn>"
     "</msup></math></p>", "A 1/2 of 10⁶"),
    ('<p>Area <math alttext="x^2"><mi>x</mi></math>.</p>', "Area \\(x^2\\)."),
    ('<math display="block"><mi>E</mi><mo>=</mo><mi>m</mi></math>', "E=m"),
    ('<figure><img alt="x"><figcaption class="wp-caption-text">Figure 1. The chest.</figcaption>'
     "</figure>", "Figure 1. The chest."),
    ("<figure><pre>WBC  9\n</pre><figcaption>Lab values.</figcaption></figure>",
     "WBC  9\nLab values."),
    ("<p>On <time>5 March</time> he was <q>well</q> again.</p>", "On 5 March he was well again.")])
def test_parts_of_a_main_text_are_kept(write, body: str, expected: str) -> None:
    page, = html_records([write(PAGE.replace("<p>Fine", f"{body}<p>Fine").encode())])
    assert page["text"].split("\n", 2)[2] == f"{expected}\nFine della voce."


def test_asides_and_repeated_paragraphs_are_counted(write) -> None:
    counts: Counter[str] = Counter()
    body = "<aside>Key points</aside>" + f"<p>{SENTENCE * 2}</p>" * 3
    name = write(PAGE.replace("<p>Fine", f"{body}<p>Fine").encode())
    page, = html_records([name], counts=counts)
    assert page["text"].count(SENTENCE.strip()) == 7
    assert counts == {"asides of articles left out": 1, "repeated paragraphs left out": 2}


@pytest.mark.parametrize("body", [
    "<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>",
    "<h1>Just a moment...</h1><p>Enable JavaScript and cookies to continue</p>",
    "<p>Per visualizzare questa pagina è necessario attivare JavaScript.</p>",
    "<p>JavaScript ist in Ihrem Browser deaktiviert.</p>"])
def test_a_page_that_needs_javascript_is_left_out(write, body: str) -> None:
    counts: Counter[str] = Counter()
    page = f'<html><meta charset="utf-8"><body>{body}</body></html>'
    assert list(html_records([write(page.encode())], counts=counts)) == []
    assert counts == {"pages that need JavaScript to show their text left out": 1}


@pytest.mark.parametrize(("charset", "encoding"), [
    ("utf-8", "utf-8"), ("iso-8859-1", "cp1252"), ("iso-8859-1", "utf-8"), ("wrong", "cp1252"),
    ("punycode", "utf-8"), ("utf-8", "utf-16"), ("x", "utf-8-sig")])
def test_declared_encodings_are_used(write, charset: str, encoding: str) -> None:
    content = PAGE.replace("CHARSET", charset).replace("Fine", "“Fine”").encode(encoding)
    page, = html_records([write(content)])
    assert "perciò" in page["text"]
    assert "“Fine”" in page["text"]


def test_seven_bit_encodings_are_used(write) -> None:
    text = "患者は熱があります。水をたくさん飲みます。" * 9
    content = f'<html><meta charset="iso-2022-jp"><p>{text}</p></html>'.encode("iso-2022-jp")
    page, = html_records([write(content)])
    assert page["text"] == text


def test_pages_of_a_folder_and_of_archives_have_the_same_ids(
        write, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "pages"
    for name in ("a/index.html", "b/index.htm", "b/style.css"):
        write(PAGE.encode(), f"pages/{name}")
    with tarfile.open(tmp_path / "pages.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    shutil.make_archive(str(folder), "zip", folder)
    monkeypatch.chdir(tmp_path)
    for source in (str(folder), f"{folder}/", f"{folder}.tar.gz", "pages", "./pages", ".//pages/",
                   "./pages.tar.gz", "./pages.zip"):
        counts: Counter[str] = Counter()
        assert [page["id"] for page in html_records([source], counts=counts)] == [
            "a/index", "b/index"]
        assert counts == {"files that do not end in .html or .htm or .xhtml passed over": 1}


def test_pages_without_text_are_counted_and_other_files_rejected(write) -> None:
    counts: Counter[str] = Counter()
    assert list(html_records([write(b"<html><body></body></html>")], counts=counts)) == []
    assert counts == {"pages without a main text left out": 1}
    rejected: list[RecordError] = []
    names = [write(b"plain", "a.html"), write(b"\0\1", "b.html"), write(PAGE.encode(), "c.html")]
    assert [page["id"] for page in html_records(names, reject=rejected.append)] == ["c"]
    assert [error.place for error in rejected] == names[:2]
    assert "found no tag in the first" in rejected[0].reason
    with limiting_records(1), pytest.raises(DataError, match=r"d\.html: found a record of more"):
        list(html_records([write(b"<p>" + b"a " * 600_000, "d.html")]))


BODY = PAGE.encode()
GOOD = (warc(0, b"", "warcinfo"), warc(1, BODY), warc(1, b"", "request"),
        warc(2, gzip.compress(BODY), head="Content-Type: text/html\r\nContent-Encoding: gzip"),
        warc(3, b"no", status="404 Not Found"),
        warc(4, b"\xff\xd8", head="Content-Type: image/jpeg"),
        warc(5, PAGE.encode("cp1252"), head="Content-Type: text/html; charset=windows-1252"))


@pytest.mark.parametrize("pack", [b"".join, lambda parts: b"".join(map(gzip.compress, parts)),
                                  lambda parts: b"".join(map(zstd.compress, parts))],
                         ids=["plain", "gzip", "zstd"])
def test_pages_of_an_archive_are_read(write, pack) -> None:
    counts: Counter[str] = Counter()
    pages = list(warc_records([write(pack(GOOD), "crawl.warc.gz")], counts=counts))
    assert [page["id"] for page in pages] == [f"urn:uuid:{number}" for number in (1, 2, 5)]
    assert {page["text"] for page in pages} == {pages[0]["text"]}
    assert pages[0]["meta"] == {"url": "http://example.org/1", "date": "2021-03-04", "year": 2021,
                                "crawled": "2020-01-02T03:04:05Z"}
    assert counts == {"records other than responses skipped": 2,
                      "responses with a status other than 200 left out": 1,
                      "responses other than HTML left out": 1}

PACKED = "Content-Type: text/html\r\nContent-Encoding: "


@pytest.mark.parametrize("head", ["gzip", "br", "zstd", "deflate", "x-gzip",
                                  "gzip\r\nTransfer-Encoding: chunked"])
def test_a_page_with_a_wrong_content_encoding_is_read(write, head: str) -> None:
    name = write(warc(0, BODY) + warc(1, BODY, head=PACKED + head) + warc(2, BODY), "plain.warc")
    pages = list(warc_records([name]))
    assert [page["id"] for page in pages] == [f"urn:uuid:{number}" for number in range(3)]
    assert len({page["text"] for page in pages}) == 1


def test_a_damaged_response_is_rejected_and_does_not_end_the_archive(write) -> None:
    rejected: list[RecordError] = []
    damaged = b"\x1f\x8b" + BODY
    name = write(warc(0, BODY) + warc(1, damaged, head=PACKED + "gzip") + warc(2, BODY), "bad.warc")
    pages = list(warc_records([name], reject=rejected.append))
    assert [page["id"] for page in pages] == ["urn:uuid:0", "urn:uuid:2"]
    assert "found a response that cannot be read" in rejected[0].reason


@pytest.mark.parametrize(("damaged", "message"), [
    (warc(1, BODY, length=len(BODY) + 200), "found no record of a WARC after"),
    (warc(1, BODY, length=100), "found no record of a WARC after"),
    (warc(1, BODY, length=10**12), "found a record of more than 32 megabytes"),
    (warc(1, b"", "request", length=10**12), "expected 1000000000000; the file is incom"),
    (warc(1, BODY).replace(b"Content-Length", b"Content-Leng"), "expected a Content-Length"),
    (b"plain text\n" * 99, "check that the file is a WARC"),
    (warc(1, b"\x1f\x8b" + BODY, head=PACKED + "gzip"), "cannot be read"),
    (warc(1, BODY).replace(b"WARC/1.0", b"WARC/1.0\r\nX: " + b"x" * 99999), "Maximum header")])
def test_damaged_files_are_a_one_line_error(write, damaged: bytes, message: str) -> None:
    name = write(warc(0, BODY) + damaged + warc(2, BODY), "bad.warc")
    with pytest.raises(DataError, match=rf"bad\.warc.*{message}"):
        list(warc_records([name]))


def test_an_incomplete_or_too_large_record_is_rejected(write) -> None:
    head = "Content-Type: text/html\r\nContent-Encoding: gzip"
    rejected: list[RecordError] = []
    name = write(warc(0, BODY) + warc(1, BODY)[:-40], "cut.warc")
    assert [page["id"] for page in warc_records([name], reject=rejected.append)] == ["urn:uuid:0"]
    assert [error.place for error in rejected] == [f"{name}:{len(warc(0, BODY))}"]
    name = write(warc(1, gzip.compress(b"<p>" + b"a " * 600_000), head=head), "bomb.warc")
    with limiting_records(1), pytest.raises(DataError, match=r"bomb\.warc:0: found a record of"):
        list(warc_records([name]))
    large = write(warc(1, b"x" * 2_000_000, head="Content-Type: video/mp4"), "video.warc")
    counts: Counter[str] = Counter()
    with limiting_records(1):
        assert list(warc_records([large], counts=counts)) == []
    assert counts == {"responses other than HTML left out": 1}


def test_no_network_access_is_made(write, monkeypatch) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    page = PAGE.replace("<head>", '<head><base href="http://example.org/"><link rel="canonical" '
                                  'href="http://example.org/a"><script src="http://b.org/c.js">'
                                  '</script>')
    doctype = '<!DOCTYPE html SYSTEM "http://example.org/a.dtd">'
    assert len(list(html_records([write(page.replace("<!DOCTYPE html>", doctype).encode())]))) == 1
