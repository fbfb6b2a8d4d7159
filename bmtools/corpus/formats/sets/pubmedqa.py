"""PubMedQA: questions about abstracts, answered with yes, no or maybe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Required, TypedDict

from bmtools.corpus.formats.sets.squad import MOST_RECORDS
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import DataError, RecordError
from bmtools.io.folders import read_json
from bmtools.io.json_files import parse_json
from bmtools.io.sources import read_list, source_name
from bmtools.records import Record, converted

_LABELS = ("yes", "no", "maybe")


class _Item(TypedDict, total=False):
    QUESTION: Required[str]
    CONTEXTS: Required[list[str]]
    LABELS: list[str]
    YEAR: str | None
    final_decision: str
    LONG_ANSWER: str


@reader
def pubmedqa_records(names: Iterable[str], tally: Tally, ids: str | None = None,
                     without_ids: str | None = None) -> Iterator[Record]:
    """Yield every question with its abstract, one part per line, and the decision as `label`.

    `meta.sections` contains label, start and end of each part. `meta.long_answer` is the
    conclusion, which is not part of the text. Each file is kept in memory. Source: Jin et al. 2019.

    Args:
        names: JSON files of questions by PMID, compressed or not; `-` for stdin.
        ids: file of PMIDs to read; by default all are read.
        without_ids: file of PMIDs to leave out.
        tally: rejects a question that cannot be read.

    Raises:
        DataError: an id of the lists is not in the files.
    """
    wanted = _read_ids(ids) if ids else None
    without = _read_ids(without_ids) if without_ids else set()
    missing = dict.fromkeys((*sorted(wanted or ()), *sorted(without)))
    for name in names:
        content = read_json(name, "PubMedQA's form, questions by PMID", dict[str, object],
                            MOST_RECORDS)
        for pmid, item in (content or {}).items():
            missing.pop(pmid, None)
            if (wanted is not None and pmid not in wanted) or pmid in without:
                continue
            place = f"{source_name(name)} ({pmid})"
            with tally.rejecting():
                yield _record(pmid, converted(item, _Item, place), place)
    if missing:
        raise DataError(f"found {len(missing)} ids in the lists that are not in the files, such "
                        f"as {next(iter(missing))!r}; use lists of the same set")


def _record(pmid: str, item: _Item, place: str) -> Record:
    label = item.get("final_decision", "")
    if label and label not in _LABELS:
        raise RecordError(place, f"found the decision {label!r}, expected yes, no or maybe", item)
    text, sections = "", []
    labels = item.get("LABELS", [])
    for number, part in enumerate(item["CONTEXTS"]):
        text += "\n" if text else ""
        if number < len(labels):
            sections.append({"label": labels[number], "start": len(text),
                             "end": len(text) + len(part)})
        text += part
    if not text.strip():
        raise RecordError(place, "found no text in CONTEXTS, expected some", item)
    meta = {"year": item.get("YEAR"), "sections": sections, "long_answer": item.get("LONG_ANSWER")}
    return Record(id=pmid, text=text, question=item["QUESTION"].strip(),
                  **({"label": label} if label else {}),
                  meta={key: value for key, value in meta.items() if value}, place=place)


def _read_ids(name: str) -> set[str]:
    """Read a list of ids: the keys of a JSON object, a JSON list, or one id per line.

    Raises:
        DataError: there are no ids, or the JSON is damaged.
    """
    lines = read_list(name, "ids")
    text = "\n".join(line for _, line in lines)
    if not text.startswith(("{", "[")):
        return {line for _, line in lines}
    try:
        return set(map(str, parse_json(text)))
    except ValueError as error:
        raise DataError(f"{source_name(name)}: not JSON ({error}), expected ids: keys of an "
                        "object, a list, or one per line") from error
