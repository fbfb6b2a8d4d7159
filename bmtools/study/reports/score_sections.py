"""Sections of scores on the page of a study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards.scores import metrics_of
from bmtools.study.reports.charts import (
    Cell,
    Chart,
    Curve,
    Estimate,
    Point,
    Section,
    Table,
    dot_chart,
    line_chart,
    page_canvas,
)
from bmtools.study.reports.labels import model_names, names_of, short_names, words_of
from bmtools.study.reports.mrr_plots import count_flow, level_names, plot_flow, plot_progression
from bmtools.study.reports.mrr_summary import MrrItem, MrrSummary
from bmtools.study.reports.space_plot import vectors_charts
from bmtools.study.reports.study import Study, StudyDirectory
from bmtools.tasks.metrics.calibration import PRECISION

# Settings of Table 2 of Buonocore et al. 2023 and further ones, with the values that mean off.
_SETTINGS = {
    "layer_decay": 1.0, "frozen_layers": 0, "replay_steps": 0, "mixout": 0.0, "l2_sp": 0.0,
    "warmup_ratio": None, "learning_rate": None, "objective": None, "masking": None,
    "mask_rate": None, "batch_size": None, "max_length": None}
_PREDICTION_METRICS = frozenset({"mrr", "bits_per_character", "nats_per_token"})
_RANKS_HEIGHT = 330
_MOST_NAMES = 3


def predictions(study: Study) -> Section:
    """Show pseudo-perplexity and reciprocal rank, over the size of the corpus, with settings."""
    section = Section("predictions", "Predictions of masked words", "Bars: intervals of 95 %.")
    for metric, words, kind in (("mrr", "mean reciprocal rank", "mrr"),
                                ("pppl", "pseudo-perplexity", "pppl"),
                                ("bits_per_character", "bits per character", "pppl")):
        for number, lines in enumerate(_by_data(study.lines[kind], metric)):
            name, interval = f"{metric}-{number}", "interval" if metric == kind else ""
            estimates = [Estimate.of(line[metric], line.get(interval)) for line in lines]
            section.charts += [
                dot_chart(name, words.capitalize(), words, model_names(lines), {words: estimates}),
                *_progression(study, name, words, lines, estimates)]
    section.tables += [*_joined(study), *_differences(study, of_predictions=True)]
    return section


def _by_data(lines: Iterable[JsonObject], metric: str) -> list[list[JsonObject]]:
    """Group lines that have a metric by the data that they are about."""
    return [*_grouped((line for line in lines if isinstance(line.get(metric), int | float)),
                      "data").values()]


def _grouped(lines: Iterable[JsonObject], key: str) -> dict[str, list[JsonObject]]:
    groups: defaultdict[str, list[JsonObject]] = defaultdict(list)
    for line in lines:
        groups[line.get(key, "")].append(line)
    return groups


def _progression(study: Study, name: str, words: str, lines: Sequence[JsonObject],
                 estimates: Sequence[Estimate]) -> Iterator[Chart]:
    """Draw a score over the size of the corpus, or over tokens where all read one text."""
    directories = [study.directory_of(line["model"]) for line in lines]
    texts = {str(sorted(one.record.get("inputs", {}).values())) for one in directories if one}
    by_corpus = len(texts) > 1
    axis = "tokens of the corpus" if by_corpus else "tokens trained on"
    points = sorted(((Point(at, *estimate), own) for one, own, estimate in
                     zip(directories, model_names(lines), estimates, strict=True) if one
                     and (at := one.corpus_tokens if by_corpus else study.trained_tokens(one))),
                    key=lambda one: one[0].x)
    if len({point.x for point, _ in points}) > 1:
        yield line_chart(
            f"{name}-size", f"{words.capitalize()} by {axis}", (axis, words),
            {own: Curve([point]) for point, own in points},
            log=points[-1][0].x > 10 * points[0][0].x, joined=True)


def _joined(study: Study) -> Iterator[Table]:
    """Join models' corpora, beginnings and settings with their scores (Tables 1 and 2)."""
    shown: dict[str, dict[str, Cell]] = {}
    for kind, metrics in (("mrr", ("mrr",)), ("pppl", ("pppl", "bits_per_character"))):
        for line in study.lines[kind]:
            directory = study.directory_of(line["model"])
            if directory is not None:
                row = shown.setdefault(directory.name, _description(study, directory))
                for metric in metrics:
                    row.setdefault(metric, line.get(metric))
    keys = list(dict.fromkeys(key for row in shown.values() for key in row
                              if any(one.get(key) not in (None, "") for one in shown.values())))
    if shown:
        yield Table("Models with their texts, settings and scores", ["model", *map(words_of, keys)],
                    [[name, *map(row.get, keys)] for name, row in shown.items()])


