"""Settings of `translate`; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bmtools.errors import (
    check_choices,
    require,
    require_above_0,
    require_at_least,
    require_names,
    setting,
)
from bmtools.settings import Settings, option
from bmtools.text.abbreviations import Abbreviations
from bmtools.text.languages import primary_language

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Engine = Literal["memory", "apertium", "ctranslate2", "transformers", "command", "http"]
Missing = Literal["reject", "keep", "drop"]
OtherLanguages = Literal["reject", "keep"]
ComputeType = Literal["default", "float32", "float16", "bfloat16", "int8"]
Device = Literal["auto", "cpu", "cuda"]

TEXTS = ("title", "question", "text", "text_pair")
"""Keys of a record that are translated."""
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


class AuditConfig(Settings, title="Audit"):
    """Audit: faults of translations, which are tried again and then flagged."""

    checks: str = option("all", "Faults to look for, separated by commas; or all, or none.",
                         metavar="all|none|NAME,...")
    keep_scores: bool = option(
        False, "Write the engine's log-probability of each sentence into meta.")
    round_trip: float = option(
        0.0, "Share of sentences that are translated back and compared with the source, 0 to 1.")
    reverse_model: Path | None = option(
        None, "Model that translates back; the model itself by default.")

    def __post_init__(self) -> None:
        require_names("checks", self.names, tuple(CHECKS))
        require(0 <= self.round_trip <= 1, "round_trip", self.round_trip, "0 to 1")
        require(not self.reverse_model or self.round_trip > 0, "reverse_model", self.reverse_model,
                f"nothing without {setting('round_trip')}")

    @property
    def names(self) -> tuple[str, ...]:
        if self.checks in ("all", "none"):
            return tuple(CHECKS) if self.checks == "all" else ()
        return tuple(name.strip() for name in self.checks.split(","))


KINDS = ("numbers", "units", "genes", "drugs")
"""Kinds of terms that patterns find."""


class ProtectionConfig(Settings, title="Terms"):
    """Terms: their translations are enforced, or they stay as they are."""

    glossary: Path | None = option(None, "TSV or TMX file of terms and their translations.")
    protect: Path | None = option(None, "File of terms that stay as they are, one a line.")
    protect_kinds: str = option("", "Kinds of terms that stay as they are (numbers, units, genes, "
                                    "drugs), separated by commas.", metavar="KIND,...")

    def __post_init__(self) -> None:
        require_names("protect_kinds", self.kinds, KINDS)

    @property
    def is_needed(self) -> bool:
        """Whether there are terms."""
        return bool(self.glossary or self.protect or self.kinds)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.protect_kinds.split(",") if name.strip())


class QualityConfig(Settings, title="Scores of translations"):
    """Scores of translations."""

    plain: bool = option(False, "Files are text with a segment a line instead of records.")
    source_lang: str = option("", "Language of the sources, by default that of their records.")
    target_lang: str = option(
        "", "Language of the translations, by default that of the references.")
    resamples: int = option(1000, "Bootstrap resamples of segments behind an interval; 0 for none.")

    def __post_init__(self) -> None:
        require(self.resamples >= 0, "resamples", self.resamples, "0 or more")


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
        keep_sources: keep annotations and texts of the sources, for their projection.
        translate_mentions: translate annotated words by themselves, too.
    """

    source_lang: str
    target_lang: str
    missing: Missing = "reject"
    other_languages: OtherLanguages = "reject"
    drop_annotations: bool = False
    abbreviations: Abbreviations | None = None
    keep_scores: bool = False
    keep_sources: bool = False
    translate_mentions: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        if primary_language(self.source_lang) == primary_language(self.target_lang):
            raise ValueError(f"{setting('source_lang')} and {setting('target_lang')} are both "
                             f"{self.source_lang}; expected two languages")


