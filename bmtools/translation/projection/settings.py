"""Settings of projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from bmtools.errors import check_choices, require, require_names, setting
from bmtools.settings import Settings, option
from bmtools.translation.settings import EngineConfig

Method = Literal["align", "exact", "dictionary", "markers", "encoder", "embeddings", "score"]
NEEDS_ENGINE = {"markers": None, "score": ("ctranslate2", "transformers"),
                "encoder": ("ctranslate2", "transformers")}
"""Methods that need an engine, and which one where not any will do."""
Pairing = Literal["id", "order"]
Lost = Literal["drop", "reject"]
Occurrences = Literal["given", "all"]
LinkRule = Literal["softmax", "argmax", "itermax", "match"]
SOURCE = "translated_from"
"""Key of a translated record, up to its projection: what it was made of."""


class MethodConfig(Settings, title="Resources of methods"):
    """Resources of methods."""

    glossary: Path | None = option(None, "Terms and their translations for method dictionary, a "
                                         "TSV or TMX file as of a translation memory.")
    embeddings: Path | None = option(None, "Directory of an encoder that reads both languages, "
                                           "such as LaBSE or XLM-R, for method embeddings.")
    layer: int | None = option(
        None, "Layer of the encoder that methods encoder and embeddings compare; by default the "
              "last one of a translation model, and the eighth of another encoder.")
    link_rule: LinkRule | None = option(
        None, "How methods encoder and embeddings link words; softmax by default for encoder, "
              "itermax for embeddings.")
    occurrences: Occurrences = option(
        "given", "Project an answer where it is given, or all occurrences of its words.")

    def __post_init__(self) -> None:
        check_choices(self)


@dataclass(frozen=True)
class ProjectionConfig:
    """Settings of a projection.

    Args:
        methods: that look for places, the most trusted one first.
        edges: whether rules correct where a span begins and ends.
        min_confidence: of the spans that stay, 0 to 1.
        lost: drop an annotation without a place, or reject its record.
        pairing: of records and translations, by their ids or by their order.
        confidence: file of a calibration of one's own; the one that is shipped by default.
        resources: of the methods.
        engine: that translates what methods ask for.
        translate_mentions: have it translate annotated words by themselves, too, which methods
            exact and dictionary look for.
    """

    methods: tuple[str, ...] = ("align", "exact")
    edges: bool = True
    min_confidence: float = 0.0
    lost: Lost = "drop"
    pairing: Pairing = "id"
    confidence: Path | None = None
    resources: MethodConfig = field(default_factory=MethodConfig)
    engine: EngineConfig | None = None
    translate_mentions: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        require(bool(self.methods), "method", "none", "one or more")
        require_names("method", self.methods, get_args(Method))
        require(0 <= self.min_confidence <= 1, "min_confidence", self.min_confidence, "0 to 1")

    def require_resources(self) -> None:
        """Refuse methods without what they need, and resources without their method.

        Raises:
            ValueError: names all of them.
        """
        faults = [f"{setting('method')} {name} needs {setting('engine')} "
                  f"{' or '.join(engines or ())}".rstrip() for name, engines in NEEDS_ENGINE.items()
                  if name in self.methods and not (self.engine and (
                      engines is None or self.engine.engine in engines))]
        for method, name in (("embeddings", "embeddings"), ("dictionary", "glossary")):
            value = getattr(self.resources, name)
            if value and method not in self.methods:
                faults.append(f"{setting(name)} means nothing without {setting('method')} {method}")
            if not value and method == "embeddings" in self.methods:
                faults.append(f"{setting('method')} {method} needs {setting(name)}")
        if faults:
            raise ValueError("; ".join(faults))
