"""Sections of a study's page: runs, scores, vocabularies, corpora, lineage and energy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

from bmtools.errors import listed
from bmtools.io.directories import directory_bytes
from bmtools.io.energy.figures import KINDS
from bmtools.io.energy.settings import EnergyConfig
from bmtools.io.sources import source_stem
from bmtools.models.model_files import CONFIG, count_weights
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards.scores import metrics_of
from bmtools.study.corpora.settings import NO_TOPIC, OTHERS, UNSTATED
from bmtools.study.energy import find_steps, statement, total
from bmtools.study.lineages.graph import Node
from bmtools.study.lineages.lineage import kept_by
from bmtools.study.reports.charts import (
    Branch,
    Cell,
    Chart,
    Curve,
    Estimate,
    Part,
    Point,
    Section,
    Table,
    dot_chart,
    line_chart,
)
from bmtools.study.reports.labels import model_names, names_of, words_of
from bmtools.study.reports.over_training import correlations, over_training
from bmtools.study.reports.ranks import rank_parts
from bmtools.study.reports.study import Study, StudyDirectory
from bmtools.study.reports.verdict import glance
from bmtools.tasks.metrics.errors import PRECISION
from bmtools.values import Megabytes, Seconds, format_cell

_MOST_CURVES, _MOST_POINTS, _MOST_VALUES, _MOST_TERMS = 6, 60, 35, 3
_HASH_DIGITS = 12
_CAUSAL = "causal_accuracy"  # key of steps that predict the next token, not masked tokens
# Commands whose files describe outputs and are not outputs.
_DOCUMENTS = {"card", "energy", "lineage", "report", "table"}
_LENGTHS = ("median", "p95", "max")
_NOT_COUNTED = {"length_histogram", "words_per_record", "label_bias"}
"""Keys whose objects do not count records or annotations by value."""
# Settings in Table 2 of Buonocore et al. 2023, and others, with the value that turns them off.
_SETTINGS = {
    "layer_decay": 1.0, "frozen_layers": 0, "replay_steps": 0, "mixout": 0.0, "l2_sp": 0.0,
    "warmup_ratio": None, "learning_rate": None, "objective": None, "masking": None,
    "mask_rate": None, "batch_size": None, "max_length": None}
_PREDICTION_METRICS = frozenset({"mrr", "bits_per_character", "nats_per_token"})
_MOST_NAMES, _MOST_GROUPS, _LEAST_GROUPS, _MOST_MARKS = 3, 40, 4, 24


def overview(study: Study) -> Iterator[Part]:
    """List models and other directories with their sizes, tokens and training times."""
    directories = sorted(study.directories, key=lambda one: one.record.get("started", ""))
    if directories:
        yield Table("Models, vocabularies and other directories", [
            "name", "made by", "from", "weights", "size", "tokens trained on", "time"], [
            [one.name, one.record.get("command", "") + (
                f", kept of {run.name}" if (run := kept_by(one.path)) != one.path else ""),
             ", ".join(map(study.name_of, one.bases.values())),
             count_weights(one.path) if (one.path / CONFIG).is_file() and any(
                 one.path.glob("model*.safetensors")) else None,
             Megabytes(round(directory_bytes(one.path) / 1e6, 6)),
             one.record.get("tokens_seen") or None,
             (took := one.record.get("wall_seconds")) and Seconds(took)] for one in directories])
    names = names_of(line["model"] for line in study.lines["speed"])
    yield from _tables("Size and speed on the CPU", [
        {**line, **line["cpu"], "model": names[line["model"]]} for line in study.lines["speed"]],
        ("model",), ("parameters", "megabytes", "tokens_per_second", "peak_megabytes"))


def losses(study: Study) -> Iterator[Part]:
    """Draw the loss of each run against its tokens."""
    yield ("Nats per predicted token. If a run has several losses, the chart shows the loss of "
           "masked tokens. Dotted lines are borders of phases, crosses are held-out text. A line "
           "is interrupted where the objective changes, because losses of two objectives do not "
           "compare.")
    curves = iter([(name, curve) for name, lines in study.runs.items()
                   if (curve := _curve(lines)).points])
    rows: list[JsonObject] = []
    while some := dict(islice(curves, _MOST_CURVES)):
        yield line_chart("Loss over tokens", ("tokens", "loss"), some)
        rows += [{"run": name, "first_loss": one.points[0].y, "last_loss": one.points[-1].y,
                  "held-out": one.marks[-1].y if one.marks else None, "tokens": one.points[-1].x}
                 for name, one in some.items()]
    yield from _tables("Runs", rows, ("run",), ("first_loss", "last_loss", "held-out", "tokens"))


def _curve(lines: Sequence[JsonObject]) -> Curve:
    """Return the curve of a run with fewer points, which include the last point of each phase."""
    own = [line for line in lines if {"tokens_seen", "loss"} <= line.keys()]
    points = [(line.get("phase"), Point(line["tokens_seen"], line.get("mlm") or line["loss"]))
              for line in own]
    ends = [number for number, (phase, _) in enumerate(points[:-1])
            if points[number + 1][0] != phase]
    every = -(-len(points) // _MOST_POINTS) or 1
    kept = sorted({*range(0, len(points), every), *ends, *range(len(points))[-1:]})
    at = {line["step"]: line["tokens_seen"] for line in lines if "tokens_seen" in line}
    marks = [Point(at[line["step"]], line["evaluate"]["loss"]) for line in lines
             if "loss" in line.get("evaluate", {}) and line["step"] in at]
    return Curve([points[number][1] for number in kept],
                 [points[number][1].x for number in ends],
                 [one["tokens_seen"] for one, other in pairwise(own)
                  if (_CAUSAL in one) != (_CAUSAL in other)], marks)


def vocabularies(study: Study) -> Iterator[Part]:
    """Show the number of pieces per word of each vocabulary."""
    lines = study.lines["vocabularies"]
    scopes = list(dict.fromkeys(line["scope"] for line in lines))
    found = {(line["vocabulary"], line["scope"]): line["pieces_per_word"] for line in lines}
    names = list(dict.fromkeys(line["vocabulary"] for line in lines))
    if any(value is not None for value in found.values()):
        yield "With 1 piece per word, all words are whole."
        yield dot_chart("Pieces per word", "pieces per word", scopes, {name: [
            None if (value := found.get((name, scope))) is None else Estimate(value)
            for scope in scopes] for name in names})
    yield from _tables("Fragmentation", lines, ("vocabulary", "scope"), (
        "vocab_size", "tokenizer_model", "casing", "pieces_per_word", "whole_share",
        "unknown_share"))
    yield from _tables("Tokens", lines, ("vocabulary", "scope"), (
        "words", "tokens", "tokens_per_1000_words", "relative_tokens"))
    terms = [{**line, **term, "pieces": " ".join(term["pieces"]), "times": term["count"]}
             for line in lines for term in line.get("costliest", ())[:_MOST_TERMS]]
    yield from _tables("Terms with the costliest splits", terms, ("vocabulary", "scope", "term"),
                       ("pieces", "times"))


def _tables(title: str, lines: Sequence[JsonMapping], names: Sequence[str],
            keys: Sequence[str]) -> Iterator[Table]:
    """Yield a table with a column for each key that a line contains, if a line contains one."""
    known = [key for key in keys if any(line.get(key) is not None for line in lines)]
    if known:
        yield Table(title, [*names, *(words_of(key).replace("megabytes", "size") for key in known)],
                    [[*map(line.get, names), *(
                        Megabytes(found) if key.endswith("megabytes") and found is not None
                        else found for key in known for found in [line.get(key)])]
                     for line in lines])


def corpora(study: Study) -> Iterator[Part]:
    """Show sizes of corpora, and their records and words by length, frequency, topic and origin.

    Words by frequency are in figure 1 of Pavlova and Makhlouf 2023 (BIOptimus). Topics of test
    sentences and of a corpus are in figure 2 of Buonocore et al. 2023 (BioBIT).
    """
    lines = [{**line, **{f"{key} words": line["words_per_record"].get(key) for key in _LENGTHS}}
             for line in study.lines["corpora"]]
    yield from _tables("Corpora", lines, ("corpus",), (
        "records", "documents", "megabytes", "words", "distinct_words",
        *(f"{key} words" for key in _LENGTHS)))
    for key in dict.fromkeys(key for line in lines for key in line if key == "length_histogram" or
                             (isinstance(line[key], Mapping) and key not in _NOT_COUNTED)):
        yield from _counts(key, {line["corpus"]: counts for line in lines
                               if isinstance(counts := line.get(key, {}), Mapping)})


def _counts(key: str, by_corpus: Mapping[str, Mapping[str, int]]) -> Iterator[Chart | Table]:
    """Show counts by value in a table, and several values also in a chart of the most frequent."""
    title = words_of(key.rpartition(".")[2]).capitalize()
    values = list(dict.fromkeys(value for counts in by_corpus.values() for value in counts))
    if key == "years":
        values.sort(key=lambda year: (year.isdecimal(), year), reverse=True)
    table = Table(title, [title.lower(), *by_corpus], [
        [value, *(counts.get(value, 0 if counts else None) for counts in by_corpus.values())]
        for value in values])
    if key == "length_histogram":
        title, values = "Records by words, from each power of 2", sorted(
            values, key=lambda power: (len(power), power))
    elif key not in ("years", "frequency_bands"):
        values.sort(key=lambda value: (value in (OTHERS, UNSTATED, NO_TOPIC), -sum(
            counts.get(value, 0) / (sum(counts.values()) or 1) for counts in by_corpus.values())))
    drawn, is_words = values[:_MOST_VALUES], key == "frequency_bands"
    if len(values) > 1:
        yield dot_chart(
            "Distinct words by frequency" if is_words else title,
            "distinct words" if is_words else "percent", drawn, {
                corpus: [Estimate(counts[value] if is_words else
                                  100 * counts[value] / sum(counts.values()))
                         if counts.get(value) else None for value in drawn]
                for corpus, counts in by_corpus.items()}, log=is_words)
    if key != "length_histogram":
        yield table


def lineage(study: Study) -> Iterator[Part]:
    """Show how each output was made, back to the original files."""
    found, seen = study.lineage, set[str]()

    def grow(id: str, role: str) -> Branch:
        node, is_repeated = found.node(id), id in seen
        seen.add(id)
        name = (node.path or Path(node.name)).name
        title = name if role in ("", name) else f"{role}: {name}"
        below = [] if is_repeated else [grow(edge.parent, edge.role) for edge in found.parents(id)]
        return Branch(f"node-{id[:_HASH_DIGITS]}", title, _facts(node), is_repeated, below)

    if found.edges:
        yield ("Each output, and below it its inputs; a link leads to an input that the tree "
               "shows further up. Each entry ends with the beginning of its SHA-256.")
        documents = {node.id for node in found.nodes if {*node.commands} & _DOCUMENTS}
        used = {edge.parent for edge in found.edges if edge.child not in documents}
        yield from (grow(root, "") for root in found.roots if root not in used | documents)


def _facts(node: Node) -> str:
    """Describe a node by its kind, and by the facts that its record contains."""
    took = node.record.get("wall_seconds")
    facts = [("{} tokens trained on", node.record.get("tokens_seen") or None),
             ("seed {}", node.record.get("seed")), ("{}", took and Seconds(took)),
             ("{}", node.record.get("licence"))]
    made = " by ".join(filter(None, [node.kind, ", ".join(dict.fromkeys(node.commands))]))
    return ", ".join([made, *(words.format(format_cell(value)) for words, value in facts
                              if value is not None), node.id[:_HASH_DIGITS]])


def energy(study: Study) -> Iterator[Part]:
    """Show measured, allotted and declared energy separately."""
    names = names_of(name for name, _ in study.lineage.steps())
    steps = find_steps((names[name], record) for name, record in study.lineage.steps())
    known = [step for step in steps if step.has_energy]
    kinds = [kind for kind in KINDS if any(kind in step.figures for step in known)]
    if not known:
        return
    lines = total(steps, EnergyConfig())
    yield statement(lines)
    yield dot_chart("Energy of commands", "kWh", [line["command"] for line in lines], {
        kind: [Estimate(line[kind]["kwh"]) if kind in line else None for line in lines]
        for kind in kinds})
    yield Table("Energy and emissions of steps", [
        "step", "command", *(f"kWh {kind}" for kind in kinds),
        *(f"kg CO2eq {kind}" for kind in kinds), "hours", "GPU-hours", "hardware",
        "grid, g per kWh"], [
        [step.name, step.command, *(step.figures.get(kind, {}).get("kwh") for kind in kinds),
         *(step.figures.get("kg_co2eq", {}).get(kind) for kind in kinds),
         *map(step.figures.get, ("hours", "gpu_hours", "hardware")),
         step.figures.get("grid", {}).get("g_per_kwh")] for step in known])


def predictions(study: Study) -> Iterator[Part]:
    """Show pseudo-perplexities and reciprocal ranks, also by corpus size and with settings."""
    yield "Bars are intervals of 95 %."
    for metric, words, kind in (("mrr", "mean reciprocal rank", "mrr"),
                                ("pppl", "pseudo-perplexity", "pppl"),
                                ("bits_per_character", "bits per character", "pppl")):
        for lines in _by_data(study.lines[kind], metric):
            estimates = [Estimate.of(line[metric], line.get("interval" if metric == kind else ""))
                         for line in lines]
            yield dot_chart(words.capitalize(), words, model_names(lines), {words: estimates})
            yield from _progression(study, words, lines, estimates)
            yield from _by_group(words, metric, lines)
    yield from _joined(study)
    yield from _differences(study, of_predictions=True)


def _by_data(lines: Iterable[JsonObject], metric: str) -> list[list[JsonObject]]:
    """Group the lines that contain a metric by the data that was scored."""
    scored = (line for line in lines if isinstance(line.get(metric), int | float))
    return [*_grouped(scored, "data").values()]


def _grouped(lines: Iterable[JsonObject], key: str) -> dict[str, list[JsonObject]]:
    groups: defaultdict[str, list[JsonObject]] = defaultdict(list)
    for line in lines:
        groups[line.get(key, "")].append(line)
    return groups


def _progression(study: Study, words: str, lines: Sequence[JsonObject],
                 estimates: Sequence[Estimate]) -> Iterator[Chart]:
    """Draw a score against the size of the corpora, or against tokens if all models read one text.

    The curves of `over_training` show the checkpoints that a run kept, so this chart leaves them
    out. The marker of a point shows the last corpus (Buonocore et al. 2023, figure 3).
    """
    directories = [one if one and one.run == one.name else None
                   for one in (study.directory_of(line["model"]) for line in lines)]
    texts = {str(sorted(one.record.get("inputs", {}).values())) for one in directories if one}
    by_corpus = len(texts) > 1
    axis = "tokens of all corpora" if by_corpus else "tokens trained on"
    points = sorted(((Point(at, *estimate), own,
                      listed([*one.record.get("inputs", {})], _MOST_NAMES) * by_corpus)
                     for one, own, estimate in
                     zip(directories, model_names(lines), estimates, strict=True) if one
                     and (at := (study.read_tokens if by_corpus else study.trained_tokens)(one))),
                    key=lambda one: one[0].x)
    if len({point.x for point, *_ in points}) > 1:
        yield line_chart(f"{words.capitalize()} by {axis}", (axis, words),
                         {own: Curve([point], group=text) for point, own, text in points},
                         log=points[-1][0].x > 10 * points[0][0].x, joined=True)


def _by_group(words: str, metric: str, lines: Sequence[JsonObject]) -> Iterator[Chart]:
    """Draw scores by group of records, such as domain, with the largest groups first."""
    lines = [line for line in lines if "baseline:" not in line.get("signature", "")]
    for key in dict.fromkeys(key for line in lines for key in line.get("by", {})):
        found = [line.get("by", {}).get(key, {}) for line in lines]
        sizes = {group: one.get("maskings", 0) for own in found for group, one in own.items()}
        groups = sorted(sizes, key=lambda group: -sizes[group])[:_MOST_GROUPS]
        yield dot_chart(f"{words.capitalize()} by {key}", words, groups, {name: [
            Estimate.of(own[group][metric], own[group].get("interval"))
            if metric in own.get(group, {}) else None for group in groups]
            for name, own in zip(model_names(lines), found, strict=True)},
            most_rows=max(_LEAST_GROUPS, _MOST_MARKS // len(lines)))


def _joined(study: Study) -> Iterator[Table]:
    """List models with their corpora, base models, settings and scores (Tables 1 and 2)."""
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
    common = {key: values.pop() for key in keys if key in _SETTINGS and len(shown) > 1
              and len(values := {row[key] for row in shown.values()}) == 1}
    keys = [key for key in keys if key not in common]
    if shown:
        yield Table("Models with their texts, settings and scores", ["model", *map(words_of, keys)],
                    [[name, *map(row.get, keys)] for name, row in shown.items()])
    if common:
        yield Table("Settings that all of these models share", ["setting", "value"],
                    [[words_of(key), value] for key, value in common.items()])


def _description(study: Study, directory: StudyDirectory) -> dict[str, Cell]:
    """Return the text, the base model and the settings of a model."""
    settings = directory.record.get("settings", {})
    return {"text": listed([*directory.record.get("inputs", {})], _MOST_NAMES),
            "GB of the text": _gigabytes(study, directory),
            "translated": _translated(study, directory),
            "tokens of the text": directory.corpus_tokens or None,
            "from": ", ".join(map(study.name_of, directory.bases.values())),
            "tokens trained on": study.trained_tokens(directory),
            **{key: _setting(key, settings) for key in _SETTINGS}}


def _gigabytes(study: Study, directory: StudyDirectory) -> float | None:
    """Return the size of all texts of a model; None if `describe` did not measure all of them."""
    sizes = {line["corpus"]: line.get("megabytes") for line in study.lines["corpora"]}
    texts = [*directory.record.get("inputs", {})]
    found = [size for text in texts
             if isinstance(size := sizes.get(text, sizes.get(source_stem(text))), int | float)]
    return sum(found) / 1000 if found and len(found) == len(texts) else None


def _translated(study: Study, directory: StudyDirectory) -> str | None:
    """Return whether a model's texts were translated, or None if the records do not show it."""
    nodes = {node.id for node in study.lineage.nodes}
    texts = [study.lineage.behind(id) for id in directory.record.get("inputs", {}).values()
             if id in nodes]
    found = {any("translate" in node.commands for node in text) for text in texts}
    if found == {False}:
        return "no" if all(text[0].record for text in texts) else None
    return {2: "partially", 1: "yes"}.get(len(found))


