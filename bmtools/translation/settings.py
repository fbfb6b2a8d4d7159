"""Settings of `translate`, in a module that is fast to import."""

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
    "empty": "the translation is empty",
    "short": "it is much shorter than its source",
    "long": "it is much longer than its source",
    "looping": "it repeats words again and again",
    "copied": "it contains at least half of the words of the source",
    "language": "it is in another language",
    "numbers": "numbers are missing, new or in another order",
    "units": "a unit of the source is missing",
    "comparisons": "above and below are exchanged",
    "negations": "it has fewer negations",
}
"""Checks of a translation, and the faults that they find."""


class AuditConfig(Settings, title="Audit"):
    """Audit: faults for which a translation is tried again and then flagged."""

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
    """Terms with a fixed translation, and terms that stay untranslated."""

    glossary: Path | None = option(
        None, "TSV or TMX file of terms and their translations. The translations are enforced, and "
              "method dictionary of the projection searches for them.")
    protect: Path | None = option(None, "File of terms to keep untranslated, one per line.")


class QualityConfig(Settings, title="Scores of translations"):
    """Scores of translations."""

    source_lang: str = option("", "Language of the sources. Default: the lang of their records.")
    target_lang: str = option(
        "", "Language of the translations. Default: the lang of the references.")
    resamples: int = option(1000, "Bootstrap resamples of segments for an interval.", least=1)


class DocumentConfig(Settings, title="Sentences without translation"):
    """Languages of records, and the treatment of untranslatable sentences and records."""

    source_lang: str
    target_lang: str
    missing: Literal["reject", "keep", "drop"] = option(
        "reject", "If a sentence has no translation: reject its record, keep the sentence "
                  "untranslated, or drop it.")
    other_languages: Literal["reject", "keep"] = option(
        "reject", "If the lang of a record is not `source_lang`: reject or keep the record.")
    drop_annotations: bool = option(
        False, "Remove annotations instead of rejecting their records: target and predicted, and "
               "without `project` also entities, relations and answers.")
    project: bool = option(False, "After translation, transfer entities, relations and answers to "
                                  "the translated text.")
    translate_mentions: bool = option(
        False, "Also translate each annotated phrase on its own, for methods exact and dictionary.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if primary_language(self.source_lang) == primary_language(self.target_lang):
            raise ValueError(f"{setting('source_lang')} and {setting('target_lang')} are both "
                             f"{self.source_lang}; expected two languages")
        require(self.project or not self.translate_mentions, "translate_mentions", True,
                f"{setting('project')} as well")


class EngineConfig(Settings, title="Engine"):
    """An engine and its resources."""

    engine: Engine
    source_lang: str
    target_lang: str
    memory: Path | None = option(
        None, "Translation memory, searched before the engine is used: a TMX file, or a TSV with a "
              "column for each language.", metavar="FILE")
    via: str | None = option(None, "Intermediate language, such as ca, for engine apertium.",
                             metavar="LANG")
    model: Path | None = option(
        None, "Model for engines ctranslate2 and transformers, published or converted.",
        metavar="DIR")
    tokenizer: Path | None = option(
        None, "Tokenizer to use if the model's directory contains none.", metavar="DIR")
    model_licence: str | None = option(
        None, "Licence of the engine's model or of the memory, for the records' licence. Default: "
              "the licence in the model card.")
    workers: int = option(
        0, "Parallel work: cores of ctranslate2 (0 for all), programs of apertium and command (0 "
           "for one), or requests of http (0 for four).")
    precision: Literal["auto", "float32", "bf16", "fp16", "int8"] = option(
        "auto", "Data type of the weights; auto keeps the type of a converted model. Otherwise it "
                "is int8 (on a GPU fp16) with ctranslate2 and float32 with transformers.")
    device: Literal["auto", "cpu", "cuda"] = option("auto", "auto uses a GPU if there is one.")
    beam_size: int = option(4, "Hypotheses kept by a model; 1 is greedy, and fastest.", least=1)
    batch_tokens: int = option(4096, "Tokens of one batch, including padding.", least=1)
    max_source_tokens: int | None = option(
        None, "Tokens of the longest sentence that a model accepts, including language tokens. "
              "Default: the model's own limit.", least=2)
    command: str | None = option(
        None, "Program of engine command, with its arguments, run without a shell. It reads one "
              "sentence per line and answers each with a line. {source} and {target} are replaced.")
    batch_sentences: int | None = option(
        None, "Sentences sent to a program of engine command at a time; 2,000, shared by "
              "--workers, by default. Fewer for a program that answers only at its end.", least=1)
    timeout_seconds: float = option(
        120.0, "Seconds without an answer after which a program is stopped or a request is sent "
              "again.", above=0)
    url: str | None = option(None, "Address of engine http up to /v1, such as "
                                   "http://127.0.0.1:8080/v1; sentences are sent there.")
    served_model: str | None = option(None, "The server's name of the model.")
    prompt: str = option(
        "Translate this sentence from {source} to {target}. Answer with the translation only, on "
        "one line.\n\n{sentence}",
        "Text of a request; {source}, {target} and {sentence} are replaced.")
    key_variable: str | None = option(None, "Environment variable with the server's key.")
    answer_tokens: int | None = option(
        None, "Maximum tokens of an answer. Default: the characters of the sentence plus 64. "
              "Models that print their reasoning need more.", least=1)
    retries: int = option(5, "Further requests, each after a longer wait, if the server is busy, "
                             "broken or silent.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.url is None or self.url.startswith(("http://", "https://")), "url", self.url,
                "an address that begins with http:// or https://")
        require("@" not in (self.url or ""), "url", "a password",
                f"an address without one; name a variable with the key: {setting('key_variable')}")
        require("{sentence}" in self.prompt, "prompt", self.prompt, "a text with {sentence}")
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
"""Engines that support a setting; settings that all engines support are not listed."""


def changed_settings(kind: type[Settings], values: Mapping[str, object]) -> list[str]:
    """Name the settings whose values are not their defaults."""
    return [field.name for field in fields(kind) if field.name in values
            and values[field.name] != (None if field.default is MISSING else field.default)]


def idle_settings(engine: str, settings: Settings) -> list[str]:
    """List the changed settings that an engine does not support, each as a fault."""
    return [f"{setting(name)} is not supported by {setting('engine')} {engine}"
            for name in changed_settings(type(settings), vars(settings))
            if engine not in _ENGINES_OF.get(name, (engine,))]


class RayConfig(Settings, title="A Ray cluster that translates"):
    """A Ray cluster that translates."""

    ray: str | None = option(None, "Address HOST:PORT, auto for this machine's cluster, or local "
                                   "to start one. Default: translate without a cluster.")
    ray_cores: int | None = option(
        None, "Cores for each copy of the engine. Default: one copy per node, or per GPU of it.",
        least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.ray_cores is None or bool(self.ray), "ray_cores", self.ray_cores,
                f"{setting('ray')} as well")