class ModelConfig(Settings, title="Generation by a model"):
    """Generation by a model."""

    model: Path | None = option(
        None, "Directory of a model, for engines ctranslate2 and transformers.")
    tokenizer: Path | None = option(None, "Directory of the tokenizer; the model's own by default.")
    source_code: str | None = option(
        None, "The model's name of the source language; found automatically by default.")
    target_code: str | None = option(None, "Likewise of the target language.")
    beam_size: int = option(4, "Hypotheses kept by a model; 1 is greedy, and fastest.")
    repetition_penalty: float = option(
        1.0, "Divides the scores of tokens that are in the translation already.")
    no_repeat_ngram_size: int = option(
        0, "Tokens in a row that no translation may hold twice; 0 allows all.")
    batch_tokens: int = option(4096, "Tokens of one batch, padding included.")
    max_length: int | None = option(
        None, "Tokens of the longest sentence that a model accepts, language tokens included; the "
              "model's own limit by default.")
    compute_type: ComputeType = option(
        "default", "Data type of the weights; default is that of a converted model, else int8 (on "
                   "a GPU float16) with ctranslate2, float32 with transformers.")
    threads: int = option(0, "CPU threads of engine ctranslate2; 0 takes one for each core.")
    convert_to: Path | None = option(
        None, "Directory for the conversions that engine ctranslate2 makes of models; by default "
              "bmtools/ctranslate2 in $XDG_CACHE_HOME or ~/.cache.")
    device: Device = option("auto", "auto takes a GPU where there is one.")

    def __post_init__(self) -> None:
        check_choices(self)
        require_at_least(self, beam_size=1, no_repeat_ngram_size=0, batch_tokens=1, threads=0)
        require(self.max_length is None or self.max_length >= 2, "max_length", self.max_length,
                "2 or more")
        require_above_0(self, "repetition_penalty")

    @property
    def directory(self) -> Path:
        assert self.model is not None
        return self.model


class ProgramConfig(Settings, title="Programs that translate"):
    """Programs that translate."""

    command: str | None = option(
        None, "Program of engine command, with its arguments; no shell reads it. It gets a "
              "sentence a line and answers each with a line. {source} and {target} are replaced.")
    persistent: bool = option(False, "Keep the program of engine command running between batches; "
                                     "it must answer each line at once.")
    processes: int = option(
        1, "Copies of the program that work at once, for engines apertium and command.")
    patience: float = option(60.0, "Seconds without an answer after which a program is stopped.")

    def __post_init__(self) -> None:
        require_at_least(self, processes=1)
        require_above_0(self, "patience")


class ServerConfig(Settings, title="Servers that translate"):
    """Servers that translate (OpenAI-compatible)."""

    url: str | None = option(None, "Address of engine http up to /v1, such as "
                                   "http://127.0.0.1:8080/v1; sentences are sent there.")
    served_model: str | None = option(None, "The server's name of the model.")
    prompt: str = option(
        "Translate this sentence from {source} to {target}. Answer with the translation only, on "
        "one line.\n\n{sentence}",
        "Text of a request; {source}, {target} and {sentence} are replaced.")
    key_variable: str | None = option(None, "Environment variable that holds the server's key.")
    answer_tokens: int | None = option(
        None, "Most tokens of an answer; as many as the sentence has characters, and 64 more, by "
              "default. Models that think aloud need more.")
    parallel_requests: int = option(4, "Requests under way at once.")
    requests_per_minute: float = option(0.0, "Most requests started in a minute; 0 sets no limit.")
    retries: int = option(5, "Further requests after an answer that says busy or broken, or none, "
                             "each after a longer wait.")
    request_timeout: float = option(120.0, "Seconds that an answer may take.")

    def __post_init__(self) -> None:
        require(self.url is None or self.url.startswith(("http://", "https://")), "url", self.url,
                "an address that begins with http:// or https://")
        require("@" not in (self.url or ""), "url", "a password",
                f"an address without one; {setting('key_variable')} names a variable with a key")
        require("{sentence}" in self.prompt, "prompt", self.prompt, "{sentence} in it")
        require(self.answer_tokens is None or self.answer_tokens >= 1, "answer_tokens",
                self.answer_tokens, "1 or more")
        require_at_least(self, parallel_requests=1, requests_per_minute=0, retries=0)
        require_above_0(self, "request_timeout")


_NEURAL: tuple[Engine, ...] = ("ctranslate2", "transformers")
_ENGINES_OF: Mapping[str, tuple[Engine, ...]] = {
    **{field.name: _NEURAL for field in fields(ModelConfig)},
    **{field.name: ("command",) for field in fields(ProgramConfig)},
    **{field.name: ("http",) for field in fields(ServerConfig)},
    **dict.fromkeys(("processes", "patience"), ("apertium", "command")),
    **dict.fromkeys(("threads", "convert_to"), ("ctranslate2",)), "via": ("apertium",),
    "keep_scores": (*_NEURAL, "http"), "reverse_model": _NEURAL}