def _setting(key: str, settings: JsonMapping) -> Cell:
    """Return the value of a setting, or its different values in all phases; None if it is off."""
    found = [phase.get(key, settings.get(key)) for phase in settings.get("phases") or [{}]]
    values: list[Cell] = list(dict.fromkeys(one for one in found if isinstance(one, Cell)))
    if values in ([None], [_SETTINGS[key]]):
        return None
    return values[0] if len(values) == 1 else ", ".join(map(str, values))


def _differences(study: Study, of_predictions: bool) -> Iterator[Table]:
    own = {model: study.name_of(model) for line in study.lines["compared"]
           for model in line["compared"]}
    short = names_of(own.values())
    rows: list[list[Cell]] = [[
        " - ".join(short[own[model]] for model in line["compared"]),
        words_of(" ".join(str(line[key]) for key in (
            "set", "metric", "masking", "mask_rate", "corruption") if line.get(key))),
        *Estimate.of(line["difference"], line.get("interval")), line.get("p"),
        line.get("p_holm")] for line in study.lines["compared"]
        if line.get("difference") is not None
        and (line["metric"] in _PREDICTION_METRICS) == of_predictions]
    if rows:
        yield Table("Differences between models", [
            "models", "metric", "difference", "from", "to", "p", "p (Holm)"], rows)


