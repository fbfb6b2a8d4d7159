"""Settings of projection."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from bmtools.errors import require, require_names, setting
from bmtools.settings import Settings, option
from bmtools.translation.settings import EngineConfig

Method = Literal["align", "exact", "dictionary", "markers", "embeddings"]
Pairing = Literal["id", "order"]
SOURCE = "translated_from"
"""Key of a translated record, up to its projection: what it was made of."""


class ProjectionConfig(Settings, title="Projection"):
    """Projection of annotations.

    Args:
        methods: that look for places, the most trusted one first.
    """

    methods: tuple[str, ...] = ("align", "exact")
    edges: bool = option(True, "Correct where annotations begin and end by rules.")
    min_confidence: float = option(0.0, "Least confidence of the annotations that stay, 0 to 1.",
                                   most=1)
    lost: Literal["drop", "reject"] = option(
        "drop", "An annotation without a place in the translation: drop it, or reject its record.")
    pairing: Pairing = option("id", "Pair records and translations by their ids or by their order.")
    calibration: Path | None = option(
        None, "Calibration of the confidence, as project --fit-confidence writes it; the one that "
              "is shipped by default.")
    glossary: Path | None = option(None, "Terms and their translations for method dictionary, a "
                                         "TSV or TMX file as of a translation memory.")
    embeddings: Path | None = option(
        None, "Directory of a model that reads both languages, for method embeddings: an encoder, "
              "such as LaBSE or XLM-R, or a translation model, such as NLLB, M2M-100 or "
              "MADLAD-400.", metavar="DIR")
    layer: int | None = option(
        None, "Layer of the encoder that method embeddings compares; by default the last one of a "
              "translation model, and the eighth of another encoder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.methods), "method", "none", "one or more")
        require_names("method", self.methods, get_args(Method))

    def require_resources(self, engine: EngineConfig | None) -> None:
        """Refuse methods without what they need, and resources without their method.

        Raises:
            ValueError: names all of them.
        """
        faults = []
        if "markers" in self.methods and not engine:
            faults.append(f"{setting('method')} markers needs {setting('engine')}")
        if self.glossary and "dictionary" not in self.methods:
            faults.append(f"{setting('glossary')} means nothing without {setting('method')} "
                          "dictionary")
        if ("embeddings" in self.methods) != bool(self.embeddings):
            faults.append(f"{setting('method')} embeddings and {setting('embeddings')} need each "
                          "other")
        if faults:
            raise ValueError("; ".join(faults))
