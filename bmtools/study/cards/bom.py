"""Bills of materials: a model, its data and its software in CycloneDX 1.6.

Fields that CycloneDX does not define are named as in OWASP's AIBOM registry.

Sources: ECMA-424 (CycloneDX 1.6), `modelCard`; GenAI-Security-Project/aibom-generator,
`field_registry.json`.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from bmtools.installation import DISTRIBUTION
from bmtools.io.energy.figures import KINDS, add
from bmtools.io.provenance.manifest import described_files
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.cards import history
from bmtools.study.cards.about import About
from bmtools.study.cards.facts import ModelFacts
from bmtools.study.cards.scores import Score, recorded_scores
from bmtools.study.lineages.graph import Lineage, Node

_APPROACHES = {"finetune": "supervised", "pretrain": "self-supervised",
               "distill": "self-supervised", "init-weights": "self-supervised"}
_ACTIVITIES = {"pretrain": "training", "distill": "training", "finetune": "fine-tuning",
               "import": "data-preparation", "clean": "data-preparation",
               "translate": "data-preparation", "build-vocab": "data-preparation",
               "tokenize": "data-preparation", "export": "deployment"}
_SPDX = re.compile(
    r"MIT|ISC|Unlicense|WTFPL|Zlib|(CC-BY(-NC)?(-ND|-SA)?|CC0|CC-PDM|Apache|AFL|AGPL|BSD|"
    r"CDLA-Permissive|ECL|etalab|EUPL|GFDL|GPL|LGPL|MPL)-\d\.?\d?(-only|-or-later|-Clause)?")
_PACKAGES = {"bmtools": DISTRIBUTION}
_HUB = "https://huggingface.co"
_SIZES = {"vocabSize": "vocab_size", "contextLength": "max_position_embeddings",
          "embeddingLength": "hidden_size", "blockCount": "num_hidden_layers",
          "attentionHeadCount": "num_attention_heads", "feedForwardLength": "intermediate_size"}


def bill_of_materials(facts: ModelFacts, about: About, scores: Sequence[Score],
                      lineage: Lineage) -> JsonObject:
    """Return a model's bill of materials; equal files and statements give equal bills.

    Args:
        facts: facts of the model.
        about: statements of people; facts that are not stated are left out.
        scores: scores in addition to the scores in the model's own record.
        lineage: lineage of the model.
    """
    scores = [*recorded_scores(facts), *scores]
    parts = [*(_data_component(file, about, lineage) for file in history.data_of(lineage)),
             *(_software(name, version)
               for name, version in facts.manifest.get("versions", {}).items())]
    component = _model_component(facts, about, scores, lineage)
    bill: JsonObject = _kept({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{_HUB}#{lineage.root.id}')}",
        "version": 1,
        "metadata": {
            "timestamp": lineage.root.record.get("started"),
            "component": {"type": component["type"], "bom-ref": "subject",
                          "name": component["name"], "version": component["version"]},
            "supplier": {"name": about.developed_by},
            "properties": _properties(_registry_fields(facts, about, scores, lineage))},
        "components": [component, *parts],
        "dependencies": [{"ref": "subject", "dependsOn": [component["bom-ref"]]},
                         {"ref": component["bom-ref"],
                          "dependsOn": [one["bom-ref"] for one in parts]}]})
    return bill


def _model_component(facts: ModelFacts, about: About, scores: Sequence[Score],
                     lineage: Lineage) -> JsonObject:
    model = lineage.root
    name = about.name or facts.name
    hub = f"{_HUB}/{about.repository}" if about.repository else ""
    ancestors = [node for node in history.models_in(lineage)
                 if node != model and node.record["command"] != "build-vocab"]
    return {
        "type": "machine-learning-model" if facts.config else "data",
        "bom-ref": f"model:{model.id}", "supplier": {"name": about.developed_by},
        "name": name, "version": about.version or model.id[:12],
        "description": about.description or f"{facts.title}, {facts.kind}, "
                       f"{facts.weights:,} weights, {facts.tokens:,} tokens",
        "licenses": _licences(about.licence or history.licence_of(model)),
        "purl": f"pkg:huggingface/{about.repository}" if about.repository
                else f"pkg:generic/{quote(name, safe='')}@{model.id}",
        "pedigree": {"ancestors": [
            {"type": "machine-learning-model", "name": node.name, "version": node.id[:12],
             "bom-ref": f"model:{node.id}", "licenses": _licences(history.licence_of(node)),
             "description": f"bmtools {node.record['command']}"} for node in ancestors]},
        "externalReferences": [
            {"type": kind, "url": url} for kind, url in (
                ("website", about.website or hub), ("distribution", hub), ("vcs", about.code),
                ("documentation", about.paper)) if url],
        "components": [{"type": "file", "bom-ref": f"file:{model.id[:12]}/{file}",
                        "name": file, "hashes": _hashes(digest)}
                       for file, digest in described_files(facts.path).items()],
        "modelCard": _model_card(facts, about, scores, lineage) if facts.config else None,
        "properties": _properties({"bmtools:directory-sha256": model.id})}


def _model_card(facts: ModelFacts, about: About, scores: Sequence[Score],
                lineage: Lineage) -> JsonObject:
    config = facts.config
    return {
        "modelParameters": {
            "approach": {"type": next((
                _APPROACHES[command] for model in history.models_in(lineage)
                if (command := model.record["command"].partition(" ")[0]) in _APPROACHES), None)},
            "task": facts.pipeline_tag,
            "architectureFamily": config.get("model_type"), "modelArchitecture": facts.kind,
            "datasets": [{"ref": f"data:{file.id}"} for file in history.data_of(lineage)],
            "inputs": [{"format": "text"}],
            "outputs": [{"format": ", ".join(facts.labels) or "vectors of tokens"}]},
        "quantitativeAnalysis": {"performanceMetrics": [
            {"type": score.metric, "value": str(score.value), "slice": score.of,
             "confidenceInterval": {"lowerBound": str(score.interval[0]),
                                    "upperBound": str(score.interval[1])}
             if score.interval else None} for score in scores]},
        "considerations": {
            "users": [about.users], "useCases": [about.intended_use],
            "technicalLimitations": [about.limitations],
            "ethicalConsiderations": [{"name": about.risks}],
            "environmentalConsiderations": {"energyConsumptions": [
                _consumption(step, node) for node in lineage.nodes for step in node.steps
                if _kinds(step)]}},
        "properties": _properties({f"genai:aibom:modelcard:{name}": value for name, value in {
            "hyperparameter": json.dumps({
                key: one for key, one in facts.settings.items() if one}, ensure_ascii=False),
            "modelCardExplainability": about.explainability,
            **{name: config.get(key) for name, key in _SIZES.items()}}.items()})}


def _registry_fields(facts: ModelFacts, about: About, scores: Sequence[Score],
                     lineage: Lineage) -> JsonObject:
    """Return the values of the fields in OWASP's registry, by name."""
    energies = history.energies_of(lineage)
    energy = {kind: one["kwh"] for kind, one in add(energies).items() if kind in KINDS}
    quantity = next((f"{energy[kind]:.6g}" for kind in KINDS if kind in energy), "")
    urls = (about.repository, about.website, about.code, about.paper)
    trained = [f"{model.record['command']}: {model.record['tokens_seen']:,} tokens"
               for model in history.models_in(lineage) if model.record.get("tokens_seen")]
    made = dict.fromkeys(name for file in history.data_of(lineage)
                         for name in history.commands(lineage, file))
    return {
        "primaryPurpose": facts.pipeline_tag, "suppliedBy": about.developed_by,
        "standardCompliance": about.standards, "domain": about.domain,
        "autonomyType": about.autonomy, "external_references": ", ".join(filter(None, urls)),
        "intendedUse": about.intended_use, "safetyRiskAssessment": about.risks,
        "energyConsumption": "; ".join(
            f"{kwh:.6g} kWh {kind}, {sum(kind in one for one in energies)} steps"
            for kind, kwh in energy.items()),
        "energyQuantity": quantity, "energyUnit": "kWh" if quantity else "",
        "informationAboutTraining": "; ".join(trained),
        "informationAboutApplication": about.users,
        "metric": "; ".join(f"{one.metric} {one.value:.4g} on {one.of}" for one in scores),
        "metricDecisionThreshold": about.decision_threshold,
        "modelDataPreprocessing": about.preprocessing or ", ".join(made),
        "useSensitivePersonalInformation": about.personal_data}


