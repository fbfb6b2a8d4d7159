"""Translation of records by any engine: split into sentences, translated, joined again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path

import msgspec

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.installation import require_extra
from bmtools.io.failures import naming
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.record_shard import RecordShard, Shard, count_lines
from bmtools.records import JsonObject, Record
from bmtools.text.abbreviations import read_abbreviations
from bmtools.translation.audit import AuditedTranslator, Auditor, RoundTripTranslator
from bmtools.translation.cache import DATABASE, SentenceCache
from bmtools.translation.counts import TranslationCounts
from bmtools.translation.documents import translate_records
from bmtools.translation.engines.engine import BatchTranslator, Translator
from bmtools.translation.engines.loading import load_engine, load_translator
from bmtools.translation.projection.settings import NEEDS_ENGINE, ProjectionConfig
from bmtools.translation.run import TranslationRun
from bmtools.translation.settings import (
    AuditConfig,
    DocumentConfig,
    Engine,
    EngineConfig,
    Missing,
    ModelConfig,
    OtherLanguages,
    ProgramConfig,
    ProtectionConfig,
    RayConfig,
    ServerConfig,
    idle_settings,
)


def translate(records: str | PathLike[str] | Iterable[JsonObject], source_lang: str,
              target_lang: str, engine: Engine, *, memory: Path | None = None,
              memory_threshold: float | None = None, via: str | None = None,
              model: ModelConfig | None = None, program: ProgramConfig | None = None,
              server: ServerConfig | None = None, model_licence: str | None = None,
              missing: Missing = "reject", other_languages: OtherLanguages = "reject",
              drop_annotations: bool = False, abbreviations: Path | None = None,
              audit: AuditConfig | None = None, projection: ProjectionConfig | None = None,
              translate_mentions: bool = False, protection: ProtectionConfig | None = None,
              cache: Path | None = None, part: Shard | None = None,
              cluster: RayConfig | None = None, run: TranslationRun | None = None,
              reject: Reject = refuse, counts: TranslationCounts | None = None,
              ) -> Iterator[Record]:
    """Translate records sentence by sentence.

    Args:
        records: files, records or dictionaries, in the source language or without a `lang`.
        source_lang: ISO 639-1.
        target_lang: ISO 639-1.
        engine: memory, apertium, ctranslate2, transformers, command or http.
        memory: TMX or TSV file, asked before the engine.
        memory_threshold: least similarity of a sentence in the memory; see `EngineConfig`.
        via: language in between; for apertium.
        model: for ctranslate2 and transformers.
        program: for apertium and command.
        server: for http.
        model_licence: of the engine's model or the memory; that of its model card by default.
        missing: a sentence without a translation: reject its record, keep it, or drop it.
        other_languages: a record whose lang is another language: reject or keep it.
        drop_annotations: remove the keys whose offsets would be wrong afterwards.
        abbreviations: file of more of them, see `read_abbreviations`.
        audit: what is looked for in translations; everything by default.
        projection: carry entities, relations and answers along, once all is translated.
        translate_mentions: translate annotated words by themselves too, which method `exact`
            looks for.
        protection: terms that are enforced or stay as they are.
        cache: directory that keeps sentences and their translations for other runs.
        part: the part of the files that is translated, of several.
        cluster: Ray's, on which the engine works.
        run: that writes the records, and goes on where it was interrupted; it has counts of its
            own.
        reject: receives records that cannot be translated.
        counts: updated while records go by.

    Raises:
        ValueError: settings that do not belong together.
        BmtoolsError: the engine's program, package, pair of languages or checkpoint is missing.
    """
    audit = audit or AuditConfig()
    if faults := idle_settings(engine, audit):
        raise ValueError("; ".join(faults))
    if "language" in audit.names and audit.checks != "all":
        require_extra("py3langid", f"{setting('checks')} language", "translation")
    if audit.round_trip:
        require_extra("sacrebleu", setting("round_trip"), "translation")
    documents = DocumentConfig(source_lang, target_lang, missing, other_languages,
                               drop_annotations,
                               read_abbreviations(abbreviations) if abbreviations else None,
                               audit.keep_scores, projection is not None,
                               projection is not None and translate_mentions)
    config = EngineConfig(
        engine, source_lang, target_lang, memory, memory_threshold, via, model or ModelConfig(),
        program or ProgramConfig(), server or ServerConfig(), model_licence)
    if projection:
        projection = _with_resources(projection, config, protection)
    load, plain = partial(_open_engine, config, audit, protection), None
    if cluster and cluster.ray:
        from bmtools.translation.ray_cluster import RayTranslator

        uses_gpu = config.model.model is not None and config.model.device != "cpu"
        translator: Translator = RayTranslator(cluster, load, uses_gpu)
    else:
        plain = load_engine(config)
        translator = load(plain)
    if isinstance(records, RecordReader) and part:
        records = RecordShard(records, part)
    total = count_lines(records) if isinstance(records, RecordReader) else None
    items, name = _with_errors(records, reject), ""
    if run:
        name = run.begin({**msgspec.to_builtins(documents, order="deterministic"),
                          "part": str(part), "engine": translator.fingerprint})
        counts = run.counts
        items, reject = run.rest(items), run.rejecting(reject)
    counts = TranslationCounts() if counts is None else counts
    translated = translate_records(items, translator, documents, reject, counts,
                                   _open_cache(translator.fingerprint, cache, run, name), total)
    if isinstance(translator, BatchTranslator):
        translated = _left_afterwards(translator, translated)
    return _projected(translated, projection, plain, run, reject, counts) if projection \
        else translated


def _with_resources(projection: ProjectionConfig, engine: EngineConfig,
                    protection: ProtectionConfig | None) -> ProjectionConfig:
    """Give a projection the engine and the glossary of the translation."""
    resources = projection.resources
    if protection and "dictionary" in projection.methods:
        resources = replace(resources, glossary=protection.glossary)
    projection = replace(projection, engine=engine, resources=resources)
    projection.require_resources()
    return projection


def _open_engine(config: EngineConfig, audit: AuditConfig, protection: ProtectionConfig | None,
                 engine: Translator | None = None) -> Translator:
    """Load an engine that is not loaded yet, and put around it what settings ask for."""
    translator = load_translator(config, protection, engine)
    if audit.names:
        auditor = Auditor(config.source_lang, config.target_lang, audit.names)
        translator = AuditedTranslator(translator, auditor)
    if audit.round_trip:
        reverse = load_translator(config.reversed(audit.reverse_model))
        translator = RoundTripTranslator(translator, reverse, audit.round_trip)
    return translator


def _with_errors(records: str | PathLike[str] | Iterable[JsonObject],
                 reject: Reject) -> Iterator[Record | RecordError]:
    """Read records, and the errors between them unless one ends the reading."""
    errors: list[RecordError] = []
    collect = refuse if reject is refuse else errors.append
    if isinstance(records, RecordReader):
        records.reject = collect
    for record in as_records(records, collect):
        yield from errors
        errors.clear()
        yield record
    yield from errors


def _open_cache(fingerprint: str, directory: Path | None, run: TranslationRun | None,
                name: str) -> SentenceCache:
    """Open the cache that was named, else that of the run, else a temporary one."""
    if directory:
        with naming(directory):
            directory.mkdir(parents=True, exist_ok=True)
    database = directory / DATABASE if directory else run.cache if run else None
    label = str(directory or (run.output if run else ""))
    return SentenceCache(fingerprint, database, name, label, directory is not None)


def _projected(translated: Iterator[Record], projection: ProjectionConfig,
               engine: Translator | None, run: TranslationRun | None, reject: Reject,
               counts: TranslationCounts) -> Iterator[Record]:
    """Have annotations carried along once all is translated; by the run, if there is one."""
    from bmtools.translation.projection.project import project_translated

    finish = partial(project_translated, config=projection, reject=reject,
                     counts=counts.projection,
                     engine=engine if NEEDS_ENGINE.keys() & set(projection.methods) else None)
    if run is None:
        return finish(translated)
    run.finish = finish
    return translated


def _left_afterwards(cluster: BatchTranslator, records: Iterable[Record]) -> Iterator[Record]:
    with closing(cluster):
        yield from records
