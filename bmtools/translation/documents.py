"""Documents as sentences: split, and put together again from translations."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.provenance.licence_check import translation_fault
from bmtools.io.provenance.licences import translated_licence
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.text.languages import primary_language
from bmtools.text.sentences import sections_of, spans_between
from bmtools.translation.cache import SentenceBatches, SentenceCache
from bmtools.translation.counts import TranslationCounts
from bmtools.translation.engines.engine import Translation, Translator, plain_line
from bmtools.translation.projection.documents import annotated_spans
from bmtools.translation.projection.settings import SOURCE
from bmtools.translation.settings import TEXTS, DocumentConfig

PROJECTED = ("entities", "relations", "answers")
ANNOTATIONS = (*PROJECTED, "target", "predicted")


@dataclass(frozen=True)
class Document:
    """A record and its split texts, by their keys; one that is passed on as it is has none.

    Args:
        record: as it was read.
        texts: by their keys.
        mentions: annotated words that are translated by themselves.
        error: why it is rejected.
    """

    record: Record
    texts: dict[str, SplitText] = field(default_factory=dict)
    mentions: tuple[str, ...] = ()
    error: RecordError | None = None

    @property
    def sentences(self) -> list[str]:
        return [sentence for text in self.texts.values() for sentence in text.sentences]

    @property
    def translated(self) -> list[str]:
        """All that is translated: sentences, and mentions by themselves."""
        return [*self.sentences, *self.mentions]


def translate_records(records: Iterable[Record | RecordError],
                      translator: Translator, config: DocumentConfig, reject: Reject = refuse,
                      counts: TranslationCounts | None = None,
                      cache: SentenceCache | None = None,
                      total: int | None = None) -> Iterator[Record]:
    """Translate the texts of records, sentence by sentence.

    Order, ids and unknown keys stay; a sentence that comes again is translated once. What waits
    at a time are the batches under way, and the records that need them or come after those.

    Args:
        records: in the source language, or without a `lang`; and errors of reading them.
        translator: for the two languages of the settings.
        config: languages, and the treatment of untranslatable sentences and records.
        reject: receives records that cannot be translated, in the order of the records, unless it
            ends the translation.
        counts: updated while records go by.
        cache: of the translator's sentences; a temporary one by default.
        total: number of records, for the status, where it is known.
    """
    counts = TranslationCounts() if counts is None else counts
    with closing(cache or SentenceCache(translator.fingerprint)) as cache:
        documents = _DocumentTranslator(translator, cache, config, reject, counts, total)
        for record in records:
            documents.add(record)
            yield from documents.completed()
        documents.batches.finish()
        counts.stored = cache.size() if cache.is_shared else None
        yield from documents.completed()


class _DocumentTranslator:
    """Translator of documents by a translator of sentences."""

    def __init__(self, translator: Translator, cache: SentenceCache,
                 config: DocumentConfig, reject: Reject, counts: TranslationCounts,
                 total: int | None) -> None:
        self.batches = SentenceBatches(translator, cache)
        self._engine = translator
        self._config = config
        self._reject = reject
        self._counts = counts
        self._waiting: deque[tuple[Document, int]] = deque()
        self._status = partial(set_status, "translating", total=total, unit="records")
        self._status(counts.inputs, sentences=self.batches.translated)

    def add(self, record: Record | RecordError) -> None:
        """Split a record into sentences, and have them translated."""
        document = self._split(record)
        if document.error and self._reject is refuse:
            raise document.error
        self._waiting.append((document, self.batches.add(document.translated)))

    def completed(self) -> Iterator[Record]:
        """Yield the records whose sentences are translated, and reject those that cannot be."""
        while self._waiting and self._waiting[0][1] <= self.batches.completed:
            document, _ = self._waiting.popleft()
            self._counts.inputs += 1
            self._counts.distinct = self.batches.translated
            self._counts.engine = self.batches.counts()
            self._status(self._counts.inputs, sentences=self.batches.translated)
            found = {one: self.batches[one] for one in document.translated}
            translations = {sentence: each.translation for sentence, each in found.items()}
            error = document.error or self._untranslated(document, translations)
            if error:
                self._reject(error)
            elif document.texts:
                self._counts.cached += sum(found[one].is_earlier for one in document.sentences)
                yield self._joined(document, translations)
            else:
                self._counts.passed_on += 1
                yield document.record

    def _split(self, record: Record | RecordError) -> Document:
        if isinstance(record, RecordError):
            return Document(Record(), error=record)
        source = self._config.source_lang
        lang = primary_language(record.get("lang") or source)
        kept = PROJECTED if self._config.keep_sources else ()
        annotation = None if self._config.drop_annotations else next(
            (key for key in ANNOTATIONS if record.get(key) and key not in kept), None)
        if lang != primary_language(source):
            if self._config.other_languages == "keep":
                return Document(record)
            already = " already" * (lang == primary_language(self._config.target_lang))
            fault = (f"key 'lang': found {record['lang']!r}{already}, expected {source!r}; leave "
                     f"the record out, or pass it on with {setting('other_languages')} keep")
        elif annotation:
            fault = (f"key '{annotation}': refers to the words of the original, expected "
                     f"plain text; {setting('project')} carries entities, relations and answers "
                     f"along, {setting('drop_annotations')} removes it")
        elif not (fault := translation_fault(record.get("licence", ""), self._engine.licence)):
            spans = annotated_spans(record) if self._config.translate_mentions else ()
            mentions = (plain_line(record["text"][start:end]) for start, end in spans)
            borders = {"text": sorted({section[edge] for section in sections_of(record)
                                       for edge in ("start", "end")})}
            return Document(record, {key: split_text(record[key], self._config,
                                                     borders.get(key, ()))
                                     for key in TEXTS if key in record},
                            tuple(filter(None, mentions)))
        return Document(record, error=RecordError(record.place, fault, record))

    def _untranslated(self, document: Document,
                      translations: Mapping[str, Translation]) -> RecordError | None:
        """Name the first sentence without a translation, if that rejects its record."""
        for sentence in document.sentences if self._config.missing == "reject" else ():
            if fault := translations[sentence].fault:
                return RecordError(
                    document.record.place, f"no translation of {sentence[:80]!r}: {fault}; or go "
                    f"on with {setting('missing')} keep or drop", document.record)
        return None

    def _joined(self, document: Document, translations: Mapping[str, Translation]) -> Record:
        """Join translations, and the rest of their record; count them."""
        sentences = document.sentences
        annotations = [key for key in ANNOTATIONS if document.record.get(key)]
        record = document.record.without(*annotations)
        found = [translations[sentence] for sentence in sentences]
        unknown = sum(translation.unknown for translation in found)
        missing = sum(bool(translation.fault) for translation in found)
        self._counts.records += 1
        self._counts.sentences += len(sentences)
        self._counts.words += sum(len(sentence.split()) for sentence in sentences)
        self._counts.unknown += unknown
        self._counts.missing += missing
        self._counts.stripped += bool(annotations) and not self._config.keep_sources
        for sentence, one in zip(sentences, found, strict=True):
            if one.round_trip is not None:
                self._counts.add_round_trip(one.round_trip, sentence)
        engine = self._engine
        details: dict[str, object] = {
            "engine": engine.name, **engine.details,
            "source": self._config.source_lang, "target": self._config.target_lang,
            "sentences": len(sentences), "missing": missing}
        if engine.marks_unknown:
            details["unknown_words"] = unknown
        if self._config.keep_scores:
            details["log_probabilities"] = {
                key: [score if (score := translations[one].log_probability) is None
                      else round(score, 4) for one in text.sentences]
                for key, text in document.texts.items()}
        if licence := translated_licence(record.get("licence", ""), engine.licence):
            record = record.replace(licence=licence)
        joined = {key: join_text(text, translations, self._config.missing == "keep")
                  for key, text in document.texts.items()}
        doubtful = [{"key": key, "start": start, "end": end, "flags": list(flags)}
                    for key, text in joined.items() for (_, _, start, end), sentence in zip(
                        text.spans, document.texts[key].sentences, strict=True)
                    if (flags := translations[sentence].flags)]
        if doubtful:
            details["flags"] = doubtful
        if annotations:
            details["sentence_spans"] = {key: text.spans for key, text in joined.items()}
        if self._config.keep_sources:
            mentions = {one: translations[one].text for one in document.mentions}
            record = record.replace(**{SOURCE: {
                "record": document.record, "place": document.record.place, "mentions": mentions}})
        meta = {**record.get("meta", {}), "translation": details}
        if sections := sections_of(record):
            meta["sections"] = [{**section, **{edge: joined["text"].place_of(section[edge])
                                               for edge in ("start", "end")}}
                                for section in sections]
        return record.replace(**{key: text.text for key, text in joined.items()},
                              lang=self._config.target_lang, meta=meta)


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


def split_text(text: str, config: DocumentConfig, borders: Iterable[int] = ()) -> SplitText:
    """Find the sentences of a text; each becomes one plain line.

    Args:
        text: the whole.
        config: its language, and abbreviations.
        borders: offsets that no sentence crosses.
    """
    found = [(start, end, plain) for start, end in spans_between(
        text, borders, config.source_lang, config.abbreviations)
        if (plain := plain_line(text[start:end]))]
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

    def place_of(self, offset: int) -> int:
        """Move an offset of the source; one inside a sentence goes to the sentence's end."""
        before = moved = 0
        for start, end, first, last in self.spans:
            if offset <= start:
                return min(moved + offset - before, first)
            if offset <= end:
                return last
            before, moved = end, last
        return min(moved + offset - before, len(self.text))


def join_text(source: SplitText, translations: Mapping[str, Translation],
              keep_missing: bool) -> JoinedText:
    """Put translations in the places of their sentences.

    A sentence without one stays as it is with `keep_missing`, or takes the space after it along.
    """
    if not source.spans:
        return JoinedText(source.text, [])
    ends = [*(start for start, _ in source.spans[1:]), len(source.text)]
    joined = source.text[:source.spans[0][0]]
    spans = []
    for (start, end), sentence, following in zip(source.spans, source.sentences, ends, strict=True):
        found = translations[sentence]
        text = found.text if not found.fault else sentence if keep_missing else ""
        spans.append((start, end, len(joined), len(joined) + len(text)))
        if text or not found.fault:
            joined += text + source.text[end:following]
    return JoinedText(joined, spans)
