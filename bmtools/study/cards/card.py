"""Model cards: `README.md` of a model, from its files, its records and statements of people.

Sources for the YAML at the top: hub-docs, `modelcard.md`, `model-cards-co2.md` and
`repositories-licenses.md`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bmtools.distributed import is_main_process
from bmtools.io.energy.figures import KINDS, add
from bmtools.io.json_files import NAME
from bmtools.io.output import new_file
from bmtools.io.provenance.licences import UNKNOWN
from bmtools.io.provenance.manifest import CARD
from bmtools.io.unfinished import keep_owner, remove_abandoned
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards import history
from bmtools.study.cards.about import STATED, About, read_about
from bmtools.study.cards.bom import bill_of_materials
from bmtools.study.cards.facts import BASES, ModelFacts, read_facts
from bmtools.study.cards.scores import Score, read_scores, recorded_scores
from bmtools.study.lineages.graph import Lineage, Node

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

_OTHER = "other"
_RELATIONS = {"merge": "merge", "int8": "quantized"}
_HUB_METRICS = {"accuracy", "exact_match", "f1", "matthews_correlation", "pearsonr", "perplexity",
                "precision", "recall", "spearmanr"}
_HASH_DIGITS = 12
_TRAINING = ("objective", "steps", "tokens", "epochs", "seeds", "batch_size", "max_length",
             "learning_rate", "schedule", "masking", "mask_rate", "dropout", "optimizer")
Line = TypeVar("Line", bound=Mapping[str, object])


class Made(NamedTuple):
    """Card of a model, and its bill of materials.

    Args:
        card: Markdown with metadata, for `README.md`.
        bom: CycloneDX in JSON.
        known: for each fact that the card should state, whether it is known.
    """

    card: str
    bom: str
    known: dict[str, bool]


def make_card(model: str | PathLike[str], *, about: str | PathLike[str] | None = None,
              scores: Sequence[str] = (), search: Sequence[str | PathLike[str]] = ()) -> Made:
    """Write a model's card and bill of materials.

    Args:
        model: directory of a checkpoint, an exported model or a vocabulary.
        about: TOML file of statements by people.
        scores: files of score-pppl, score-mrr, score-tasks or score-suite; SET=FILE names the set.
        search: further paths to search for the model's inputs.

    Raises:
        CheckpointError: there is no model, or its files are damaged.
        DataError: unknown keys in `about`, or a file without scores of the model.
    """
    facts, stated = read_facts(Path(model)), read_about(Path(about) if about else None)
    measured = read_scores(facts, scores)
    lineage = history.traced_lineage(facts, [Path(path) for path in search])
    card, known = model_card(facts, stated, measured, lineage)
    bom = bill_of_materials(facts, stated, measured, lineage)
    return Made(card, json.dumps(bom, indent=2, ensure_ascii=False) + "\n", known)


def with_cards(lines: Iterable[Line], *directories: Path) -> Iterator[Line]:
    """Yield the reports of a run, and write its cards before yielding the final report.

    Args:
        lines: reports of a command; the key `checkpoint` marks the report of a complete output.
        directories: see `write_cards`.
    """
    for line in lines:
        if "checkpoint" in line:
            write_cards(*directories)
        yield line


def write_cards(*directories: Path) -> None:
    """Write a missing `README.md` into finished models; only the main process writes.

    The bytes do not depend on the model's directory. The card gets the owner and the permissions of
    the manifest.

    Args:
        directories: directories of models, or directories with models in subdirectories, such as
            folds.
    """
    if not is_main_process():
        return
    for directory in directories:
        for model in (directory, *sorted(directory.glob("[!.]*"))):
            card = model / CARD
            if not (model / NAME).is_file() or not (model / "config.json").is_file():
                continue
            remove_abandoned(model, card)
            if card.exists():
                continue
            text, _ = model_card(read_facts(model))
            with new_file(card) as stream:
                stream.write(text.encode())
            keep_owner(model / NAME, card)
            shutil.copymode(model / NAME, card)


def model_card(facts: ModelFacts, about: About | None = None, scores: Sequence[Score] = (),
               traced: Lineage | None = None) -> tuple[str, dict[str, bool]]:
    """Return a card.

    Args:
        facts: facts of the model.
        about: statements of people.
        scores: scores in addition to the scores in the model's own record.
        traced: the model's lineage. Without it, the card uses only the model's own record, and
            omits energy and directory, because they differ from run to run.

    Returns:
        the card, and for each fact that a card should state, whether it is known.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    about, lineage = about or About(), traced or history.own_lineage(facts)
    scores = [*recorded_scores(facts), *scores]
    licence = about.licence or history.licence_of(lineage.root)
    languages = history.languages_of(lineage)
    name = about.name or (facts.name if traced else facts.kind_name)
    metadata = _metadata(facts, about, scores, licence, languages,
                             history.emissions(lineage) if traced else {}, name)
    environment = Environment(loader=PackageLoader("bmtools.study", "cards"), trim_blocks=True,
                              lstrip_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.filters["cell"] = _cell
    energies = history.energies_of(lineage) if traced else []
    text = environment.get_template("card.md.jinja").render(
        metadata=metadata.to_yaml(), model=facts, about=about,
        command=facts.manifest.get("command", ""), task=facts.settings.get("task", ""),
        is_wordpiece=facts.tokenizer_type == "WordPiece",
        facts=[(name, value) for name, value in _facts(facts, about, licence, languages) if value],
        data=list(_data(lineage, about)), training=_training(facts.settings),
        losses=list(_losses(facts.results)), scores=[_score_row(score) for score in scores],
        signatures=list(dict.fromkeys(one.signature for one in scores if one.signature)),
        energy=_energy_rows(energies), traced=traced,
        steps=[_step_row(lineage, node) for node in lineage.nodes] if traced else [],
        versions=facts.manifest.get("versions", {}), languages=languages, licence=licence,
        licences=list(facts.results.get("licences", ())))
    known = {"licence": bool(licence), "language": bool(languages), "scores": bool(scores),
             "training data": bool(history.data_of(lineage)), "energy": bool(energies),
             **{name: bool(getattr(about, name)) for name in STATED}}
    return text.rstrip() + "\n", known


def _facts(facts: ModelFacts, about: About, licence: str,
           languages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield names and values for the first table; the table omits empty values."""
    config, exported = facts.config, facts.settings.get("exported") or {}
    yield "version", about.version
    yield "developed by", about.developed_by
    yield "contact", about.contact
    yield "language", ", ".join(languages)
    yield "licence", licence
    layers = config.get("num_hidden_layers")
    yield "architecture", facts.kind + (
        f", {layers} layer{'s' * (layers != 1)} of {config['hidden_size']}" if layers else "")
    yield "format", f"{facts.format}, {exported['precision']}" if exported else ""
    yield "weights", f"{facts.weights:,}" if facts.weights else ""
    yield ("output" if config.get("problem_type") == "regression" else "labels",
           ", ".join(facts.labels))
    casing = "uncased" if facts.tokenizer.get("do_lower_case") else "cased"
    yield "vocabulary", ", ".join(filter(None, (
        f"{facts.tokens:,} tokens", facts.tokenizer_type, facts.tokenizer_type and casing)))
    yield "longest input", f"{facts.max_length:,} tokens" if facts.max_length else ""
    parents = facts.manifest.get("parents", {})
    for role, name in facts.bases.items():
        digest = parents.get(role, "")
        yield BASES.get(role, "mean of"), f"`{name}`" + (
            f" (SHA-256 {digest[:_HASH_DIGITS]}...)" if digest else "")
    yield "initial weights", "" if facts.bases or not config or not facts.manifest else "random"
    seen = facts.manifest.get("tokens_seen")
    yield "tokens trained on", f"{seen:,}, including repetitions" if seen else ""


def _data(lineage: Lineage, about: About) -> Iterator[list[str]]:
    """Yield the rows of the data table."""
    settings = lineage.root.record.get("settings", {})
    uses = {str(settings[part]): part for part in ("test", "dev", "train") if settings.get(part)}
    for file in history.data_of(lineage):
        stated = about.dataset(file.name)
        documents, tokens = history.sizes(lineage, file)
        made = " ← ".join(f"`{name}`" for name in history.commands(lineage, file))
        yield [f"`{file.name}`", uses.get(file.name, "text"), f"{file.id[:_HASH_DIGITS]}...",
               f"{documents:,} documents, {tokens:,} tokens" if documents else "not counted",
               stated.licence or history.data_licence(lineage, file) or "not stated",
               made or stated.description or stated.url or "not recorded"]


def _training(settings: JsonMapping) -> list[list[str]]:
    """Return the rows of a table with a column for each phase; the first row is the header."""
    phases = settings.get("phases") or [{"name": "value"}]
    columns = [{**settings, **phase} for phase in phases]
    for column in columns:
        if column.get("steps") or column.get("tokens"):
            column["epochs"] = 0  # steps or tokens override the default
    rows = [[name, *(_shown(column.get(name)) for column in columns)] for name in _TRAINING]
    rows = [row for row in rows if any(row[1:])]
    return [["setting", *(phase["name"] for phase in phases)], *rows] if rows else []


def _losses(results: JsonMapping) -> Iterator[tuple[str, str]]:
    """Yield the last losses of a run."""
    for of, key in (("training", "last"), ("held-out text", "evaluate")):
        for name, value in results.get(key, {}).items():
            if name in ("loss", "mlm_accuracy") and value is not None:
                yield f"{name}, {of}", _shown(value)


def _score_row(score: Score) -> list[str]:
    interval = "{:.4g} to {:.4g}".format(*score.interval) if score.interval else "not measured"
    return [f"`{score.of}`", score.metric, f"{score.value:.4g}", interval, score.how]


def _energy_rows(energies: Sequence[JsonMapping]) -> list[list[str]]:
    total = add(energies)
    return [[kind, f"{total[kind]['kwh']:.4g}",
             _shown(total.get("kg_co2eq", {}).get(kind)) or "grid not stated",
             f"{sum(kind in one for one in energies)}"] for kind in KINDS if kind in total]


def _step_row(lineage: Lineage, node: Node) -> list[str]:
    seen, seed = node.record.get("tokens_seen"), node.record.get("seed")
    hours = sum(step.get("wall_seconds", 0) for step in node.steps) / 3600
    commands = ", ".join(f"`{name}`" for name in dict.fromkeys(node.commands))
    parents = ", ".join(f"`{lineage.node(edge.parent).name}`" for edge in lineage.parents(node.id))
    return [f"`{node.name}`", commands or "no record", parents,
            "" if seed is None else str(seed), f"{seen:,}" if seen else "",
            f"{hours:.3g}" if hours else "", f"{node.id[:_HASH_DIGITS]}..." if node.id else ""]


def _cell(text: object) -> str:
    """Convert a text to a single table cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def _shown(value: object) -> str:
    """Format a setting or a score; empty if it is not set."""
    if isinstance(value, float):
        return f"{value:.4g}" if value else ""
    return f"{value:,}" if isinstance(value, int) and value else str(value or "")


def _metadata(facts: ModelFacts, about: About, scores: Sequence[Score], licence: str,
                  languages: Sequence[str], emissions: JsonMapping,
                  name: str) -> ModelCardData:
    """Return the metadata of a card; unknown facts are left out.

    Args:
        facts: facts of the model.
        about: statements of people.
        scores: measured scores.
        licence: SPDX name, or empty if unknown; AND joins licences that apply together.
        languages: language codes.
        emissions: `co2_eq_emissions`; empty if unknown.
        name: name of the model.
    """
    from huggingface_hub import EvalResult, ModelCardData

    tag = "" if facts.has_own_head else facts.pipeline_tag
    bases = [about.base_models[name] for name in facts.bases.values() if name in about.base_models]
    precision = (facts.settings.get("exported") or {}).get("precision", "")
    relation = _RELATIONS.get(precision if facts.format else facts.manifest.get("command", ""),
                              "" if facts.format else "finetune")
    results = [EvalResult(
        facts.pipeline_tag or _OTHER, about.dataset(score.of).hub or score.of, score.of,
        score.metric, score.value,
        metric_args={"interval_95": list(score.interval)} if score.interval else None)
        for score in scores]
    return ModelCardData(
        language=list(languages) or None, **_licence(licence),
        library_name=facts.format or "transformers", pipeline_tag=tag or None,
        tags=["bmtools", *filter(None, [about.domain if " " not in about.domain else ""])],
        datasets=[one.hub for one in about.datasets.values() if one.hub] or None,
        metrics=sorted({score.metric for score in scores} & _HUB_METRICS) or None,
        base_model=bases or None, base_model_relation=(relation or None) if bases else None,
        co2_eq_emissions=dict(emissions) or None, eval_results=results or None,
        model_name=name if results else None)


def _licence(name: str) -> JsonObject:
    """Return the Hub's metadata for a licence: its identifier, or `other` and the name.

    A partly unknown licence is left out.
    """
    if UNKNOWN in name.split(" AND "):
        return {}
    known = Path(__file__).with_name("license.txt").read_text(encoding="utf-8")
    if name.lower() in known.split():
        return {"license": name.lower()}
    return {"license": _OTHER, "license_name": name.lower().replace(" ", "-")} if name else {}
