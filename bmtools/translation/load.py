"""From settings to an engine that is ready."""

from __future__ import annotations

from bmtools.translation.settings import EngineConfig
from bmtools.translation.translator import Translator


def load_translator(settings: EngineConfig) -> Translator:
    """Load the engine that the settings name; only its own libraries are imported.

    Raises:
        BmtoolsError: its program, package, pair of languages or checkpoint is not there.
    """
    source, target = settings.source, settings.target
    if settings.engine == "apertium":
        from bmtools.translation.apertium import ApertiumTranslator

        return ApertiumTranslator(source, target, settings.via)
    if settings.memory:
        from bmtools.translation.memory import MemoryTranslator

        return MemoryTranslator(settings.memory, source, target)
    if settings.model is None:
        raise ValueError(f"no engine is called {settings.engine!r}")
    if settings.engine == "ctranslate2":
        from bmtools.translation.ct2 import CTranslate2Translator

        return CTranslate2Translator(settings.model, source, target)
    from bmtools.translation.hugging_face import HuggingFaceTranslator

    return HuggingFaceTranslator(settings.model, source, target)
