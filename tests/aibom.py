"""OWASP's completeness of an AI bill of materials, from its published fields and weights.

Source: GenAI-Security-Project/aibom-generator, `field_registry.json` and `scoring.py`. Each
category contributes its weight times the share of its fields that are present. Missing critical and
important fields lower the sum. Fields of GGUF files count only if they are present.
"""

from __future__ import annotations

from typing import Any

WEIGHTS = {"required_fields": 20, "metadata": 20, "component_basic": 20,
           "component_model_card": 30, "external_references": 10}
CRITICAL = {"bomFormat", "specVersion", "serialNumber", "version", "primaryPurpose", "suppliedBy",
            "name", "type", "component_version"}
IMPORTANT = {"purl", "description", "licenses", "datasets", "ethicalConsiderations",
             "energyConsumption", "hyperparameter", "technicalLimitations", "safetyRiskAssessment",
             "intendedUse", "typeOfModel", "downloadLocation"}
FIELDS = {
    "required_fields": ["bomFormat", "specVersion", "serialNumber", "version"],
    "metadata": ["primaryPurpose", "suppliedBy", "standardCompliance", "domain", "autonomyType"],
    "component_basic": ["external_references", "name", "type", "component_version", "purl",
                        "description", "licenses"],
    "component_model_card": [
        "datasets", "ethicalConsiderations", "energyConsumption", "hyperparameter",
        "technicalLimitations", "safetyRiskAssessment", "intendedUse", "typeOfModel",
        "modelExplainability", "energyQuantity", "energyUnit", "informationAboutTraining",
        "informationAboutApplication", "metric", "metricDecisionThreshold",
        "modelDataPreprocessing", "useSensitivePersonalInformation"],
    "external_references": ["paper", "vcs", "website", "downloadLocation"]}
GGUF = {"vocabSize", "contextLength", "embeddingLength", "blockCount", "attentionHeadCount",
        "feedForwardLength"}
CARD_PROPERTIES = {"hyperparameter": "hyperparameter",
                   "modelExplainability": "modelCardExplainability"}
REFERENCES = {"paper": {"documentation"}, "vcs": {"vcs"}, "website": {"website"},
              "downloadLocation": {"distribution", "website"}}
CONSIDERATIONS = {"technicalLimitations": ["technicalLimitations"],
                  "safetyRiskAssessment": ["ethicalConsiderations"],
                  "energyConsumption": ["environmentalConsiderations"],
                  "ethicalConsiderations": ["ethicalConsiderations"]}


def missing_fields(bom: dict[str, Any]) -> list[str]:
    """Return the registry's fields that are missing in a bill of materials."""
    return [name for names in FIELDS.values() for name in names if not _is_there(bom, name)]


def completeness(bom: dict[str, Any]) -> float:
    """Score a bill from 0 to 100."""
    missing = set(missing_fields(bom))
    card = _properties(_model(bom).get("modelCard", {}))
    total = 0.0
    for category, names in FIELDS.items():
        extra = sum(f"genai:aibom:modelcard:{name}" in card for name in GGUF) \
            if category == "component_model_card" else 0
        there = sum(name not in missing for name in names) + extra
        total += round(WEIGHTS[category] * there / (len(names) + extra), 1)
    critical, important = len(missing & CRITICAL), len(missing & IMPORTANT)
    factor = 0.8 if critical > 3 else 0.9 if critical >= 2 else 1.0
    return round(total * factor * (0.95 if important >= 5 else 1.0), 1)


def _is_there(bom: dict[str, Any], name: str) -> bool:
    model = _model(bom)
    card = model.get("modelCard", {})
    if name in bom or name in _properties(bom.get("metadata", {})):
        return True
    if name == "typeOfModel":
        return bool(card.get("modelParameters", {}).get("modelArchitecture"))
    if name in CARD_PROPERTIES:
        return f"genai:aibom:modelcard:{CARD_PROPERTIES[name]}" in _properties(card)
    if name in REFERENCES:
        return any(one["type"] in REFERENCES[name] for one in model.get("externalReferences", ()))
    if name in CONSIDERATIONS:
        return any(card.get("considerations", {}).get(key) for key in CONSIDERATIONS[name])
    key = "version" if name == "component_version" else name
    return bool(model.get(key) or card.get("modelParameters", {}).get(key))


def _model(bom: dict[str, Any]) -> dict[str, Any]:
    return bom.get("components", [{}])[0]


def _properties(holder: dict[str, Any]) -> set[str]:
    return {one["name"] for one in holder.get("properties", ()) if one.get("value")}