def _description(study: Study, directory: StudyDirectory) -> dict[str, Cell]:
    """Describe the text, the beginning and the settings of a model."""
    settings, texts = directory.record.get("settings", {}), [*directory.record.get("inputs", {})]
    more = len(texts) - _MOST_NAMES
    return {"text": ", ".join(texts[:_MOST_NAMES]) + f" and {more} more" * (more > 0),
            "tokens of the text": directory.corpus_tokens or None,
            "from": ", ".join(directory.bases.values()),
            "tokens trained on": study.trained_tokens(directory),
            **{key: _setting(key, settings) for key in _SETTINGS}}


def _setting(key: str, settings: JsonMapping) -> Cell:
    """Return a setting, of several phases all different ones; None if it is off."""
    values: list[Cell] = list(dict.fromkeys(phase.get(key, settings.get(key))
                                            for phase in settings.get("phases") or [{}]))
    if values in ([None], [_SETTINGS[key]]):
        return None
    return values[0] if len(values) == 1 else ", ".join(map(str, values))


def _differences(study: Study, of_predictions: bool) -> Iterator[Table]:
    own = names_of(model for line in study.lines["compared"] for model in line["compared"])
    rows: list[list[Cell]] = [[
        " - ".join(own[model] for model in line["compared"]),
        words_of(" ".join(filter(None, (line.get("set"), line["metric"])))),
        *Estimate.of(line["difference"], line.get("interval")), line.get("p"),
        line.get("p_holm")] for line in study.lines["compared"]
        if line.get("difference") is not None
        and (line["metric"] in _PREDICTION_METRICS) == of_predictions]
    if rows:
        yield Table("Differences between models", [
            "models", "metric", "difference", "from", "to", "p", "p (Holm)"], rows)


def masking(study: Study) -> Section:
    """Show how hard each way of masking is (figure 4 of Pavlova and Makhlouf 2023)."""
    section = Section("masking", "Difficulty of masking", "Perplexity over masked tokens, as "
                      "figure 4 of BIOptimus has it. Bars: intervals of 95 %.")
    for number, lines in enumerate(_by_data(study.lines["masking"], "perplexity")):
        corruptions = {line["corruption"] for line in lines}
        own = [{**line, "way": f"{line['masking']} {100 * line['mask_rate']:g} %" + (
            f", {line['corruption']}" if len(corruptions) > 1 else "")} for line in lines]
        rows = list(dict.fromkeys(line["way"] for line in own))
        section.charts.append(dot_chart(
            f"masking-{number}", f"Perplexity by way of masking ({', '.join(corruptions)})"
            if len(corruptions) == 1 else "Perplexity by way of masking", "perplexity", rows,
            _series(own, rows, "way", "perplexity")))
    return section


def _series(lines: Sequence[JsonObject], rows: Sequence[str], key: str, metric: str,
            ) -> dict[str, list[Estimate | None]]:
    """Arrange lines as rows of each model, by a key."""
    models = list(dict.fromkeys(line["model"] for line in lines))
    found = {(line["model"], line[key]): Estimate.of(line[metric], line.get("interval"))
             for line in lines}
    return {name: [found.get((model, row)) for row in rows]
            for name, model in zip(short_names(models), models, strict=True)}


