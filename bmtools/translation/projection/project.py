"""Projection of annotations from records to their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import as_records
from bmtools.records import JsonObject, Record
from bmtools.status import set_status
from bmtools.translation.engines.engine import Translator, translate_all
from bmtools.translation.engines.loading import load_engine, load_translator
from bmtools.translation.projection.align import project_by_alignment
from bmtools.translation.projection.confidence import (
    SHIPPED,
    Calibration,
    Vote,
    features,
    read_calibration,
    vote,
)
from bmtools.translation.projection.documents import (
    DocumentPair,
    annotated,
    blocks,
    pair_document,
    pair_records,
    prepare_answers,
    settle_questions,
)
from bmtools.translation.projection.edges import correct_edges
from bmtools.translation.projection.markers import project_by_markers
from bmtools.translation.projection.mentions import (
    DictionaryProjector,
    project_exactly,
    read_glossary,
)
from bmtools.translation.projection.pairs import Places, Projection, SentencePair
from bmtools.translation.projection.review import UNDECIDED, Decisions, ReviewItem, review_items
from bmtools.translation.projection.settings import SOURCE, ProjectionConfig
from bmtools.translation.settings import EngineConfig

_BY_MENTION = ("exact", "dictionary")
Projector = Callable[[Sequence[SentencePair]], Places]


def project(sources: str | PathLike[str] | Iterable[JsonObject],
            translations: str | PathLike[str] | Iterable[JsonObject],
            config: ProjectionConfig | None = None, engine: EngineConfig | None = None,
            reject: Reject = refuse, counts: Counter[str] | None = None,
            decisions: Decisions | None = None,
            review: Callable[[ReviewItem], None] | None = None) -> Iterator[Record]:
    """Transfer annotations from records to their translations.

    Methods learn from a block of records (see `blocks`) before its first span is projected. Memory
    holds a block, the ids of all records, and the translations that come before their source.

    Args:
        sources: files, records or dictionaries with entities, relations and answers.
        translations: likewise, with the same ids; their annotations are replaced.
        config: methods, and the treatment of spans without a place.
        engine: engine that translates for the methods.
        reject: receives records that cannot be projected.
        counts: updated with the numbers of projected annotations, of lost annotations by cause, and
            of corrected edges.
        decisions: decisions of a person, which override the methods.
        review: receives spans without a place or below the minimum confidence.

    Yields:
        the translations with the annotations of their sources, in the order of the sources.

    Raises:
        BmtoolsError: records do not match, or decisions do not fit them.
        ValueError: a resource of a method is missing.
    """
    config = config or ProjectionConfig()
    counts = Counter() if counts is None else counts
    pairs = pair_records(map(prepare_answers, as_records(sources, reject)),
                         as_records(translations, reject), reject, config.pairing)
    yield from project_pairs((pair_document(*pair) for pair in pairs), config, reject, counts,
                             Methods(config, engine), decisions, review)
    if decisions:
        decisions.require_all_used()
        counts[UNDECIDED] += decisions.undecided


def project_translated(records: Iterable[Record], config: ProjectionConfig, reject: Reject = refuse,
                       counts: Counter[str] | None = None, engine: EngineConfig | None = None,
                       loaded: Translator | None = None) -> Iterator[Record]:
    """Transfer annotations to records that `translate` made; see `project`.

    Args:
        records: translated records, with their source under `SOURCE`; other records are kept
            unchanged.
        config: methods, and the treatment of spans without a place.
        reject: receives records that cannot be projected.
        counts: see `project`.
        engine: settings of the engine that translated.
        loaded: the engine, if it is already loaded.
    """
    def documents() -> Iterator[DocumentPair]:
        for record in records:
            found = record.get(SOURCE, {"record": {"id": record["id"], "text": ""}, "place": ""})
            source = prepare_answers(Record(found["record"], place=found["place"]))
            yield pair_document(source, record.without(SOURCE), found.get("mentions"))

    yield from project_pairs(documents(), config, reject, Counter() if counts is None else counts,
                             Methods(config, engine, loaded, asks_for_mentions=False))


def project_pairs(documents: Iterable[DocumentPair], config: ProjectionConfig, reject: Reject,
                  counts: Counter[str], methods: Methods, decisions: Decisions | None = None,
                  review: Callable[[ReviewItem], None] | None = None) -> Iterator[Record]:
    """Transfer annotations within document pairs; see `project` and `project_translated`."""
    projected = _annotated(documents, config, reject, counts, methods, decisions, review)
    yield from settle_questions(projected, counts, reject)


def _annotated(documents: Iterable[DocumentPair], config: ProjectionConfig, reject: Reject,
               counts: Counter[str], methods: Methods, decisions: Decisions | None,
               review: Callable[[ReviewItem], None] | None) -> Iterator[tuple[Record, Record]]:
    """Yield each source and its translation with the annotations that have a place."""
    for document, votes in project_documents(documents, config, counts, methods):
        if decisions:
            votes = decisions.apply(document, votes, counts)
        if review:
            for item in review_items(document, votes, config.min_confidence):
                review(item)
        lost: Counter[str] = Counter()
        record = annotated(document, votes, config.min_confidence, lost)
        if lost and config.lost == "reject":
            causes = ", ".join(f"{cause}: {number}" for cause, number in lost.items())
            reject(RecordError(document.source.place, f"found annotations without a place "
                               f"({causes}); continue with {setting('lost')} drop",
                               document.source))
            counts["records rejected for annotations without a place"] += 1
            continue
        counts["annotations projected"] += sum(
            len(record[key]) for key in ("entities", "answers") if key in document.source)
        counts.update(lost)
        yield document.source, record


def project_documents(documents: Iterable[DocumentPair], config: ProjectionConfig,
                      counts: Counter[str], methods: Methods,
                      ) -> Iterator[tuple[DocumentPair, list[list[Vote]]]]:
    """Project the spans of all sentence pairs of each document, block by block.

    Rules correct the edges of all places, then the methods vote on the places. The score of a
    chosen place is its confidence.
    """
    calibration = read_calibration(config.calibration or SHIPPED)
    config.require_resources(methods.engine)
    for block in blocks(documents):
        pairs = methods.with_mentions([pair for document in block for pair in document.pairs])
        found = {}
        for name in config.methods:
            set_status(f"projecting with {name}")
            found[name] = iter(methods.project(name, pairs, *block[0].languages))
        for document in block:
            yield document, [_votes(document, pair, {name: next(own) for name, own in
                                                     found.items()}, config, counts, calibration)
                             for pair in document.pairs]


def _votes(document: DocumentPair, pair: SentencePair,
           places: Mapping[str, Sequence[Projection | None]], config: ProjectionConfig,
           counts: Counter[str], calibration: Calibration) -> list[Vote]:
    """Choose a place for each span of a pair from the places that methods found."""
    if config.edges:
        places = {key: correct_edges(pair, own, *document.languages) for key, own in places.items()}
    chosen = [vote({name: own[number] for name, own in places.items()}, calibration.precisions)
              for number in range(len(pair.spans))]
    for number, one in enumerate(chosen):
        if one.place is not None:
            counts["edges corrected by rules"] += one.place.is_corrected
            confidence = calibration.confidence(features(pair, number, one,
                                                          document.languages))
            chosen[number] = replace(one, place=replace(one.place, score=confidence))
    return chosen


@dataclass
class Methods:
    """The methods of a run; only the libraries that they need are imported.

    Args:
        config: methods and their resources.
        engine: settings of the engine that translates for the methods.
        loaded: the engine, if it is already loaded.
        asks_for_mentions: whether the engine translates annotated phrases on their own.
    """

    config: ProjectionConfig
    engine: EngineConfig | None = None
    loaded: Translator | None = None
    asks_for_mentions: bool = True
    _projectors: dict[str, Projector] = field(default_factory=dict)
    _mentions: dict[str, str] = field(default_factory=dict)

    def translator(self) -> Translator:
        """Load the engine without layers, because a memory contains no marked sentences."""
        assert self.engine is not None
        self.loaded = self.loaded or load_engine(self.engine)
        return self.loaded

    def with_mentions(self, pairs: Sequence[SentencePair]) -> Sequence[SentencePair]:
        """Add the translations of the annotated phrases on their own, if a method needs them.

        Each phrase is translated once for all blocks; a missing translation is empty.
        """
        if not self.engine or not self.asks_for_mentions \
                or not set(_BY_MENTION) & set(self.config.methods):
            return pairs
        translator = load_translator(self.engine, engine=self.translator())
        known = self._mentions
        known |= translate_all(translator, (
            mention for pair in pairs for start, end in pair.spans
            if (mention := pair.source[start:end]) not in known))
        return [replace(pair, mentions=tuple(known[pair.source[start:end]]
                                             for start, end in pair.spans)) for pair in pairs]

    def project(self, method: str, pairs: Sequence[SentencePair], source: str,
                target: str) -> Places:
        """Find each span of each pair with one method.

        Args:
            method: name of the method.
            pairs: sentence pairs of a block.
            source: language of the sources, ISO 639-1; empty if it is not known.
            target: language of the translations; likewise.

        Raises:
            BmtoolsError: a model, file or program of the method is missing.
            ValueError: a setting does not fit the method's model.
        """
        if method not in self._projectors:
            self._projectors[method] = self._projector(method, source, target)
        return self._projectors[method](pairs)

    def _projector(self, method: str, source: str, target: str) -> Projector:
        """Load a method and its resources."""
        config = self.config
        if self.engine:
            source, target = self.engine.source_lang, self.engine.target_lang
        if method == "align":
            return project_by_alignment
        if method == "exact":
            return project_exactly
        if method == "dictionary":
            return DictionaryProjector(read_glossary(config.glossary, source, target)
                                       if config.glossary else {}).project
        if method == "markers":
            return partial(project_by_markers, translator=self.translator())
        from bmtools.translation.projection.embeddings import EmbeddingsProjector  # imports torch

        assert config.embeddings is not None
        return EmbeddingsProjector.load(config.embeddings, source, target, config.layer).project
