"""Settings of `translate`; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Literal

from bmtools.errors import (
    require,
    require_names,
    setting,
)
from bmtools.settings import Settings, option
from bmtools.text.languages import primary_language

Engine = Literal["memory", "apertium", "ctranslate2", "transformers", "command", "http"]

TEXTS = ("title", "question", "text", "text_pair")
"""Keys of a record that are translated."""
CHECKS = {
    "empty": "nothing was written",
    "short": "it is much shorter than its source",
    "long": "it is much longer than its source",
    "looping": "words come again and again",
    "copied": "half the words of the source or more stand in it",
    "language": "it is in another language",
    "numbers": "numbers are missing, new or in another order",
    "units": "a unit of the source is not in it",
    "comparisons": "above and below are exchanged",
    "negations": "it has fewer negations",
}
"""Checks of a translation, and what they find."""


class AuditConfig(Settings, title="Audit"):
    """Audit: faults of translations, which are tried again and then flagged."""

    checks: str = option("all", "Faults to look for, separated by commas; or all, or none.",
                         metavar="all|none|NAME,...")

    def __post_init__(self) -> None:
        require_names("checks", self.names, tuple(CHECKS))

    @property
    def names(self) -> tuple[str, ...]:
        if self.checks in ("all", "none"):
            return tuple(CHECKS) if self.checks == "all" else ()
        return tuple(name.strip() for name in self.checks.split(","))


class TermConfig(Settings, title="Terms"):
    """Terms: their translations are enforced, or they stay as they are."""

    glossary: Path | None = option(
        None, "TSV or TMX file of terms and their translations, which are enforced; method "
              "dictionary of the projection looks for them.")
    protect: Path | None = option(None, "File of terms that stay as they are, one a line.")


class QualityConfig(Settings, title="Scores of translations"):
    """Scores of translations."""

    source_lang: str = option("", "Language of the sources, by default that of their records.")
    target_lang: str = option(
        "", "Language of the translations, by default that of the references.")
    resamples: int = option(1000, "Bootstrap resamples of segments behind an interval.", least=1)


class DocumentConfig(Settings, title="Sentences without translation"):
    """Languages of records, and the treatment of untranslatable sentences and records."""

    source_lang: str
    target_lang: str
    missing: Literal["reject", "keep", "drop"] = option(
        "reject", "A sentence without translation: reject its record, keep the sentence as it is, "
                  "or drop it.")
    other_languages: Literal["reject", "keep"] = option(
        "reject", "A record whose lang is not `source_lang`: reject it, or keep it as it is.")
    drop_annotations: bool = option(
        False, "Remove target and predicted, and without `project` entities, relations and "
               "answers, instead of refusing them.")
    project: bool = option(False, "Carry entities, relations and answers to the translation, once "
                                  "all is translated.")
    translate_mentions: bool = option(
        False, "Translate annotated words by themselves, too, for methods exact and dictionary.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if primary_language(self.source_lang) == primary_language(self.target_lang):
            raise ValueError(f"{setting('source_lang')} and {setting('target_lang')} are both "
                             f"{self.source_lang}; expected two languages")
        require(self.project or not self.translate_mentions, "translate_mentions", True,
                f"nothing without {setting('project')}")


class EngineConfig(Settings, title="Engine"):
    """An engine and its resources."""

    engine: Engine
    source_lang: str
    target_lang: str
    memory: Path | None = option(
        None, "Translation memory, asked before the engine: a TMX file, or a TSV with a column for "
              "each language.", metavar="FILE")
    via: str | None = option(None, "Language in between, such as ca, for engine apertium.",
                             metavar="LANG")
    model: Path | None = option(
        None, "Model, for engines ctranslate2 and transformers, as published or converted.",
        metavar="DIR")
    tokenizer: Path | None = option(
        None, "Tokenizer of the model, where its directory has none.", metavar="DIR")
    model_licence: str | None = option(
        None, "Licence of the engine's model or of the memory, for the records' licence; that of "
              "the model card by default.")
    workers: int = option(
        0, "Work at once: cores of ctranslate2 (0 for all), programs of apertium and command (0 "
           "for one), or requests of http (0 for four).")
    precision: Literal["auto", "float32", "bf16", "fp16", "int8"] = option(
        "auto", "Data type of the weights; auto is that of a converted model, else int8 (on a GPU "
                "fp16) with ctranslate2, float32 with transformers.")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "auto takes a GPU where there is one.")
    beam_size: int = option(4, "Hypotheses kept by a model; 1 is greedy, and fastest.", least=1)
    batch_tokens: int = option(4096, "Tokens of one batch, padding included.", least=1)
    max_source_tokens: int | None = option(
        None, "Tokens of the longest sentence that a model accepts, language tokens included; the "
              "model's own limit by default.", least=2)
    command: str | None = option(
        None, "Program of engine command, with its arguments; no shell reads it. It gets a "
              "sentence a line and answers each with a line. {source} and {target} are replaced.")
    batch_sentences: int | None = option(
        None, "Sentences that a program of engine command gets at a time; 2,000, shared by "
              "--workers, by default. Fewer for a program that answers only at its end.", least=1)
    timeout_seconds: float = option(
        120.0, "Seconds without an answer after which a program is stopped and a server asked "
              "again.", above=0)
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
              "default. Models that think aloud need more.", least=1)
    retries: int = option(5, "Further requests after an answer that says busy or broken, or none, "
                             "each after a longer wait.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.url is None or self.url.startswith(("http://", "https://")), "url", self.url,
                "an address that begins with http:// or https://")
        require("@" not in (self.url or ""), "url", "a password",
                f"an address without one; {setting('key_variable')} names a variable with a key")
        require("{sentence}" in self.prompt, "prompt", self.prompt, "{sentence} in it")
        faults = idle_settings(self.engine, self)
        faults += [f"{setting('engine')} {self.engine} needs {setting(name)}"
                   for name in _NEEDS.get(self.engine, ()) if not getattr(self, name)]
        if self.engine == "transformers" and self.precision == "int8":
            faults.append(f"{setting('precision')} int8 needs {setting('engine')} ctranslate2")
        ends = map(primary_language, (self.source_lang, self.target_lang))
        if self.via and primary_language(self.via) in ends:
            faults.append(f"{setting('via')} {self.via} is one of the two languages; "
                          "expected a third")
        if faults:
            raise ValueError("; ".join(faults))

    @property
    def directory(self) -> Path:
        """The directory of the model."""
        assert self.model is not None
        return self.model


_NEEDS = {"memory": ("memory",), "ctranslate2": ("model",), "transformers": ("model",),
          "command": ("command",), "http": ("url", "served_model")}
_NEURAL = ("ctranslate2", "transformers")
_ENGINES_OF = {
    **dict.fromkeys(("model", "tokenizer", "precision", "device", "beam_size", "batch_tokens",
                     "max_source_tokens"), _NEURAL),
    **dict.fromkeys(("url", "served_model", "prompt", "key_variable", "answer_tokens", "retries"),
                    ("http",)),
    "via": ("apertium",), "command": ("command",), "batch_sentences": ("command",),
    "timeout_seconds": ("apertium", "command", "http"),
    "workers": ("apertium", "command", "ctranslate2", "http")}
"""Engines by the settings that mean something to them alone."""


def changed_settings(kind: type[Settings], values: Mapping[str, object]) -> list[str]:
    """Name the values of settings that are not their defaults."""
    return [field.name for field in fields(kind) if field.name in values
            and values[field.name] != (None if field.default is MISSING else field.default)]


def idle_settings(engine: str, settings: Settings) -> list[str]:
    """List the changed settings that mean nothing to an engine, each as a fault."""
    return [f"{setting(name)} means nothing to {setting('engine')} {engine}"
            for name in changed_settings(type(settings), vars(settings))
            if engine not in _ENGINES_OF.get(name, (engine,))]


class RayConfig(Settings, title="A Ray cluster that translates"):
    """A Ray cluster that translates."""

    ray: str | None = option(None, "Its address, HOST:PORT, auto for that of this machine, or "
                                   "local to start one; none to translate here.")
    ray_cores: int | None = option(
        None, "Of each copy of the engine; by default one copy takes a node, or a GPU of it.",
        least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.ray_cores is None or bool(self.ray), "ray_cores", self.ray_cores,
                f"nothing without {setting('ray')}")