def ranks(study: Study) -> Section:
    """Show how ranks change from model to model (figure 3 of Buonocore et al. 2023)."""
    section = Section("ranks", "Ranks of masked words", "Between models in the order in which "
                      "they were scored; baselines are left out.")
    models, items = _rank_items(study)
    if not items:
        return section
    top = max((rank for item in items for rank, counts in
               zip(item.ranks, item.reciprocal_ranks, strict=True) if rank and counts), default=5)
    summary = MrrSummary.of(items, models, study.lines["mrr"], top)
    if len(models) > 1:
        with page_canvas(_RANKS_HEIGHT) as canvas:
            plot = plot_progression(summary, "svg", canvas)
        section.charts.append(Chart(plot, Table(
            plot.title, ["", "mean reciprocal rank", "from", "to"],
            [[name, *Estimate.of(one.mrr, one.interval)]
             for name, one in zip(summary.names, summary.estimates, strict=True)])))
    levels = level_names(top)
    for before, names in enumerate(pairwise(summary.names)):
        with page_canvas(_RANKS_HEIGHT) as canvas:
            plot = plot_flow(summary, before, "svg", canvas)
        section.charts.append(Chart(plot, Table(plot.title, [names[0], names[1], "maskings"], [
            [levels[one], levels[other], count] for (one, other), count in
            sorted(count_flow(items, before, before + 1, top).items())])))
    return section


def _rank_items(study: Study) -> tuple[list[str], list[MrrItem]]:
    """Gather the maskings that all models rank, from lines in the order of maskings."""
    baselines = {line["model"] for line in study.lines["mrr"] if "baseline:" in
                 line.get("signature", "")}
    by_masking: defaultdict[tuple[str, str], dict[str, JsonObject]] = defaultdict(dict)
    for line in study.lines["ranks"]:
        if line["model"] not in baselines:
            by_masking[str(line.get("id")), str(line.get("target"))][line["model"]] = line
    models = list(dict.fromkeys(model for row in by_masking.values() for model in row))
    return models, [
        MrrItem(name, "", target, row[models[0]].get("domain"),
                tuple(row[model]["rank"] for model in models),
                tuple(row[model]["reciprocal_rank"] for model in models), ((),) * len(models))
        for (name, target), row in by_masking.items() if len(row) == len(models)
        and None not in [line["reciprocal_rank"] for line in row.values()]]


def tasks(study: Study) -> Section:
    """Show scores on tasks with their intervals."""
    section = Section("tasks", "Tasks", "Bars: intervals of 95 %, of fine-tuning over its seeds.")
    tuned = [(line["checkpoint"], metric, values) for line in study.lines["finetuned"]
             for metric, values in line.items() if isinstance(values, Mapping) and "mean" in values]
    for metric in dict.fromkeys(metric for _, metric, _ in tuned if metric.startswith("test_")):
        own = {name: values for name, one, values in tuned if one == metric}
        words = words_of(metric)
        section.charts.append(dot_chart(
            metric, f"Mean {words} over seeds", words, short_names([*own]), {words: [
                Estimate.of(values["mean"], values.get("interval")) for values in own.values()]}))
    if tuned:
        names = names_of(name for name, _, _ in tuned)
        section.tables.append(Table("Fine-tuning, over seeds", [
            "checkpoint", "metric", "mean", "from", "to", "deviation", "median"], [
            [names[name], words_of(metric), *Estimate.of(values["mean"], values.get("interval")),
             values.get("deviation"), values.get("median")] for name, metric, values in tuned]))
    scored = [*study.lines["tasks"], *study.lines["seeds of tasks"]]
    groups: defaultdict[tuple[str, str], dict[str, Estimate]] = defaultdict(dict)
    for line in scored:
        metric, value, bounds = next(metrics_of(line))
        groups[line.get("task", "over seeds"), metric][line["model"]] = Estimate.of(value, bounds)
    for number, ((task, metric), by_model) in enumerate(groups.items()):
        title = f"{words_of(metric)} ({task})"
        section.charts.append(dot_chart(
            f"task-{number}", title, words_of(metric), short_names([*by_model]),
            {metric: [*by_model.values()]}))
    if scored:
        names = names_of(line["model"] for line in scored)
        section.tables.append(Table("Predictions against gold records", [
            "model", "task", "metric", "score", "from", "to"], [
            [names[line["model"]], line.get("task", "over seeds"), words_of(metric),
             *Estimate.of(value, bounds)]
            for line in scored for metric, value, bounds in metrics_of(line)]))
    _add_calibration(section, study.lines["tasks"])
    section.tables += _differences(study, of_predictions=False)
    return section


