"""The YAML at the head of a model card, and an offline check of it.

`ModelCard.validate` of huggingface_hub asks the Hub, which a hospital's machine cannot reach, so
the rules that the Hub documents are checked here.

Sources: hub-docs, `modelcard.md`, `model-cards-co2.md` and `repositories-licenses.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Annotated, Literal

import msgspec

from bmtools.errors import BmtoolsError
from bmtools.io.provenance.licences import UNKNOWN
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards.about import About, HubId
from bmtools.study.cards.facts import ModelFacts
from bmtools.study.cards.scores import Score

_OTHER = "other"
_LISTS = ("language", "datasets", "base_model")
_RELATIONS = {"merge": "merge", "int8": "quantized"}
_HUB_METRICS = {"accuracy", "exact_match", "f1", "matthews_correlation", "pearsonr", "perplexity",
                "precision", "recall", "spearmanr"}
_Language = Annotated[str, msgspec.Meta(pattern=r"^([a-z]{2,3}(-\w+)*|code|multilingual)$")]
_Identifier = Annotated[str, msgspec.Meta(pattern=r"^[\w.+-]+$")]
_Grams = Annotated[float, msgspec.Meta(ge=0)]
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Task(msgspec.Struct):
    type: _Identifier
    name: str = ""


class _Dataset(msgspec.Struct):
    type: _Text
    name: _Text


class _Metric(msgspec.Struct):
    type: _Text
    value: object


class _Result(msgspec.Struct):
    task: _Task
    dataset: _Dataset
    metrics: Annotated[list[_Metric], msgspec.Meta(min_length=1)]


class _Model(msgspec.Struct):
    name: _Text
    results: Annotated[list[_Result], msgspec.Meta(min_length=1)]


class _Emissions(msgspec.Struct, forbid_unknown_fields=True):
    emissions: _Grams
    source: str = ""
    training_type: str = ""
    geographical_location: str = ""
    hardware_used: str = ""


class _Metadata(msgspec.Struct, rename={"model_index": "model-index"}):
    """Keys that the Hub documents; others are free."""

    language: list[_Language] = msgspec.field(default_factory=list)
    license: str = ""
    license_name: _Text | None = None
    library_name: _Identifier | None = None
    pipeline_tag: _Identifier | None = None
    tags: list[_Text] = msgspec.field(default_factory=list)
    datasets: list[HubId] = msgspec.field(default_factory=list)
    metrics: list[_Text] = msgspec.field(default_factory=list)
    base_model: list[HubId] = msgspec.field(default_factory=list)
    base_model_relation: Literal["adapter", "finetune", "merge", "quantized"] | None = None
    co2_eq_emissions: _Emissions | _Grams | None = None
    model_index: list[_Model] = msgspec.field(default_factory=list)


def check_metadata(metadata: JsonMapping) -> None:
    """Refuse metadata that the Hub would.

    Raises:
        BmtoolsError: names the key, what was found and what is expected.
    """
    # One text stands for a list of one. (msgspec 0.22 crashes at exit where fields share a union.)
    lists = {key: [metadata[key]] for key in _LISTS if isinstance(metadata.get(key), str)}
    try:
        read = msgspec.convert({**metadata, **lists}, _Metadata)
    except msgspec.ValidationError as error:
        raise BmtoolsError(f"metadata of the card: {error}") from error
    for key, found in (("license", read.license), ("pipeline_tag", read.pipeline_tag)):
        if found and found not in _identifiers(key):
            raise BmtoolsError(f"metadata of the card: found {key} {found!r}, expected one of "
                               f"{', '.join(_identifiers(key))}")
    if read.license == _OTHER and not read.license_name:
        raise BmtoolsError("metadata of the card: found license other without license_name, "
                           "expected the licence's name there")


def card_metadata(facts: ModelFacts, about: About, scores: Sequence[Score], licence: str,
                  languages: Sequence[str], emissions: JsonMapping,
                  name: str) -> JsonObject:
    """Make the metadata of a card; what is not known is left out.

    Args:
        facts: of the model.
        about: what people state.
        scores: measured ones.
        licence: by SPDX, parts that all hold joined by AND; empty where it is unknown.
        languages: codes.
        emissions: `co2_eq_emissions`; empty where they are unknown.
        name: of the model.
    """
    from huggingface_hub import EvalResult, ModelCardData

    tag = "" if facts.has_own_head else facts.pipeline_tag
    bases = [about.base_models[name] for name in facts.bases.values() if name in about.base_models]
    precision = (facts.settings.get("exported") or {}).get("precision", "")
    relation = _RELATIONS.get(precision if facts.format else facts.manifest.get("command", ""),
                              "" if facts.format else "finetune")
    datasets = {name: one.dataset for name, one in about.benchmarks.items()}
    results = [EvalResult(
        facts.pipeline_tag or _OTHER, datasets.get(score.of, score.of), score.of, score.metric,
        score.value, metric_args={"interval_95": list(score.interval)} if score.interval else None)
        for score in scores]
    metadata = ModelCardData(
        language=list(languages) or None, **_licence(licence),
        library_name=facts.format or "transformers", pipeline_tag=tag or None,
        tags=["bmtools", *filter(None, [about.domain if " " not in about.domain else ""])],
        datasets=[one.hub for one in about.datasets.values() if one.hub] or None,
        metrics=sorted({score.metric for score in scores} & _HUB_METRICS) or None,
        base_model=bases or None, base_model_relation=(relation or None) if bases else None,
        co2_eq_emissions=dict(emissions) or None, eval_results=results or None,
        model_name=name if results else None)
    check_metadata(found := metadata.to_dict())
    return found


def _licence(name: str) -> JsonObject:
    """Spell a licence as the Hub does: its identifier, or other and the name.

    One that is unknown in part is left out.
    """
    if UNKNOWN in name.split(" AND "):
        return {}
    if name.lower() in _identifiers("license"):
        return {"license": name.lower()}
    return {"license": _OTHER, "license_name": name.lower().replace(" ", "-")} if name else {}


def _identifiers(key: str) -> list[str]:
    """List the values that the Hub knows for a key."""
    text = files("bmtools.study.cards").joinpath(f"{key}.txt").read_text(encoding="utf-8")
    return text.split()
