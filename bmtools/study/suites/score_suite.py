"""Scores on a suite's sets, averaged as in its paper, with the published scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from statistics import fmean, median, stdev

from bmtools.errors import BmtoolsWarning, DataError, setting, suggestion
from bmtools.io.json_files import read_manifest
from bmtools.io.jsonl import read_objects, refuse_empty
from bmtools.io.sources import source_name, source_stem
from bmtools.records import JsonMapping, JsonObject
from bmtools.statistics.lines import adjust_p_values
from bmtools.study.suites.suite import PublishedTable, Shown, Suite, SuiteSet, load_suite
from bmtools.tasks.metrics.spans import rounded

_PERCENT = 100
# Micro-F1 over types of mentions and relations is simply called f1.
_SAME = {"micro_f1": "f1"}
# Keys of score-tasks and finetune for the sizes of test sets that papers state.
_SIZES = {"ner": ("support", "entities"), "relations": ("pairs",), "multilabel": ("documents",),
          "classification": ("records",), "yesno": ("records",), "similarity": ("records",),
          "mrr": ("maskings",)}


@dataclass
class _Model:
    """A model's results by row, scaled: the scores of its seeds, or a summary of them."""

    results: dict[str, list[float] | JsonMapping] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    fallbacks: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def line(self, statistic: str) -> JsonObject:
        """Return scores, deviations, and the metrics and sizes that differ from the paper."""
        compute = fmean if statistic == "mean" else median
        summaries: dict[str, JsonMapping] = {
            row: {statistic: compute(found), "deviation": stdev(found) if len(found) > 1 else None}
            if isinstance(found, list) else found for row, found in self.results.items()}
        return {"scores": {row: one[statistic] for row, one in summaries.items()},
                "deviations": {row: one["deviation"] for row, one in summaries.items()
                               if one.get("deviation") is not None},
                "other_metrics": self.fallbacks, "other_sizes": self.sizes}

    def add(self, found: Mapping[str, float | JsonMapping], place: str, what: str,
            is_seed: bool) -> None:
        """Add the scores of a line; a row may have several scores only if they are of seeds."""
        for row, score in found.items():
            known = self.results.setdefault(row, [])
            if known and not (is_seed and isinstance(known, list)):
                raise DataError(f"{place}: found a second score {what} after {self.places[row]}, "
                                "expected one; distinguish models by their names or with "
                                f"{setting('name')}")
            self.places[row] = place
            if isinstance(score, Mapping):
                self.results[row] = score
            elif isinstance(known, list):
                known.append(score)


def suite_scores(suite: str, results: Sequence[str], *, published: Shown = "main",
                 baseline: str | None = None, name: str | None = None) -> list[JsonObject]:
    """Collect scores on a suite: `suite_scores("blurb", ["NCBI-disease=scores.jsonl", "GAD"])`.

    Args:
        suite: name, or a TOML file.
        results: SET=PATH, or a path named like the set, to JSON Lines of `score-tasks` or
            `finetune` or a directory of `finetune`. Lines may also name the set in `set`.
        published: which of the paper's tables to add.
        baseline: model to compute differences from. Default: the paper's baseline.
        name: model name for all results. Default: the name in the lines.

    Returns:
        a line for each model, own models first. It has `model`, `suite`, `table` (of published
        models), `scores` in percent by set, `deviations` over seeds, and `averages`. It has
        `points` above the baseline, and `differences` in percent of the baseline's score. It has
        `other_metrics` if a set's fallback was used, `other_sizes` of test sets whose size differs
        from the size in the suite, and `missing` sets.
        If sets are missing for own models, these models have no averages that need the sets.
        Instead, all models have an average over the common sets, if there are several. The last
        lines each compare two models by the main metric of a set, with `p_holm` adjusted over all
        sets.

    Raises:
        ValueError: an unknown suite, set or baseline.
        DataError: lines without the metric of their set, or two scores of one model.
    """
    chosen = load_suite(suite)
    own, comparisons = _read_results(chosen, results, name)
    lines: list[JsonObject] = [
        {"model": model, "suite": suite, **one.line(chosen.statistic)}
        for model, one in own.items()]
    shared = [one for one in chosen.sets if all(one.main in line["scores"] for line in lines)]
    for table in chosen.published:
        if published == "all" or (published == "main" and table.main):
            lines += _published_lines(chosen, suite, table)
    _add_differences(lines, chosen, baseline)
    for key in ("p", "p_over_seeds"):  # over the sets on which the same two models are compared
        adjust_p_values(comparisons, key, "compared")
    return [*(_finished(line, chosen, shared) for line in lines), *comparisons]


