"""Settings of `translate`; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bmtools.corpus.languages import primary_language
from bmtools.errors import check_choices, require_names, setting
from bmtools.search.abbreviations import Abbreviations

Engine = Literal["memory", "apertium", "ctranslate2", "transformers"]
Missing = Literal["reject", "keep", "drop"]
OtherLanguages = Literal["reject", "keep"]
ComputeType = Literal["default", "float32", "float16", "bfloat16", "int8"]
Device = Literal["auto", "cpu", "cuda"]

CHECKS = {
    "empty": "nothing was written",
    "short": "it is much shorter than its source",
    "long": "it is much longer than its source",
    "looping": "words come again and again",
    "repeated": "the sentence before it, which is another, has the same translation",
    "copied": "half the words of the source or more stand in it",
    "language": "it is in another language",
    "script": "it is in another script, such as simplified for traditional Chinese",
    "variant": "it is spelt as in Brazil for pt-PT, or as in Portugal for pt-BR",
    "numbers": "a number of the source is not in it",
    "units": "a unit of the source is not in it",
}
"""Checks of a translation, and what they find."""


@dataclass(frozen=True)
class AuditConfig:
    """Audit: faults of translations, which are tried again and then flagged.

    Args:
        checks: faults to look for, separated by commas; or all, or none.
        keep_scores: write the engine's log-probability of each sentence into meta.
    """

    checks: str = "all"
    keep_scores: bool = False

    def __post_init__(self) -> None:
        require_names("checks", self.names, tuple(CHECKS))

    @property
    def names(self) -> tuple[str, ...]:
        if self.checks in ("all", "none"):
            return tuple(CHECKS) if self.checks == "all" else ()
        return tuple(name.strip() for name in self.checks.split(","))


@dataclass(frozen=True)
class DocumentConfig:
    """Languages of records, and the treatment of untranslatable sentences and records.

    Args:
        source_lang: language of the records, ISO 639-1.
        target_lang: language to translate into, ISO 639-1.
        missing: a sentence without a translation: reject its record, keep it, or drop it.
        other_languages: a record whose lang is another language: reject or keep it.
        drop_annotations: remove the keys whose offsets would be wrong afterwards.
        abbreviations: beside those known of the source language.
        keep_scores: keep the log-probabilities of sentences.
    """

    source_lang: str
    target_lang: str
    missing: Missing = "reject"
    other_languages: OtherLanguages = "reject"
    drop_annotations: bool = False
    abbreviations: Abbreviations | None = None
    keep_scores: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        if primary_language(self.source_lang) == primary_language(self.target_lang):
            raise ValueError(f"{setting('source_lang')} and {setting('target_lang')} are both "
                             f"{self.source_lang}; expected two languages")


@dataclass(frozen=True)
class ModelConfig:
    """A neural model and how it generates.

    Args:
        model: its directory.
        tokenizer: directory of the tokenizer; the model's own by default.
        source_code: the model's name of the source language; found automatically by default.
        target_code: likewise of the target language.
        beam_size: hypotheses kept; 1 is greedy.
        batch_tokens: tokens of one batch, padding included.
        max_length: tokens of the longest sentence accepted, language tokens included; the model's
            own limit by default.
        compute_type: of the weights; `default` is that of a converted model, else float32.
        device: `auto` takes a GPU where there is one.
    """

    model: Path
    tokenizer: Path | None = None
    source_code: str | None = None
    target_code: str | None = None
    beam_size: int = 4
    batch_tokens: int = 4096
    max_length: int | None = None
    compute_type: ComputeType = "default"
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class EngineConfig:
    """An engine and its resources.

    Args:
        engine: its name.
        source_lang: language of the sentences, ISO 639-1.
        target_lang: language to translate into, ISO 639-1.
        memory: TMX or TSV file; for `memory`.
        via: language in between, ISO 639-1; for `apertium`.
        model: for `ctranslate2` and `transformers`.
    """

    engine: Engine
    source_lang: str
    target_lang: str
    memory: Path | None = None
    via: str | None = None
    model: ModelConfig | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        engine, faults = f"{setting('engine')} {self.engine}", []
        is_neural = self.engine in ("ctranslate2", "transformers")
        for name, value, belongs in (("memory", self.memory, self.engine == "memory"),
                                     ("via", self.via, self.engine == "apertium"),
                                     ("model", self.model, is_neural)):
            if value and not belongs:
                faults.append(f"{setting(name)} means nothing to {engine}")
            if belongs and not value and name != "via":
                faults.append(f"{engine} needs {setting(name)}")
        if self.engine == "transformers" and self.model and self.model.compute_type == "int8":
            faults.append(f"{setting('compute_type')} int8 needs {setting('engine')} ctranslate2")
        ends = map(primary_language, (self.source_lang, self.target_lang))
        if self.via and primary_language(self.via) in ends:
            faults.append(f"{setting('via')} {self.via} is one of the two languages; "
                          "expected a third")
        if faults:
            raise ValueError("; ".join(faults))
