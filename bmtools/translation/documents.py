"""Translation of whole records: split into sentences, translated, joined again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bmtools.corpus.languages import primary_language
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record
from bmtools.search.segment import sentence_spans
from bmtools.translation.settings import DocumentConfig
from bmtools.translation.translator import Translation, Translator

TEXTS = ("title", "question", "text", "text_pair")
ANNOTATIONS = ("entities", "relations", "answers", "target")
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
    """

    records: int = 0
    sentences: int = 0
    words: int = 0
    distinct: int = 0
    unknown: int = 0
    missing: int = 0
    stripped: int = 0
    passed_on: int = 0

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


@dataclass(frozen=True)
class _SplitRecord:
    """A record and its texts, split into white space, sentence, white space, ..., white space."""

    record: Record
    pieces: dict[str, list[str]] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        return [sentence for pieces in self.pieces.values() for sentence in pieces[1::2]]


def translate_records(records: Iterable[Record], translator: Translator,
                      config: DocumentConfig, reject: Reject = refuse,
                      counts: TranslationCounts | None = None) -> Iterator[Record]:
    """Translate the texts of records, sentence by sentence.

    Order, ids and unknown keys stay; a sentence that comes again is translated once. At most
    one batch of sentences, and the record that completes it, are waiting at a time.

    Args:
        records: in the source language, or without a `lang`.
        translator: for the two languages of the settings.
        config: languages, and the treatment of what cannot be translated.
        reject: receives records that cannot be translated.
        counts: updated while records go by.
    """
    documents = _DocumentTranslator(translator, config, reject,
                                    TranslationCounts() if counts is None else counts)
    waiting: list[_SplitRecord] = []
    for record in records:
        document = documents.split(record)
        if document is None:
            continue
        waiting.append(document)
        if documents.add(document.sentences) >= translator.batch_sentences:
            yield from documents.finish(waiting)
            waiting = []
    yield from documents.finish(waiting)


class _DocumentTranslator:
    """Documents in progress, and the sentences translated so far."""

    def __init__(self, translator: Translator, config: DocumentConfig, reject: Reject,
                 counts: TranslationCounts) -> None:
        self.translator = translator
        self.config = config
        self.reject = reject
        self.counts = counts
        self.translations: dict[str, Translation] = {}
        self.pending: dict[str, None] = {}

    def split(self, record: Record) -> _SplitRecord | None:
        """Split a record into sentences; None where it was rejected."""
        fault = self._language_fault(record)
        if fault and self.config.other_languages == "keep":
            self.counts.passed_on += 1
            return _SplitRecord(record)
        annotations = _annotations(record)
        if annotations and not fault and not self.config.drop_annotations:
            fault = (f"key '{annotations[0]}': refers to the words of the original, expected "
                     f"plain text; {setting('drop_annotations')} removes it")
        if fault:
            self.reject(RecordError(record.place, fault, record))
            return None
        return _SplitRecord(record, {
            key: _pieces(record[key], self.config.source_lang) for key in TEXTS if key in record})

    def _language_fault(self, record: Record) -> str:
        lang, source = record.get("lang"), self.config.source_lang
        if not lang or primary_language(lang) == primary_language(source):
            return ""
        is_translated = primary_language(lang) == primary_language(self.config.target_lang)
        already = " already" if is_translated else ""
        return (f"key 'lang': found {lang!r}{already}, expected {source!r}; leave "
                f"the record out, or pass it on with {setting('other_languages')} keep")

    def add(self, sentences: Iterable[str]) -> int:
        """Add sentences to the next batch; return its length."""
        self.pending.update((one, None) for one in sentences if one not in self.translations)
        return len(self.pending)

    def finish(self, documents: list[_SplitRecord]) -> Iterator[Record]:
        """Translate the batch and join its documents."""
        sentences = list(self.pending)
        self.pending = {}
        if sentences:
            self.translations.update(zip(sentences, self.translator.translate(sentences),
                                         strict=True))
        self.counts.distinct += len(sentences)
        for document in documents:
            if not document.pieces:
                yield document.record
            elif not self._is_rejected(document):
                yield self._translated(document)
        for sentence in list(self.translations)[:-_CACHED_SENTENCES]:
            del self.translations[sentence]

    def _is_rejected(self, document: _SplitRecord) -> bool:
        if self.config.missing != "reject":
            return False
        for sentence in document.sentences:
            if fault := self.translations[sentence].fault:
                self.reject(RecordError(
                    document.record.place, f"no translation of {sentence[:80]!r}: {fault}; or go "
                    f"on with {setting('missing')} keep or drop", document.record))
                return True
        return False

    def _translated(self, document: _SplitRecord) -> Record:
        sentences, annotations = document.sentences, _annotations(document.record)
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
        texts = {key: self._joined(pieces) for key, pieces in document.pieces.items()}
        return record.replace(**texts, lang=self.config.target_lang,
                              meta={**record.get("meta", {}), "translation": details})

    def _joined(self, pieces: list[str]) -> str:
        """Put translations in place of the sentences; a dropped one takes its space along."""
        text = pieces[0]
        for sentence, space in zip(pieces[1::2], pieces[2::2], strict=True):
            translation = self.translations[sentence]
            if not translation.fault:
                text += translation.text + space
            elif self.config.missing == "keep":
                text += sentence + space
        return text


def _annotations(record: Record) -> list[str]:
    return [key for key in ANNOTATIONS if record.get(key)]


def _pieces(text: str, lang: str) -> list[str]:
    """Split into white space and sentences by turns; each sentence becomes one plain line."""
    pieces, last = [], 0
    for start, end in sentence_spans(text, lang):
        sentence = _BLANK.sub(" ", text[start:end]).strip()
        if sentence:
            pieces += [text[last:start], sentence]
            last = end
    return [*pieces, text[last:]]
