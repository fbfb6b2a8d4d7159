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
"""Key under which a translated record keeps its source record until projection."""


class ProjectionConfig(Settings, title="Projection"):
    """Projection of annotations.

    Args:
        methods: methods that search for the annotations, the most trusted one first.
    """

    methods: tuple[str, ...] = ("align", "exact")
    edges: bool = option(True, "Correct the starts and ends of annotations by rules.")
    min_confidence: float = option(0.0, "Minimum confidence of annotations to keep, 0 to 1.",
                                   most=1)
    lost: Literal["drop", "reject"] = option(
        "drop", "If an annotation is not found in the translation: drop it, or reject its record.")
    pairing: Pairing = option("id", "Pair records and translations by their ids or by their order.")
    calibration: Path | None = option(
        None, "Calibration of the confidence, as project --fit-confidence writes it. Default: the "
              "calibration in bmtools.")
    glossary: Path | None = option(None, "TSV or TMX file of terms and their translations, for "
                                         "method dictionary.")
    embeddings: Path | None = option(
        None, "Directory of a model that reads both languages, for method embeddings: an encoder, "
              "such as LaBSE or XLM-R, or a translation model, such as NLLB, M2M-100 or "
              "MADLAD-400.", metavar="DIR")
    layer: int | None = option(
        None, "Layer of the encoder that method embeddings compares. Default: the last layer of a "
              "translation model, and the eighth of another encoder.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.methods), "method", "none", "one or more")
        require_names("method", self.methods, get_args(Method))

    def require_resources(self, engine: EngineConfig | None) -> None:
        """Raise an error for methods without their resource and resources without their method.

        Raises:
            ValueError: lists all of them.
        """
        faults = []
        if "markers" in self.methods and not engine:
            faults.append(f"{setting('method')} markers needs {setting('engine')}")
        if self.glossary and "dictionary" not in self.methods:
            faults.append(f"{setting('glossary')} requires {setting('method')} "
                          "dictionary")
        if ("embeddings" in self.methods) != bool(self.embeddings):
            faults.append(f"{setting('method')} embeddings and {setting('embeddings')} need each "
                          "other")
        if faults:
            raise ValueError("; ".join(faults))
