"""Facts about a model, from the files and the step record in its directory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.json_files import read_manifest, read_object
from bmtools.io.tensor_files import LENGTH_BYTES, parse_header
from bmtools.records import JsonMapping

# Suffix of transformers' classes: the Hub's name of the task, and a title.
_HEADS = {"ForMaskedLM": ("fill-mask", "Masked language model"),
          "ForPreTraining": ("fill-mask", "Masked language model"),
          "ForTokenClassification": ("token-classification", "Entity tagger"),
          "ForSequenceClassification": ("text-classification", "Text classifier"),
          "ForQuestionAnswering": ("question-answering", "Question answering model"),
          "StaticModel": ("", "Static model")}
_TITLES = {"relations": "Relation finder"}
"""Titles of tasks whose head does not tell them."""
BASES = {"model": "trained from", "base": "weights of", "teacher": "teacher",
         "published": "converted from", "student": "student's start", "source": "exported from"}
"""Settings that name a checkpoint, with what it was to the model."""
_UNBOUNDED = 10**9  # transformers writes a larger number


@dataclass(frozen=True)
class ModelFacts:
    """A model as its directory describes it.

    Args:
        path: the directory.
        config: content of `config.json`; empty for a vocabulary.
        manifest: content of `bmtools.json`; empty where another program wrote the directory.
        weights: their number; 0 where the files do not say.
        tokenizer: content of `tokenizer_config.json`.
        tokenizer_type: WordPiece, BPE or Unigram; empty where there is no `tokenizer.json`.
        tokens: size of the vocabulary.
    """

    path: Path
    config: JsonMapping
    manifest: JsonMapping
    weights: int
    tokenizer: JsonMapping
    tokenizer_type: str
    tokens: int

    @property
    def name(self) -> str:
        """Name of the directory; the name of its kind if the directory is hidden."""
        name = self.path.resolve().name
        return self.kind_name if name.startswith(".") else name

    @property
    def kind_name(self) -> str:
        """Name that all models of its kind share, such as entity-tagger."""
        return self.title.lower().replace(" ", "-")

    @property
    def settings(self) -> JsonMapping:
        """Settings of the command that wrote it."""
        return self.manifest.get("settings", {})

    @property
    def results(self) -> JsonMapping:
        """What that command measured."""
        return self.manifest.get("results", {})

    @property
    def kind(self) -> str:
        """transformers' class."""
        return str((self.config.get("architectures") or [""])[0])

    @property
    def pipeline_tag(self) -> str:
        """The Hub's name of the task; empty where it has none."""
        return self._head[0]

    @property
    def title(self) -> str:
        """What it is, in a word or two."""
        if not self.config:
            return "Vocabulary"
        if self.config.get("problem_type") == "regression":
            return "Text regressor"
        return _TITLES.get(self.settings.get("task", ""), self._head[1])

    @property
    def _head(self) -> tuple[str, str]:
        return next((value for suffix, value in _HEADS.items() if self.kind.endswith(suffix)),
                    ("", "Model"))

    @property
    def is_static(self) -> bool:
        """Whether it is a table of vectors."""
        return self.kind.startswith("Static")

    @property
    def has_own_head(self) -> bool:
        """Whether it has a head, tags or inputs that transformers' pipeline cannot use."""
        known = self.settings.get
        return bool(known("task") == "relations" or known("scheme") == "bioul"
                    or known("head", "linear") != "linear" or known("crf") or known("overlapping"))

    @property
    def format(self) -> str:
        """Format of an exported model; empty for a checkpoint."""
        return str((self.settings.get("exported") or {}).get("format", ""))

    @property
    def mask(self) -> str:
        """The mask token."""
        token = self.tokenizer.get("mask_token") or ""
        return str(token["content"] if isinstance(token, Mapping) else token)

    @property
    def max_length(self) -> int:
        """Tokens of the longest input; 0 where it has no bound."""
        length = int(self.tokenizer.get("model_max_length") or 0)
        return length if length < _UNBOUNDED else 0

    @property
    def bases(self) -> dict[str, str]:
        """Names of the checkpoints it was made from, by role."""
        return {role: name for role, name in base_names(self.settings).items()
                if role != "tokenizer"}

    def labels(self) -> list[str]:
        """List the labels of a fine-tuned model."""
        if "For" not in self.kind or self.pipeline_tag == "fill-mask":
            return []
        return list((self.config.get("id2label") or {}).values())


def read_facts(directory: Path) -> ModelFacts:
    """Read what the files of a model or vocabulary say.

    Raises:
        CheckpointError: neither is there, or a file is damaged.
    """
    files = {name: read_object(directory / name) if (directory / name).is_file() else {}
             for name in ("config.json", "tokenizer_config.json", "tokenizer.json")}
    config, manifest = files["config.json"], read_manifest(directory)
    if not config and not files["tokenizer.json"]:
        raise CheckpointError(f"{directory}: found no config.json or tokenizer.json, expected a "
                              "checkpoint, an exported model or a vocabulary")
    model = files["tokenizer.json"].get("model", {})
    # Unigram has pairs of tokens and scores.
    tokens = len({token if isinstance(token, str) else token[0] for token in model.get("vocab", ())}
                 | {one["content"] for one in files["tokenizer.json"].get("added_tokens", ())})
    with reading(directory, "the weights cannot be read", "expected safetensors"):
        weights = sum(_count(path) for path in directory.glob("*.safetensors"))
    return ModelFacts(directory, config, manifest,
                      weights or manifest.get("results", {}).get("parameters", 0),
                      files["tokenizer_config.json"], str(model.get("type", "")),
                      tokens or config.get("vocab_size", 0))


def base_names(settings: JsonMapping) -> dict[str, str]:
    """Name the checkpoints that a command's settings name, by role."""
    if merged := settings.get("merged"):
        return {f"merged {n}": Path(path).name for n, path in enumerate(merged, 1)}
    if exported := settings.get("exported"):
        return {"source": Path(exported["source"]).name}
    return {role: Path(settings[role]).name for role in (*BASES, "tokenizer") if settings.get(role)}


def _count(path: Path) -> int:
    """Count the weights of a safetensors file by its header."""
    with path.open("rb") as stream:
        header, _ = parse_header(stream.read(int.from_bytes(stream.read(LENGTH_BYTES), "little")))
    return sum(math.prod(one["shape"]) for one in header.values()
               if one["dtype"].startswith(("F", "BF")))
