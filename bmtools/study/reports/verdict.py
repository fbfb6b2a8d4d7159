"""First screen of a page: the best model, whether a test shows that it is best, and the effort."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import NormalDist, fmean
from typing import NamedTuple

from bmtools.records import JsonMapping, JsonObject
from bmtools.study.reports.charts import Part, Table
from bmtools.study.reports.labels import Best, names_of
from bmtools.study.reports.over_training import BETTER_BELOW, PREDICTIONS, collect_scores
from bmtools.study.reports.study import Study
from bmtools.tasks.metrics.seeds import POWER

_ALPHA = 0.05
_LIMIT, _POWERED = NormalDist().inv_cdf(1 - _ALPHA / 2), NormalDist().inv_cdf(POWER)
_LOWER_IS_BETTER = {"bits_per_character", "rmse"}
_MASKED = {"mrr", "pppl", "bits_per_character", "nats_per_token"}


class _Gain(NamedTuple):
    """How much better one model is than another; bounds are infinite if there is no interval."""

    mean: float
    low: float
    high: float
    p: float | None
    line: JsonMapping

    @property
    def is_shown(self) -> bool:
        return self.p is not None and self.p < _ALPHA and self.low > 0


def find_verdict(study: Study) -> JsonObject:
    """Return the values that the first screen of a page shows.

    Returns:
        `tested` compares the best two models, see `_compare`. `untested` ranks the models by the
        score that most of them have. `runs` are the lines of training. `effort` is the total
        effort of all steps.
    """
    effort = study.lineage.totals((one.name, one.record) for one in study.directories
                                  if not one.is_whole)
    return {"tested": _tested(study), "untested": _untested(study), "runs": study.runs,
            "effort": effort}


def glance(study: Study) -> Iterator[Part]:
    """Show all scores of all models in a table, with the best score of each row in bold."""
    suites = {line["suite"] for line in study.lines["suite"]}
    found = {(words, data): {model: one.estimate.value for model, one in own.items()
                             if one.run in ("", model)}
             for (words, data), own in collect_scores(study).items() if data not in suites}
    names = names_of(model for own in found.values() for model in own)
    best = {key: (min if key[0] in BETTER_BELOW else max)(own.values())
            for key, own in found.items() if len(own) > 1}
    if best:
        yield "The best score of each row is bold. Charts below show the intervals."
        yield Table("Scores of all models", ["score", *names.values()], [[key[0], *(
            Best(own[model]) if own.get(model) == best.get(key) and model in own
            else own.get(model) for model in names)] for key, own in found.items()])


def _tested(study: Study) -> JsonObject:
    """Compare the best two models by the main metric of each set; prefer tasks to masked words."""
    # score-suite repeats the lines of score-tasks in percent. Its lines have no unit.
    lines = [line for line in study.lines["compared"] if line.get("difference") is not None
             and ("unit" in line or "set" not in line)]
    for metrics in ({line["metric"] for line in lines} - _MASKED, {"mrr"}, {"bits_per_character"}):
        main: dict[str, str] = {}
        if kept := [line for line in lines if line["metric"] in metrics and main.setdefault(
                line.get("set", ""), line["metric"]) == line["metric"]]:
            return _compare(study, kept)
    return {}


def _compare(study: Study, lines: Sequence[JsonMapping]) -> JsonObject:
    """Rank models by their mean gain over the others, and compare the first with the second.

    Returns:
        `best` and `other` are the names of the two models, and `gain` is the gain of the best
        over the other. `shown` names all models that a test shows to be worse than the best.
        `models` and `sets` are numbers, and `metrics` are names. With `times` as many documents, a
        test would show this gain with a power of 80 %, estimated from the width of the interval.
    """
    gains: defaultdict[str, defaultdict[str, list[_Gain]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        sign = -1 if line["metric"] in _LOWER_IS_BETTER else 1
        for (one, other), turn in ((line["compared"], sign), (line["compared"][::-1], -sign)):
            low, high = sorted(turn * bound for bound in line.get("interval") or (
                -math.inf, math.inf))
            gains[one][other].append(_Gain(turn * line["difference"], low, high,
                                           line.get("p_holm", line.get("p")), line))
    merged = {one: {other: _average(own, len(gains)) for other, own in found.items()}
              for one, found in gains.items()}
    best = max(merged, key=lambda one: fmean(gain.mean for gain in merged[one].values()))
    second = min(merged[best], key=lambda other: merged[best][other].mean)
    names, gain, own = names_of(map(study.name_of, gains)), merged[best][second], gains[best]
    return {
        "best": names[study.name_of(best)], "other": names[study.name_of(second)], "gain": gain,
        "models": len(gains), "sets": len(own[second]),
        "metrics": sorted({one.line["metric"] for one in own[second]}),
        "shown": [names[study.name_of(one)] for one in own if merged[best][one].is_shown],
        "times": ((1 + _POWERED / _LIMIT) * (gain.high - gain.low) / 2 / gain.mean)**2
        if gain.mean else math.inf}


def _average(gains: Sequence[_Gain], models: int) -> _Gain:
    """Average the gains on several sets, assuming independent and roughly normal errors.

    Multiply the p-value by the number of pairs of models (Bonferroni).
    """
    if len(gains) == 1:
        return gains[0]
    mean = fmean(gain.mean for gain in gains)
    half = math.hypot(*(gain.high - gain.low for gain in gains)) / 2 / len(gains)
    p_value = 2 * NormalDist().cdf(-abs(mean) * _LIMIT / half) if half else 1.0
    return _Gain(mean, mean - half, mean + half, min(p_value * math.comb(models, 2), 1.0),
                 gains[0].line)


def _untested(study: Study) -> JsonObject:
    """Rank models by the score that most of them have; prefer tasks to masked words."""
    found = collect_scores(study)
    if not found:
        return {}
    words, data = max(found, key=lambda key: (
        key[0] not in PREDICTIONS, key[0].startswith("mean of "), len(found[key])))
    names = names_of(found[words, data])
    return {"words": words, "ranked": sorted(
        ((names[name], score.estimate) for name, score in found[words, data].items()),
        key=lambda one: one[1].value if words in BETTER_BELOW else -one[1].value)}
