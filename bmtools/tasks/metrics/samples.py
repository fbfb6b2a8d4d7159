"""Counts per document and metrics for each task, from gold records and predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bmtools.records import JsonObject, document_of
from bmtools.statistics.resampling import Values
from bmtools.statistics.samples import Measure, PairSample, Sample
from bmtools.tasks.metrics.answers import (
    language_of,
    match_answer,
    merge_answers,
    question_of,
    rank_factoid,
    right_answers,
)
from bmtools.tasks.metrics.errors import (
    calibrate,
    count_confusions,
    count_errors,
    pair_mentions,
    relations_of,
    typed_spans,
)
from bmtools.tasks.metrics.spans import (
    Scores,
    Span,
    divide,
    find_overlaps,
    find_tokens,
    find_words,
    rounded,
    words_in,
)
from bmtools.tasks.tagging import SUBTOKEN_F1, SUBTOKENS, token_runs

Entry = tuple[int, str, int, float]
"""Number of the unit, kind, column, and the amount to add."""
Members = Callable[[JsonObject, JsonObject], Iterable[tuple[*tuple[Hashable, ...], str]]]
"""Lists a record's members, each ending with its type, in the gold record's terms."""
CORRECT, PREDICTED, SUPPORT = range(3)
NO_ENTITIES = "no_entities"
"""Task for gold records without entities; every prediction is a false positive."""
_COUNTS = {"support": SUPPORT, "predicted": PREDICTED, "correct": CORRECT}


@dataclass(frozen=True, eq=False)
class Pairs:
    """Gold records with their predictions.

    Args:
        gold: annotated records.
        predicted: the same records with predictions in place of annotations.
        owners: (records,) number of each record's unit; units are resampled as a whole.
        kinds: types or labels of all models, so that the columns of all models agree.
        negative: class that does not count as a finding.
        documents: (records,) number of each record's document, which has the labels of all its
            records; the units by default.
    """

    gold: Sequence[JsonObject]
    predicted: Sequence[JsonObject]
    owners: np.ndarray
    kinds: Sequence[str] = ()
    negative: str | None = None
    documents: np.ndarray | None = None

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.owners.max(initial=-1)) + 1

    def tally(self, entries: Iterable[Entry], columns: int) -> np.ndarray:
        """Add up entries, (units, kinds, columns)."""
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        counts = np.zeros((self.units, max(1, len(self.kinds)), columns))
        for unit, kind, column, amount in entries:
            if kind in numbers or not self.kinds:
                counts[unit, numbers.get(kind, 0), column] += amount
        return counts

    def count(self, members: Members) -> np.ndarray:
        """Count members, (units, kinds, 3): correct, predicted and gold members.

        Args:
            members: function that lists a record's members, in the gold record's terms.
        """
        gold, predicted = ({(number, *one) for number, (record, own) in enumerate(
            zip(records, self.gold, strict=True)) for one in members(record, own)}
            for records in (self.gold, self.predicted))
        return self.tally(((self.owners[number], kind, column, 1) for column, found in (
            (CORRECT, gold & predicted), (PREDICTED, predicted), (SUPPORT, gold))
            for number, *_, kind in found), 3)


def matches(totals: np.ndarray) -> Values:
    """Compute precision, recall and F1 of totals, (draws, kinds, columns), over all kinds."""
    correct, predicted, support = (totals[..., column].sum(axis=1)
                                   for column in (CORRECT, PREDICTED, SUPPORT))
    return {"f1": divide(2 * correct, predicted + support),
            "precision": divide(correct, predicted), "recall": divide(correct, support)}


def averages(totals: np.ndarray) -> Values:
    """Compute `matches`, and the mean F1 of the kinds that occur, unweighted and by support."""
    support = totals[..., SUPPORT]
    sizes = totals[..., PREDICTED] + support
    f1 = divide(2 * totals[..., CORRECT], sizes)
    return {**matches(totals),
            "macro_f1": divide((f1 * (sizes > 0)).sum(axis=1), (sizes > 0).sum(axis=1)),
            "weighted_f1": divide((f1 * support).sum(axis=1), support.sum(axis=1))}


def _counting(members: Members, measure: Measure) -> Callable[[Pairs], Sample]:
    """Return the function that counts members for a metric."""
    return lambda pairs: Sample(pairs.count(members), measure)


# Mentions, relations, words


def _mentions(records: Sequence[JsonObject]) -> list[tuple[int, int, int, str]]:
    return [(number, *span) for number, record in enumerate(records)
            for span in typed_spans(record)]


def _words(find: Callable[[str], list[Span]]) -> Members:
    """Return the function that lists the words that a record's entities touch."""
    return lambda record, gold: words_in(find(gold["text"]), typed_spans(record))


