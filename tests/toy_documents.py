"""Small documents of many formats: HTML, WARC, PDF, EPUB."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence

SENTENCE = "Il paziente ha la febbre e perciò beve molta acqua. "
PAGE = f"""<!DOCTYPE html><html lang="it-IT"><head><meta charset="CHARSET"><title>La febbre</title>
<meta property="article:published_time" content="2021-03-04">
<link rel="license" href="https://creativecommons.org/licenses/by/4.0/"></head>
<body><nav><a href="/">Pagina iniziale</a> <a href="/x">Contatti</a></nav>
<article><h1>La febbre</h1><p>{SENTENCE * 5}</p><p>Fine della voce.</p></article>
<script>var x = "no";</script><footer>Note legali</footer></body></html>"""


def warc(number: int, body: bytes, kind: str = "response", length: int | None = None,
         status: str = "200 OK", head: str = "Content-Type: text/html") -> bytes:
    """Make a record of a WARC archive."""
    content = f"HTTP/1.1 {status}\r\n{head}\r\n\r\n".encode() + body
    return (f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://example.org/{number}\r\n"
            f"WARC-Date: 2020-01-02T03:04:05Z\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
            "Content-Type: application/http\r\nContent-Length: "
            f"{len(content) if length is None else length}\r\n\r\n").encode() + content + \
        b"\r\n\r\n"


def pdf(*pages: Sequence[str], info: str = "", catalog: str = "",
        contents: bytes | None = None) -> bytes:
    """Make a PDF with pages of lines, in Helvetica.

    Args:
        pages: lines of each page.
        info: entries of the document's information, such as `/Title (A)`.
        catalog: entries of its catalog, such as `/Lang (it)`.
        contents: compressed content of every page, instead of the lines.
    """
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(),
               f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
               b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"]
    for number, lines in enumerate(pages):
        objects.append((f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents "
                        f"{5 + 2 * number} 0 R /Resources << /Font << /F1 3 0 R >> >> >>").encode())
        shown = "".join(f"({_escaped(line)}) Tj 0 -14 Td\n" for line in lines)
        packed = contents or zlib.compress(f"BT /F1 11 Tf 70 780 Td\n{shown}ET".encode("cp1252"))
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream"
                       % (len(packed), packed))
    return pdf_file([*objects, f"<< {info} >>".encode()])


def pdf_file(objects: Sequence[bytes]) -> bytes:
    """Make a PDF from objects; the first is the catalog, and the last is the information."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return bytes(out) + (f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} "
                         f"/Root 1 0 R /Info {len(objects)} 0 R >>\nstartxref\n{len(out)}\n"
                         "%%EOF\n").encode()


def _escaped(line: str) -> str:
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


CONTAINER = ('<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
             '<rootfile full-path="book/content.opf"/></rootfiles></container>')


def epub(chapters: Mapping[str, str], metadata: str = "", spine: Sequence[str] = (),
         **files: str | bytes) -> bytes:
    """Make an EPUB from HTML chapters, given by name.

    Args:
        chapters: content of each body.
        metadata: elements, such as `<dc:title>A</dc:title>`.
        spine: names in reading order; by default the order of the chapters.
        files: additional or replaced files, by name with `__` for `/`.
    """
    items = "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>'
                    for name in chapters)
    order = "".join(f'<itemref idref="{name}"/>' for name in spine or chapters)
    package = (f'<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements'
               f'/1.1/"><metadata>{metadata}</metadata><manifest>{items}</manifest><spine>{order}'
               "</spine></package>")
    content = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER,
               "book/content.opf": package,
               **{f"book/{name}.xhtml": f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x'
                                        f"</title></head><body>{body}</body></html>"
                  for name, body in chapters.items()},
               **{name.replace("__", "/"): text for name, text in files.items()}}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in content.items():
            archive.writestr(name, text, zipfile.ZIP_STORED if name == "mimetype" else None)
    return out.getvalue()
