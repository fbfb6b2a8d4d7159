"""Documents as sentences: split, and put together again from translations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bmtools.corpus.languages import primary_language
from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record
from bmtools.search.segment import sentence_spans
from bmtools.translation.engines.engine import COUNTED, Translation, Translator
from bmtools.translation.sentences import SentenceTranslator
from bmtools.translation.settings import DocumentConfig

TEXTS = ("title", "question", "text", "text_pair")
ANNOTATIONS = ("entities", "relations", "answers", "target", "predicted")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


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
        engine: the engine's own counts, see `COUNTED`.
    """

    records: int = 0
    sentences: int = 0
    words: int = 0
    distinct: int = 0
    unknown: int = 0
    missing: int = 0
    stripped: int = 0
    passed_on: int = 0
    engine: Counter[str] = field(default_factory=Counter)

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
        for key, meaning in COUNTED.items():
            if self.engine[key]:
                yield f"{self.engine[key]} {meaning}"


@dataclass(frozen=True)
class SplitText:
    """A text and its sentences.

    Args:
        text: the whole.
        spans: start and end of each sentence in it.
        sentences: each as one plain line.
    """

    text: str
    spans: list[tuple[int, int]]
    sentences: list[str]


def split_text(text: str, config: DocumentConfig) -> SplitText:
    """Find the sentences of a text; each becomes one plain line."""
    found = [(start, end, plain) for start, end in sentence_spans(
        text, config.source_lang, config.abbreviations)
        if (plain := _BLANK.sub(" ", text[start:end]).strip())]
    return SplitText(text, [(start, end) for start, end, _ in found],
                     [plain for *_, plain in found])


@dataclass(frozen=True)
class JoinedText:
    """A translated text.

    Args:
        text: the whole.
        spans: of each sentence of the source, start and end in the source and in the
            translation; no part of the translation where it was dropped.
    """

    text: str
    spans: list[tuple[int, int, int, int]]


def join_text(source: SplitText, translations: Mapping[str, Translation],
              keep_missing: bool) -> JoinedText:
    """Put translations in the places of their sentences.

    A sentence without one stays as it is with `keep_missing`, or takes the space after it along.
    """
    ends = [*(start for start, _ in source.spans[1:]), len(source.text)]
    joined = source.text[:source.spans[0][0]] if source.spans else source.text
    spans = []
    for (start, end), sentence, following in zip(source.spans, source.sentences, ends,
                                                 strict=True):
        found = translations[sentence]
        text = found.text if not found.fault else sentence if keep_missing else ""
        spans.append((start, end, len(joined), len(joined) + len(text)))
        if text or not found.fault:
            joined += text + source.text[end:following]
    return JoinedText(joined, spans)


@dataclass(frozen=True)
class Document:
    """A record and its split texts, by their keys; one that is passed on as it is has none."""

    record: Record
    texts: dict[str, SplitText]

    @property
    def sentences(self) -> list[str]:
        return [sentence for text in self.texts.values() for sentence in text.sentences]


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
    documents = _DocumentTranslator(SentenceTranslator(translator), config, reject,
                                    TranslationCounts() if counts is None else counts)
    waiting: list[Document] = []
    pending: dict[str, None] = {}
    for record in records:
        document = documents.split(record)
        if document is None:
            continue
        waiting.append(document)
        pending.update((sentence, None) for sentence in document.sentences
                       if sentence not in documents.translator.known)
        if len(pending) >= translator.batch_sentences:
            yield from documents.translate(waiting, list(pending))
            waiting, pending = [], {}
    yield from documents.translate(waiting, list(pending))


class _DocumentTranslator:
    """Translator of documents by a translator of sentences."""

    def __init__(self, translator: SentenceTranslator, config: DocumentConfig, reject: Reject,
                 counts: TranslationCounts) -> None:
        self.translator = translator
        self.config = config
        self.reject = reject
        self.counts = counts

    def split(self, record: Record) -> Document | None:
        """Split a record into sentences; None where it was rejected."""
        source = self.config.source_lang
        lang = primary_language(record.get("lang") or source)
        annotation = next((key for key in ANNOTATIONS if record.get(key)), None)
        if lang != primary_language(source):
            if self.config.other_languages == "keep":
                self.counts.passed_on += 1
                return Document(record, {})
            already = " already" * (lang == primary_language(self.config.target_lang))
            fault = (f"key 'lang': found {record['lang']!r}{already}, expected {source!r}; leave "
                     f"the record out, or pass it on with {setting('other_languages')} keep")
        elif annotation and not self.config.drop_annotations:
            fault = (f"key '{annotation}': refers to the words of the original, expected "
                     f"plain text; {setting('drop_annotations')} removes it")
        else:
            return Document(record, {key: split_text(record[key], self.config)
                                     for key in TEXTS if key in record})
        self.reject(RecordError(record.place, fault, record))
        return None

    def translate(self, documents: Iterable[Document],
                  sentences: list[str]) -> Iterator[Record]:
        """Translate a batch of sentences and join the documents that it completes."""
        self.translator.translate(sentences)
        self.counts.engine = self.translator.engine.counts
        self.counts.distinct += len(sentences)
        for document in documents:
            record = document.record
            fault = next(((sentence, found.fault) for sentence in document.sentences
                          if (found := self.translator.known[sentence]).fault), None)
            if not document.texts:
                yield record
            elif fault and self.config.missing == "reject":
                self.reject(RecordError(
                    record.place, f"no translation of {fault[0][:80]!r}: {fault[1]}; or go "
                    f"on with {setting('missing')} keep or drop", record))
            else:
                yield self._joined(document)
        self.translator.forget()

    def _joined(self, document: Document) -> Record:
        """Join translations, and the rest of their record; count them."""
        sentences = document.sentences
        annotations = [key for key in ANNOTATIONS if document.record.get(key)]
        record = document.record.without(*annotations)
        found = [self.translator.known[sentence] for sentence in sentences]
        unknown = sum(translation.unknown for translation in found)
        missing = sum(bool(translation.fault) for translation in found)
        self.counts.records += 1
        self.counts.sentences += len(sentences)
        self.counts.words += sum(len(sentence.split()) for sentence in sentences)
        self.counts.unknown += unknown
        self.counts.missing += missing
        self.counts.stripped += bool(annotations)
        engine = self.translator.engine
        details: dict[str, object] = {
            "engine": engine.name, **engine.details,
            "source": self.config.source_lang, "target": self.config.target_lang,
            "sentences": len(sentences), "missing": missing}
        if engine.marks_unknown:
            details["unknown_words"] = unknown
        joined = {key: join_text(text, self.translator.known, self.config.missing == "keep")
                  for key, text in document.texts.items()}
        return record.replace(
            **{key: text.text for key, text in joined.items()}, lang=self.config.target_lang,
            meta={**record.get("meta", {}), "translation": details})
