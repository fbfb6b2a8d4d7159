"""Documents of many formats for fuzzing, and the commands that read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from toy_documents import PAGE, epub, pdf, pdf_file, warc

_TABLE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <0000> <FFFF> endcodespacerange
2 beginbfrange <0001> <0003> <0041> <0020> <0030> <0061> endbfrange
1 beginbfchar <0040> <00E9> endbfchar endcmap end end"""
_CONTENT = (b"BT /F1 11 Tf 70 780 Td [<00010002> -250 <0003> 30 <0020>] TJ 0 -14 Td (a\\(b) Tj "
            b"/F2 9 Tf T* (caf\xe9 bar-) Tj (again) ' ET q 1 0 0 1 5 5 cm /X Do Q")


def _stream(content: bytes, more: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), more, content)


# An uncompressed PDF, so that damage reaches its fonts, forms and operators.
OPEN_PDF = pdf_file([
    b"<< /Type /Catalog /Pages 2 0 R /Lang (it-IT) >>",
    b"<< /Type /Pages /Kids [3 0 R 3 0 R 3 0 R] /Count 3 >>",
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents [4 0 R 4 0 R] /Resources "
    b"<< /Font << /F1 5 0 R /F2 6 0 R >> /XObject << /X 7 0 R >> >> >>",
    _stream(_CONTENT),
    b"<< /Type /Font /Subtype /Type0 /BaseFont /A+B /Encoding /Identity-H /ToUnicode 8 0 R "
    b"/DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /A+B /DW 500 /W [1 [500 "
    b"600] 32 40 564] >>] >>",
    b"<< /Type /Font /Subtype /Type1 /BaseFont /C+D /FirstChar 32 /LastChar 35 /Widths [500 500 "
    b"600 600] /Encoding << /Type /Encoding /Differences [97 /a /b /quoteright] >> >>",
    _stream(b"BT /F2 9 Tf (form) Tj ET /X Do", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] "
            b"/Resources << /Font << /F2 6 0 R >> /XObject << /X 7 0 R >> >>"),
    _stream(_TABLE), b"<< /Title (La febbre) /CreationDate (D:20210304) >>"])
_ROWS = pa.table({"text": [f"Il cuore {number}." for number in range(40)], "n": range(40)})
_NOTES = ('ROW_ID,SUBJECT_ID,CATEGORY,ISERROR,TEXT\n1,2,Physician ,,"Seen [**Name 2**]\nwith ""x"""'
          "\n3,4,Nursing,1,Slept.\n")
COMMANDS = (("page.html", "import html page.html"), ("crawl.warc", "import warc crawl.warc"),
            ("open.pdf", "import pdf open.pdf"), ("paper.pdf", "import pdf paper.pdf"),
            ("book.epub", "import epub book.epub"), ("rows.parquet", "import parquet rows.parquet"),
            ("notes.csv", "import mimic notes.csv --marks x"))


def write_documents(folder: Path) -> None:
    """Write the files that the commands read."""
    parquet.write_table(_ROWS, folder / "rows.parquet")
    body = PAGE.encode()
    files = {
        "page.html": body, "crawl.warc": warc(1, body) + warc(2, b"", "request") + warc(3, body),
        "open.pdf": OPEN_PDF, "paper.pdf": pdf(["Rivista", "La febbre del pa-", "ziente."] * 3),
        "book.epub": epub({"a": "<h1>Uno</h1><p>x</p>", "b": "<p>y</p>"}),
        "notes.csv": _NOTES.encode()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