def masking(study: Study) -> Iterator[Part]:
    """Show the perplexity by way of masking (figure 4 of Pavlova and Makhlouf 2023)."""
    yield ("Perplexity over masked tokens, as in figure 4 of BIOptimus. Bars are intervals of "
           "95 %.")
    for lines in _by_data(study.lines["masking"], "perplexity"):
        corruptions = ", ".join({line["corruption"]: "" for line in lines})
        found = {(line["model"], f"{line['masking']} {100 * line['mask_rate']:g} %"
                  + f", {line['corruption']}" * ("," in corruptions)):
                 Estimate.of(line["perplexity"], line.get("interval")) for line in lines}
        ways = list(dict.fromkeys(way for _, way in found))
        yield dot_chart(f"Perplexity by way of masking ({corruptions})", "perplexity", ways, {
            name: [found.get((model, way)) for way in ways]
            for model, name in names_of(model for model, _ in found).items()})


def ranks(study: Study) -> Iterator[Part]:
    """Show how ranks change from model to model (figure 3 of Buonocore et al. 2023)."""
    yield "Models are in the order in which they were scored. Baselines are not shown."
    yield from rank_parts(study.lines["ranks"], study.lines["mrr"])


def tasks(study: Study) -> Iterator[Part]:
    """Show scores on tasks with their intervals."""
    yield "Bars are intervals of 95 %; intervals of fine-tuned models cover their seeds."
    tuned = [(study.name_of(line["checkpoint"]), words_of(metric), values)
             for line in study.lines["finetuned"] for metric, values in line.items()
             if isinstance(values, Mapping) and "mean" in values]
    lines = [{**line, "model": study.name_of(line["model"]), "task": ", ".join(
        [line.get("task", "over seeds"), *filter(None, [line.get("set")])])}
        for line in [*study.lines["tasks"], *study.lines["seeds of tasks"]]]
    names = names_of([*(model for model, *_ in tuned), *(line["model"] for line in lines)])
    charts: defaultdict[tuple[str, str, str], list[tuple[str, Estimate]]] = defaultdict(list)
    for model, words, values in tuned:
        if words.startswith("test "):
            charts[f"Mean {words} over seeds", words, ""].append(
                (names[model], Estimate.of(values["mean"], values.get("interval"))))
    for line in lines:
        for metric, value, bounds in islice(metrics_of(line), 1):
            charts[f"{words_of(metric)} ({line['task']})", words_of(metric),
                   line.get("data", "")].append((names[line["model"]], Estimate.of(value, bounds)))
    for (title, words, _), found in charts.items():
        models, estimates = zip(*found, strict=True)
        yield dot_chart(title, words, models, {words: estimates})
    if tuned:
        yield Table("Fine-tuning, over seeds", [
            "checkpoint", "metric", "mean", "from", "to", "deviation", "median"], [
            [names[model], words, *Estimate.of(values["mean"], values.get("interval")),
             values.get("deviation"), values.get("median")] for model, words, values in tuned])
    if lines:
        yield Table("Predictions against gold records", [
            "model", "task", "metric", "score", "from", "to"], [
            [names[line["model"]], line["task"], words_of(metric), *Estimate.of(value, bounds)]
            for line in lines for metric, value, bounds in metrics_of(line)])
    yield from _calibration(lines)
    yield from _differences(study, of_predictions=False)


