"""Plain text: lines, paragraphs or complete files as records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from bmtools.corpus.account import Piece, accounted, squeezed
from bmtools.corpus.formats.settings import Unit
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.io.foreign import not_plain_text
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import open_bytes, read_lines, source_name, source_stem
from bmtools.records import Record

_LINE_BYTES = 50  # in memory, in addition to its text
_CUT = "files cut at line ends (--whole-files makes one record of each)"


@reader
def text_records(names: Iterable[str], tally: Tally, unit: Unit | None = None) -> Iterator[Record]:
    """Yield the lines, paragraphs or files that contain more than white space.

    Only LF, CR and CRLF end a line. A blank line ends a paragraph. Line breaks inside a paragraph
    or file are kept. Ids are `STEM:LINE` with the first line of a record, or `STEM` for a complete
    file.

    Args:
        names: text files, compressed or not; `-` for stdin.
        unit: amount of text in a record; for `file`, one file at a time is kept in memory. By
            default a line, and files with several lines are counted.

    Raises:
        DataError: bytes are not UTF-8, or the first line belongs to a table, XML or a record.
    """
    for name in names:
        stem, records = source_stem(name), 0
        for number, text in _blocks(name, unit or "line"):
            records += 1
            yield Record(id=stem if unit == "file" else f"{stem}:{number}", text=text,
                         place=f"{source_name(name)}:{number}")
        tally.counts[_CUT] += unit is None and records > 1


def text_account(records: Iterable[Record], name: str, counts: Counter[str],
                 unit: Unit | None = None) -> Iterator[Record]:
    """Yield the records of a file, and check that they contain its text; see `accounted`."""
    with open_bytes(name) as stream:
        pieces = (Piece(f"{source_name(name)}:{number}", squeezed(line.decode()))
                  for number, line in enumerate(stream, 1))
        yield from accounted(records, pieces, name, counts)


def _blocks(name: str, unit: Unit) -> Iterator[tuple[int, str]]:
    """Yield the text of each record, with the number of its first line."""
    lines: list[str] = []
    first, size = 1, 0
    for number, line in read_lines(name, not_plain_text):
        if lines and (unit == "line" or (unit == "paragraph" and not line.strip())):
            yield first, "\n".join(lines).strip()
            lines, size = [], 0
        if lines or line.strip():
            first = first if lines else number
            lines.append(line)
            size += len(line) + _LINE_BYTES
            check_record_size(size, f"{source_name(name)}:{first}")
    if lines:
        yield first, "\n".join(lines).strip()
