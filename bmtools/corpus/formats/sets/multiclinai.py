"""MultiClinAI: a folder of texts and a table of mentions, as other sets of its makers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from bmtools.corpus.formats.sets.annotation_tables import lose_absent, offsets
from bmtools.corpus.formats.sets.mentions import LOST, Mention, entities
from bmtools.corpus.formats.tally import Tally
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.folders import read_raw, set_files
from bmtools.io.sources import read_lines, source_name, source_stem
from bmtools.records import Record

# Names of columns; the later ones are those of DisTEMIST, SympTEMIST and MultiCardioNER.
_COLUMNS = {"filename": ("filename", "name"), "label": ("label", "tag"),
            "start": ("start_span", "off0", "start"), "end": ("end_span", "off1", "end"),
            "text": ("text", "span")}


def multiclinai_records(texts: Iterable[str], annotations: Iterable[str],
                        counts: Counter[str] | None = None,
                        reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every text, with its entities. All mentions are held in memory.

    Args:
        texts: folders, zip archives or files in `.txt`.
        annotations: tables by tab whose first line names the columns: filename, label,
            start_span, end_span and text, in any order, among others.
        counts: counts annotations at their offset, moved and lost.
        reject: receives lines that cannot be read, and what is lost, which otherwise is dropped.

    Raises:
        DataError: a table without one of the columns.
    """
    tally, seen = Tally(counts, reject), set()
    mentions: dict[str, list[Mention]] = defaultdict(list)
    for name in annotations:
        for document, mention in _mentions(name, tally):
            mentions[document].append(mention)
    for name in set_files(texts, ".txt"):
        document, text = source_stem(name), read_raw(name)
        seen.add(document)
        yield Record(id=document, text=text, place=source_name(name),
                     entities=entities(text, mentions.get(document, ()), tally))
    lose_absent(mentions, seen, LOST, tally)


def _mentions(name: str, tally: Tally) -> Iterator[tuple[str, Mention]]:
    """Yield the mentions of a table, each with the name of its file without `.txt`."""
    columns: dict[str, int] = {}
    for number, line in read_lines(name):
        place, cells = f"{source_name(name)}:{number}", line.split("\t")
        if not columns:
            columns = _find_columns(cells, place)
        elif line.strip():
            with tally.rejecting():
                yield _mention(cells, columns, place, line)


def _find_columns(header: list[str], place: str) -> dict[str, int]:
    names = [cell.strip().lower() for cell in header]
    found = {key: names.index(name) for key, known in _COLUMNS.items()
             for name in known if name in names}
    missing = [known[0] for key, known in _COLUMNS.items() if key not in found]
    if missing:
        raise DataError(f"{place}: found the columns {', '.join(names)[:80]}, expected "
                        f"{', '.join(missing)} too, by tab")
    return found


def _mention(cells: list[str], columns: dict[str, int], place: str,
             line: str) -> tuple[str, Mention]:
    if len(cells) <= max(columns.values()):
        raise RecordError(place, f"found {len(cells)} columns in {line[:40]!r}, expected "
                                 f"{max(columns.values()) + 1} or more", line)
    values = {key: cells[column] for key, column in columns.items()}
    file = values["filename"].strip()
    document = PurePath(file).stem if file.endswith(".txt") else file
    span = offsets(values["start"], values["end"], place, line)
    if not values["label"].strip():
        raise RecordError(place, "found no label, expected one", line)
    return document, Mention(values["label"].strip(), (span,), values["text"], place=place,
                             content=line)