def _calibration(lines: Iterable[JsonObject]) -> Iterator[Part]:
    """Draw the share of correct mentions against the score (Guo et al. 2017, section 2)."""
    calibrated = [line for line in lines if "calibration" in line]
    for task, own in _grouped(calibrated, "task").items():
        title, found = f"Reliability of scores ({task})", dict(zip(
            model_names(own), (line["calibration"] for line in own), strict=True))
        chart = line_chart(title, ("score", "share that is right"), {
            f"{name}, error {one['error']:.3f}": Curve([
                Point(part["score"], part["precision"]) for part in one["bins"]])
            for name, one in found.items()}, diagonal=True)
        yield Chart(Table(title, ["model", "from", "predictions", "score", "share that is right"], [
            [name, *map(part.get, ("from", "predictions", "score", "precision"))]
            for name, one in found.items() for part in one["bins"]]),
            chart.summary, chart.height, chart.draw)
    if calibrated:
        names = names_of(line["model"] for line in calibrated)
        yield "On the dashed line, the score of a mention equals the share of correct mentions."
        yield Table("Calibration of scores", [
            "model", "task", "expected calibration error", "mean score", "precision",
            f"kept at a precision of {PRECISION:.0%}", "from the score"], [
            [names[line["model"]], line["task"], *map(line["calibration"].get, (
                "error", "score", "precision", "kept", "threshold"))] for line in calibrated])