def mention_metrics(totals: np.ndarray) -> Values:
    """Compute strict, relaxed, character-overlap and token scores; see `spans`."""
    found = matches(totals)
    predicted, support = (totals[..., column].sum(axis=1) for column in (PREDICTED, SUPPORT))
    for name, column in (("relaxed", 3), ("character", 5)):
        precision = divide(totals[..., column].sum(axis=1), predicted)
        recall = divide(totals[..., column + 1].sum(axis=1), support)
        found |= {f"{name}_f1": divide(2 * precision * recall, precision + recall),
                  f"{name}_precision": precision, f"{name}_recall": recall}
    return found | {f"token_{name}": values for name, values in matches(totals[..., 7:]).items()}


def _subtoken_metrics(totals: np.ndarray) -> Values:
    support, correct, predicted = (totals[..., column].sum(axis=1) for column in (SUPPORT, 10, 11))
    return {**mention_metrics(totals), SUBTOKEN_F1: divide(2 * correct, predicted + support)}


def _subtoken_runs(pairs: Pairs) -> Iterator[Entry]:
    """Yield the counts of correct and predicted token runs."""
    for owner, gold, predicted in zip(pairs.owners, pairs.gold, pairs.predicted, strict=True):
        right, found = token_runs(predicted.get(SUBTOKENS, ()), typed_spans(gold))
        for column, runs in enumerate((right & found, found)):
            yield from ((owner, kind, column, 1) for *_, kind in runs)


def _mention_sample(pairs: Pairs) -> Sample:
    overlaps = find_overlaps(_mentions(pairs.gold), _mentions(pairs.predicted))
    shared = pairs.tally(((pairs.owners[record], kind, column, amount)
                          for (record, kind), own in overlaps.items()
                          for side, scores in enumerate((own.predicted, own.gold))
                          for column, amount in ((side, sum(score > 0 for score in scores)),
                                                 (side + 2, sum(scores)))), 4)
    counts = [pairs.count(lambda record, _: typed_spans(record)), shared,
              pairs.count(_words(find_tokens)), pairs.tally(_subtoken_runs(pairs), 2)]
    return Sample(np.concatenate(counts, axis=2), _subtoken_metrics if all(
        SUBTOKENS in record for record in pairs.predicted) else mention_metrics)


def _mention_errors(pairs: Pairs) -> Scores:
    gold, predicted = _mentions(pairs.gold), _mentions(pairs.predicted)
    found, right = pair_mentions(gold, predicted), set(gold)
    scores = [one.get("score") for record in pairs.predicted for one in record["entities"]]
    return {"errors": count_errors(found),
            "confusion": count_confusions(one.types for one in found),
            **calibrate(scores, [mention in right for mention in predicted])}


def _word_metrics(totals: np.ndarray) -> Values:
    found = averages(totals)
    return {name: found[name] for name in ("macro_f1", "f1", "precision", "recall")}


def _false_positive_rates(totals: np.ndarray) -> Values:
    found, (tokens, documents, clean) = totals[:, :-1, PREDICTED].sum(axis=1), totals[:, -1].T
    return {"specificity": divide(clean, documents),
            "false_positives_per_1000_tokens": divide(1000 * found, tokens),
            "false_positives_per_1000_documents": divide(1000 * found, documents)}


def _false_positive_sample(pairs: Pairs) -> Sample:
    """Count false positives; the last row has tokens, documents and clean documents."""
    documents = pairs.owners if pairs.documents is None else pairs.documents
    firsts = dict(zip(reversed(documents.tolist()), reversed(pairs.owners.tolist()), strict=True))
    flagged = {document for document, record in zip(documents, pairs.predicted, strict=True)
               if record["entities"]}
    extra = np.zeros((pairs.units, 1, 3))
    for owner, record in zip(pairs.owners, pairs.gold, strict=True):
        extra[owner, 0, 0] += len(find_tokens(record["text"]))
    for document, owner in firsts.items():
        extra[owner, 0, 1:] += 1, document not in flagged
    counts = pairs.count(lambda record, _: typed_spans(record))
    return Sample(np.concatenate([counts, extra], axis=1), _false_positive_rates)


# Labels


def _label_sample(pairs: Pairs) -> Sample:
    positive = np.array([kind != pairs.negative for kind in pairs.kinds])

    def measure(totals: np.ndarray) -> Values:
        found = averages(totals[:, positive])
        micro = {"micro_f1": found["f1"], **{name: found[name] for name in ("precision", "recall")}}
        return {"accuracy": divide(totals[..., CORRECT].sum(axis=1),
                                   totals[..., SUPPORT].sum(axis=1)),
                "macro_f1": found["macro_f1"], "weighted_f1": found["weighted_f1"],
                **(micro if pairs.negative is not None else {})}

    return Sample(pairs.count(lambda record, _: [(record["label"],)]), measure)


