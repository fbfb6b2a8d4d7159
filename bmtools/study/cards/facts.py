"""Facts about a model, from the files and the step record in its directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.io.json_files import read_manifest, read_object
from bmtools.models.model_files import WEIGHTS, count_weights
from bmtools.records import JsonMapping

# By suffix of transformers' classes: the Hub's name of the task, and a title.
_HEADS = {"ForMaskedLM": ("fill-mask", "Masked language model"),
          "ForPreTraining": ("fill-mask", "Masked language model"),
          "ForTokenClassification": ("token-classification", "Entity tagger"),
          "ForSequenceClassification": ("text-classification", "Text classifier"),
          "ForQuestionAnswering": ("question-answering", "Question answering model")}
_TITLES = {"relations": "Relation finder"}
"""Titles of tasks that the head does not identify."""
BASES = {"model": "trained from", "base": "weights of", "teacher": "teacher",
         "published": "converted from", "student": "student's start", "source": "exported from"}
"""Settings that name a checkpoint, and its relation to the model."""
_UNBOUNDED = 10**9  # transformers writes a larger number


@dataclass(frozen=True)
class ModelFacts:
    """A model as its directory describes it.

    Args:
        path: the directory.
        name: name of the directory; `kind_name` if the directory is hidden.
        kind: class in transformers.
        kind_name: common name of all such models, for example entity-tagger.
        title: the kind in one or two words.
        pipeline_tag: the Hub's name of the task; empty if the task has no name.
        config: content of `config.json`; empty for a vocabulary.
        manifest: content of `bmtools.json`; empty if another program wrote the directory.
        settings: settings of the command that wrote the directory.
        results: values that this command measured.
        bases: names of the checkpoints that the model was made from, by role.
        format: format of an exported model; empty for a checkpoint.
        labels: labels of a fine-tuned model.
        weights: number of weights; 0 if it is not known.
        tokenizer: content of `tokenizer_config.json`.
        tokenizer_type: WordPiece, BPE or Unigram; empty if there is no `tokenizer.json`.
        tokens: size of the vocabulary.
        max_length: tokens of the longest input; 0 if it is not limited.
    """

    path: Path
    name: str
    kind: str
    kind_name: str
    title: str
    pipeline_tag: str
    config: JsonMapping
    manifest: JsonMapping
    settings: JsonMapping
    results: JsonMapping
    bases: Mapping[str, str]
    format: str
    labels: Sequence[str]
    weights: int
    tokenizer: JsonMapping
    tokenizer_type: str
    tokens: int
    max_length: int

    @property
    def has_own_head(self) -> bool:
        """Whether it has a head, tags or inputs that transformers' pipeline cannot use."""
        known = self.settings.get
        return bool(known("task") == "relations" or known("scheme") == "bioul"
                    or known("head", "linear") != "linear" or known("crf") or known("overlapping"))

    @property
    def mask(self) -> str:
        """The mask token."""
        token = self.tokenizer.get("mask_token") or ""
        return str(token["content"] if isinstance(token, Mapping) else token)


def read_facts(directory: Path) -> ModelFacts:
    """Read the facts in the files of a model or vocabulary.

    Raises:
        CheckpointError: there is no model or vocabulary, or a file is damaged.
    """
    files = {name: read_object(directory / name) if (directory / name).is_file() else {}
             for name in ("config.json", "tokenizer_config.json", "tokenizer.json")}
    config, manifest = files["config.json"], read_manifest(directory)
    if not config and not files["tokenizer.json"]:
        raise CheckpointError(f"{directory}: found no config.json or tokenizer.json, expected a "
                              "checkpoint, an exported model or a vocabulary")
    tokenizer, model = files["tokenizer_config.json"], files["tokenizer.json"].get("model", {})
    # The entries of Unigram are pairs of a token and its score.
    tokens = len({token if isinstance(token, str) else token[0] for token in model.get("vocab", ())}
                 | {one["content"] for one in files["tokenizer.json"].get("added_tokens", ())})
    has_weights = any((directory / name).is_file() for name in (WEIGHTS, f"{WEIGHTS}.index.json"))
    weights = count_weights(directory) if has_weights else 0
    settings, results = manifest.get("settings", {}), manifest.get("results", {})
    kind = str((config.get("architectures") or [""])[0])
    pipeline_tag, title = next(
        (head for suffix, head in _HEADS.items() if kind.endswith(suffix)), ("", "Model"))
    if not config:
        title = "Vocabulary"
    elif config.get("problem_type") == "regression":
        title = "Text regressor"
    else:
        title = _TITLES.get(settings.get("task", ""), title)
    name, kind_name = directory.resolve().name, title.lower().replace(" ", "-")
    max_length = int(tokenizer.get("model_max_length") or 0)
    return ModelFacts(
        directory, kind_name if name.startswith(".") else name, kind, kind_name, title,
        pipeline_tag, config, manifest, settings, results,
        bases={role: base for role, base in base_names(settings).items() if role != "tokenizer"},
        format=str((settings.get("exported") or {}).get("format", "")),
        labels=list((config.get("id2label") or {}).values())
        if "For" in kind and pipeline_tag != "fill-mask" else [],
        weights=weights or results.get("parameters", 0), tokenizer=tokenizer,
        tokenizer_type=str(model.get("type", "")), tokens=tokens or config.get("vocab_size", 0),
        max_length=max_length if max_length < _UNBOUNDED else 0)


def base_names(settings: JsonMapping) -> dict[str, str]:
    """Return the names of the checkpoints in a command's settings, by role."""
    if merged := settings.get("merged"):
        return {f"merged {n}": Path(path).name for n, path in enumerate(merged, 1)}
    if exported := settings.get("exported"):
        return {"source": Path(exported["source"]).name}
    return {role: Path(settings[role]).name for role in (*BASES, "tokenizer") if settings.get(role)}
