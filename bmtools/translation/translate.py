"""Translation of records with any engine, sentence by sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.installation import require_extra
from bmtools.io.failures import naming
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.parts import RecordShard, Shard, count_lines
from bmtools.records import JsonObject, Record
from bmtools.settings import split_settings
from bmtools.text.abbreviations import read_abbreviations
from bmtools.translation.cache import DATABASE, SentenceCache
from bmtools.translation.documents import translate_records
from bmtools.translation.engines.engine import Translator
from bmtools.translation.engines.loading import load_engine, load_translator
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.run import TranslationRun
from bmtools.translation.settings import (
    AuditConfig,
    DocumentConfig,
    Engine,
    EngineConfig,
    RayConfig,
    TermConfig,
    changed_settings,
)


def translate(records: str | PathLike[str] | Iterable[JsonObject], source_lang: str,
              target_lang: str, engine: Engine, *, abbreviations: Path | None = None,
              cache: Path | None = None, part: Shard | None = None,
              run: TranslationRun | None = None, reject: Reject = refuse,
              counts: Counter[str] | None = None, **settings: Any) -> Iterator[Record]:
    """Translate records sentence by sentence.

    Args:
        records: files, records or dictionaries, in the source language or without a `lang`.
        source_lang: ISO 639-1.
        target_lang: ISO 639-1.
        engine: memory, apertium, ctranslate2, transformers, command or http.
        abbreviations: file of further abbreviations, see `read_abbreviations`.
        cache: directory that keeps sentences and their translations for other runs.
        part: the part of the files to translate; by default all.
        run: writes the records, and continues an interrupted run; it has its own counts.
        reject: receives records that cannot be translated.
        counts: updated during translation; see `bmtools.translation.counts`.
        settings: fields of `EngineConfig`, `DocumentConfig`, `AuditConfig`, `TermConfig`,
            `RayConfig` and, with `project`, of `ProjectionConfig`.

    Raises:
        ValueError: settings that contradict each other.
        BmtoolsError: the engine's program, package, pair of languages or checkpoint is missing.
    """
    settings |= {"source_lang": source_lang, "target_lang": target_lang, "engine": engine}
    config, documents, audit, terms, cluster, projection = split_settings(
        settings, EngineConfig, DocumentConfig, AuditConfig, TermConfig, RayConfig,
        ProjectionConfig)
    if "language" in audit.names and audit.checks != "all":
        require_extra("py3langid", f"{setting('checks')} language", "translation")
    if "dictionary" not in projection.methods:
        projection = replace(projection, glossary=None)
    if documents.project:
        projection.require_resources(config)
    elif idle := changed_settings(ProjectionConfig, vars(projection)):
        name = "method" if idle[0] == "methods" else idle[0]
        raise ValueError(f"{setting(name)} requires {setting('project')}")
    load, plain = partial(load_translator, config, terms, audit=audit), None
    if cluster.ray:
        from bmtools.translation.cluster import RayTranslator

        uses_gpu = config.model is not None and config.device != "cpu"
        translator: Translator = RayTranslator(cluster, load, uses_gpu)
    else:
        plain = load_engine(config)
        translator = load(engine=plain)
    if isinstance(records, RecordReader) and part:
        records = RecordShard(records, part)
    total = count_lines(records) if isinstance(records, RecordReader) else None
    items, name = _with_errors(records, reject), ""
    if run:
        name, items, reject = run.begin_translating({
            **msgspec.to_builtins(documents), "part": str(part), "engine": translator.fingerprint,
            "abbreviations": abbreviations and abbreviations.read_text("utf-8")}, items, reject)
        counts = run.counts
    if cache:
        with naming(cache):
            cache.mkdir(parents=True, exist_ok=True)
    database = cache or (run.directory if run else None)
    sentences = SentenceCache(translator.fingerprint, database and database / DATABASE, name,
                              str(cache or (run.output if run else "")))
    counts = Counter() if counts is None else counts
    translated = translate_records(
        items, translator, documents, reject, counts, sentences, total,
        read_abbreviations(abbreviations) if abbreviations else None)
    if not documents.project:
        return translated
    from bmtools.translation.projection.project import project_translated

    finish = partial(project_translated, config=projection, engine=config, loaded=plain,
                     reject=reject, counts=counts)
    if run is None:
        return finish(translated)
    run.finish = finish
    return translated


def _with_errors(records: str | PathLike[str] | Iterable[JsonObject],
                 reject: Reject) -> Iterator[Record | RecordError]:
    """Yield records and, if a `reject` collects them, errors in their place among the records."""
    errors: list[RecordError] = []
    collect = refuse if reject is refuse else errors.append
    if isinstance(records, RecordReader):
        records.reject = collect
    for record in as_records(records, collect):
        yield from errors
        errors.clear()
        yield record
    yield from errors
