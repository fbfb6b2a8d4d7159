"""Splitting of documents into sentences, and joining of the translated sentences."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.provenance.licence_check import translation_fault
from bmtools.io.provenance.licences import UNKNOWN, combine
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.text.abbreviations import Abbreviations
from bmtools.text.languages import primary_language
from bmtools.text.sentences import sections_of, spans_between
from bmtools.translation.cache import SentenceBatches, SentenceCache
from bmtools.translation.engines.engine import Translation, Translator, plain_line, space_between
from bmtools.translation.projection.documents import annotated_spans
from bmtools.translation.projection.settings import SOURCE
from bmtools.translation.settings import TEXTS, DocumentConfig

PROJECTED = ("entities", "relations", "answers")
ANNOTATIONS = (*PROJECTED, "target", "predicted")


Sentence = tuple[int, int, str]
"""Start and end of a sentence in its text, and the sentence as one plain line."""
Spans = list[tuple[int, int, int, int]]
"""Start and end of sentences in the source and in the translation."""


@dataclass(frozen=True)
class Document:
    """A record and the sentences of its texts.

    Args:
        record: the record as it was read.
        texts: sentences by the keys of their texts; empty if the record is passed on unchanged.
        mentions: annotated phrases that are also translated on their own.
        error: the reason for rejecting the record.
    """

    record: Record
    texts: dict[str, list[Sentence]] = field(default_factory=dict)
    mentions: tuple[str, ...] = ()
    error: RecordError | None = None

    @property
    def sentences(self) -> list[str]:
        return [sentence for text in self.texts.values() for *_, sentence in text]


def translate_records(records: Iterable[Record | RecordError], translator: Translator,
                      config: DocumentConfig, reject: Reject = refuse,
                      counts: Counter[str] | None = None, cache: SentenceCache | None = None,
                      total: int | None = None,
                      abbreviations: Abbreviations | None = None) -> Iterator[Record]:
    """Translate the texts of records, sentence by sentence.

    Order, ids and unknown keys stay unchanged. A repeated sentence is translated once. Memory
    holds the batches being translated, the records that need them, and the records after those.

    Args:
        records: records in the source language or without a `lang`, and errors from reading.
        translator: translator for the two languages of the settings; closed at the end.
        config: languages, and the treatment of untranslatable sentences and records.
        reject: receives records that cannot be translated, in the order of the records; it may
            raise an error to end the translation.
        counts: updated during translation; see `bmtools.translation.counts`.
        cache: cache of the translator's sentences; a temporary one by default.
        total: number of records, for the status, if it is known.
        abbreviations: further abbreviations of the source language.
    """
    counts = Counter() if counts is None else counts
    status = partial(set_status, "translating", total=total, unit="records")
    waiting: deque[tuple[Document, int]] = deque()
    with closing(translator), closing(cache or SentenceCache(translator.fingerprint)) as cache:
        batches = SentenceBatches(translator, cache)

        def completed() -> Iterator[Record]:
            while waiting and waiting[0][1] <= batches.completed:
                document, _ = waiting.popleft()
                counts.update(inputs=1)
                counts.update(batches.counts() + Counter(distinct=batches.translated) - counts)
                status(counts["inputs"], sentences=counts["distinct"])
                if record := _finished(document, batches, translator, config, reject, counts):
                    yield record

        status(counts["inputs"], sentences=batches.translated)
        for record in records:
            document = _split(record, translator, config, abbreviations)
            if document.error and reject is refuse:
                raise document.error
            waiting.append((document, batches.add((*document.sentences, *document.mentions))))
            yield from completed()
        batches.finish()
        yield from completed()


def _split(record: Record | RecordError, engine: Translator, config: DocumentConfig,
           abbreviations: Abbreviations | None) -> Document:
    """Split a record into sentences, or state why it is rejected."""
    if isinstance(record, RecordError):
        return Document(Record(), error=record)
    source = config.source_lang
    lang = primary_language(record.get("lang") or source)
    kept = PROJECTED if config.project else ()
    annotation = None if config.drop_annotations else next(
        (key for key in ANNOTATIONS if record.get(key) and key not in kept), None)
    if lang != primary_language(source):
        if config.other_languages == "keep":
            return Document(record)
        already = " already" * (lang == primary_language(config.target_lang))
        fault = (f"key 'lang': found {record['lang']!r}{already}, expected {source!r}; remove "
                 f"the record, or keep it untranslated with {setting('other_languages')} keep")
    elif annotation:
        fault = (f"key '{annotation}': found annotations of the original words, expected plain "
                 f"text; transfer entities, relations and answers with {setting('project')}, or "
                 f"remove the key with {setting('drop_annotations')}")
    elif not (fault := translation_fault(record.get("licence", ""), engine.licence)):
        spans = annotated_spans(record) if config.project and config.translate_mentions else ()
        mentions = (plain_line(record["text"][start:end]) for start, end in spans)
        borders = {"text": sorted({section[edge] for section in sections_of(record)
                                   for edge in ("start", "end")})}
        return Document(record, {key: [
            (start, end, plain) for start, end in spans_between(
                record[key], borders.get(key, ()), source, abbreviations)
            if (plain := plain_line(record[key][start:end]))] for key in TEXTS if key in record},
            tuple(filter(None, mentions)))
    return Document(record, error=RecordError(record.place, fault, record))


def _finished(document: Document, batches: SentenceBatches, engine: Translator,
              config: DocumentConfig, reject: Reject, counts: Counter[str]) -> Record | None:
    """Join the translations of a document, or reject it."""
    found = {one: batches[one] for one in (*document.sentences, *document.mentions)}
    translations = {sentence: each.translation for sentence, each in found.items()}
    error = document.error
    if not error and not document.texts:
        counts["passed_on"] += 1
        return document.record
    if not error and config.missing == "reject":
        error = next((RecordError(
            document.record.place, f"no translation of {one[:80]!r}: {translations[one].fault}; "
            f"or continue with {setting('missing')} keep or drop", document.record)
            for one in document.sentences if translations[one].fault), None)
    if error:
        reject(error)
        return None
    counts["cached"] += sum(found[one].is_earlier for one in document.sentences)
    return _joined(document, translations, engine, config, counts)


def _joined(document: Document, translations: Mapping[str, Translation], engine: Translator,
            config: DocumentConfig, counts: Counter[str]) -> Record:
    """Return the translated record, and count its sentences and words."""
    sentences = document.sentences
    annotations = [key for key in ANNOTATIONS if document.record.get(key)]
    record = document.record.without(*annotations)
    unknown = sum(translations[sentence].unknown for sentence in sentences)
    missing = sum(bool(translations[sentence].fault) for sentence in sentences)
    counts.update(records=1, sentences=len(sentences), unknown=unknown, missing=missing,
                  words=sum(len(sentence.split()) for sentence in sentences),
                  stripped=bool(annotations) and not config.project)
    details: dict[str, object] = {
        "engine": engine.name, **engine.details,
        "source": config.source_lang, "target": config.target_lang,
        "sentences": len(sentences), "missing": missing}
    if engine.marks_unknown:
        details["unknown_words"] = unknown
    if engine.licence:
        record = record.replace(licence=combine(record.get("licence") or UNKNOWN, engine.licence))
    joined = {key: join_text(record[key], text, translations, config)
              for key, text in document.texts.items()}
    doubtful = [{"key": key, "start": start, "end": end, "flags": list(flags)}
                for key, (_, spans) in joined.items()
                for (*_, start, end), (*_, sentence) in zip(spans, document.texts[key], strict=True)
                if (flags := translations[sentence].flags)]
    if doubtful:
        details["flags"] = doubtful
    if annotations:
        details["sentence_spans"] = {key: spans for key, (_, spans) in joined.items()}
    if config.project:
        mentions = {one: translations[one].text for one in document.mentions}
        record = record.replace(**{SOURCE: {
            "record": document.record, "place": document.record.place, "mentions": mentions}})
    meta = {**record.get("meta", {}), "translation": details}
    if sections := sections_of(record):
        meta["sections"] = [{**section, **{edge: moved(section[edge], *joined["text"])
                                           for edge in ("start", "end")}}
                            for section in sections]
    return record.replace(**{key: text for key, (text, _) in joined.items()},
                          lang=config.target_lang, meta=meta)


def moved(offset: int, translation: str, spans: Spans) -> int:
    """Convert an offset in the source; if it is inside a sentence, return the sentence's end."""
    before = after = 0
    for start, end, first, last in spans:
        if offset <= start:
            return min(after + offset - before, first)
        if offset <= end:
            return last
        before, after = end, last
    return min(after + offset - before, len(translation))


def join_text(source: str, sentences: list[Sentence], translations: Mapping[str, Translation],
              config: DocumentConfig) -> tuple[str, Spans]:
    """Replace sentences by their translations.

    A sentence without a translation is kept, or dropped with the space after it; see
    `config.missing`.

    Returns:
        the translated text, and the spans of its sentences; a dropped sentence has an empty span.
    """
    if not sentences:
        return source, []
    starts = [*(start for start, *_ in sentences[1:]), None]
    joined = source[:sentences[0][0]]
    spans = []
    for (start, end, sentence), following in zip(sentences, starts, strict=True):
        found = translations[sentence]
        text = found.text if not found.fault else sentence if config.missing == "keep" else ""
        spans.append((start, end, len(joined), len(joined) + len(text)))
        if text or not found.fault:
            joined += text + (source[end:] if following is None else space_between(
                source, end, following, config.target_lang))
    return joined, spans
