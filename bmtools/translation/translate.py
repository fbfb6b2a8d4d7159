"""Translation of records by any engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bmtools.errors import Reject, refuse
from bmtools.records import Record
from bmtools.translation.documents import TranslationCounts, translate_records
from bmtools.translation.settings import (
    DocumentConfig,
    Engine,
    EngineConfig,
    Missing,
    ModelConfig,
    OtherLanguages,
)
from bmtools.translation.translator import Translator


def translate(records: Iterable[Record], source_lang: str, target_lang: str, engine: Engine, *,
              memory: Path | None = None, via: str | None = None,
              model: ModelConfig | None = None, missing: Missing = "reject",
              other_languages: OtherLanguages = "reject", drop_annotations: bool = False,
              reject: Reject = refuse,
              counts: TranslationCounts | None = None) -> Iterator[Record]:
    """Translate records sentence by sentence.

    Args:
        records: in the source language, or without a `lang`.
        source_lang: ISO 639-1.
        target_lang: ISO 639-1.
        engine: memory, apertium, ctranslate2 or transformers.
        memory: TMX or TSV file; for memory.
        via: language in between; for apertium.
        model: for ctranslate2 and transformers.
        missing: a sentence without a translation: reject its record, keep it, or drop it.
        other_languages: a record whose lang is another language: reject or keep it.
        drop_annotations: remove the keys whose offsets would be wrong afterwards.
        reject: receives records that cannot be translated.
        counts: updated while records go by.

    Raises:
        ValueError: settings that do not belong together.
        BmtoolsError: the engine's program, package, pair of languages or checkpoint is missing.
    """
    documents = DocumentConfig(source_lang, target_lang, missing, other_languages,
                               drop_annotations)
    translator = load_translator(
        EngineConfig(engine, source_lang, target_lang, memory, via, model))
    return translate_records(records, translator, documents, reject, counts)


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
