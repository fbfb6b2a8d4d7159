"""Questions to a text: their answers before and after projection."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import Record
from bmtools.translation.projection.settings import Occurrences

UNANSWERABLE = "questions without an answer, kept as such"
LOST = "questions left out, they lost all answers"
TRANSLATED = "exact answers in the words of the translated texts"
_ORIGINAL = "original"  # key of an answer between preparing and settling: its words in the source


def prepare_answers(record: Record, occurrences: Occurrences = "given") -> Record:
    """Give each answer of a question the offsets that are projected.

    An answer without an offset gets that of its first occurrence, as whole words; under `all`,
    each has one answer for every occurrence.
    """
    if not record.get("answers"):
        return record
    answers: dict[tuple[Any, str], dict[str, Any]] = {}
    for answer in record["answers"]:
        words, start = answer["text"], answer.get("start")
        found = [match.start() for match in
                 re.finditer(rf"(?<!\w){re.escape(words)}(?!\w)", record["text"])] if words else []
        starts = found[:1] if start is None else [start]
        for at in [*starts, *(found if occurrences == "all" else ())]:
            answers.setdefault((at, words), {**answer, "start": at, _ORIGINAL: words})
        if not starts:
            answers.setdefault((None, words), {**answer, _ORIGINAL: words})
    return record.replace(answers=list(answers.values()))


def settle_questions(projected: Iterable[tuple[Record, Record]], counts: Counter[str],
                     reject: Reject = refuse) -> Iterator[Record]:
    """Finish questions after projection; other records pass as they are.

    A question that has lost all of its answers is left out, for it would look as if there were
    none; one that never had any stays. The exact answers of BioASQ's questions, which answers are
    scored by, become what any text of the question has for them; a spelling that none has stays.

    Args:
        projected: sources, from `prepare_answers`, and their translations with answers. All are
            held in memory.
        counts: counts questions without an answer and those left out.
        reject: receives translations without their question and, unless it is `refuse`, what is
            left out.
    """
    waiting = list(projected)
    known = _known_answers(record for _, record in waiting)
    for source, record in waiting:
        if source.get("question") and not record.get("question"):
            reject(RecordError(record.place, "key 'question' is missing; expected the translation "
                               f"of {source['question']!r:.80}", record))
        elif source.get("question") and source.get("answers") and not record["answers"]:
            counts[LOST] += 1
            if reject is not refuse:
                reject(RecordError(record.place, "found none of the answers "
                                   f"{[one['text'] for one in source['answers']]!r:.80} in the "
                                   "translation", record))
        else:
            counts[UNANSWERABLE] += "question" in source and source.get("answers") == []
            yield _settled(record, known.get(_question(record), {}), counts)


def _question(record: Record) -> str:
    return str(record.get("meta", {}).get("question", record["id"]))


def _known_answers(records: Iterable[Record]) -> dict[str, dict[str, list[str]]]:
    """Gather what the texts of each question have for the words of its answers."""
    known: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for answer in record.get("answers", ()):
            if _ORIGINAL in answer:
                known[_question(record)][answer[_ORIGINAL].casefold()].append(answer["text"])
    return known


def _settled(record: Record, known: Mapping[str, Sequence[str]], counts: Counter[str]) -> Record:
    """Remove repeated answers, and translate exact ones."""
    changed: dict[str, Any] = {}
    if record.get("answers"):
        distinct = {(one["start"], one["text"]): one for one in reversed(record["answers"])}
        changed["answers"] = [{key: value for key, value in one.items() if key != _ORIGINAL}
                              for one in reversed(distinct.values())]
    meta = record.get("meta", {})
    exact = meta.get("exact_answer")
    if exact and isinstance(exact, list):
        items = [one if isinstance(one, list) else [one] for one in exact]
        words = [_spellings(item, known) for item in items]
        counts[TRANSLATED] += sum(str(one).casefold() in known for item in items for one in item)
        changed["meta"] = {**meta, "exact_answer": words if isinstance(exact[0], list) else
                           _spellings([one for item in words for one in item], {})}
    return record.replace(**changed)


def _spellings(item: Sequence[Any], known: Mapping[str, Sequence[str]]) -> list[Any]:
    found = [word for one in item for word in known.get(str(one).casefold(), [one])]
    return [word for at, word in enumerate(found) if word not in found[:at]]
