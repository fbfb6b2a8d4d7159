"""Settings of `translate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bmtools.corpus.languages import primary_language

ENGINES = ("memory", "apertium", "ctranslate2", "transformers")
MISSING = ("reject", "keep", "drop")
OTHER_LANGUAGES = ("reject", "keep")
PRECISIONS = ("default", "float32", "float16", "bfloat16", "int8")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class DocumentConfig:
    """Which languages, and what becomes of what cannot be translated.

    Args:
        source: language of the records, ISO 639-1.
        target: language wanted, ISO 639-1.
        missing: a sentence without a translation: reject its record, keep it, or drop it.
        other_languages: a record that says it is in another language: reject or keep it.
        drop_annotations: remove the keys whose offsets would be wrong afterwards.
    """

    source: str
    target: str
    missing: str = "reject"
    other_languages: str = "reject"
    drop_annotations: bool = False

    def __post_init__(self) -> None:
        if primary_language(self.source) == primary_language(self.target):
            raise ValueError(f"--source and --target are both {self.source}; "
                             "expected two languages")


@dataclass(frozen=True)
class ModelConfig:
    """How a neural model translates.

    Args:
        model: its directory.
        tokenizer: directory of the tokenizer; the model's own by default.
        source_code: the model's name of the source language; found by itself by default.
        target_code: likewise of the target language.
        beam_size: hypotheses kept; 1 is greedy.
        batch_tokens: tokens of one batch, padding included.
        max_tokens: longest sentence taken, marks included; the model's own limit by default.
        precision: of the weights; `default` is what a converted model holds, else float32.
        device: `auto` takes a GPU where there is one.
    """

    model: Path
    tokenizer: Path | None = None
    source_code: str | None = None
    target_code: str | None = None
    beam_size: int = 4
    batch_tokens: int = 4096
    max_tokens: int | None = None
    precision: str = "default"
    device: str = "auto"


@dataclass(frozen=True)
class EngineConfig:
    """Which engine, and what it works with.

    Args:
        engine: one of ENGINES.
        source: language of the sentences, ISO 639-1.
        target: language wanted, ISO 639-1.
        memory: TMX or TSV file; for `memory`.
        via: language in between, ISO 639-1; for `apertium`.
        model: for `ctranslate2` and `transformers`.
    """

    engine: str
    source: str
    target: str
    memory: Path | None = None
    via: str | None = None
    model: ModelConfig | None = None

    def __post_init__(self) -> None:
        faults = [*self._misplaced()]
        if self.engine == "transformers" and self.model and self.model.precision == "int8":
            faults.append("--precision int8 needs --engine ctranslate2")
        if self.via and primary_language(self.via) in (primary_language(self.source), primary_language(self.target)):
            faults.append(f"--via {self.via} is one of the two languages; expected a third")
        if faults:
            raise ValueError("; ".join(faults))

    def _misplaced(self) -> list[str]:
        """Name what an engine needs and lacks, or has and cannot use."""
        faults = []
        is_neural = self.engine in ("ctranslate2", "transformers")
        for option, value, belongs in (("--memory", self.memory, self.engine == "memory"),
                                       ("--via", self.via, self.engine == "apertium"),
                                       ("--model", self.model, is_neural)):
            if value and not belongs:
                faults.append(f"{option} means nothing to --engine {self.engine}")
            if belongs and not value and option != "--via":
                faults.append(f"--engine {self.engine} needs {option}")
        return faults
