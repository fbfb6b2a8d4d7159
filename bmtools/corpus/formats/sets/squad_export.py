"""SQuAD of records: questions to a text, and answers within it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import Record


def squad_parts(records: Iterable[Record], counts: Counter[str] | None = None,
                reject: Reject = refuse) -> Iterator[str]:
    """Yield the parts of a JSON file of SQuAD 2.0, which tools for 1.1 read as well.

    Neighbouring records of one document are an article, those with the same text a paragraph. A
    question with an empty list of answers `is_impossible`; one without the key is not answered.

    Args:
        records: with `question` and `answers`, whose `start` is given.
        counts: counts questions, and those without an answer.
        reject: receives records without a question, or whose answers cannot be written.
    """
    counts = Counter() if counts is None else counts
    before = '{"version": "v2.0", "data": ['
    for title, article in groupby(_questions(records, reject), key=lambda record: _title(record)):
        paragraphs = []
        for text, group in groupby(article, key=lambda record: record["text"]):
            questions = [_question(record) for record in group]
            counts["questions"] += len(questions)
            counts["questions without an answer"] += sum(
                one.get("is_impossible", False) for one in questions)
            paragraphs.append({"context": text, "qas": questions})
        yield before + json.dumps({"title": title, "paragraphs": paragraphs},
                                  ensure_ascii=False)
        before = ",\n"
    yield "]}\n" if before == ",\n" else f"{before}]}}\n"


def _title(record: Record) -> str:
    return record.get("title") or record.get("meta", {}).get("document") or ""


def _questions(records: Iterable[Record], reject: Reject) -> Iterator[Record]:
    for record in records:
        if "question" not in record:
            reject(RecordError(record.place, "key 'question' is missing; expected a question to "
                                             "the text", record))
        elif any("start" not in answer for answer in record.get("answers", ())):
            reject(RecordError(record.place, "found an answer without start, expected its offset "
                                             "in the text", record))
        else:
            yield record


def _question(record: Record) -> dict[str, Any]:
    question = {"id": record["id"], "question": record["question"]}
    if "answers" not in record:
        return question
    answers = [{"text": answer["text"], "answer_start": answer["start"]}
               for answer in record["answers"]]
    return {**question, "answers": answers, "is_impossible": not answers}
