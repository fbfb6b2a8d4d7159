"""Calibration of the confidence on translations with human annotations."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike

import msgspec
import numpy as np

from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.jsonl import as_records
from bmtools.records import JsonObject
from bmtools.translation.projection.confidence import (
    WHOLE,
    Calibration,
    Features,
    features,
    read_calibration,
)
from bmtools.translation.projection.documents import (
    DocumentPair,
    annotated_spans,
    pair_document,
    pair_records,
)
from bmtools.translation.projection.pairs import Span
from bmtools.translation.projection.project import Methods, project_documents
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.settings import EngineConfig

_PENALTY = 1.0
Sample = tuple[str, Features, bool]
"""The set of a span, its features, and whether its place is right."""


def calibrate(sources: str | PathLike[str] | Iterable[JsonObject],
              gold: str | PathLike[str] | Iterable[JsonObject],
              config: ProjectionConfig | None = None, engine: EngineConfig | None = None,
              reject: Reject = refuse) -> Calibration:
    """Calibrate the confidence on gold.

    Args:
        sources: files, records or dictionaries with annotations.
        gold: their translations with the same annotations, in the same order or under the same ids;
            each file is a set.
        config: methods.
        engine: engine that translates for the methods.
        reject: receives records that cannot be projected.

    Raises:
        DataError: no annotation occurs in both a record and its translation.
    """
    config = config or ProjectionConfig()
    samples, precisions = gold_samples([pair_document(*pair) for pair in pair_records(
        as_records(sources, reject), as_records(gold, reject), reject, config.pairing)],
        config, engine)
    if not samples:
        raise DataError("found no annotation in both a record and its translation, expected gold; "
                        f"to project, omit {setting('fit_confidence')}")
    return fit_calibration(samples, {**read_calibration().precisions, **precisions},
                           ", ".join(sorted({name for name, *_ in samples})))


def gold_samples(documents: Sequence[DocumentPair], config: ProjectionConfig,
                 engine: EngineConfig | None = None) -> tuple[list[Sample], dict[str, float]]:
    """Project annotations onto gold, and compare.

    If all gold spans in a set consist of whole words between white space, such as with token tags,
    the projected spans are extended to such words before they are compared.

    Returns:
        the spans that have a place, and the precision of each method.
    """
    # Sets whose gold spans all consist of whole words.
    by_words = {_set_of(document) for document in documents} - {
        _set_of(document) for document in documents
        if any(_whole_words(document.translation["text"], span) != span
               for span in annotated_spans(document.translation))}
    samples: list[Sample] = []
    right: defaultdict[str, list[bool]] = defaultdict(list)
    for document, votes in project_documents(documents, config, Counter(),
                                             Methods(config, engine)):
        name, text = _set_of(document), document.translation["text"]
        for (at, number), gold_place in zip(document.places, _gold_places(document), strict=False):
            own, offset = votes[at][number], document.segments[at][2]
            for method, one in [*own.candidates.items(), (None, own.place)]:
                if one is None:
                    continue
                place = one.start + offset, one.end + offset
                is_right = (_whole_words(text, place) if name in by_words else place) == gold_place
                if method:
                    right[method].append(is_right)
                else:
                    samples.append((name, features(document.pairs[at], number, own,
                                                   document.languages), is_right))
    return samples, {name: _smoothed(good) for name, good in right.items()}


def _set_of(document: DocumentPair) -> str:
    """Return the name of a translation's file."""
    return document.translation.place.rpartition(":")[0] or "records"


def _gold_places(document: DocumentPair) -> list[Span]:
    """Return the gold places of all spans; an empty list if the annotations do not correspond."""
    source, gold = document.source, document.translation
    wanted = [one.get("id") for one in source.get("entities", ())]
    found = gold.get("entities", [])
    ids = [one.get("id") for one in found]
    if None not in wanted and set(wanted) == set(ids) and len(set(ids)) == len(ids):
        found = [found[ids.index(one)] for one in wanted]
    ordered = gold.replace(entities=found)
    kinds = [[(one["type"], len(one.get("spans") or [one])) for one in record.get("entities", ())]
             for record in (source, ordered)]
    places = annotated_spans(ordered)
    return places if kinds[0] == kinds[1] and len(places) == len(document.places) else []


def _whole_words(text: str, span: Span) -> Span:
    """Extend a span to all words that it touches, as separated by white space."""
    words = [match.span() for match in re.finditer(r"\S+", text)
             if match.start() < span[1] and span[0] < match.end()]
    return (words[0][0], words[-1][1]) if words else span


def fit_calibration(samples: Sequence[Sample],
                    precisions: Mapping[str, float], origin: str) -> Calibration:
    """Fit a calibration to compared spans.

    Args:
        samples: set and features of each span, and whether the span is right.
        precisions: precisions of the methods.
        origin: description of the gold for people.
    """
    whole = [right for _, values, right in samples if values.get(WHOLE)]
    within = [one for one in samples if not one[1].get(WHOLE)] or samples
    sets = sorted({name for name, *_ in within})
    found: dict[str, list[tuple[float, bool]]] = {}
    for left_out in sets if len(sets) > 1 else ():
        model = _fit([one for one in within if one[0] != left_out])
        found[left_out] = [(model.confidence(values), right) for name, values, right in within
                           if name == left_out]
    errors = {name: round(calibration_error(own), 4) for name, own in found.items()}
    return msgspec.structs.replace(
        _fit(within), origin=origin, spans=len(samples), errors=errors,
        precisions={name: round(value, 4) for name, value in precisions.items()},
        error=max(errors.values(), default=None),
        whole=_smoothed(whole) if whole else None)


def _smoothed(right: Sequence[bool]) -> float:
    """Return the share of right spans, with one right and one wrong span added (Laplace)."""
    return round((sum(right) + 1) / (len(right) + 2), 4)


def _fit(samples: Sequence[Sample]) -> Calibration:
    """Fit the regression, with one right and one wrong span added to keep the odds finite."""
    from sklearn.linear_model import LogisticRegression

    names = sorted({name for _, one, _ in samples for name in one} - {WHOLE})
    values = np.array([[one.get(name, 0.0) for name in names] for _, one, _ in samples])
    values = np.vstack([values, values.mean(axis=0), values.mean(axis=0)])
    right = np.array([*(good for *_, good in samples), True, False])
    model = LogisticRegression(C=1 / _PENALTY, max_iter=10_000).fit(values, right)
    return Calibration("", round(float(model.intercept_[0]), 4),
                       {name: round(float(value), 4)
                        for name, value in zip(names, model.coef_[0], strict=True)}, {}, 0)


def calibration_error(found: Sequence[tuple[float, bool]]) -> float:
    """Return the expected calibration error over ten bins of equal width.

    Source: Guo et al. 2017, section 2.

    Args:
        found: confidence of spans, and whether each is right.
    """
    bins: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in found:
        bins.setdefault(min(9, int(10 * confidence)), []).append((confidence, right))
    return sum(abs(sum(confidence for confidence, _ in own) - sum(right for _, right in own))
               for own in bins.values()) / len(found)
