"""Page of a run or a whole study: one HTML file without scripts or links to a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from bmtools.errors import without_controls
from bmtools.installation import require_matplotlib
from bmtools.io.directories import directory_bytes
from bmtools.io.energy.figures import KINDS
from bmtools.io.energy.settings import EnergyConfig
from bmtools.io.output import open_output
from bmtools.models.model_files import CONFIG, count_weights
from bmtools.records import JsonObject
from bmtools.study.energy import find_steps, statement, total
from bmtools.study.lineages.graph import Node
from bmtools.study.reports.charts import (
    Branch,
    Curve,
    Estimate,
    Point,
    Section,
    Table,
    dot_chart,
    line_chart,
)
from bmtools.study.reports.labels import figure, names_of, words_of
from bmtools.study.reports.pages import page_templates
from bmtools.study.reports.score_sections import masking, predictions, ranks, space, suites, tasks
from bmtools.study.reports.study import Study, nothing_found, read_study

_MOST_CURVES, _MOST_POINTS = 6, 60
_HASH_DIGITS = 12
_LONG = 7200  # seconds from which hours are shown
# Their files tell of outputs, and are none.
_DOCUMENTS = {"card", "energy", "lineage", "report", "table"}
_LEAST_SHARE = 0.01  # of the energy, to be drawn
_SPEED = ("parameters", "megabytes")


def write_report(paths: Sequence[str | PathLike[str]], output: str | PathLike[str], title: str = "",
                 ) -> JsonObject:
    """Write the page of what is found in files and directories; the same input, same bytes.

    Args:
        paths: as for `read_study`.
        output: file to write.
        title: of the page; by default the names of the paths.

    Returns:
        titles of `sections`, numbers of `charts`, of `bytes`, and of files that were `skipped`.

    Raises:
        BmtoolsError: matplotlib is missing, or a file holds neither models nor scores.
    """
    require_matplotlib()
    study = read_study(paths)
    sections = list(make_sections(study))
    if not sections:
        raise nothing_found(paths)
    title = title or ", ".join(Path(path).resolve().name for path in paths)
    environment = page_templates()
    environment.filters |= {"safe_text": without_controls, "figure": figure}
    page = environment.get_template("report_page.html").render(
        title=without_controls(title), sections=sections).encode("utf-8", "replace")
    with open_output(str(output)) as stream:
        stream.write(page)
    return {"sections": [section.title for section in sections],
            "charts": sum(len(section.charts) for section in sections), "bytes": len(page),
            "skipped": len(study.skipped)}


def make_sections(study: Study) -> Iterator[Section]:
    """Yield the sections of a study that hold something, in order."""
    for make, kinds in _SECTIONS:
        if kinds and not any(map(study.lines.get, kinds)):
            continue
        section = make(study)
        if section.charts or section.tables or section.branches:
            yield section


def overview(study: Study) -> Section:
    """List models and other directories with their sizes, tokens and hours."""
    section = Section("overview", "Overview")
    directories = sorted(study.directories, key=lambda one: one.record.get("started", ""))
    seconds = [one.record.get("wall_seconds") for one in directories]
    unit, size = ("hours", 3600) if max(filter(None, seconds), default=0) > _LONG else \
        ("seconds", 1)
    if directories:
        whole = study.lineage.totals()
        section.note = ", ".join([
            f"{figure(whole['steps'])} steps", f"{figure(whole['tokens_seen'])} tokens trained on",
            *(f"{figure(whole[key])} {unit}" for key, unit in (
                ("hours", "hours"), ("gpu_hours", "GPU-hours")) if whole.get(key))])
        section.tables.append(Table("Models, vocabularies and other directories", [
            "name", "made by", "from", "weights", "MB", "tokens trained on", unit], [
            [one.name, one.record.get("command", ""), ", ".join(one.bases.values()),
             count_weights(one.path) if (one.path / CONFIG).is_file() and any(
                 one.path.glob("model*.safetensors")) else None,
             round(directory_bytes(one.path) / 1e6, 6), one.record.get("tokens_seen"),
             took and took / size] for one, took in zip(directories, seconds, strict=True)]))
    speed = study.lines["speed"]
    if speed:
        names = names_of(line["model"] for line in speed)
        section.tables.append(Table("Size and speed on the CPU", [
            "model", *_SPEED, "tokens a second", "memory in MB"], [
            [names[line["model"]], *map(line.get, _SPEED), line["cpu"].get("tokens_per_second"),
             line["cpu"].get("memory_megabytes")] for line in speed]))
    return section


def losses(study: Study) -> Section:
    """Draw the loss of each run over its tokens."""
    section = Section("loss", "Loss", "Nats per predicted token; of a sum of several losses that "
                      "of masked tokens. Dotted lines: borders of phases. Crosses: held-out text.")
    curves = {name: curve for name, lines in study.runs.items() if (curve := _curve(lines)).points}
    for first in range(0, len(curves), _MOST_CURVES):
        some = dict(list(curves.items())[first:first + _MOST_CURVES])
        section.charts.append(line_chart(
            f"loss-{first}", "Loss over tokens", ("tokens", "loss"), some))
    return section


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


def vocabularies(study: Study) -> Section:
    """Show into how many pieces vocabularies break words."""
    section = Section("vocabularies", "Vocabularies", "1 piece a word: all words are whole.")
    lines = study.lines["vocabularies"]
    scopes = list(dict.fromkeys(line["scope"] for line in lines))
    names = list(dict.fromkeys(line["vocabulary"] for line in lines))
    found = {(line["vocabulary"], line["scope"]): line for line in lines}
    if lines:
        section.charts.append(dot_chart(
            "pieces", "Pieces per word", "pieces per word", scopes, {name: [
                    Estimate(found[name, scope]["pieces_per_word"]) if (name, scope) in found
                    else None for scope in scopes] for name in names}))
        keys = ("vocab_size", "words", "pieces_per_word", "whole_share", "unknown_share", "tokens",
                "tokens_per_1000_words", "relative_tokens")
        section.tables += _tables("Fragmentation", lines, ("vocabulary", "scope"), keys)
    section.tables += _tables(
        "Tokens in common", study.lines["vocabulary pairs"], ("vocabulary", "other"),
        ("shared", "jaccard", "shared_share", "other_shared_share"))
    return section


def _tables(title: str, lines: Sequence[JsonObject], names: Sequence[str],
            keys: Sequence[str]) -> Iterator[Table]:
    """Yield a table of the keys that lines have, if there are lines."""
    known = [key for key in keys if any(line.get(key) is not None for line in lines)]
    if lines:
        yield Table(title, [*names, *map(words_of, known)],
                    [[*map(line.get, names), *map(line.get, known)] for line in lines])


def corpora(study: Study) -> Section:
    """List the sizes of corpora."""
    lines = [{**line, "words a record (median)": line["words_per_record"]["median"]}
             for line in study.lines["corpora"]]
    return Section("corpora", "Corpora", tables=[*_tables("Sizes", lines, ("corpus",), (
        "records", "documents", "megabytes", "words", "distinct_words",
        "words a record (median)"))])


def lineage(study: Study) -> Section:
    """Show from each output back to the first bytes how it was made."""
    section, found, seen = Section("lineage", "Lineage"), study.lineage, set[str]()

    def grow(id: str, role: str) -> Branch:
        node, is_repeated = found.node(id), id in seen
        seen.add(id)
        name = node.path.name if node.path else Path(role or node.name).name
        return Branch(f"node-{id[:_HASH_DIGITS]}", name if role in ("", name) else
                      f"{role}: {name}", _facts(node), is_repeated, [] if is_repeated else [
                          grow(edge.parent, edge.role) for edge in found.parents(id)])

    if found.edges:
        documents = {node.id for node in found.nodes if {*node.commands} & _DOCUMENTS}
        used = {edge.parent for edge in found.edges if edge.child not in documents}
        section.branches = [grow(root, "") for root in found.roots
                            if root not in used | documents]
        section.note = "Below each output stands what it was made of; links lead to what stands " \
            "further up. Beginnings of SHA-256 name contents."
    return section


def _facts(node: Node) -> str:
    """Say what a node is and how it was made, from its record."""
    record = node.record
    facts = [("{} tokens trained on", record.get("tokens_seen") or None), ("seed {}",
             record.get("seed")), ("{} s", record.get("wall_seconds")),
             ("{}", record.get("licence")), ("{}", node.id[:_HASH_DIGITS])]
    made = " by ".join(filter(None, [node.kind, ", ".join(dict.fromkeys(node.commands))]))
    return ", ".join([made, *(words.format(figure(value)) for words, value in facts
                              if value is not None)])


def energy(study: Study) -> Section:
    """Show energy by how it is known: measured, allotted or declared, each apart."""
    section = Section("energy", "Energy")
    names = names_of(name for name, _ in study.lineage.steps())
    steps = find_steps((names[name], record) for name, record in study.lineage.steps())
    known = [step for step in steps if step.has_energy]
    kinds = [kind for kind in KINDS if any(kind in step.figures for step in known)]
    if known:
        *lines, whole = total(steps, EnergyConfig())
        section.note = statement([*lines, whole])

        def share(line: JsonObject) -> float:
            """The largest share of a command in all energy of a kind."""
            return max((line[kind]["kwh"] / (whole[kind]["kwh"] or 1) for kind in kinds
                        if kind in line), default=0)

        shown = sorted((line for line in lines if share(line) >= _LEAST_SHARE), key=share)
        shown = [*reversed(shown), whole]
        section.charts.append(dot_chart(
            "energy", f"Energy of commands, those of {_LEAST_SHARE:.0%} or more", "kWh",
            [line["command"] for line in shown], {
                kind: [Estimate(line[kind]["kwh"]) if kind in line else None for line in shown]
                for kind in kinds}))
        section.tables.append(Table("Energy and emissions of steps", [
            "step", "command", *(f"kWh {kind}" for kind in kinds),
            *(f"kg CO2eq {kind}" for kind in kinds), "hours", "GPU-hours", "hardware",
            "grid, g per kWh"], [
            [step.name, step.command, *(step.figures.get(kind, {}).get("kwh") for kind in kinds),
             *(step.figures.get("kg_co2eq", {}).get(kind) for kind in kinds),
             *map(step.figures.get, ("hours", "gpu_hours", "hardware")),
             step.figures.get("grid", {}).get("g_per_kwh")] for step in known]))
    return section


_SECTIONS: tuple[tuple[Callable[[Study], Section], tuple[str, ...]], ...] = (
    (overview, ()), (losses, ()), (predictions, ("mrr", "pppl", "compared")),
    (masking, ("masking",)), (ranks, ("ranks",)),
    (vocabularies, ("vocabularies", "vocabulary pairs")), (corpora, ("corpora",)),
    (tasks, ("finetuned", "tasks", "seeds of tasks", "compared")), (suites, ("suite",)),
    (space, ()), (lineage, ()), (energy, ()))
"""Functions that make the sections, with the kinds of lines that a section needs, if any."""
