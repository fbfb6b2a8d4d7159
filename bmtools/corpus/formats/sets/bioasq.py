"""BioASQ's questions with snippets in its original form, and BioBIT's Italian questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Required, TypedDict

from bmtools.corpus.formats.sets.squad import MOST_RECORDS, NO_ANSWER, locate_answers
from bmtools.corpus.formats.settings import QuestionType
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import DataError, RecordError, refuse, setting, suggestion
from bmtools.io.folders import read_json
from bmtools.io.sources import source_name
from bmtools.records import JsonObject, Record, converted


class _Snippet(TypedDict):
    text: str


class _Question(TypedDict, total=False):
    id: Required[str]
    body: Required[str]
    type: Required[str]
    snippets: list[_Snippet]
    exact_answer: str | list[str | list[str]]
    ideal_answer: str | list[str]


class _Bioasq(TypedDict):
    questions: list[object]


class _Italian(TypedDict):
    ID: str
    context: str
    question: str
    answer: str


@reader
def bioasq_records(names: Iterable[str], tally: Tally, type: QuestionType) -> Iterator[Record]:
    """Yield the questions of one type.

    For `factoid` and `list` questions, every snippet is a record, with ids `QUESTION_000` and so
    on. Its `answers` are the spellings of the exact answer that it contains, in any case.
    `meta.exact_answer` contains all spellings, for a list question by item.

    For `yesno` and `summary` questions, every question is a record, whose text is its snippets
    joined by spaces. The answer is the `label`, or in `meta.ideal_answer`.

    `meta.question` is the id of the question. Files are kept in memory.

    Args:
        names: JSON files with `questions`, compressed or not; `-` for stdin.
        type: type of the questions; other questions are left out and counted.
        tally: counts questions by type, snippets and omissions.
            It rejects questions that cannot be read, and if `reject` is given, also questions
            without snippets.
    """
    for name in names:
        content = read_json(name, "BioASQ's form, a list of questions", _Bioasq, MOST_RECORDS)
        for number, item in enumerate(content["questions"] if content else ()):
            own = item.get("id") if isinstance(item, dict) else None
            place = f"{source_name(name)} ({own or f'questions[{number}]'})"
            with tally.rejecting():
                question = converted(item, _Question, place)
                tally.counts[f"{question['type']} questions"] += 1
                if question["type"] == type:
                    yield from _records(question, tally, place)


def _records(question: _Question, tally: Tally, place: str) -> Iterator[Record]:
    given = [snippet["text"].strip() for snippet in question.get("snippets", ())]
    snippets = list(dict.fromkeys(filter(None, given)))
    tally.counts["repeated snippets left out"] += len(given) - len(snippets)
    if not snippets:
        tally.lose("questions without snippets left out", place,
                   "found no snippets, expected one or more", question)
    elif question["type"] in ("factoid", "list"):
        yield from _snippet_records(question, snippets, tally.counts, place)
    else:
        answer = _answer_keys(question, place)
        meta = {"question": question["id"], **answer.pop("meta", {})}
        yield Record(id=question["id"], text=" ".join(snippets), question=question["body"].strip(),
                     **answer, meta=meta, place=place)


def _answer_keys(question: _Question, place: str) -> JsonObject:
    """Return the keys with the answer to a yes/no or summary question."""
    if question["type"] == "summary":
        ideal = question.get("ideal_answer")
        return {"meta": {"ideal_answer": [ideal] if isinstance(ideal, str) else ideal}} \
            if ideal else {}
    if "exact_answer" not in question:
        return {}
    answer = question["exact_answer"]
    label = answer.strip().lower() if isinstance(answer, str) else None
    if label not in ("yes", "no"):
        raise RecordError(place, f"found the exact answer {answer!r:.40}, expected yes or no",
                          question)
    return {"label": label}


def _snippet_records(question: _Question, snippets: list[str], counts: Counter[str],
                     place: str) -> Iterator[Record]:
    items = _items(question)
    spellings = list(dict.fromkeys(one for item in items for one in item))
    exact = items if question["type"] == "list" else spellings
    meta = {"document": question["id"], "question": question["id"],
            **({"exact_answer": exact} if items else {})}
    for number, snippet in enumerate(snippets):
        record = Record(id=f"{question['id']}_{number:03}", text=snippet,
                        question=question["body"].strip(), place=place)
        if items:
            record["answers"] = locate_answers(snippet, [(one, None) for one in spellings],
                                               Tally(None, refuse), place)
            counts[NO_ANSWER] += not record["answers"]
        yield record.replace(meta=meta)


def _items(question: _Question) -> list[list[str]]:
    """Return the items of the exact answer, each with its spellings."""
    exact = question.get("exact_answer", [])
    found = [[item] if isinstance(item, str) else item
             for item in ([exact] if isinstance(exact, str) else exact)]
    stripped = [[one.strip() for one in item if one.strip()] for item in found]
    return [item for item in stripped if item]


@reader
def biobit_records(names: Iterable[str], tally: Tally, split: str) -> Iterator[Record]:
    """Yield one split of BioBIT's Italian questions, with a record for every text.

    The answer is its first occurrence in the text, preferably in the same case. Ids are
    `QUESTION_000` and so on, and `meta.question` is the id of the question. Source: Buonocore et
    al. 2023. The splits have questions in common, which `split --check` counts.

    Args:
        names: JSON files of lists by split, compressed or not; `-` for stdin.
        split: key of the list, such as `train`.
        tally: counts answers found and questions left out.
            It rejects questions that cannot be read, and if `reject` is given, also questions whose
            answer is not in the text.
    """
    for name in names:
        splits = read_json(name, "BioBIT's form, lists by split", dict[str, list[object]],
                           MOST_RECORDS)
        if splits is None:
            continue
        if split not in splits:
            raise DataError(f"{source_name(name)}: found no split {split!r}, "
                            f"{suggestion(split, splits)}; name it with {setting('split')}")
        numbers: Counter[str] = Counter()
        for number, item in enumerate(splits[split]):
            place = f"{source_name(name)} ({split}[{number}])"
            with tally.rejecting():
                question = converted(item, _Italian, place)
                own = question["ID"]
                answers = locate_answers(question["context"], [(question["answer"], None)], tally,
                                         place)
                if answers:
                    yield Record(id=f"{own}_{numbers[own]:03}", text=question["context"],
                                 question=question["question"].strip(), answers=answers,
                                 meta={"document": own, "question": own}, place=place)
                numbers[own] += 1