def _published_lines(suite: Suite, name: str, table: PublishedTable) -> Iterator[JsonObject]:
    averages = {one.name for one in suite.averages}
    for number, model in enumerate(table.models):
        values = {row: scores[number] for row, scores in table.scores.items()}
        yield {"model": model, "suite": name, "table": table.table,
               "scores": {row: one for row, one in values.items() if row not in averages},
               "deviations": {row: own[number] for row, own in table.deviations.items()},
               "averages": {row: one for row, one in values.items() if row in averages}}


def _finished(line: JsonObject, suite: Suite, shared: Sequence[SuiteSet]) -> JsonObject:
    """Add averages and missing sets, round, and remove empty values."""
    scores, averages = line["scores"], dict(line.get("averages", {}))
    for one in suite.averages:
        if (found := one.compute(suite.sets, scores)) is not None:
            averages.setdefault(one.name, found)
        some = one.members(shared)
        if 1 < len(some) < len(one.members(suite.sets)) and \
                (found := one.compute(some, scores)) is not None:
            averages[f"{one.name} of {len(some)} sets"] = found
    missing = [one.name for one in suite.sets if one.main not in scores]
    parts: JsonObject = {key: {row: value if isinstance(value, str) else rounded(value)
                               for row, value in values.items()}
                         for key, values in {**line, "averages": averages}.items()
                         if isinstance(values, dict)}
    # Sort rows as in the suite, whatever the order of files.
    parts["scores"] = {row: parts["scores"][row] for row in suite.rows() if row in scores}
    names: JsonObject = {key: line[key] for key in ("model", "suite", "table") if key in line}
    return {**names, **{key: values for key, values in parts.items() if values},
            **({"missing": missing} if missing and "table" not in line else {})}


def _add_differences(lines: Sequence[JsonObject], suite: Suite, baseline: str | None) -> None:
    """Add differences to the baseline, in points and in percent of its score if it is above 0."""
    named = baseline or suite.baseline
    if not named:
        return
    own = [line["scores"] for line in lines if line["model"] == named]
    if not own and baseline:
        known = dict.fromkeys(line["model"] for line in lines)
        raise ValueError(f"{setting('compare_with')}: found {baseline!r}, "
                         f"{suggestion(baseline, known)}")
    base = {row: score for scores in reversed(own) for row, score in scores.items()}
    for line in lines:
        line["points"] = {row: score - base[row] for row, score in line["scores"].items()
                          if row in base and line["model"] != named}
        line["differences"] = {row: _PERCENT * points / base[row]
                               for row, points in line["points"].items() if base[row] > 0}


def _comparison(line: JsonMapping, one: SuiteSet, place: str) -> JsonObject:
    """Return the values of a comparison by score-tasks in a set's main metric, scaled."""
    bounds, factor = line.get("interval") or [], one.scale or _PERCENT
    chances = {key: line[key] for key in ("p", "p_over_seeds") if line.get(key) is not None}
    if not isinstance(bounds, list) or not all(
            _is_score(value, one.scale, most=2)  # the largest difference of correlations
            for value in (line.get("difference"), *bounds)) or not all(
            _is_score(value, None) for value in chances.values()):
        raise DataError(f"{place}: found a comparison whose difference, interval or p is missing "
                        "or out of range, expected lines of score-tasks")
    return {"compared": line["compared"], "set": one.name, "metric": line["metric"],
            "difference": rounded(factor * line["difference"]),
            **({"interval": [rounded(factor * bound) for bound in bounds]} if bounds else {}),
            **chances}


def _read_results(suite: Suite, results: Sequence[str],
                  name: str | None) -> tuple[dict[str, _Model], list[JsonObject]]:
    models: dict[str, _Model] = {}
    compared: list[tuple[SuiteSet, JsonMapping, str]] = []
    for result in results:
        given, path = split_set(suite, result)
        for place, line in _result_lines(path):
            one = _set_of(suite, line.get("set", given), path, place)
            if "compared" in line:
                compared.append((one, line, place))
                continue
            model = name or str(line.get("seed_of", line["model"]))
            found = {one.row(metric): score for metric in one.metrics
                     if (score := _find(line, metric, one.scale)) is not None}
            results_of = models.setdefault(model, _Model())
            if one.main not in found:
                score = _find(line, one.fallback, one.scale) if one.fallback else None
                if score is None:
                    raise DataError(f"{place}: {_without_metric(line, one)}")
                found[one.main] = score
                results_of.fallbacks[one.main] = one.fallback
            results_of.add(found, place, f"of {model!r} on {one.name}", "seed_of" in line)
            size = _test_size(line, one)
            if one.test and size and size != one.test:
                if not any(one.name in other.sizes for other in models.values()):
                    warnings.warn(BmtoolsWarning(
                        f"{place}: found a test set of {size:,} for {one.name}, expected "
                        f"{one.test:,} as in the paper; do not compare the scores"), stacklevel=2)
                results_of.sizes.setdefault(one.name, size)
    comparisons = [*_comparisons(compared)]
    if not models:
        refuse_empty([split_set(suite, one)[1] for one in results],
                     what="scores by score-tasks or finetune")
    return models, comparisons