"""Engines by the settings that mean something to them alone."""
_NEEDS: Mapping[Engine, tuple[str, ...]] = {
    "memory": ("memory",), "apertium": (), "ctranslate2": ("model",), "transformers": ("model",),
    "command": ("command",), "http": ("url", "served_model")}


def changed_settings(*settings: DataclassInstance) -> list[str]:
    """Name the settings that are not their defaults, those of settings within them left out."""
    return [field.name for one in settings for field in fields(one)
            if not is_dataclass(value := getattr(one, field.name))
            and value not in (field.default, "")]


def idle_settings(engine: Engine, *settings: DataclassInstance) -> list[str]:
    """List the changed settings that mean nothing to an engine, each as a fault."""
    return [f"{setting(name)} means nothing to {setting('engine')} {engine}"
            for name in changed_settings(*settings)
            if engine not in _ENGINES_OF.get(name, (engine,))]


@dataclass(frozen=True)
class EngineConfig:
    """An engine and its resources.

    Args:
        engine: its name.
        source_lang: language of the sentences, ISO 639-1.
        target_lang: language to translate into, ISO 639-1.
        memory: TMX or TSV file; what it holds is not translated by an engine.
        memory_threshold: least similarity of a sentence in the memory, 0.5 to 1; none takes what
            is equal but for case and final punctuation.
        via: language in between, ISO 639-1; for `apertium`.
        model: for `ctranslate2` and `transformers`.
        program: for `apertium` and `command`.
        server: for `http`.
        model_licence: of the engine's model or the memory; that of its model card by default.
    """

    engine: Engine
    source_lang: str
    target_lang: str
    memory: Path | None = None
    memory_threshold: float | None = None
    via: str | None = None
    model: ModelConfig = field(default_factory=ModelConfig)
    program: ProgramConfig = field(default_factory=ProgramConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    model_licence: str | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        parts = self, self.model, self.program, self.server
        faults = idle_settings(self.engine, *parts)
        faults += [f"{setting('engine')} {self.engine} needs {setting(name)}"
                   for name in _NEEDS[self.engine] if name not in changed_settings(*parts)]
        if self.memory_threshold is not None and not self.memory:
            faults.append(f"{setting('memory_threshold')} needs {setting('memory')}")
        if self.memory_threshold is not None and not 0.5 <= self.memory_threshold <= 1:
            faults.append(f"{setting('memory_threshold')} is {self.memory_threshold}, expected "
                          "0.5 to 1")
        if self.engine == "transformers" and self.model.compute_type == "int8":
            faults.append(f"{setting('compute_type')} int8 needs {setting('engine')} ctranslate2")
        ends = map(primary_language, (self.source_lang, self.target_lang))
        if self.via and primary_language(self.via) in ends:
            faults.append(f"{setting('via')} {self.via} is one of the two languages; "
                          "expected a third")
        if faults:
            raise ValueError("; ".join(faults))

    def reversed(self, model: Path | None = None) -> EngineConfig:
        """Return the settings of the engine that translates back, by another model where it has
        one direction alone.
        """
        back = replace(self.model, source_code=self.model.target_code,
                       target_code=self.model.source_code)
        if model:
            back = replace(back, model=model, tokenizer=None)
        memory = self.memory if self.engine == "memory" else None
        return replace(self, source_lang=self.target_lang, target_lang=self.source_lang,
                       memory=memory, memory_threshold=self.memory_threshold if memory else None,
                       model=back)


class RayConfig(Settings, title="A Ray cluster that translates"):
    """A Ray cluster that translates."""

    ray: str | None = option(None, "Its address, HOST:PORT, auto for that of this machine, or "
                                   "local to start one; none to translate here.")
    ray_cores: int | None = option(
        None, "Of each copy of the engine; by default one copy takes a node, or a GPU of it.")

    def __post_init__(self) -> None:
        if self.ray_cores is not None:
            require_at_least(self, ray_cores=1)
            require(bool(self.ray), "ray_cores", self.ray_cores,
                    f"nothing without {setting('ray')}")
