"""Projection of annotations from records to their translations, by the methods of its settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from typing import Any

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import as_records
from bmtools.records import Record
from bmtools.status import set_status
from bmtools.translation.counts import EDGES
from bmtools.translation.engines.engine import Translator, translate_all
from bmtools.translation.engines.loading import load_engine, load_translator
from bmtools.translation.projection.confidence import (
    SHIPPED,
    Calibration,
    Candidates,
    Vote,
    by_span,
    features,
    read_calibration,
    vote,
)
from bmtools.translation.projection.documents import (
    DocumentPair,
    annotated,
    pair_document,
    pair_records,
    prepare_answers,
    settle_questions,
)
from bmtools.translation.projection.edges import EdgeRules
from bmtools.translation.projection.pairs import Projector, SentencePair
from bmtools.translation.projection.review import UNDECIDED, Decisions, ReviewItem, review_items
from bmtools.translation.projection.settings import SOURCE, ProjectionConfig

_BY_MENTION = ("exact", "dictionary")


def project(sources: str | PathLike[str] | Iterable[Any],
            translations: str | PathLike[str] | Iterable[Any],
            config: ProjectionConfig | None = None, reject: Reject = refuse,
            counts: Counter[str] | None = None, decisions: Decisions | None = None,
            review: Callable[[ReviewItem], None] | None = None) -> Iterator[Record]:
    """Carry annotations from records to their translations.

    All records are held in memory: methods learn from the whole corpus before the first span is
    projected.

    Args:
        sources: files, records or dictionaries with entities, relations and answers.
        translations: likewise, with the same ids; annotations that they have are replaced.
        config: methods, and the treatment of spans without a place.
        reject: receives records that cannot be projected.
        counts: updated with what was projected, what was lost by cause, and what rules changed.
        decisions: of a person, which come before those of methods.
        review: receives spans without a place, or below the least confidence.

    Yields:
        the translations with the annotations of their sources, in the order of the sources.

    Raises:
        BmtoolsError: records that do not belong together, or decisions that do not fit them.
        ValueError: a method lacks what it needs.
    """
    config = config or ProjectionConfig()
    counts = Counter() if counts is None else counts
    answered = (prepare_answers(record, config.resources.occurrences)
                for record in as_records(sources, reject))
    pairs = pair_records(answered, as_records(translations, reject), reject, config.pairing)
    yield from project_pairs([pair_document(*pair) for pair in pairs], config, reject, counts,
                             decisions, review)
    if decisions:
        decisions.require_all_used()
        counts[UNDECIDED] += decisions.undecided


def project_translated(records: Iterable[Record], config: ProjectionConfig, reject: Reject = refuse,
                       counts: Counter[str] | None = None,
                       engine: Translator | None = None) -> Iterator[Record]:
    """Carry annotations to records that `translate` made; see `project`.

    Args:
        records: with their source under `SOURCE`; others stay as they are.
        config: methods, and the treatment of spans without a place.
        reject: receives records that cannot be projected.
        counts: updated with what was projected, what was lost by cause, and what rules changed.
        engine: of the settings, where it is loaded.
    """
    documents = []
    for record in records:
        found = record.get(SOURCE, {"record": {"id": record["id"], "text": ""}, "place": ""})
        source = prepare_answers(Record(found["record"], place=found["place"]),
                                 config.resources.occurrences)
        documents.append(pair_document(source, record.without(SOURCE), found.get("mentions")))
    yield from project_pairs(documents, config, reject, Counter() if counts is None else counts,
                             engine=engine)


def project_pairs(documents: Sequence[DocumentPair], config: ProjectionConfig, reject: Reject,
                  counts: Counter[str], decisions: Decisions | None = None,
                  review: Callable[[ReviewItem], None] | None = None,
                  engine: Translator | None = None) -> Iterator[Record]:
    """Carry annotations within pairs of documents; see `project` and `project_translated`."""
    votes = project_documents(documents, config, counts, engine)
    annotated_pairs = _annotated_pairs(zip(documents, votes, strict=True), config, reject, counts,
                                       decisions, review)
    yield from settle_questions(annotated_pairs, counts, reject)


def _annotated_pairs(voted: Iterable[tuple[DocumentPair, list[list[Vote]]]],
                     config: ProjectionConfig, reject: Reject, counts: Counter[str],
                     decisions: Decisions | None, review: Callable[[ReviewItem], None] | None,
                     ) -> Iterator[tuple[Record, Record]]:
    """Yield each source with its annotated translation."""
    for document, votes in voted:
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
                               f"({causes}); go on with {setting('lost')} drop",
                               document.source))
            counts["records rejected for annotations without a place"] += 1
            continue
        counts["annotations projected"] += sum(
            len(record[key]) for key in ("entities", "answers") if key in document.source)
        counts.update(lost)
        yield document.source, record


def project_documents(documents: Sequence[DocumentPair], config: ProjectionConfig,
                      counts: Counter[str],
                      engine: Translator | None = None) -> Iterator[list[list[Vote]]]:
    """Project the spans of all pairs of sentences of each document."""
    calibration = read_calibration(config.confidence or SHIPPED)
    methods = Methods(config, *(documents[0].languages if documents else ("", "")), engine)
    pairs = methods.with_mentions([pair for document in documents for pair in document.pairs])
    found = {}
    for projector in map(methods.load, config.methods):
        set_status(f"projecting by {projector.name}")
        projector.fit(pairs)
        found[projector.name] = projector.project(pairs)
    candidates = iter(by_span(found))
    for document in documents:
        rules = EdgeRules(*document.languages) if config.edges else None
        yield [choose_places(pair, next(candidates), rules, calibration, counts)
               for pair in document.pairs]


def choose_places(pair: SentencePair, candidates: Sequence[Candidates],
                  rules: EdgeRules | None, calibration: Calibration,
                  counts: Counter[str]) -> list[Vote]:
    """Let methods vote on the spans of a pair; the score of each place is its confidence.

    Args:
        pair: its sentences.
        candidates: of each span.
        rules: that correct the edges of all candidates first; None for none.
        calibration: of votes and confidence.
        counts: updated with the rules that changed chosen places.
    """
    changes: list[dict[str, tuple[str, ...]]] = [{} for _ in candidates]
    if rules is not None and candidates:
        by_method = {}
        for name in candidates[0]:
            by_method[name], changed = rules.mend(pair, [one[name] for one in candidates])
            for number, names in enumerate(changed):
                changes[number][name] = names
        candidates = [{name: spans[number] for name, spans in by_method.items()}
                      for number in range(len(candidates))]
    votes = []
    for number, own in enumerate(candidates):
        chosen = vote(own, changes[number], calibration.precisions)
        if chosen.place is not None:
            confidence = calibration.confidence(features(pair, number, chosen))
            chosen = replace(chosen, place=replace(chosen.place, score=confidence))
            counts.update(f"{EDGES}{rule}" for rule in chosen.rules)
        votes.append(chosen)
    return votes


class Methods:
    """The methods of a run; only their own libraries are imported.

    Args:
        config: methods and their resources.
        source: language of the sources, ISO 639-1; empty where it is not known.
        target: of the translations.
        engine: of the settings, where it is loaded.

    Raises:
        ValueError: a method lacks what it needs.
    """

    def __init__(self, config: ProjectionConfig, source: str, target: str,
                 engine: Translator | None = None) -> None:
        config.require_resources()
        self._config = config
        self._loaded = engine
        self._languages = (config.engine.source_lang, config.engine.target_lang) \
            if config.engine else (source, target)

    @cached_property
    def _engine(self) -> Translator:
        """The engine by itself: a memory has neither marked sentences nor probabilities."""
        assert self._config.engine is not None
        return self._loaded or load_engine(self._config.engine)

    def with_mentions(self, pairs: Sequence[SentencePair]) -> Sequence[SentencePair]:
        """Add the translations of the annotated words by themselves, where a method looks for them.

        Each is translated once; one without a translation is empty.
        """
        if not self._config.translate_mentions or not set(_BY_MENTION) & set(self._config.methods):
            return pairs
        assert self._config.engine is not None
        translator = load_translator(self._config.engine, engine=self._engine)
        known = translate_all(translator, (pair.source[start:end] for pair in pairs
                                                 for start, end in pair.spans))
        return [replace(pair, mentions=tuple(known[pair.source[start:end]]
                                             for start, end in pair.spans)) for pair in pairs]

    def load(self, method: str) -> Projector:
        """Load a method.

        Raises:
            BmtoolsError: a model, file or program that it needs is missing.
            ValueError: a setting that does not fit its model.
        """
        set_status(f"loading {method}")
        config, resources = self._config, self._config.resources
        if method == "align":
            from bmtools.translation.projection.align import AlignProjector

            return AlignProjector()
        if method == "exact":
            from bmtools.translation.projection.mentions import ExactProjector

            return ExactProjector()
        if method == "dictionary":
            from bmtools.translation.projection.mentions import DictionaryProjector, read_glossary

            return DictionaryProjector(read_glossary(resources.glossary, *self._languages)
                                       if resources.glossary else {})
        if method == "embeddings":
            from bmtools.translation.projection.encoder import text_encoder

            assert resources.embeddings is not None
            return text_encoder(resources.embeddings, resources.layer,
                                resources.link_rule or "itermax")
        assert config.engine is not None
        if method == "encoder":
            from bmtools.translation.projection.encoder import translation_encoder

            return translation_encoder(
                config.engine.model, *self._languages, resources.layer,
                resources.link_rule or "softmax",
                self._engine if config.engine.engine == "transformers" else None)
        if method == "score":
            from bmtools.translation.engines.neural import NeuralTranslator
            from bmtools.translation.projection.markers import ScoreProjector

            assert isinstance(self._engine, NeuralTranslator)
            return ScoreProjector(self._engine)
        from bmtools.translation.projection.markers import MarkersProjector

        return MarkersProjector(self._engine)