def suites(study: Study) -> Iterator[Part]:
    """Show scores on benchmark suites next to published scores."""
    yield "Scores are in percent. Published models have the names that their papers use."
    for suite, lines in _grouped(study.lines["suite"], "suite").items():
        known = {name: {**line.get("scores", {}), **line.get("averages", {})}
                 for name, line in zip(model_names(lines), lines, strict=True)}
        sets = list(dict.fromkeys(name for scores in known.values() for name in scores))
        yield dot_chart(suite, "score in percent", sets, {model: [
            Estimate(scores[name]) if name in scores else None for name in sets]
            for model, scores in known.items()})
        yield Table(suite, ["set", *known], [
            [name, *(scores.get(name) for scores in known.values())] for name in sets])


def space(study: Study) -> Iterator[Part]:
    """Show measures of embedding space by the frequency of words."""
    lines = study.lines["space"]
    names = model_names(lines)
    by_model = {name: {f"{band['min_count']:,} to {band['max_count']:,} times": band
                       for band in line["bands"]} for name, line in zip(names, lines, strict=True)}
    bands = list(dict.fromkeys(band for own in by_model.values() for band in own))
    for key in ("average_cosine", "own_band_neighbours") if lines else ():
        words = words_of(key)
        yield dot_chart(f"{words.capitalize()} by frequency of words", words, bands, {
            name: [Estimate(own[band][key]) if band in own else None for band in bands]
            for name, own in by_model.items()})
    if lines:
        yield Table("Measures", ["model", "measure", "value", "from", "to"], [
            [name, words_of(key), *Estimate.of(value, line.get("intervals", {}).get(key))]
            for name, line in zip(names, lines, strict=True) for key, value in line.items()
            if isinstance(value, float)])
    yield from study.spaces


_SECTIONS = {
    "All scores": glance, "Tasks": tasks, "Benchmark suites": suites,
    "Predictions of masked words": predictions, "Difficulty of masking": masking,
    "Ranks of masked words": ranks, "Scores over training": over_training,
    "Correlation of predictions with tasks": correlations, "Loss": losses,
    "Vocabularies": vocabularies, "Corpora": corpora, "Embedding space": space,
    "Models and directories": overview, "Energy": energy, "Lineage": lineage}


def make_sections(study: Study) -> Iterator[Section]:
    """Yield the sections that are not empty, in the order of the page."""
    for title, make in _SECTIONS.items():
        section = Section(title, list(make(study)))
        if section.charts or section.tables or section.branches:
            yield section