def _label_confusion(pairs: Pairs) -> Scores:
    return {"confusion": count_confusions((record["label"], found["label"]) for record, found
                                          in zip(pairs.gold, pairs.predicted, strict=True))}


def _label_set_metrics(totals: np.ndarray) -> Values:
    kinds, (shares, exact) = averages(totals[:, :-2]), totals[:, -2:].swapaxes(0, 1)
    precision, recall = (divide(shares[:, column], shares[:, 2]) for column in (0, 1))
    return {"micro_f1": kinds["f1"], "precision": kinds["precision"], "recall": kinds["recall"],
            "macro_f1": kinds["macro_f1"],
            "example_f1": divide(2 * precision * recall, precision + recall),
            "accuracy": divide(exact[:, 0], exact[:, 1])}


def _label_set_sample(pairs: Pairs) -> Sample:
    """Count labels of documents; a document has the labels of all its records."""
    documents = pairs.owners if pairs.documents is None else pairs.documents
    firsts = np.unique(documents, return_index=True)[1]
    owners = np.unique(pairs.owners[firsts], return_inverse=True)[1]
    gold, predicted = ([set[str]() for _ in firsts] for _ in range(2))
    for document, record, found in zip(documents, pairs.gold, pairs.predicted, strict=True):
        gold[document].update(record["labels"])
        predicted[document].update(found["labels"])
    one, other = ([{"labels": labels} for labels in side] for side in (gold, predicted))
    joined = replace(pairs, gold=one, predicted=other, owners=owners)
    counts = joined.count(lambda record, _: ((label,) for label in record["labels"]))
    extra = np.zeros((joined.units, 2, 3))
    for owner, labels, others in zip(owners, gold, predicted, strict=True):
        shared = len(labels & others)
        if labels:
            extra[owner, 0] += divide(shared, len(others)), shared / len(labels), 1
        extra[owner, 1, :2] += labels == others, 1
    return Sample(np.concatenate([counts, extra], axis=1), _label_set_metrics)


# Scores and answers


def _score_sample(pairs: Pairs) -> PairSample:
    gold, predicted = (np.array([record["score"] for record in records], dtype=float)
                       for records in (pairs.gold, pairs.predicted))
    return PairSample(gold, predicted, pairs.owners, pairs.units)


def _answer_metrics(totals: np.ndarray) -> Values:
    both = totals.sum(axis=1)
    return {"f1": divide(both[..., 1], both[..., 2]),
            "exact_match": divide(both[..., 0], both[..., 2])}


def _has_answer(record: JsonObject) -> Iterable[str]:
    return ("yes" if record["answers"] else "no",)


def _answer_sample(pairs: Pairs) -> Sample:
    entries: list[Entry] = []
    for owner, gold, predicted in zip(pairs.owners, pairs.gold, pairs.predicted, strict=True):
        best = predicted["answers"][0]["text"] if predicted["answers"] else ""
        match = match_answer([answer["text"] for answer in gold["answers"]], best,
                             language_of(gold))
        entries += [(owner, "yes" if gold["answers"] else "no", column, amount)
                    for column, amount in enumerate((*match, 1))]
    return Sample(pairs.tally(entries, 3), _answer_metrics)


def _factoid_sample(pairs: Pairs) -> Sample:
    """Count questions, each in the unit of its first record.

    Several records may be snippets of one question. A question without a gold answer in any
    snippet cannot be answered correctly.
    """
    questions = [question_of(record) for record in pairs.gold]
    merged = merge_answers(questions, (
        [(answer["text"], answer.get("score", -place))
         for place, answer in enumerate(record["answers"])] for record in pairs.predicted))
    golds: dict[str, list[str]] = {question: [] for question in questions}
    for question, record in zip(questions, pairs.gold, strict=True):
        golds[question] += right_answers(record)
    owners = dict(zip(reversed(questions), reversed(pairs.owners.tolist()), strict=True))
    return Sample(pairs.tally((
        (owners[question], "", column, amount) for question, gold in golds.items()
        for column, amount in enumerate((*rank_factoid(gold, merged[question]), 1))),
        4), _factoid_metrics)


def _factoid_metrics(totals: np.ndarray) -> Values:
    both = totals.sum(axis=1)
    return {name: divide(both[..., column], both[..., 3]) for column, name in enumerate(
        ("strict_accuracy", "lenient_accuracy", "mrr"))}


