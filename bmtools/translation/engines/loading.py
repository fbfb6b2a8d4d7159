"""Engines by name, with the resources that their settings name."""

from __future__ import annotations

from bmtools.errors import setting
from bmtools.io.provenance.licence_check import declared_fault, refuse_licences
from bmtools.io.provenance.licences import combine
from bmtools.models.device import check_device
from bmtools.status import set_status
from bmtools.translation.engines.engine import Translator
from bmtools.translation.engines.model_files import (
    check_sequence_to_sequence,
    check_translation_model,
)
from bmtools.translation.settings import EngineConfig, ProtectionConfig
from bmtools.translation.terms import ProtectedTranslator, load_terms


def load_translator(config: EngineConfig, protection: ProtectionConfig | None = None,
                    engine: Translator | None = None) -> Translator:
    """Load an engine, and put the terms and the memory around it that settings name.

    Args:
        config: of engine and memory.
        protection: of terms.
        engine: the engine by itself, where it is loaded.

    Raises:
        BmtoolsError: a file is missing, or what `load_engine` needs.
    """
    engine = engine or load_engine(config)
    if protection and protection.is_needed and config.engine != "memory":
        finder = load_terms(protection, config.source_lang, config.target_lang)
        engine = ProtectedTranslator(engine, finder, config.target_lang)
    if config.model_licence:
        if fault := declared_fault(config.model_licence, engine.licence, setting("model_licence")):
            refuse_licences(f"licence of the model: {fault}")
        engine.licence = combine(config.model_licence)
    if config.engine == "memory" or not config.memory:
        return engine
    from bmtools.translation.engines.memory import MemoryFirst

    return MemoryFirst(_load_memory(config), engine)


def _load_memory(config: EngineConfig) -> Translator:
    from bmtools.translation.engines.memory import MemoryTranslator

    assert config.memory is not None
    return MemoryTranslator(config.memory, config.source_lang, config.target_lang,
                            config.memory_threshold)


def load_engine(config: EngineConfig) -> Translator:
    """Load an engine by itself; only its own libraries are imported.

    Raises:
        BmtoolsError: its program, package, pair of languages or checkpoint is missing.
    """
    set_status(f"loading {config.model.model or config.engine}")
    source, target = config.source_lang, config.target_lang
    if config.engine == "memory":
        return _load_memory(config)
    if config.engine == "apertium":
        from bmtools.translation.engines.apertium import ApertiumTranslator

        return ApertiumTranslator(source, target, config.via, config.program)
    if config.engine == "command":
        from bmtools.translation.engines.programs import CommandTranslator

        return CommandTranslator(config.program, source, target)
    if config.engine == "http":
        from bmtools.translation.engines.http import HttpTranslator

        return HttpTranslator(config.server, source, target)
    check_device(config.model.device)
    if config.engine == "ctranslate2":
        check_translation_model(config.model.directory)
        from bmtools.translation.engines.ctranslate2_engine import CTranslate2Translator

        return CTranslate2Translator(config.model, source, target)
    check_sequence_to_sequence(config.model.directory)
    from bmtools.translation.engines.transformers_engine import TransformersTranslator

    return TransformersTranslator(config.model, source, target)
