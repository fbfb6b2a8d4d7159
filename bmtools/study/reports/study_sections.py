"""Sections about runs, corpora, vocabularies, lineage and energy on the page of a study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from bmtools.io.directories import directory_bytes
from bmtools.io.energy.figures import KINDS
from bmtools.io.energy.settings import EnergyConfig
from bmtools.models.model_files import CONFIG, count_weights
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.corpora.settings import NO_TOPIC, OTHERS, UNSTATED
from bmtools.study.energy import find_steps, statement, total
from bmtools.study.lineages.graph import Node
from bmtools.study.reports.charts import (
    Branch,
    Chart,
    Curve,
    Estimate,
    Part,
    Point,
    Table,
    dot_chart,
    line_chart,
)
from bmtools.study.reports.labels import names_of, words_of
from bmtools.study.reports.study import Study
from bmtools.values import format_cell

_MOST_CURVES, _MOST_POINTS, _MOST_VALUES, _MOST_TERMS = 6, 60, 35, 3
_HASH_DIGITS = 12
_LONG = 7200  # seconds from which hours are shown
# Their files tell of outputs, and are none.
_DOCUMENTS = {"card", "energy", "lineage", "report", "table"}
_LENGTHS = ("median", "p95", "max")
_NOT_COUNTED = {"length_histogram", "words_per_record", "label_bias"}
"""Keys of objects that do not count records or annotations by value."""


def overview(study: Study) -> Iterator[Part]:
    """List models and other directories with their sizes, tokens and hours."""
    directories = sorted(study.directories, key=lambda one: one.record.get("started", ""))
    seconds = [one.record.get("wall_seconds") for one in directories]
    unit, size = ("hours", 3600) if max(filter(None, seconds), default=0) > _LONG else \
        ("seconds", 1)
    if directories:
        whole = study.lineage.totals()
        yield ", ".join([
            f"{whole['steps']:,} steps", f"{whole['tokens_seen']:,} tokens trained on",
            *(f"{format_cell(whole[key])} {unit}" for key, unit in (
                ("hours", "hours"), ("gpu_hours", "GPU-hours")) if whole.get(key))])
        yield Table("Models, vocabularies and other directories", [
            "name", "made by", "from", "weights", "MB", "tokens trained on", unit], [
            [one.name, one.record.get("command", ""), ", ".join(one.bases.values()),
             count_weights(one.path) if (one.path / CONFIG).is_file() and any(
                 one.path.glob("model*.safetensors")) else None,
             round(directory_bytes(one.path) / 1e6, 6), one.record.get("tokens_seen"),
             took and took / size] for one, took in zip(directories, seconds, strict=True)])
    speed = study.lines["speed"]
    if speed:
        names = names_of(line["model"] for line in speed)
        yield Table("Size and speed on the CPU", [
            "model", "parameters", "megabytes", "tokens a second", "memory in MB"], [
            [names[line["model"]], line.get("parameters"), line.get("megabytes"),
             line["cpu"].get("tokens_per_second"), line["cpu"].get("peak_megabytes")]
            for line in speed])


def losses(study: Study) -> Iterator[Part]:
    """Draw the loss of each run over its tokens."""
    yield ("Nats per predicted token; of a sum of several losses that of masked tokens. Dotted "
           "lines: borders of phases. Crosses: held-out text.")
    curves = iter([(name, curve) for name, lines in study.runs.items()
                   if (curve := _curve(lines)).points])
    while some := dict(islice(curves, _MOST_CURVES)):
        yield line_chart("Loss over tokens", ("tokens", "loss"), some)


def _curve(lines: Sequence[JsonObject]) -> Curve:
    """Make the curve of a run, of which at most some points are drawn, phases' last ones always."""
    points = [(line["phase"], Point(line["tokens_seen"], line.get("mlm") or line["loss"]))
              for line in lines if {"tokens_seen", "loss"} <= line.keys()]
    ends = [number for number, (phase, _) in enumerate(points[:-1])
            if points[number + 1][0] != phase]
    every = -(-len(points) // _MOST_POINTS) or 1
    kept = sorted({*range(0, len(points), every), *ends, *range(len(points) - 1, len(points))})
    at = {line["step"]: line["tokens_seen"] for line in lines if "tokens_seen" in line}
    marks = [Point(at[line["step"]], line["evaluate"]["loss"]) for line in lines
             if "evaluate" in line and line["step"] in at]
    return Curve([points[number][1] for number in kept],
                 [points[number][1].x for number in ends], marks)


def vocabularies(study: Study) -> Iterator[Part]:
    """Show into how many pieces vocabularies break words."""
    lines = study.lines["vocabularies"]
    scopes = list(dict.fromkeys(line["scope"] for line in lines))
    found = {(line["vocabulary"], line["scope"]): line["pieces_per_word"] for line in lines}
    names = list(dict.fromkeys(line["vocabulary"] for line in lines))
    if any(value is not None for value in found.values()):
        yield "1 piece a word: all words are whole."
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
    yield from _tables("Broken up at most cost", terms, ("vocabulary", "scope", "term"),
                       ("pieces", "times"))


def _tables(title: str, lines: Sequence[JsonMapping], names: Sequence[str],
            keys: Sequence[str]) -> Iterator[Table]:
    """Yield a table of the keys that lines have, if there are lines."""
    known = [key for key in keys if any(line.get(key) is not None for line in lines)]
    if known:
        yield Table(title, [*names, *map(words_of, known)],
                    [[*map(line.get, names), *map(line.get, known)] for line in lines])


def corpora(study: Study) -> Iterator[Part]:
    """Show sizes of corpora, and their records and words by length, frequency, topic and origin.

    Source: Pavlova and Makhlouf 2023 (BIOptimus), figure 1: words by frequency; Buonocore et al.
    2023 (BioBIT), figure 2: topics of test sentences against a corpus.
    """
    lines = [{**line, **{f"{key} words": line["words_per_record"].get(key) for key in _LENGTHS}}
             for line in study.lines["corpora"]]
    yield from _tables("Corpora", lines, ("corpus",), (
        "records", "documents", "megabytes", "words", "distinct_words",
        *(f"{key} words" for key in _LENGTHS)))
    for key in dict.fromkeys(key for line in lines for key in line if key == "length_histogram" or
                             (isinstance(line[key], Mapping) and key not in _NOT_COUNTED)):
        yield from _counts(key, {line["corpus"]: line.get(key, {}) for line in lines})


def _counts(key: str, by_corpus: Mapping[str, Mapping[str, int]]) -> Iterator[Chart | Table]:
    """Show counts by value: a chart of the most frequent ones if there are several, and a table."""
    title = words_of(key.rpartition(".")[2]).capitalize()
    values = list(dict.fromkeys(value for counts in by_corpus.values() for value in counts))
    if key == "years":
        values.sort(key=lambda year: (year.isdecimal(), year), reverse=True)
    table = Table(title, [title.lower(), *by_corpus], [
        [value, *(counts.get(value, 0 if counts else None) for counts in by_corpus.values())]
        for value in values])
    if key == "length_histogram":
        title, values = "Records by words, from each power of 2", sorted(values, key=int)
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
    """Show from each output back to the first bytes how it was made."""
    found, seen = study.lineage, set[str]()

    def grow(id: str, role: str) -> Branch:
        node, is_repeated = found.node(id), id in seen
        seen.add(id)
        name = node.path.name if node.path else Path(role or node.name).name
        return Branch(f"node-{id[:_HASH_DIGITS]}", name if role in ("", name) else
                      f"{role}: {name}", _facts(node), is_repeated, [] if is_repeated else [
                          grow(edge.parent, edge.role) for edge in found.parents(id)])

    if found.edges:
        yield ("Below each output stands what it was made of; links lead to what stands further "
               "up. Beginnings of SHA-256 name contents.")
        documents = {node.id for node in found.nodes if {*node.commands} & _DOCUMENTS}
        used = {edge.parent for edge in found.edges if edge.child not in documents}
        yield from (grow(root, "") for root in found.roots if root not in used | documents)


def _facts(node: Node) -> str:
    """State what a node is and how it was made, from its record."""
    record = node.record
    facts = [("{} tokens trained on", record.get("tokens_seen") or None), ("seed {}",
             record.get("seed")), ("{} s", record.get("wall_seconds")),
             ("{}", record.get("licence")), ("{}", node.id[:_HASH_DIGITS])]
    made = " by ".join(filter(None, [node.kind, ", ".join(dict.fromkeys(node.commands))]))
    return ", ".join([made, *(words.format(format_cell(value)) for words, value in facts
                              if value is not None)])


def energy(study: Study) -> Iterator[Part]:
    """Show energy by how it is known: measured, allotted or declared, each apart."""
    names = names_of(name for name, _ in study.lineage.steps())
    steps = find_steps((names[name], record) for name, record in study.lineage.steps())
    known = [step for step in steps if step.has_energy]
    kinds = [kind for kind in KINDS if any(kind in step.figures for step in known)]
    if not known:
        return
    *lines, whole = total(steps, EnergyConfig())
    yield statement([*lines, whole])

    yield dot_chart("Energy of commands", "kWh", [line["command"] for line in [*lines, whole]], {
        kind: [Estimate(line[kind]["kwh"]) if kind in line else None for line in [*lines, whole]]
        for kind in kinds})
    yield Table("Energy and emissions of steps", [
        "step", "command", *(f"kWh {kind}" for kind in kinds),
        *(f"kg CO2eq {kind}" for kind in kinds), "hours", "GPU-hours", "hardware",
        "grid, g per kWh"], [
        [step.name, step.command, *(step.figures.get(kind, {}).get("kwh") for kind in kinds),
         *(step.figures.get("kg_co2eq", {}).get(kind) for kind in kinds),
         *map(step.figures.get, ("hours", "gpu_hours", "hardware")),
         step.figures.get("grid", {}).get("g_per_kwh")] for step in known])
