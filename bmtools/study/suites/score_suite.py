"""Scores on a suite's sets, averaged as its paper does, beside the published ones."""

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
# Over types of mentions and relations, F1 of all counts is called f1 alone.
_SAME = {"micro_f1": "f1"}
# What papers count in a test set, as score-tasks or finetune name it.
_SIZES = {"ner": ("support", "entities"), "relations": ("pairs",), "multilabel": ("documents",),
          "classification": ("records",), "yesno": ("records",), "similarity": ("records",),
          "mrr": ("maskings",)}


@dataclass
class _Model:
    """A model's own results by row, scaled: of each seed that is known, or a summary."""

    results: dict[str, list[float] | JsonMapping] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    fallbacks: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def line(self, statistic: str) -> JsonObject:
        """Return scores, deviations and metrics in place of the paper's."""
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
        """Add the scores of a line; only seeds may have several."""
        for row, score in found.items():
            known = self.results.setdefault(row, [])
            if known and not (is_seed and isinstance(known, list)):
                raise DataError(f"{place}: found a second score {what} after {self.places[row]}, "
                                f"expected one; {setting('name')} or the names of models tell "
                                "models apart")
            self.places[row] = place
            if isinstance(score, Mapping):
                self.results[row] = score
            elif isinstance(known, list):
                known.append(score)


def suite_scores(suite: str, results: Sequence[str], *, published: Shown = "main",
                 baseline: str | None = None, name: str | None = None) -> list[JsonObject]:
    """Gather scores on a suite: `suite_scores("blurb", ["NCBI-disease=scores.jsonl", "GAD"])`.

    Args:
        suite: name, or a TOML file.
        results: JSON Lines of `score-tasks` or `finetune`, or directories of `finetune`, as
            SET=PATH, or named like the set. Lines may name it themselves under `set`.
        published: which of the paper's tables to add.
        baseline: model to which differences are given; by default the paper's.
        name: of the model that all results are of; by default the lines name it.

    Returns:
        a line for each model, own ones first: `model`, `suite`, `table` of published ones,
        `scores` in percent by set, `deviations` over seeds, `averages`, `points` above the
        baseline and `differences` in percent of its score, `other_metrics` where a set's fallback
        was taken, `other_sizes` of test sets that the suite states otherwise, and `missing`
        sets. Where own models lack sets, no average is given that needs them, but all models have
        one over the sets at hand, if several. Then a line for each comparison of two models by the
        main metric of a set, with `p_holm` adjusted over all sets.

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
    for key in ("p", "p_over_seeds"):  # for as many sets as two models are compared on
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
    """Add averages and missing sets, and round; what is empty is left out."""
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
    # Rows in the suite's order, whatever the order of files.
    parts["scores"] = {row: parts["scores"][row] for row in suite.rows() if row in scores}
    names: JsonObject = {key: line[key] for key in ("model", "suite", "table") if key in line}
    return {**names, **{key: values for key, values in parts.items() if values},
            **({"missing": missing} if missing and "table" not in line else {})}


def _add_differences(lines: Sequence[JsonObject], suite: Suite, baseline: str | None) -> None:
    """Add differences to the baseline, in points and in percent of its score."""
    named = baseline or suite.baseline
    if not named:
        return
    own = [line["scores"] for line in lines if line["model"] == named]
    if not own and baseline:
        known = dict.fromkeys(line["model"] for line in lines)
        raise ValueError(f"{setting('compare_with')}: found {baseline!r}, "
                         f"{suggestion(baseline, known)}")
    base = {row: score for scores in reversed(own) for row, score in scores.items() if score}
    for line in lines:
        line["points"] = {row: score - base[row] for row, score in line["scores"].items()
                          if row in base and line["model"] != named}
        line["differences"] = {row: _PERCENT * points / base[row]
                               for row, points in line["points"].items()}


def _comparison(line: JsonMapping, one: SuiteSet, place: str) -> JsonObject:
    """Take what a comparison by score-tasks says of a set's main metric, scaled."""
    bounds, factor = line.get("interval") or [], one.scale or _PERCENT
    chances = {key: line[key] for key in ("p", "p_over_seeds") if line.get(key) is not None}
    if not isinstance(bounds, list) or not all(
            _is_score(value, one.scale, most=2)  # that of two correlations
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
            if one.test and size and size != one.test and one.name not in results_of.sizes:
                results_of.sizes[one.name] = size
                warnings.warn(BmtoolsWarning(
                    f"{place}: found a test set of {size:,} for {one.name}, expected {one.test:,} "
                    "as in the paper; scores on other test sets are not comparable"), stacklevel=2)
    comparisons = [*_comparisons(compared)]
    if not models:
        refuse_empty([split_set(suite, one)[1] for one in results],
                     what="scores by score-tasks or finetune")
    return models, comparisons


def _comparisons(compared: Sequence[tuple[SuiteSet, JsonMapping, str]]) -> Iterator[JsonObject]:
    """Take comparisons in the main metric of their set, or else in the one that replaces it."""
    in_main = {one.name for one, line, _ in compared if line.get("metric") in _main_names(one)}
    for one, line, place in compared:
        names = _main_names(one) if one.name in in_main else (one.fallback,)
        if line.get("metric") in names:
            yield _comparison(line, one, place)


def _main_names(one: SuiteSet) -> tuple[str, str]:
    return one.metrics[0], _SAME.get(one.metrics[0], one.metrics[0])


def split_set(suite: Suite, result: str) -> tuple[str, str]:
    """Split SET=PATH; the name of a path alone is the set's, where it is one."""
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
    """Yield lines of models and of comparisons, each after its place, and no others."""
    if Path(path).is_dir():
        manifest = read_manifest(Path(path))
        if manifest.get("command") != "finetune":
            raise DataError(f"{path}: found no checkpoint of finetune, expected one, or JSON Lines")
        yield path, {"model": manifest.get("settings", {}).get("model", path),
                     **manifest.get("results", {})}
        return
    counts: JsonObject = {}
    for place, line in read_objects(path):
        if line.get("split") == "test" and "fold" not in line:
            counts = line
        # Lines over seeds come after those of each seed, which have all metrics.
        elif ("model" in line and "metric" not in line) or "compared" in line:
            yield place, {**counts, **line}


def _test_size(line: JsonMapping, one: SuiteSet) -> int | None:
    """Find the number of mentions, pairs, documents or records of a test set, as papers give it."""
    names = _SIZES.get(one.task, ())
    if one.task == "relations" and line.get("task", "classification") == "classification":
        names = (*names, "records")  # of one pair each
    return next((line[name] for name in names if isinstance(line.get(name), int)), None)


def _find(line: JsonMapping, metric: str, scale: float | None) -> float | JsonMapping | None:
    """Find and scale a metric, with finetune that of the test set: a number, or a summary."""
    for name in (metric, _SAME.get(metric, "")):
        found = line.get(f"test_{name}", line.get(name))
        # Over all classes of a single label micro F1 is accuracy, which papers do not mean by it.
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
    way = f"; score-tasks writes it where {setting('negative')} names the class without finding" \
        if metric == "micro_f1" else "; finetune needs a test set" if found else ""
    limits = "" if one.scale else " from -1 to 1"
    return (f"found no {metric}{limits} for {one.name}, expected it beside "
            f"{', '.join(found) or 'the other keys'}{way}")