# The table of tasks


@dataclass(frozen=True)
class TaskMetrics:
    """Metrics of a task.

    Args:
        key: key of records that contains the annotation.
        compared: metrics used to compare models; the first is the main metric.
        sample: function that makes the counts for the metrics.
        kinds: function that lists a record's types or labels.
        by: type or label, if scores are broken down by it, or empty.
        measure_kind: function that computes the metrics of one type or label.
        counts: columns of the counts shown in lines, by name.
        errors: function that returns error counts, confusions and calibration.
    """

    key: str
    compared: tuple[str, ...]
    sample: Callable[[Pairs], Sample]
    kinds: Callable[[JsonObject], Iterable[str]] = lambda record: ()
    by: str = ""
    measure_kind: Measure = matches
    counts: Mapping[str, int] = field(default_factory=lambda: _COUNTS)
    errors: Callable[[Pairs], Scores] = lambda pairs: {}

    def show_counts(self, counts: np.ndarray) -> dict[str, int]:
        """Return the totals of the counts, (kinds, columns), by name."""
        totals = counts.sum(axis=0)
        return {name: int(totals[column]) for name, column in self.counts.items()}


def _types(key: str) -> Callable[[JsonObject], Iterable[str]]:
    return lambda record: (one["type"] for one in record[key])


TASK_METRICS: dict[str, TaskMetrics] = {
    "ner": TaskMetrics("entities", ("f1", "relaxed_f1", "character_f1"), _mention_sample,
                       _types("entities"), "type", mention_metrics, errors=_mention_errors),
    "pico": TaskMetrics("entities", ("macro_f1",), _counting(_words(find_words), _word_metrics),
                        _types("entities"), "type"),
    NO_ENTITIES: TaskMetrics(
        "entities", ("specificity", "false_positives_per_1000_tokens"), _false_positive_sample,
        _types("entities"), counts={"false_positives": PREDICTED}, errors=_mention_errors),
    "relations": TaskMetrics("relations", ("f1",), _counting(relations_of, averages),
                             _types("relations"), "type"),
    "classification": TaskMetrics(
        "label", ("accuracy", "macro_f1"), _label_sample, lambda record: (record["label"],),
        "label", errors=_label_confusion),
    "multilabel": TaskMetrics("labels", ("micro_f1", "macro_f1", "example_f1"),
                              _label_set_sample, lambda record: record["labels"], "label"),
    "similarity": TaskMetrics("score", ("pearson", "spearman"), _score_sample,
                              counts={"support": 0}),
    "qa": TaskMetrics("answers", ("f1", "exact_match"), _answer_sample, _has_answer, "answerable",
                      _answer_metrics, {"support": 2}),
    "factoid": TaskMetrics("answers", ("strict_accuracy", "lenient_accuracy", "mrr"),
                           _factoid_sample, counts={"questions": 3}),
}


def measure(task: str, gold: Sequence[JsonObject], predicted: Sequence[JsonObject],
            negative: str | None = None,
            by_document: bool = False) -> tuple[Scores, dict[str, Scores]]:
    """Score predictions as `score-tasks` does, without intervals; undefined metrics are 0.

    Args:
        task: name of the task.
        gold: annotated records.
        predicted: the same records with predictions in place of annotations.
        negative: class that does not count as a finding.
        by_document: join the labels of each document.

    Returns:
        metrics and counts, and the same for each type or label except the negative one.
    """
    metrics = TASK_METRICS[task]
    kinds = sorted({kind for record in (*gold, *predicted) for kind in metrics.kinds(record)})
    owners = number_documents(gold) if by_document else np.arange(len(gold))
    sample = metrics.sample(Pairs(gold, predicted, owners, kinds, negative))
    scores: Scores = {name: rounded(0.0 if np.isnan(value) else value)
                      for name, value in sample.metrics().items()}
    counts = sample.counts.sum(axis=0)[:max(1, len(kinds))]
    by_kind = {kind: {**{name: rounded(value) for name, [value] in
                         metrics.measure_kind(counts[None, number:number + 1]).items()},
                      **metrics.show_counts(counts[number:number + 1])}
               for number, kind in enumerate(kinds) if kind != negative}
    return scores | metrics.show_counts(counts), by_kind


def number_documents(records: Sequence[JsonObject]) -> np.ndarray:
    """Number the documents that contain the records; see `document_of`."""
    return numbered(map(document_of, records))


def numbered(values: Iterable[Hashable]) -> np.ndarray:
    """Number values in order of first occurrence; equal values get the same number."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=int)
