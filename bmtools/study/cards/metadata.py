"""The YAML at the head of a model card.

Sources: hub-docs, `modelcard.md`, `model-cards-co2.md` and `repositories-licenses.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from bmtools.io.provenance.licences import UNKNOWN
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards.about import About
from bmtools.study.cards.facts import ModelFacts
from bmtools.study.cards.scores import Score

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

_OTHER = "other"
_RELATIONS = {"merge": "merge", "int8": "quantized"}
_HUB_METRICS = {"accuracy", "exact_match", "f1", "matthews_correlation", "pearsonr", "perplexity",
                "precision", "recall", "spearmanr"}


def card_metadata(facts: ModelFacts, about: About, scores: Sequence[Score], licence: str,
                  languages: Sequence[str], emissions: JsonMapping,
                  name: str) -> ModelCardData:
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
    """Spell a licence as the Hub does: its identifier, or other and the name.

    One that is unknown in part is left out.
    """
    if UNKNOWN in name.split(" AND "):
        return {}
    known = files("bmtools.study.cards").joinpath("license.txt").read_text(encoding="utf-8")
    if name.lower() in known.split():
        return {"license": name.lower()}
    return {"license": _OTHER, "license_name": name.lower().replace(" ", "-")} if name else {}
