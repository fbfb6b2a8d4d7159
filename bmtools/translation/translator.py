"""Translation engines: their interface, and loading them by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bmtools.translation.settings import EngineConfig


@dataclass(frozen=True)
class Translation:
    """Translation of one sentence.

    Args:
        text: the sentence in the other language; nothing where there is a fault.
        unknown: words that the engine knows it left as they were.
        fault: why the sentence could not be translated, with the way out.
    """

    text: str
    unknown: int = 0
    fault: str = ""


class Translator(Protocol):
    """Engine that turns sentences into sentences, one for one and in order.

    Attributes:
        name: the engine, as the setting `engine` spells it.
        details: further facts about the origin of a translation.
        marks_unknown: the engine reports words that it does not know.
        batch_sentences: sentences that make a call worth its cost.
    """

    name: str
    details: dict[str, str]
    marks_unknown: bool
    batch_sentences: int

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters."""
        ...


def load_translator(config: EngineConfig) -> Translator:
    """Load an engine; only its own libraries are imported.

    Raises:
        BmtoolsError: its program, package, pair of languages or checkpoint is missing.
    """
    source, target = config.source_lang, config.target_lang
    if config.engine == "apertium":
        from bmtools.translation.apertium import ApertiumTranslator

        return ApertiumTranslator(source, target, config.via)
    if config.memory:
        from bmtools.translation.memory import MemoryTranslator

        return MemoryTranslator(config.memory, source, target)
    assert config.model is not None
    if config.engine == "ctranslate2":
        from bmtools.translation.ctranslate2_engine import CTranslate2Translator

        return CTranslate2Translator(config.model, source, target)
    from bmtools.translation.transformers_engine import TransformersTranslator

    return TransformersTranslator(config.model, source, target)
