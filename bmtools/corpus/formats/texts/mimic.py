"""Notes of MIMIC-III (NOTEEVENTS.csv) and MIMIC-IV-Note (discharge.csv, radiology.csv)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bmtools.corpus.formats.settings import TableConfig
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.tables import table_rows
from bmtools.errors import DataError, RecordError, Reject
from bmtools.io.sources import source_name
from bmtools.records import Record

_TABLE = TableConfig(delimiter=",", quoting="on")
_BLANK = re.compile("_{3,}")
_MARK = re.compile(rf"\[\*\*.*?\*\*\]|{_BLANK.pattern}", re.DOTALL)
_NAMES = {"DS": "Discharge summary", "AD": "Discharge summary addendum", "RR": "Radiology",
          "AR": "Radiology addendum"}


class _Release(NamedTuple):
    """Columns of a release by their meaning, in lower case."""

    source: str
    id: str
    kind: str
    dates: tuple[str, ...]
    meta: dict[str, str]
    error: str = ""


# The schemas that PhysioNet publishes: mimic.mit.edu/docs/iii/tables/noteevents and
# physionet.org/content/mimic-iv-note.
_RELEASES = (
    _Release("MIMIC-III", "row_id", "category", ("charttime", "chartdate"),
             {"description": "description", "patient": "subject_id", "admission": "hadm_id"},
             "iserror"),
    _Release("MIMIC-IV-Note", "note_id", "note_type", ("charttime",),
             {"sequence": "note_seq", "patient": "subject_id", "admission": "hadm_id"}))


@reader
def mimic_records(names: Iterable[str], tally: Tally, kinds: str = "",
                  marks: str | None = None) -> Iterator[Record]:
    """Yield a record for every note, unchanged except for LF as line end.

    `meta` contains kind, patient, admission and date, if the file has them. Notes that their
    authors marked as errors (ISERROR 1) are left out.

    Args:
        names: CSV files, compressed or not; `-` for stdin.
        kinds: kinds to read, as CATEGORY or note type, in any case, separated by commas; empty for
            all.
        marks: replacement for de-identification marks, `[**...**]` and `___`; None to keep them.
        tally: counts omissions by reason.
            It rejects a note with too few or too many columns, or without id or text.

    Raises:
        DataError: a file does not have the columns of a release, or a quote does not end.
    """
    counts = tally.counts
    wanted = {kind.strip().lower() for kind in kinds.split(",") if kind.strip()}
    for name in names:
        missing = set(wanted)
        notes = _notes(name, tally.reject)
        for release, place, note in notes:
            kind = _NAMES.get(note[release.kind], note[release.kind])
            missing -= {kind.lower(), note[release.kind].lower()}
            if wanted and not wanted & {kind.lower(), note[release.kind].lower()}:
                counts[f"notes of the kind {kind or 'of none'!r} left out"] += 1
            elif release.error and note.get(release.error) in ("1", "1.0"):
                counts["notes marked as errors left out"] += 1
            elif not note[release.id] or not note["text"].strip():
                tally.reject(RecordError(
                    place, f"found no {release.id} or no text, expected both", note))
            else:
                yield _record(release, note, kind, marks, place)
        for kind in missing:
            counts[f"files without notes of the kind {kind!r}"] += 1


def _notes(name: str, reject: Reject) -> Iterator[tuple[_Release, str, dict[str, str]]]:
    """Yield the rows of a file by column name, in lower case."""
    header: Sequence[str] = ()
    release = None
    for place, row in table_rows(name, _TABLE):
        if release is None:
            header = [column.strip().lower() for column in row]
            release = next((one for one in _RELEASES
                            if {one.id, one.kind, "text"} <= set(header)), None)
            if release is None:
                raise DataError(
                    f"{source_name(name)}:1: found the columns {', '.join(row)[:80]}, expected "
                    "ROW_ID, CATEGORY and TEXT of MIMIC-III, or note_id, note_type and text of "
                    "MIMIC-IV-Note")
        elif len(row) != len(header):
            reject(RecordError(place, f"found {len(row)} columns, expected {len(header)} as in the "
                                      "first line; check it for a missing or extra quote", row))
        else:
            yield release, place, {key: value if key == "text" else value.strip()
                                   for key, value in zip(header, row, strict=True)}


def _record(release: _Release, note: dict[str, str], kind: str, marks: str | None,
            place: str) -> Record:
    text = note["text"] if marks is None else replace_marks(note["text"], marks)
    meta = {"kind": kind, "date": next(filter(None, map(note.get, release.dates)), ""),
            **{key: note.get(column, "") for key, column in release.meta.items()}}
    return Record(id=note[release.id], text=text, lang="en", source=release.source,
                  meta={key: value for key, value in meta.items() if value}, place=place)


def replace_marks(text: str, replacement: str) -> str:
    """Replace de-identification marks, in time proportional to the text."""
    end = text.rfind("**]")
    marked = text[:end + 3] if end >= 0 else ""  # marks do not begin after the last mark's end
    return _MARK.sub(lambda _: replacement, marked) \
        + _BLANK.sub(lambda _: replacement, text[len(marked):])