def _add_calibration(section: Section, lines: Iterable[JsonObject]) -> None:
    """Draw how often mentions of each score are right (Guo et al. 2017, section 2)."""
    calibrated = [line for line in lines if "calibration" in line]
    for number, (task, own) in enumerate(_grouped(calibrated, "task").items()):
        title, named = f"Reliability of scores ({task})", [
            (name, line["calibration"]) for name, line in zip(model_names(own), own, strict=True)]
        chart = line_chart(f"reliability-{number}", title, ("score", "share that is right"), {
            f"{name}, error {found['error']:.3f}": Curve([
                Point(one["score"], one["precision"]) for one in found["bins"]])
            for name, found in named}, diagonal=True)
        section.charts.append(Chart(chart.plot, Table(
            title, ["model", "from", "predictions", "score", "share that is right"],
            [[name, *map(one.get, ("from", "predictions", "score", "precision"))]
             for name, found in named for one in found["bins"]])))
    if calibrated:
        names = names_of(line["model"] for line in calibrated)
        section.note += " On the dashes, scores are the share that is right."
        section.tables.append(Table("Calibration of scores", [
            "model", "task", "expected calibration error", "mean score", "precision",
            f"kept at a precision of {PRECISION:.0%}", "from the score"], [
            [names[line["model"]], line["task"], *map(line["calibration"].get, (
                "error", "score", "precision", "kept", "threshold"))] for line in calibrated]))


def suites(study: Study) -> Section:
    """Show scores on benchmark suites beside published ones."""
    section = Section("suites", "Benchmark suites",
                      "In percent, as papers print them; models with a table are published ones.")
    for suite, lines in _grouped(study.lines["suite"], "suite").items():
        known = [{**line.get("scores", {}), **line.get("averages", {})} for line in lines]
        sets = list(dict.fromkeys(name for scores in known for name in scores))
        section.tables.append(Table(suite, ["set", *model_names(lines)], [
            [name, *(scores.get(name) for scores in known)] for name in sets]))
    return section


def space(study: Study) -> Section:
    """Show how words of each frequency lie in embedding space."""
    section = Section("space", "Embedding space")
    lines = study.lines["space"]
    if lines:
        names = model_names(lines)
        bands = list(dict.fromkeys(_band(band) for line in lines for band in line["bands"]))
        for key in ("average_cosine", "own_band_neighbours"):
            words = words_of(key)
            series = {name: [next((Estimate(band[key]) for band in line["bands"]
                                   if _band(band) == own), None) for own in bands]
                      for name, line in zip(names, lines, strict=True)}
            section.charts.append(dot_chart(
                key, f"{words.capitalize()} by frequency of words", words, bands, series))
        section.tables.append(Table("Measures", ["model", "measure", "value", "from", "to"], [
            [name, words_of(key), *Estimate.of(value, line.get("intervals", {}).get(key))]
            for name, line in zip(names, lines, strict=True) for key, value in line.items()
            if isinstance(value, float)]))
    for path in study.vectors:
        section.charts += vectors_charts(path)
    return section


def _band(band: JsonMapping) -> str:
    return f"{band['min_count']:,} to {band['max_count']:,} times"
