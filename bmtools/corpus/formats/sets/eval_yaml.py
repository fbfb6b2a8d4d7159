"""`eval.yaml` beside a split set: how EuroEval, Inspect and the Hugging Face Hub evaluate on it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bmtools.records import Record

_FORM = """\
# Of a dataset of the Hub: EuroEval reads task, languages and labels, Inspect the tasks.
name: {name}
description: {description}
evaluation_framework: inspect-ai
task: classification
languages: {languages}
labels: {labels}
tasks:
  - id: {name}
    config: default
    split: test
    field_spec:
      input: text
      target: label
    solvers:
      - name: prompt_template
        args:
          template: {template}
      - name: generate
    scorers:
      - name: exact
"""


def eval_yaml(parts: Mapping[str, Sequence[Record]], name: str) -> str | None:
    """Describe a set of texts with one label each; None for others, or without a test part.

    Pairs, questions and annotations are no task that these readers know by columns alone.

    Args:
        parts: records by the names of their parts.
        name: of the set.
    """
    records = [record for own in parts.values() for record in own]
    if "test" not in parts or any("label" not in record or "text_pair" in record
                                  or "question" in record for record in records):
        return None
    labels = sorted({record["label"] for record in records})
    listed = ", ".join(labels).replace("{", "{{").replace("}", "}}")
    values = {
        "name": name, "description": f"{len(records)} texts with one of {len(labels)} labels",
        "languages": sorted({record["lang"] for record in records if record.get("lang")}) or ["en"],
        "labels": labels,
        "template": f"Classify the text. Answer with one of these alone: {listed}\n\n{{prompt}}"}
    # JSON is YAML.
    return _FORM.format(**{key: json.dumps(value, ensure_ascii=False)
                           for key, value in values.items()})
