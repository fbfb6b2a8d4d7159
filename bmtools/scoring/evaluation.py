"""Steps that pppl and mrr share: load predictors, add up their scores, compare models."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from os import PathLike
from typing import Any, Protocol, TypeVar

from bmtools.distributed import is_main_process
from bmtools.errors import Reject
from bmtools.io.jsonl import RecordReader, encode_lines, open_output
from bmtools.scoring.checkpoint_predictor import load_predictor
from bmtools.scoring.comparison import ModelTotals, compare_models
from bmtools.scoring.predictor import Predictor
from bmtools.scoring.settings import InferenceConfig, Models, StatisticsConfig, model_paths
from bmtools.scoring.unigram_predictor import count_frequencies

Line = dict[str, Any]
Progress = Callable[[Iterator[Any]], Iterable[Any]]


class ItemScore(Protocol):
    """A sentence's or a masked word's score under one predictor."""

    @property
    def predictor(self) -> int:
        """Index of the predictor."""

    def line(self) -> Line:
        """Return the score as a line of details."""


class CorpusTotals(ModelTotals, Protocol):
    """Sums of one predictor's scores."""

    def add(self, score: Any) -> None:
        """Count a score."""

    def line(self) -> Line:
        """Return the corpus-level scores."""


Scored = TypeVar("Scored", bound=ItemScore)


def load_predictors(models: Models, inference: InferenceConfig,
                    baseline: str | PathLike[str] | None, reject: Reject) -> list[Predictor]:
    """Load checkpoints, and count the token frequencies of a baseline for each vocabulary."""
    predictors: list[Predictor] = [load_predictor(path, inference) for path in model_paths(models)]
    if baseline is None:
        return predictors
    records = RecordReader([str(baseline)], reject)
    return [*predictors, *count_frequencies(records, predictors, str(baseline))]


def collect_scores(scores: Iterator[Scored], totals: Sequence[CorpusTotals],
                   statistics: StatisticsConfig, details: str | PathLike[str] | None = None,
                   progress: Progress = iter,
                   on_score: Callable[[Scored], object] | None = None) -> list[Line]:
    """Add scores to their predictors' totals, and compare the models.

    Args:
        scores: as they come; under a launcher only in the main process.
        totals: one for each predictor.
        statistics: of comparisons.
        details: file for a line for each score; it appears only where there is a result.
        progress: wraps the scores.
        on_score: called with each score.

    Returns:
        a line for each predictor, then one for each two models that are no baseline; nothing
        outside the main process.
    """
    if not is_main_process():
        deque(scores, maxlen=0)
        return []
    with open_output(str(details)) if details is not None else nullcontext() as stream:
        for score in progress(scores):
            own = totals[score.predictor]
            own.add(score)
            if on_score:
                on_score(score)
            if stream:
                stream.write(encode_lines([{"model": own.predictor.name, **score.line()}]))
        lines = [own.line() for own in totals]
    return [*lines, *compare_models(
        [own for own in totals if "baseline" not in own.predictor.signature_fields], statistics)]
