"""Sections of the page of a study: charts and tables, each where there is something to show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from bmtools.reports.charts import (
    Cell,
    Chart,
    Curve,
    Estimate,
    Point,
    Table,
    dot_chart,
    line_chart,
    page_style,
)
from bmtools.reports.compare_models import metrics_of
from bmtools.reports.drawing import page_canvas
from bmtools.reports.labels import short_names
from bmtools.reports.mrr_plots import count_flow, level_names, plot_flow, plot_progression
from bmtools.reports.mrr_summary import MrrItem, MrrSummary
from bmtools.reports.study import Line, Step, Study

_MOST_CURVES, _MOST_POINTS = 6, 60
_BASES = ("model", "base", "teacher", "student", "published")
# Settings of Table 2 of Buonocore et al. 2023, by their keys.
_RETAINING = {
    "layer_decay": 1.0, "frozen_layers": 0, "replay_steps": 0, "mixout": 0.0, "l2_sp": 0.0,
    "warmup_ratio": None, "learning_rate": None, "objective": None, "masking": None,
    "mask_rate": None, "batch_size": None, "max_length": None}
_RANKS_HEIGHT = 330
_LONG = 7200  # seconds from which hours are shown
_SPEED = ("parameters", "megabytes")


@dataclass
class Section:
    """A part of the page.

    Args:
        anchor: id of its heading.
        title: the heading.
        note: what to know when reading it.
        charts: each with its table.
        tables: further ones.
    """

    anchor: str
    title: str
    note: str = ""
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def make_sections(study: Study) -> Iterator[Section]:
    """Yield the sections of a study that hold something, in order."""
    makers: Sequence[Callable[[Study], Section]] = (
        overview, losses, predictions, masking, ranks, vocabularies, corpora, tasks, suites, space,
        energy)
    for maker in makers:
        section = maker(study)
        if section.charts or section.tables:
            yield section


def overview(study: Study) -> Section:
    """List models and other directories with their sizes, tokens and hours."""
    section = Section("overview", "Overview")
    steps = sorted(study.steps, key=lambda step: step.record.get("started", ""))
    seconds = [step.record.get("wall_seconds") for step in steps]
    unit, size = ("hours", 3600) if max(filter(None, seconds), default=0) > _LONG else \
        ("seconds", 1)
    if steps:
        section.note = (f"{sum(step.record.get('tokens_seen') or 0 for step in steps):,} tokens "
                        f"trained on and {sum(filter(None, seconds)) / size:,.4g} {unit} in all.")
        section.tables.append(Table("Models, vocabularies and other directories", [
            "name", "made by", "from", "weights", "MB", "tokens trained on", unit], [
            [step.name, step.record.get("command", ""), ", ".join(_bases(step)), step.weights,
             step.megabytes, step.record.get("tokens_seen"), took and took / size]
            for step, took in zip(steps, seconds, strict=True)]))
    speed = study.lines["speed"]
    if speed:
        section.tables.append(Table("Size and speed on the CPU", [
            "model", *_SPEED, "tokens a second", "memory in MB"], [
            [line["model"], *map(line.get, _SPEED), line["cpu"].get("tokens_per_second"),
             line["cpu"].get("memory_megabytes")] for line in speed]))
    return section


def _bases(step: Step) -> list[str]:
    """Name the checkpoints that a step began with."""
    settings = step.record.get("settings", {})
    return [str(settings[role]) for role in _BASES if settings.get(role)]


def losses(study: Study) -> Section:
    """Draw the loss of each run over its tokens."""
    section = Section("loss", "Loss", "Nats per predicted token; of a sum of several losses that of "
                      "masked tokens. Dotted lines: borders of phases. Crosses: held-out text.")
    curves = {name: curve for name, lines in study.runs.items() if (curve := _curve(lines)).points}
    for first in range(0, len(curves), _MOST_CURVES):
        some = dict(list(curves.items())[first:first + _MOST_CURVES])
        section.charts.append(line_chart(
            f"loss-{first}", "Loss over tokens", "The loss of " + ", ".join(
                f"{name}, which ends at {curve.points[-1].y:.4g}" for name, curve in some.items()),
            ("tokens", "loss"), some))
    return section


def _curve(lines: Sequence[Line]) -> Curve:
    """Make the curve of a run, of which at most some points are drawn, phases' last ones always."""
    points = [(line["phase"], Point(line["tokens_seen"], line.get("mlm", line["loss"])))
              for line in lines if "tokens_seen" in line and "loss" in line]
    ends = [number for number, (phase, _) in enumerate(points[:-1])
            if points[number + 1][0] != phase]
    every = -(-len(points) // _MOST_POINTS) or 1
    kept = sorted({*range(0, len(points), every), *ends, *range(len(points) - 1, len(points))})
    at = {line["step"]: line["tokens_seen"] for line in lines if "tokens_seen" in line}
    marks = [Point(at[line["step"]], line["evaluate"]["loss"]) for line in lines
             if "evaluate" in line and line["step"] in at]
    return Curve([points[number][1] for number in kept],
                 [points[number][1].x for number in ends], marks)


def predictions(study: Study) -> Section:
    """Show pseudo-perplexity and reciprocal rank, over the size of the corpus, with settings."""
    section = Section("predictions", "Predictions of masked words", "Bars: intervals of 95 %.")
    for metric, words, kind in (("mrr", "mean reciprocal rank", "mrr"),
                                ("pppl", "pseudo-perplexity", "pppl"),
                                ("bits_per_character", "bits per character", "pppl")):
        for number, lines in enumerate(_by_data(study.lines[kind], metric)):
            name, interval = f"{metric}-{number}", "interval" if metric == kind else ""
            estimates = [Estimate.of(line[metric], line.get(interval)) for line in lines]
            section.charts.append(dot_chart(
                name, words.capitalize(), _spoken(words, lines, metric), words,
                _line_names(lines), {words: estimates}))
            section.charts += _progression(study, name, words, lines, estimates)
    section.tables += [*_joined(study), *_differences(study.lines["compared"],
                                                     {"mrr", "bits_per_character",
                                                      "nats_per_token"})]
    return section


def _by_data(lines: Iterable[Line], metric: str) -> list[list[Line]]:
    """Group lines that have a metric by the data that they are about."""
    groups: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if isinstance(line.get(metric), int | float):
            groups[line.get("data", "")].append(line)
    return [*groups.values()]


def _line_names(lines: Sequence[Line]) -> list[str]:
    return short_names([line["model"] for line in lines])


def _spoken(words: str, lines: Sequence[Line], metric: str) -> str:
    return f"{words}: " + ", ".join(f"{name} {line[metric]:.4g}" for name, line in
                                    zip(_line_names(lines), lines, strict=True))


def _progression(study: Study, name: str, words: str, lines: Sequence[Line],
                 estimates: Sequence[Estimate]) -> Iterator[Chart]:
    """Draw a score over the size of the corpus, or over tokens where all read one text."""
    steps = [study.step_of(line["model"]) for line in lines]
    texts = {str(sorted(step.record.get("inputs", {}).values())) for step in steps if step}
    size, axis = (corpus_tokens, "tokens of the corpus") if len(texts) > 1 else (
        lambda step: trained_tokens(study, step), "tokens trained on")
    points = sorted((Point(at, *estimate), own) for step, own, estimate in
                    zip(steps, _line_names(lines), estimates, strict=True)
                    if step and (at := size(step)))
    if len({point.x for point, _ in points}) > 1:
        yield line_chart(
            f"{name}-size", f"{words.capitalize()} by {axis}", f"{words}: " + ", ".join(
                f"{own} {point.y:.4g} at {point.x:,} {axis}" for point, own in points),
            (axis, words), {own: Curve([point]) for point, own in points},
            log=points[-1][0].x > 10 * points[0][0].x, joined=True)


def corpus_tokens(step: Step) -> int:
    """Return the size of the corpus that a step read, in tokens of its vocabulary."""
    found = step.record.get("results", {}).get("corpora", {})
    return sum(one.get("tokens", 0) for one in found.values())


def trained_tokens(study: Study, step: Step) -> int:
    """Add up the tokens that a model and those it began with were trained on."""
    total, seen = 0, {step.name}
    while True:
        total += step.record.get("tokens_seen") or 0
        base = next((found for one in _bases(step)[:1] if (found := study.step_of(one))), None)
        if base is None or base.name in seen:
            return total
        seen.add(base.name)
        step = base


def _joined(study: Study) -> Iterator[Table]:
    """Join models' corpora, beginnings and settings with their scores (Tables 1 and 2)."""
    rows: dict[str, dict[str, Cell]] = {}
    for kind, metrics in (("mrr", ("mrr",)), ("pppl", ("pppl", "bits_per_character"))):
        for line in study.lines[kind]:
            row = rows.setdefault(line["model"], {})
            for metric in metrics:
                row.setdefault(metric, line.get(metric))
    shown: dict[str, dict[str, Cell]] = {}
    for model, scores in rows.items():
        step = study.step_of(model)
        if step is not None:
            settings = step.record.get("settings", {})
            phases = settings.get("phases") or [{}]
            shown[step.name] = {
                "text": ", ".join(step.record.get("inputs", {})),
                "tokens of the text": corpus_tokens(step) or None,
                "from": ", ".join(_bases(step)), "tokens trained on": trained_tokens(study, step),
                **{key.replace("_", " "): _setting(key, settings, phases) for key in _RETAINING},
                **scores}
    keys = list(dict.fromkeys(key for row in shown.values() for key in row
                              if any(one.get(key) not in (None, "") for one in shown.values())))
    if shown:
        yield Table("Models with their texts, settings and scores", ["model", *keys],
                    [[name, *map(row.get, keys)] for name, row in shown.items()])


def _setting(key: str, settings: Mapping[str, Any], phases: Sequence[Mapping[str, Any]]) -> Cell:
    """Return a setting, of several phases all different ones; None where it is off."""
    values = list(dict.fromkeys(phase.get(key, settings.get(key)) for phase in phases))
    if values in ([None], [_RETAINING[key]]):
        return None
    return values[0] if len(values) == 1 else ", ".join(map(str, values))


def _differences(lines: Iterable[Line], metrics: set[str] | None = None,
                 others: set[str] = frozenset()) -> Iterator[Table]:  # type: ignore[assignment]
    rows: list[list[Cell]] = [[
        " - ".join(line["compared"]), " ".join(filter(None, (line.get("set"), line["metric"]))),
        line["difference"], *(line.get("interval") or (None, None)), line.get("p"),
        line.get("p_holm")] for line in lines
        if line.get("difference") is not None and line["metric"] not in others
        and (metrics is None or line["metric"] in metrics)]
    if rows:
        yield Table("Differences between models", [
            "models", "metric", "difference", "from", "to", "p", "p (Holm)"], rows)


def masking(study: Study) -> Section:
    """Show how hard each way of masking is (figure 4 of Pavlova and Makhlouf 2023)."""
    section = Section("masking", "Difficulty of masking",
                      "Perplexity over masked tokens, as figure 4 of BIOptimus has it.")
    for number, lines in enumerate(_by_data(study.lines["masking"], "perplexity")):
        rows = list(dict.fromkeys(map(_masking_name, lines)))
        series = _series(lines, rows, _masking_name, "perplexity")
        section.charts.append(dot_chart(
            f"masking-{number}", "Perplexity by way of masking",
            "Perplexity of " + "; ".join(f"{_masking_name(line)} {line['perplexity']:.4g} "
                                         f"({line['model']})" for line in lines),
            "perplexity", rows, series))
    return section


def _masking_name(line: Line) -> str:
    return f"{line['masking']} {line['mask_rate']:g}, {line['corruption']}"


def _series(lines: Sequence[Line], rows: Sequence[str], row: Callable[[Line], str], metric: str,
            ) -> dict[str, list[Estimate | None]]:
    """Arrange lines as rows of each model."""
    models = list(dict.fromkeys(line["model"] for line in lines))
    found = {(line["model"], row(line)): Estimate.of(line[metric], line.get("interval"))
             for line in lines}
    return {name: [found.get((model, own)) for own in rows]
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
        with page_style():
            plot = plot_progression(summary, "svg", page_canvas(_RANKS_HEIGHT))
        section.charts.append(Chart(plot, Table(plot.title, ["", "mean reciprocal rank", "from",
                                                             "to"], [
            [name, one.mrr, *(one.interval or (None, None))]
            for name, one in zip(summary.names, summary.estimates, strict=True)])))
    levels = level_names(top)
    for before, names in enumerate(pairwise(summary.names)):
        with page_style():
            plot = plot_flow(summary, before, "svg", page_canvas(_RANKS_HEIGHT))
        section.charts.append(Chart(plot, Table(plot.title, [names[0], names[1], "maskings"], [
            [levels[one], levels[other], count] for (one, other), count in
            sorted(count_flow(items, before, before + 1, top).items())])))
    return section


def _rank_items(study: Study) -> tuple[list[str], list[MrrItem]]:
    """Gather the maskings that all models rank, from lines in the order of maskings."""
    baselines = {line["model"] for line in study.lines["mrr"] if "baseline:" in
                 line.get("signature", "")}
    by_masking: defaultdict[tuple[str, str], dict[str, Line]] = defaultdict(dict)
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


def vocabularies(study: Study) -> Section:
    """Show into how many pieces vocabularies break words."""
    section = Section("vocabularies", "Vocabularies", "1 piece a word: all words are whole.")
    lines = study.lines["vocabularies"]
    scopes = list(dict.fromkeys(line["scope"] for line in lines))
    names = list(dict.fromkeys(line["vocabulary"] for line in lines))
    found = {(line["vocabulary"], line["scope"]): line for line in lines}
    if lines:
        section.charts.append(dot_chart(
            "pieces", "Pieces per word", "Pieces per word: " + ", ".join(
                f"{line['vocabulary']} {line['pieces_per_word']:.4g} in {line['scope']}"
                for line in lines), "pieces per word", scopes, {name: [
                    Estimate(found[name, scope]["pieces_per_word"]) if (name, scope) in found
                    else None for scope in scopes] for name in names}))
        keys = ("vocab_size", "words", "pieces_per_word", "whole_share", "unknown_share", "tokens",
                "tokens_per_1000_words", "relative_tokens")
        section.tables.append(_table("Fragmentation", lines, ("vocabulary", "scope"), keys))
    pairs = study.lines["vocabulary pairs"]
    if pairs:
        section.tables.append(_table("Tokens in common", pairs, ("vocabulary", "other"), (
            "shared", "jaccard", "shared_share", "other_shared_share")))
    return section


def _table(title: str, lines: Sequence[Line], names: Sequence[str], keys: Sequence[str]) -> Table:
    """Make a table of the keys that lines have."""
    known = [key for key in keys if any(line.get(key) is not None for line in lines)]
    return Table(title, [*names, *(key.replace("_", " ") for key in known)],
                 [[*map(line.get, names), *map(line.get, known)] for line in lines])


def corpora(study: Study) -> Section:
    """List the sizes of corpora."""
    section = Section("corpora", "Corpora")
    lines = [{**line, "words a record (median)": line["words_per_record"]["median"]}
             for line in study.lines["corpora"]]
    if lines:
        section.tables.append(_table("Sizes", lines, ("corpus",), (
            "records", "documents", "megabytes", "words", "distinct_words",
            "words a record (median)")))
    return section


def tasks(study: Study) -> Section:
    """Show scores on tasks with their intervals."""
    section = Section("tasks", "Tasks", "Bars: intervals of 95 %, of fine-tuning over its seeds.")
    tuned = [(line["checkpoint"], metric, values) for line in study.lines["finetuned"]
             for metric, values in line.items() if isinstance(values, Mapping) and "mean" in values]
    for metric in dict.fromkeys(metric for _, metric, _ in tuned if metric.startswith("test_")):
        own = {name: values for name, one, values in tuned if one == metric}
        words = metric.replace("_", " ")
        section.charts.append(dot_chart(
            metric, words.capitalize(), f"Mean {words} over seeds: " + ", ".join(
                f"{name} {values['mean']:.4g}" for name, values in own.items()), words,
            short_names([*own]), {words: [Estimate.of(values["mean"], values.get("interval"))
                                          for values in own.values()]}))
    if tuned:
        section.tables.append(Table("Fine-tuning, over seeds", [
            "checkpoint", "metric", "mean", "from", "to", "deviation", "median"], [
            [name, metric, values["mean"], *(values.get("interval") or (None, None)),
             values.get("deviation"), values.get("median")] for name, metric, values in tuned]))
    scored = [*study.lines["tasks"], *study.lines["seeds of tasks"]]
    groups: defaultdict[tuple[str, str], dict[str, Estimate]] = defaultdict(dict)
    for line in scored:
        metric, value, bounds = next(metrics_of(line))
        groups[line.get("task", "over seeds"), metric][line["model"]] = Estimate.of(value, bounds)
    for number, ((task, metric), by_model) in enumerate(groups.items()):
        title = f"{metric.replace('_', ' ')} ({task})"
        section.charts.append(dot_chart(
            f"task-{number}", title, f"{title}: " + ", ".join(
                f"{model} {one.value:.4g}" for model, one in by_model.items()),
            metric.replace("_", " "), short_names([*by_model]), {metric: [*by_model.values()]}))
    if scored:
        section.tables.append(Table("Predictions against gold records", [
            "model", "task", "metric", "score", "from", "to"], [
            [line["model"], line.get("task", "over seeds"), metric, value,
             *(bounds or (None, None))] for line in scored for metric, value, bounds in metrics_of(line)]))
    section.tables += _differences(study.lines["compared"], None,
                                   {"mrr", "bits_per_character", "nats_per_token"})
    return section


def suites(study: Study) -> Section:
    """Show scores on benchmark suites beside published ones."""
    section = Section("suites", "Benchmark suites",
                      "In percent, as papers print them; models with a table are published ones.")
    by_suite: defaultdict[str, list[Line]] = defaultdict(list)
    for line in study.lines["suite"]:
        by_suite[line["suite"]].append(line)
    for suite, lines in by_suite.items():
        known = [{**line.get("scores", {}), **line.get("averages", {})} for line in lines]
        sets = list(dict.fromkeys(name for scores in known for name in scores))
        names = short_names([line["model"] for line in lines])
        section.tables.append(Table(suite, ["set", *names], [
            [name, *(scores.get(name) for scores in known)] for name in sets]))
    return section


def space(study: Study) -> Section:
    """Show how words of each frequency lie in embedding space."""
    section = Section("space", "Embedding space")
    lines = study.lines["space"]
    if lines:
        names = short_names([line["model"] for line in lines])
        bands = list(dict.fromkeys(_band(band) for line in lines for band in line["bands"]))
        for key in ("average_cosine", "own_band_neighbours"):
            words = key.replace("_", " ")
            series = {name: [next((Estimate(band[key]) for band in line["bands"]
                                   if _band(band) == own), None) for own in bands]
                      for name, line in zip(names, lines, strict=True)}
            section.charts.append(dot_chart(
                key, f"{words.capitalize()} by frequency of words", f"{words}: " + "; ".join(
                    f"{name} {line[key]:.4g} over all words"
                    for name, line in zip(names, lines, strict=True)), words, bands, series))
        section.tables.append(Table("Measures", ["model", "measure", "value", "from", "to"], [
            [line["model"], key, value, *(line.get("intervals", {}).get(key) or (None, None))]
            for line in lines for key, value in line.items() if isinstance(value, float)]))
    return section


def _band(band: Mapping[str, Any]) -> str:
    return f"{band['min_count']:,} to {band['max_count']:,} times"


def energy(study: Study) -> Section:
    """List energy by how it is known: measured, allotted or declared, each apart."""
    section = Section("energy", "Energy", "Measured, allotted and declared energy are different "
                      "kinds of knowledge, and are not added to each other.")
    rows = [(name, record["energy"]) for name, record in [
        *((step.name, step.record) for step in study.steps),
        *((path.name, record) for path, record in study.files.items())] if record.get("energy")]
    kinds = [kind for kind in ("measured", "allotted", "declared")
             if any(one.get(kind) for _, one in rows)]
    if rows:
        section.tables.append(Table("Energy and emissions of steps", [
            "step", *(f"kWh {kind}" for kind in kinds), *(f"kg CO2eq {kind}" for kind in kinds),
            "hours", "GPU-hours", "hardware", "grid, g per kWh"], [
            [name, *(one.get(kind, {}).get("kwh") for kind in kinds),
             *(one.get("kg_co2eq", {}).get(kind) for kind in kinds), one.get("hours"),
             one.get("gpu_hours"), one.get("hardware"), one.get("grid", {}).get("g_per_kwh")]
            for name, one in rows]))
    return section
