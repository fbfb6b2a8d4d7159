"""Steps that the measures share: windows of records, comparisons and signatures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import combinations, islice
from os import PathLike
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from bmtools.errors import RecordError, Reject
from bmtools.installation import versions
from bmtools.io.output import encode_lines, open_output
from bmtools.records import Record
from bmtools.statistics.lines import FINGERPRINT_DIGITS, Groups, Line, adjust_p_values, rounded
from bmtools.statistics.ratios import Metric, Units, paired_difference
from bmtools.statistics.settings import StatisticsConfig
from bmtools.vocab.tokenizer import is_uncased, strips_accents
from bmtools.vocab.unknown_tokens import UnknownTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bmtools.scoring.predictor import Predictor

_PACKAGES = ("torch", "transformers")
_SHOWN = {True: "yes", False: "no"}
Input = TypeVar("Input")
Score = TypeVar("Score")
Progress = Callable[[Iterator[Score]], Iterable[Score]]
"""Wraps an iterator, like `tqdm`."""
_WINDOW_RECORDS = 256  # enough to fill batches with sequences of one length


class ItemScore(Protocol):
    """The score of a sentence or masked word under one predictor."""

    @property
    def predictor(self) -> int:
        """Index of the predictor."""

    def line(self) -> Line:
        """Return the score as a line of details."""


Scored = TypeVar("Scored", bound=ItemScore)
ScoredIn = TypeVar("ScoredIn", bound=ItemScore, contravariant=True)


def score_in_windows(records: Iterable[Record], predictors: Sequence[Predictor],
                     prepare: Callable[[Predictor, Record], Input],
                     score: Callable[[int, Sequence[Record], Sequence[Input]], list[Score]],
                     reject: Reject) -> Iterator[Score]:
    """Score records under each predictor, window by window, in input order.

    Args:
        records: records, read in windows of bounded size.
        predictors: each scores all records.
        prepare: makes a predictor's input from a record. If it raises `RecordError` for a record,
            no predictor scores this record, so that scores cover the same records.
        score: scores prepared records with the predictor that has this index.
        reject: receives the errors of `prepare`, before the scores of the record's window.

    Yields:
        scores record by record, in the order of predictors.
    """
    pending = iter(records)
    while window := list(islice(pending, _WINDOW_RECORDS)):
        kept, inputs = [], []
        for record in window:
            try:
                inputs.append([prepare(predictor, record) for predictor in predictors])
                kept.append(record)
            except RecordError as error:
                reject(error)
        columns = [score(index, kept, [own[index] for own in inputs])
                   for index in range(len(predictors))]
        for row in zip(*columns, strict=True):
            yield from row


class ModelTotals(ABC, Generic[ScoredIn]):
    """Sums of one predictor's scores; some bytes are kept in memory for each score.

    Args:
        predictor: the predictor.
        by: keys of records; items are also scored separately for each value of a key.
        statistics: settings of intervals.
        item: name of an item without a document.
    """

    def __init__(self, predictor: Predictor, by: Sequence[str],
                 statistics: StatisticsConfig | None, item: str = "record") -> None:
        self.predictor = predictor
        self._statistics = statistics or StatisticsConfig()
        self._groups = Groups(by)
        self._values = array("d")
        self.units = Units(self._statistics.unit, item)
        self._data = 0
        self._unknown_tokens = UnknownTokens(predictor.name, predictor.tokenizer.unk_token_id)

    @abstractmethod
    def add(self, score: ScoredIn) -> None:
        """Count a score."""

    @abstractmethod
    def metrics(self) -> dict[str, Metric]:
        """Return the metrics used to compare models."""

    @abstractmethod
    def line(self) -> Line:
        """Return the corpus-level scores."""


def collect_scores(scores: Iterator[Scored], totals: Sequence[ModelTotals[Scored]],
                   statistics: StatisticsConfig, details: str | PathLike[str] | None = None,
                   progress: Progress[Scored] = iter,
                   on_score: Callable[[Scored], object] | None = None) -> list[Line]:
    """Add scores to their predictors' totals, and compare the models.

    Args:
        scores: scores of all predictors.
        totals: one for each predictor.
        statistics: settings of comparisons.
        details: file that receives a line for each score; it is written only if scoring succeeds.
        progress: wraps the scores.
        on_score: called with each score.

    Returns:
        a line for each predictor, then one for each pair of models without baselines.
    """
    with open_output(str(details)) if details is not None else nullcontext() as stream:
        for score in progress(scores):
            own = totals[score.predictor]
            own.add(score)
            if on_score:
                on_score(score)
            if stream:
                stream.write(encode_lines([{"model": own.predictor.name, **score.line()}]))
        lines = [own.line() for own in totals]
    if statistics.resamples:
        totals[0].units.warn()
    return [*lines, *compare_models(
        [(own.predictor.name, own.metrics()) for own in totals
         if "baseline" not in own.predictor.signature_fields], statistics)]


def gather_records(records: Iterable[Record], characters: int,
                   most: int | None = None) -> Iterator[list[Record]]:
    """Group records until their texts reach a number of characters or a number of records."""
    chunk: list[Record] = []
    gathered = 0
    for record in records:
        chunk.append(record)
        gathered += len(record["text"])
        if gathered >= characters or len(chunk) == most:
            yield chunk
            chunk, gathered = [], 0
    if chunk:
        yield chunk


def compare_models(models: Sequence[tuple[str, Mapping[str, Metric]]],
                   statistics: StatisticsConfig) -> list[Line]:
    """Compare each pair of models by each metric of both, on the items that both count.

    Args:
        models: name and metrics of each model.
        statistics: settings of intervals and tests.

    Returns:
        lines with the two models `compared`, the `metric`, and the `difference`: the score of the
        first model on these items minus the score of the second. They have its `interval`, and `p`
        from the paired permutation test. `unit` is the kind of unit that is resampled, and `units`
        their number. Lines also have the number of items, such as `sentences` or `maskings`.
        `p_holm` is adjusted for the number of comparisons by one metric (Holm 1979).
    """
    if not statistics.resamples:
        return []
    lines: list[Line] = []
    pairs = [*combinations(models, 2)]
    for (first, metrics), (second, others) in pairs:
        for name, one in metrics.items():
            other = others[name]
            both = one.counted & other.counted
            if one.basis != other.basis or not both.any():
                continue
            sums = one.select(both).by_unit()
            difference, bounds, _, p_value = paired_difference(
                sums, other.select(both).by_unit(), statistics, len(pairs))
            lines.append({
                "compared": [first, second], "metric": name,
                "difference": rounded(difference),
                "interval": bounds and [rounded(bound) for bound in bounds],
                "p": p_value, "unit": one.unit, "units": sums.shape[1],
                one.items: int(both.sum())})
    adjust_p_values(lines)
    return lines


def signed(metric: str, variant: str, tokenizer: PreTrainedTokenizerBase, vocabulary: str,
           **settings: object) -> Line:
    """Return the last keys of a line: the vocabulary, and how and with which versions it was made.

    Scores can be compared if their signatures are equal; scores per token also require the same
    vocabulary. Settings that are None are left out.

    Returns:
        `vocabulary`, its short fingerprint; `signature`, metric, settings and versions in one line.
    """
    fields = {metric: variant, **settings, **text_fields(tokenizer), **versions(*_PACKAGES)}
    shown = (f"{name}:{_SHOWN[value] if isinstance(value, bool) else value}"
             for name, value in fields.items() if value is not None)
    return {"vocabulary": vocabulary[:FINGERPRINT_DIGITS], "signature": "|".join(shown)}


def last_keys(predictor: Predictor, by: Line, data: Line, metric: str, variant: str,
              **settings: object) -> Line:
    """Return the last keys of a predictor's line: groups, data, measured precision and `signed`.

    Args:
        predictor: the predictor.
        by: scores by the values of keys; left out if empty.
        data: keys that identify the data.
        metric: name of the metric.
        variant: variant of the metric.
        settings: see `signed`; the predictor's fields follow.
    """
    return {**({"by": by} if by else {}), **data, **predictor.measured,
            **signed(metric, variant, predictor.tokenizer, predictor.vocabulary, **settings,
                     **predictor.signature_fields)}


def text_fields(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Describe the changes that a tokenizer makes to a text before it is read: case and accents."""
    return {"case": "folded" if is_uncased(tokenizer) else "kept",
            "accents": "stripped" if strips_accents(tokenizer) else "kept"}
