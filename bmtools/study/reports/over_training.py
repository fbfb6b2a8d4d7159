"""Scores over training: curves of kept checkpoints, tokens needed for a score, and correlations.

Pavlova and Makhlouf 2023 (BIOptimus) draw such curves in figure 3 and report "pre-training time
reduced by at least half". Shin et al. 2020 (BioMegatron) list scores of checkpoints in table 5.
Buonocore et al. 2023 (BioBIT) call the mean reciprocal rank a solid indicator of scores on tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import NamedTuple

from bmtools.records import JsonMapping
from bmtools.study.cards.scores import metrics_of
from bmtools.study.reports.charts import Cell, Curve, Estimate, Part, Point, Table, line_chart
from bmtools.study.reports.labels import names_of, short, words_of
from bmtools.study.reports.study import Study, StudyDirectory
from bmtools.values import format_cell

_KINDS = ("mrr", "pppl", "seeds of tasks", "finetuned", "tasks", "suite")
"""Kinds of lines with scores. If two kinds contain the same score, the first kind is used."""
_NAMES = {"mrr": "mean reciprocal rank", "pppl": "pseudo-perplexity"}
BETTER_BELOW = {"pseudo-perplexity", "bits per character"}
PREDICTIONS = {*_NAMES.values(), *BETTER_BELOW, "MRR", "PPPL"}  # the last two are names in suites
_LEAST_MODELS = 4  # fewer have no interval by Fisher's z


class Score(NamedTuple):
    """A score of a model, with the run and the training tokens of the model if they are known."""

    estimate: Estimate
    run: str = ""
    tokens: int = 0


def collect_scores(study: Study) -> Mapping[tuple[str, str], Mapping[str, Score]]:
    """Return scores by metric and data, and within these by pretrained model."""
    found: defaultdict[tuple[str, str], dict[str, Score]] = defaultdict(dict)
    for kind in _KINDS:
        first = {tuple(map(line.get, ("model", "set", "data", "task", "suite"))): line
                 for line in reversed(study.lines[kind])}  # later lines contain other metrics
        for line in reversed(first.values()):
            one, model = _pretrained(study, line.get("model", "")), line.get("model", "")
            for words, estimate in _values(line):
                found[words, line.get("data") or line.get("suite", "")].setdefault(
                    one.name if one else model, Score(estimate, one.run, one.record.get(
                        "tokens_seen") or 0) if one else Score(estimate))
    for run, lines in study.runs.items():
        for line in (line for line in lines if "signature" in line):
            for words, estimate in _values(line):
                found[words, line.get("data", "")][f"{run}, step {line['step']}"] = Score(
                    estimate, run, line["tokens_seen"])
    return found


def _values(line: JsonMapping) -> Iterator[tuple[str, Estimate]]:
    """Yield the metrics of a line to draw: the first of each split, bits, and all of a suite."""
    of = ", ".join(filter(None, (line.get("task"), line.get("set"))))
    means = {metric.partition("_")[0]: (metric, one["mean"], one.get("interval"))
             for metric, one in reversed([*line.items()])
             if isinstance(one, Mapping) and "mean" in one}
    found = [*(means.values() or islice(metrics_of(line), 99 if "suite" in line else 1)),
             ("bits_per_character", line.get("bits_per_character"), None)]
    sets = [value for name, value, _ in found if name not in PREDICTIONS and value is not None]
    if "suite" in line and "averages" not in line and len(sets) > 1:
        found.append((f"mean of {len(sets)} sets", fmean(sets), None))
    for metric, value, bounds in found:
        if value is not None:
            words = _NAMES.get(metric, words_of(metric))
            yield words + f" ({of})" * bool(of), Estimate.of(value, bounds)


def _pretrained(study: Study, model: str) -> StudyDirectory | None:
    """Find the directory of a model; for a fine-tuned model, of the model that it started from."""
    found = study.directory_of(model)
    return study.directory_of(found.bases["model"]) if found and "model" in found.bases \
        and "finetune" in str(found.record.get("command")) else found


def over_training(study: Study) -> Iterator[Part]:
    """Draw scores of each run against its tokens, and list the tokens needed for other scores."""
    yield ("Each run is one line: its kept checkpoints and the scores of its log. The tokens "
           "needed for a score are interpolated between the first checkpoint that reaches it and "
           "the one before. If intervals are wide, a later checkpoint may fall below it again.")
    for (words, _), scores in collect_scores(study).items():
        points: defaultdict[str, dict[int, Point]] = defaultdict(dict)
        for score in scores.values():
            points[score.run][score.tokens] = Point(score.tokens, *score.estimate)
        curves = {run: Curve([own[tokens] for tokens in sorted(own)])
                  for run, own in points.items() if run and len(own) > 1}
        if curves:
            yield line_chart(f"{words[:1].upper()}{words[1:]} over training",
                             ("tokens trained on", words), curves)
            yield _tokens_needed(words, curves, {
                model: score.estimate.value for model, score in scores.items()
                if score.run not in curves})


def _tokens_needed(words: str, curves: Mapping[str, Curve], others: Mapping[str, float]) -> Table:
    """List when each run first reaches the scores of other models and the last score of a run."""
    lasts = {run: curve.points[-1] for run, curve in curves.items()}
    targets = {**others, **{run: last.y for run, last in lasts.items()}}
    names, rows = names_of(targets), list[list[Cell]]()
    for target, score in targets.items():
        for run, curve in curves.items():
            tokens, *around = tokens_until(curve.points, score, words in BETTER_BELOW)
            share = tokens / lasts[target].x if target in lasts and isinstance(
                tokens, int | float) else None
            rows.append([names[target], score, run, tokens, *around, share])
    return Table(f"Tokens needed: {words}", [
        "score of", words, "run", "tokens needed", "from", "to", "share of its tokens"], rows)


def tokens_until(points: Sequence[Point], score: float, better_below: bool = False,
                 ) -> tuple[Cell, Cell, Cell]:
    """Find where a curve first reaches a score.

    Args:
        points: points sorted by tokens.
        score: the score to reach.
        better_below: whether lower scores are better.

    Returns:
        the interpolated tokens, and the tokens of the checkpoints before and after. If the first
        checkpoint reaches the score, or no checkpoint does, a text replaces the tokens.
    """
    sign = -1 if better_below else 1
    gains = [sign * (point.y - score) for point in points]
    at = next((number for number, gain in enumerate(gains) if gain >= 0), None)
    if at is None:
        best = points[max(range(len(gains)), key=gains.__getitem__)]
        return f"not reached, at best {format_cell(best.y)} after {short(best.x)}", None, None
    if at == 0:
        return f"{short(points[0].x)} or less", None, points[0].x
    before, after = points[at - 1].x, points[at].x
    share = -gains[at - 1] / (gains[at] - gains[at - 1])
    return round(before + share * (after - before)), before, after


def correlations(study: Study) -> Iterator[Part]:
    """Correlate scores at predicting masked words with scores on tasks, over models."""
    scores = collect_scores(study)
    rows = [[one, other, *found, len({predictions[model].run or model for model in both})]
            for (one, _), predictions in scores.items() if one in PREDICTIONS
            for (other, _), tasks in scores.items() if other not in PREDICTIONS
            if (both := [model for model in predictions if model in tasks])
            and (found := correlate(*([own[model].estimate.value for model in both]
                                      for own in (predictions, tasks))))]
    if rows:
        yield ("Pearson's correlation over models with Fisher's interval of 95 %, which is wide "
               "for few models, and Spearman's of ranks. Checkpoints of one run resemble each "
               "other, so the interval is too narrow if there are more models than runs. p-values "
               "are not adjusted for the number of rows.")
        yield Table("Correlation over models", [
            "prediction", "task", "models", "r", "from", "to", "p", "of ranks", "runs"], rows)


def correlate(first: Sequence[float], second: Sequence[float]) -> list[Cell]:
    """Return number, Pearson's r, interval, p and Spearman's r; empty for too few values."""
    if len(first) < _LEAST_MODELS or min(len({*first}), len({*second})) < 2:
        return []
    from scipy.stats import pearsonr, spearmanr

    found = pearsonr(first, second)
    values = (found.statistic, *found.confidence_interval(), found.pvalue,
              spearmanr(first, second).statistic)
    return [len(first), *(round(float(value), 6) for value in values)]
