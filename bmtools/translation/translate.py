"""Translation of records by any engine: split into sentences, translated, joined again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from bmtools.corpus.languages import primary_language
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import as_records
from bmtools.models.device import check_device
from bmtools.records import Record
from bmtools.search.abbreviations import Abbreviations, read_abbreviations
from bmtools.search.segment import sentence_spans
from bmtools.status import set_status
from bmtools.translation.model_files import check_converted, check_sequence_to_sequence
from bmtools.translation.settings import (
    DocumentConfig,
    Engine,
    EngineConfig,
    Missing,
    ModelConfig,
    OtherLanguages,
)
from bmtools.translation.translator import Translation, Translator

TEXTS = ("title", "question", "text", "text_pair")
ANNOTATIONS = ("entities", "relations", "answers", "target", "predicted")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")
_CACHED_SENTENCES = 100_000


@dataclass
class TranslationCounts:
    """Counts of a translation so far.

    Args:
        records: translated records.
        sentences: sentences in them.
        words: white-space words of those sentences.
        distinct: sentences given to the engine.
        unknown: words that the engine reports as unknown.
        missing: sentences kept or dropped for lack of a translation.
        stripped: records that lost annotations.
        passed_on: records in another language that were left as they are.
        restarts: times that the engine's program stood still and was started again.
    """

    records: int = 0
    sentences: int = 0
    words: int = 0
    distinct: int = 0
    unknown: int = 0
    missing: int = 0
    stripped: int = 0
    passed_on: int = 0
    restarts: int = 0

    def lines(self) -> Iterator[str]:
        """Yield lines for people: totals, and counts that deserve a look."""
        yield (f"{self.records} records, {self.sentences} sentences ({self.distinct} different "
               f"ones), {self.words} words")
        if self.unknown:
            share = 100 * self.unknown / self.words
            yield f"{self.unknown} unknown words ({share:.1f}%), left as they were"
        if self.missing:
            yield f"{self.missing} sentences without a translation"
        if self.stripped:
            yield f"{self.stripped} records lost their annotations"
        if self.passed_on:
            yield f"{self.passed_on} records in other languages, left as they were"
        if self.restarts:
            times = f"time{'s' * (self.restarts > 1)}"
            yield f"the engine stood still {self.restarts} {times} and was started again"


def translate(records: str | PathLike[str] | Iterable[Any], source_lang: str, target_lang: str,
              engine: Engine, *,
              memory: Path | None = None, via: str | None = None,
              model: ModelConfig | None = None, missing: Missing = "reject",
              other_languages: OtherLanguages = "reject", drop_annotations: bool = False,
              abbreviations: Path | None = None, reject: Reject = refuse,
              counts: TranslationCounts | None = None) -> Iterator[Record]:
    """Translate records sentence by sentence.

    Args:
        records: files, records or dictionaries, in the source language or without a `lang`.
        source_lang: ISO 639-1.
        target_lang: ISO 639-1.
        engine: memory, apertium, ctranslate2 or transformers.
        memory: TMX or TSV file; for memory.
        via: language in between; for apertium.
        model: for ctranslate2 and transformers.
        missing: a sentence without a translation: reject its record, keep it, or drop it.
        other_languages: a record whose lang is another language: reject or keep it.
        drop_annotations: remove the keys whose offsets would be wrong afterwards.
        abbreviations: file of more of them, see `read_abbreviations`.
        reject: receives records that cannot be translated.
        counts: updated while records go by.

    Raises:
        ValueError: settings that do not belong together.
        BmtoolsError: the engine's program, package, pair of languages or checkpoint is missing.
    """
    documents = DocumentConfig(source_lang, target_lang, missing, other_languages,
                               drop_annotations,
                               read_abbreviations(abbreviations) if abbreviations else None)
    translator = load_translator(
        EngineConfig(engine, source_lang, target_lang, memory, via, model))
    return translate_records(as_records(records, reject), translator, documents, reject, counts)


def load_translator(config: EngineConfig) -> Translator:
    """Load an engine; only its own libraries are imported.

    Raises:
        BmtoolsError: its program, package, pair of languages or checkpoint is missing.
    """
    source, target = config.source_lang, config.target_lang
    set_status(f"loading {config.model.model if config.model else config.engine}")
    if config.engine == "apertium":
        from bmtools.translation.apertium import ApertiumTranslator

        return ApertiumTranslator(source, target, config.via)
    if config.memory:
        from bmtools.translation.memory import MemoryTranslator

        return MemoryTranslator(config.memory, source, target)
    assert config.model is not None
    check_device(config.model.device)
    if config.engine == "ctranslate2":
        check_converted(config.model.model)
        from bmtools.translation.neural import CTranslate2Translator

        return CTranslate2Translator(config.model, source, target)
    check_sequence_to_sequence(config.model.model)
    from bmtools.translation.transformers_engine import TransformersTranslator

    return TransformersTranslator(config.model, source, target)


def translate_records(records: Iterable[Record], translator: Translator,
                      config: DocumentConfig, reject: Reject = refuse,
                      counts: TranslationCounts | None = None) -> Iterator[Record]:
    """Translate the texts of records, sentence by sentence.

    Order, ids and unknown keys stay; a sentence that comes again is translated once. At most
    one batch of sentences, and the record that completes it, are waiting at a time.

    Args:
        records: in the source language, or without a `lang`.
        translator: for the two languages of the settings.
        config: languages, and the treatment of untranslatable sentences and records.
        reject: receives records that cannot be translated.
        counts: updated while records go by.
    """
    documents = _DocumentTranslator(translator, config, reject,
                                    TranslationCounts() if counts is None else counts)
    waiting: list[_Document] = []
    pending: dict[str, None] = {}
    for record in records:
        document = documents.split(record)
        if document is None:
            continue
        waiting.append(document)
        pending.update((sentence, None) for sentence in document.sentences
                       if sentence not in documents.translations)
        if len(pending) >= translator.batch_sentences:
            yield from documents.translate(waiting, list(pending))
            waiting, pending = [], {}
    yield from documents.translate(waiting, list(pending))


@dataclass(frozen=True)
class _Document:
    """A record and its texts, split into white space, sentence, white space, ..., white space.

    One that is passed on as it is has no texts.
    """

    record: Record
    texts: dict[str, list[str]]

    @property
    def sentences(self) -> list[str]:
        return [sentence for pieces in self.texts.values() for sentence in pieces[1::2]]


class _DocumentTranslator:
    """Translator of documents, with the sentences translated so far."""

    def __init__(self, translator: Translator, config: DocumentConfig, reject: Reject,
                 counts: TranslationCounts) -> None:
        self.translator = translator
        self.config = config
        self.reject = reject
        self.counts = counts
        self.translations: dict[str, Translation] = {}

    def split(self, record: Record) -> _Document | None:
        """Split a record into sentences; None where it was rejected."""
        source = self.config.source_lang
        lang = primary_language(record.get("lang") or source)
        annotation = next((key for key in ANNOTATIONS if record.get(key)), None)
        if lang != primary_language(source):
            if self.config.other_languages == "keep":
                self.counts.passed_on += 1
                return _Document(record, {})
            already = " already" * (lang == primary_language(self.config.target_lang))
            fault = (f"key 'lang': found {record['lang']!r}{already}, expected {source!r}; leave "
                     f"the record out, or pass it on with {setting('other_languages')} keep")
        elif annotation and not self.config.drop_annotations:
            fault = (f"key '{annotation}': refers to the words of the original, expected "
                     f"plain text; {setting('drop_annotations')} removes it")
        else:
            return _Document(record, {
                key: _pieces(record[key], source, self.config.abbreviations)
                for key in TEXTS if key in record})
        self.reject(RecordError(record.place, fault, record))
        return None

    def translate(self, documents: Iterable[_Document],
                  sentences: list[str]) -> Iterator[Record]:
        """Translate a batch of sentences and join the documents that it completes."""
        if sentences:
            self.translations.update(zip(sentences, self.translator.translate(sentences),
                                         strict=True))
        self.counts.restarts = self.translator.restarts
        self.counts.distinct += len(sentences)
        for document in documents:
            record = document.record
            fault = next(((sentence, found.fault) for sentence in document.sentences
                          if (found := self.translations[sentence]).fault), None)
            if not document.texts:
                yield record
            elif fault and self.config.missing == "reject":
                self.reject(RecordError(
                    record.place, f"no translation of {fault[0][:80]!r}: {fault[1]}; or go "
                    f"on with {setting('missing')} keep or drop", record))
            else:
                yield self._joined(document)
        for sentence in list(self.translations)[:-_CACHED_SENTENCES]:
            del self.translations[sentence]

    def _joined(self, document: _Document) -> Record:
        """Join translations, and the rest of their record; count them."""
        sentences = document.sentences
        annotations = [key for key in ANNOTATIONS if document.record.get(key)]
        record = document.record.without(*annotations)
        found = [self.translations[sentence] for sentence in sentences]
        unknown = sum(translation.unknown for translation in found)
        missing = sum(bool(translation.fault) for translation in found)
        self.counts.records += 1
        self.counts.sentences += len(sentences)
        self.counts.words += sum(len(sentence.split()) for sentence in sentences)
        self.counts.unknown += unknown
        self.counts.missing += missing
        self.counts.stripped += bool(annotations)
        details: dict[str, object] = {
            "engine": self.translator.name, **self.translator.details,
            "source": self.config.source_lang, "target": self.config.target_lang,
            "sentences": len(sentences), "missing": missing}
        if self.translator.marks_unknown:
            details["unknown_words"] = unknown
        texts = {key: self._joined_text(pieces) for key, pieces in document.texts.items()}
        return record.replace(**texts, lang=self.config.target_lang,
                              meta={**record.get("meta", {}), "translation": details})

    def _joined_text(self, pieces: list[str]) -> str:
        """Put translations in place of the sentences; a dropped one takes its space along."""
        text = pieces[0]
        for sentence, space in zip(pieces[1::2], pieces[2::2], strict=True):
            translation = self.translations[sentence]
            if not translation.fault:
                text += translation.text + space
            elif self.config.missing == "keep":
                text += sentence + space
        return text


def _pieces(text: str, lang: str, abbreviations: Abbreviations | None) -> list[str]:
    """Split into white space and sentences by turns; each sentence becomes one plain line."""
    pieces, last = [], 0
    for start, end in sentence_spans(text, lang, abbreviations):
        sentence = _BLANK.sub(" ", text[start:end]).strip()
        if sentence:
            pieces += [text[last:start], sentence]
            last = end
    return [*pieces, text[last:]]