def _comparisons(compared: Sequence[tuple[SuiteSet, JsonMapping, str]]) -> Iterator[JsonObject]:
    """Yield the comparisons in the main metric of their set, or in its fallback."""
    in_main = {one.name for one, line, _ in compared if line.get("metric") in _main_names(one)}
    for one, line, place in compared:
        names = _main_names(one) if one.name in in_main else (one.fallback,)
        if line.get("metric") in names:
            yield _comparison(line, one, place)


def _main_names(one: SuiteSet) -> tuple[str, str]:
    return one.metrics[0], _SAME.get(one.metrics[0], one.metrics[0])


def split_set(suite: Suite, result: str) -> tuple[str, str]:
    """Split SET=PATH; a path without SET names the set by its file name, if there is such a set."""
    name, _, path = result.partition("=")
    if path and name and not Path(result).exists():
        return name, path
    stem = source_stem(result)
    return (stem if suite.find_set(stem) else ""), result


def _set_of(suite: Suite, name: object, path: str, place: str) -> SuiteSet:
    found = suite.find_set(str(name)) if name else None
    if found is None:
        known = [one.name for one in suite.sets]
        what = f"the set {str(name)!r}, {suggestion(str(name), known)}" if name else \
            f"no name of a set; expected SET={source_name(path)} with one of {', '.join(known)}"
        raise DataError(f"{place}: found {what}")
    return found


def _result_lines(path: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the lines about models and comparisons, each with its place."""
    if Path(path).is_dir():
        manifest = read_manifest(Path(path))
        if manifest.get("command") != "finetune":
            raise DataError(f"{path}: expected a checkpoint by finetune, or JSON Lines")
        yield path, {"model": manifest.get("settings", {}).get("model", path),
                     **manifest.get("results", {})}
        return
    counts: JsonObject = {}
    for place, line in read_objects(path):
        if line.get("split") == "test" and "fold" not in line:
            counts = line
        # Lines over seeds (with metric) repeat the lines of single seeds, which have all metrics.
        elif ("model" in line and "metric" not in line) or "compared" in line:
            yield place, {**counts, **line}


def _test_size(line: JsonMapping, one: SuiteSet) -> int | None:
    """Return the number of mentions, pairs, documents or records of a test set, as papers count."""
    names = _SIZES.get(one.task, ())
    if one.task == "relations" and line.get("task", "classification") == "classification":
        names = (*names, "records")  # each record has one pair
    return next((line[name] for name in names if isinstance(line.get(name), int)), None)


def _find(line: JsonMapping, metric: str, scale: float | None) -> float | JsonMapping | None:
    """Find and scale a metric, as a number or a summary; for finetune, the test set's metric."""
    for name in (metric, _SAME.get(metric, "")):
        found = line.get(f"test_{name}", line.get(name))
        # For a single label, micro-F1 over all classes is accuracy; papers mean something else.
        if name == "micro_f1" and found is not None and found == line.get("test_accuracy"):
            continue
        factor = scale or _PERCENT
        if isinstance(found, int | float) and _is_score(found, scale):
            return factor * found
        if isinstance(found, Mapping) and _is_summary(found, scale):
            return {key: factor * value for key, value in found.items()
                    if isinstance(value, int | float)}
    return None


def _is_summary(value: object, scale: float | None) -> bool:
    return isinstance(value, Mapping) and all(
        _is_score(value.get(key), scale) for key in ("mean", "median")) and (
        value.get("deviation") is None or _is_score(value["deviation"], scale))


def _is_score(value: object, scale: float | None, most: float = 1) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and (
        -most <= value <= most or (scale is not None and isfinite(value)))


def _without_metric(line: JsonMapping, one: SuiteSet) -> str:
    metric = one.metrics[0]
    found = [key for key, value in line.items()
             if _is_score(value, None) or _is_summary(value, None)]
    way = f"; for score-tasks, name the class without a finding with {setting('negative')}" \
        if metric == "micro_f1" else "; finetune needs a test set" if found else ""
    limits = "" if one.scale else " from -1 to 1"
    return (f"found no {metric}{limits} for {one.name}, expected it next to "
            f"{', '.join(found) or 'the other keys'}{way}")
