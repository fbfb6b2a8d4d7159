"""Questions with answers in a text: SQuAD 1.1 and 2.0, and BioASQ in the same form."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Required, TypedDict

from bmtools.corpus.formats.sets.mentions import nearest
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.folders import read_json
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record, converted

MATCHED = "answers at their offset"
MOVED = "answers moved to their nearest occurrence"
LOST = "answers that the text does not contain left out"
NO_ANSWER = "texts without an answer"
MOST_RECORDS = 4
"""Maximum size, in maximum records, of a file of questions: SQuAD 2.0 has 42 megabytes."""
# Ids of BioASQ snippets: 56c073fcef6e394741000020_000, 58edf567eda5a57672000011:5.
_SNIPPET = re.compile(r"([0-9a-f]{24})[_:]\d+")


class _Answer(TypedDict, total=False):
    text: Required[str]
    answer_start: Required[int]


class _Question(TypedDict, total=False):
    id: Required[str | int]
    question: Required[str]
    answers: list[_Answer]
    is_impossible: bool


class _Paragraph(TypedDict):
    context: str
    qas: list[object]


class _Article(TypedDict, total=False):
    title: str
    paragraphs: Required[list[_Paragraph]]


class _Squad(TypedDict):
    data: list[_Article]


@reader
def squad_records(names: Iterable[str], tally: Tally) -> Iterator[Record]:
    """Yield every question with its answers and the text of its paragraph.

    An answer that is not at its offset moves to its nearest occurrence, preferably in the same
    case. If there is no occurrence, it is lost. `answers` is empty if the question cannot be
    answered, and absent if the file contains no answers. `meta.document` is the title of the
    article. In BioASQ's form, which has a single article, `meta.document` and `meta.question` are
    the id of the question. Each file is kept in memory.

    Args:
        names: JSON files, compressed or not; `-` for stdin.
        tally: counts answers at their offset, moved and lost, and questions without answers.
            It rejects questions that cannot be read, and lost answers if `reject` is given, because
            a loss does not stop a run.
    """
    for name in names:
        content = read_json(name, "SQuAD's form, articles with paragraphs and qas", _Squad,
                            MOST_RECORDS)
        articles = content["data"] if content else []
        for number, article in enumerate(articles):
            document = article.get("title", "") if len(articles) > 1 else ""
            for paragraph in article["paragraphs"]:
                for item in paragraph["qas"]:
                    own = str(item.get("id", "")) if isinstance(item, dict) else ""
                    place = f"{source_name(name)} ({own or f'data[{number}]'})"
                    with tally.rejecting():
                        yield from _records(converted(item, _Question, place),
                                            paragraph["context"], document, tally, place)


def _records(question: _Question, text: str, document: str, tally: Tally,
             place: str) -> Iterator[Record]:
    """Yield the record of a question, unless it loses all answers."""
    name = str(question["id"])
    record = Record(id=name, text=text, question=question["question"].strip(), place=place)
    if question.get("is_impossible"):
        record["answers"] = []
    elif "answers" in question:
        given = [(one["text"], one["answer_start"]) for one in question["answers"]]
        record["answers"] = locate_answers(text, given, tally, place)
        if given and not record["answers"]:
            tally.counts["questions left out, they lost all answers"] += 1
            return
    tally.counts[NO_ANSWER] += record.get("answers") == []
    if snippet := _SNIPPET.fullmatch(name):
        record["meta"] = {"document": snippet[1], "question": snippet[1]}
    elif document:
        record["meta"] = {"document": document}
    yield record


def locate_answers(text: str, answers: Iterable[tuple[str, int | None]], tally: Tally,
                   place: str) -> list[JsonObject]:
    """Find answers in their text, each at its offset or at the nearest occurrence.

    Args:
        text: text of the record.
        answers: words and offset of each answer; an offset None means the first occurrence.
        tally: counts answers at their offset, moved answers and lost answers.
        place: place of the question.
    """
    found: list[JsonObject] = []
    for answer, start in answers:
        if start is not None and start >= 0 and answer and text.startswith(answer, start):
            tally.counts[MATCHED] += 1
            found.append({"text": answer, "start": start})
            continue
        spans = nearest(text, answer, start or 0) if answer.strip() else \
            "found an answer of white space only, expected a word"
        if isinstance(spans, str):
            tally.lose(LOST, place, spans, answer)
        else:
            tally.counts[MOVED] += start is not None
            [(first, last)] = spans
            found.append({"text": text[first:last], "start": first})
    return found


def squad_parts(records: Iterable[Record], counts: Counter[str] | None = None,
                reject: Reject = refuse) -> Iterator[str]:
    """Yield the parts of a SQuAD 2.0 JSON file, which tools for 1.1 also read.

    Neighbouring records of a document form an article, and records with the same text a paragraph.
    A question with an empty list of answers `is_impossible`. A question without the key `answers`
    is written without answers.

    Args:
        records: records with `question` and `answers`, which have `start`.
        counts: counts questions, and questions without an answer.
        reject: receives records without a question, or whose answers cannot be written.
    """
    counts = Counter() if counts is None else counts
    before = '{"version": "v2.0", "data": ['
    for title, article in groupby(_questions(records, reject), key=lambda record: record.get(
            "title") or record.get("meta", {}).get("document") or ""):
        paragraphs = []
        for text, group in groupby(article, key=lambda record: record["text"]):
            questions = []
            for record in group:
                questions.append({"id": record["id"], "question": record["question"]})
                if "answers" in record:
                    answers = [{"text": answer["text"], "answer_start": answer["start"]}
                               for answer in record["answers"]]
                    questions[-1] |= {"answers": answers, "is_impossible": not answers}
            counts["questions"] += len(questions)
            counts["questions without an answer"] += sum(
                one.get("is_impossible", False) for one in questions)
            paragraphs.append({"context": text, "qas": questions})
        yield before + json.dumps({"title": title, "paragraphs": paragraphs}, ensure_ascii=False)
        before = ",\n"
    yield "]}\n" if before == ",\n" else f"{before}]}}\n"


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