def _data_component(file: Node, about: About, lineage: Lineage) -> JsonObject:
    stated = about.dataset(file.name)
    url = stated.url or (f"{_HUB}/datasets/{stated.hub}" if stated.hub else "")
    made = " ← ".join(f"bmtools {command}" for command in history.commands(lineage, file))
    return {"type": "data", "bom-ref": f"data:{file.id}", "name": file.name,
            "version": file.id[:12], "hashes": _hashes(file.id),
            "licenses": _licences(stated.licence or history.data_licence(lineage, file)),
            "description": stated.description or made,
            "externalReferences": [{"type": "distribution", "url": url}] if url else [],
            "data": [{"type": "dataset", "name": file.name, "contents": {
                "properties": _properties({"bmtools:made-by": made})}}]}


def _software(name: str, version: str) -> JsonObject:
    kind, name = ("generic", name) if name == "python" else ("pypi", _PACKAGES.get(name, name))
    purl = f"pkg:{kind}/{name}@{quote(version)}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _consumption(step: JsonMapping, output: Node) -> JsonObject:
    """Describe a step's energy: the most reliable kind, with other kinds as properties."""
    energy, (kind, *others) = step["energy"], _kinds(step)
    grid, cost = energy.get("grid", {}), {"value": energy[kind]["kwh"], "unit": "kWh"}
    emitted = energy.get("kg_co2eq", {})
    return {
        "activity": _ACTIVITIES.get(step["command"].partition(" ")[0], "other"),
        "energyProviders": [{
            "organization": {"name": " ".join(filter(None, (
                "grid of", grid.get("country"), str(grid.get("year", ""))))) if grid
                else "not stated"},
            "energySource": "unknown", "energyProvided": cost}],
        "activityEnergyCost": cost,
        "co2CostEquivalent": {"value": emitted[kind] / 1000, "unit": "tCO2eq"}
        if kind in emitted else None,
        "properties": _properties({
            "bmtools:command": step["command"], "bmtools:output": output.id,
            "bmtools:kind": kind,
            "bmtools:grid": f"{grid['g_per_kwh']} g/kWh, {grid['source']}" if grid else "",
            **{f"bmtools:{other}-kwh": energy[other]["kwh"] for other in others}})}


def _kinds(step: JsonMapping) -> list[str]:
    return [kind for kind in KINDS if kind in (step.get("energy") or {})]


def _licences(licence: str) -> list[JsonObject]:
    return [{"license": {"id" if _SPDX.fullmatch(part) else "name": part}}
            for part in licence.split(" AND ") if part]


def _hashes(digest: str) -> list[JsonObject]:
    return [{"alg": "SHA-256", "content": digest}] if digest else []


def _properties(values: JsonMapping) -> list[JsonObject]:
    return [{"name": name, "value": str(value)} for name, value in values.items()
            if value not in (None, "", [], {}, "{}")]


def _kept(value: Any) -> Any:
    """Remove empty values, at every depth."""
    if isinstance(value, Mapping):
        return {key: kept for key, one in value.items()
                if (kept := _kept(one)) not in (None, "", [], {})}
    if isinstance(value, list):
        return [kept for one in value if (kept := _kept(one)) not in (None, "", [], {})]
    return value
