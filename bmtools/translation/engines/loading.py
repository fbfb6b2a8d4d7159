"""Loading of engines with the resources that their settings name."""

from __future__ import annotations

from importlib import import_module

from bmtools.errors import setting
from bmtools.io.provenance.licence_check import declared_fault, refuse_licences
from bmtools.io.provenance.licences import combine
from bmtools.models.device import check_device
from bmtools.status import set_status
from bmtools.translation.audit import AuditedTranslator, Auditor
from bmtools.translation.engines.engine import Translator
from bmtools.translation.engines.memory import MemoryFirst, MemoryTranslator
from bmtools.translation.engines.model_files import check_translation_model
from bmtools.translation.settings import AuditConfig, EngineConfig, TermConfig
from bmtools.translation.terms import ProtectedTranslator, load_terms

_ENGINES = {"memory": "memory.MemoryTranslator", "apertium": "apertium.ApertiumTranslator",
            "command": "programs.CommandTranslator", "http": "http.HttpTranslator",
            "ctranslate2": "ctranslate2_engine.CTranslate2Translator",
            "transformers": "transformers_engine.TransformersTranslator"}


def load_translator(config: EngineConfig, terms: TermConfig | None = None,
                    engine: Translator | None = None,
                    audit: AuditConfig | None = None) -> Translator:
    """Load an engine and add the layers for terms, memory and audit that the settings name.

    Args:
        config: settings of engine and memory.
        terms: files of the terms to enforce.
        engine: the engine without layers, if it is already loaded.
        audit: checks of the translations.

    Raises:
        BmtoolsError: a file is missing; see also `load_engine`.
    """
    engine = engine or load_engine(config)
    if terms and (terms.glossary or terms.protect) and config.engine != "memory":
        finder = load_terms(terms, config.source_lang, config.target_lang)
        engine = ProtectedTranslator(engine, finder)
    if config.model_licence:
        if fault := declared_fault(config.model_licence, engine.licence, setting("model_licence")):
            refuse_licences(f"licence of the model: {fault}")
        engine.licence = combine(config.model_licence)
    if config.memory and config.engine != "memory":
        engine = MemoryFirst(MemoryTranslator(config), engine)
    if audit and audit.names:
        return AuditedTranslator(engine, Auditor(config.source_lang, config.target_lang,
                                                 audit.names))
    return engine


def load_engine(config: EngineConfig) -> Translator:
    """Load an engine without layers, importing only the libraries of this engine.

    Raises:
        BmtoolsError: its program, package, language pair or checkpoint is missing.
    """
    set_status(f"loading {config.model or config.engine}")
    if config.model:
        check_device(config.device)
        check_translation_model(config.model, config.engine)
    module, _, name = _ENGINES[config.engine].partition(".")
    engine: Translator = getattr(
        import_module(f"bmtools.translation.engines.{module}"), name)(config)
    return engine
