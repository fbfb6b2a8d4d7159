"""Isotropy of a model's word vectors, and how far words of like frequency keep together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bmtools.scoring.signature import short, signature
from bmtools.scoring.space_metrics import (
    Sums,
    chance_of_own_group,
    own_group_neighbours,
    partition_isotropy,
    rank_correlation,
    silhouettes,
    variance_shares,
)
from bmtools.scoring.space_metrics import principal_components as project
from bmtools.scoring.space_sample import SampledWords, WordContext
from bmtools.scoring.space_settings import EmbeddingSpaceConfig
from bmtools.scoring.space_vectors import StateReader, WordVectors, narrow, read_all

_COMPONENTS = (1, 3, 10)
_INTERVAL = (2.5, 97.5)  # percentiles
_KEPT_IN_SIGNATURE = ("layers", "bands", "words", "occurrences", "least_count", "least_letters",
                      "whole", "context", "neighbours", "seed")
Draws = Mapping[str, np.ndarray]
"""By measure, (draws,) values."""


@dataclass(frozen=True)
class Space:
    """One model's vectors of the words that all models saw.

    Args:
        sample: the words.
        reading: vectors of places.
        places: (places,) number of the word of each.
    """

    sample: SampledWords
    reading: WordVectors
    places: np.ndarray

    def by_word(self) -> np.ndarray:
        """Mean vector of each word over its places, (words, width) float64."""
        sums = np.zeros((len(self.sample.words), self.reading.vectors.shape[1]))
        np.add.at(sums, self.places, self.reading.vectors)
        return sums / np.bincount(self.places)[:, None]


@dataclass(frozen=True)
class WordStatistics:
    """What can be said of a space word by word, and so of any part or resample of its words.

    Args:
        sums: of the unit vectors of places.
        values: by measure, (words,) float64; NaN where a word has none.
    """

    sums: Sums
    values: dict[str, np.ndarray]

    @classmethod
    def of(cls, space: Space, settings: EmbeddingSpaceConfig) -> WordStatistics:
        """Measure every word; separation is that of words' mean vectors."""
        vectors, bands = space.by_word(), space.sample.bands
        sums = Sums.of(space.reading.vectors, space.places, len(bands))
        ends = np.isin(bands, (0, settings.bands - 1))
        extremes = np.full(len(bands), np.nan)
        if len(np.unique(bands[ends])) == 2:
            extremes[ends] = silhouettes(vectors[ends], bands[ends])
        return cls(sums, {
            "self_similarity": sums.self_similarities(),
            "own_band_neighbours": own_group_neighbours(
                vectors, bands, min(settings.neighbours, len(bands) - 1)),
            "silhouette": silhouettes(vectors, bands),
            "extremes_silhouette": extremes})

    def draws(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Weigh words in several ways: (draws, words) to (draws,) for each measure."""
        found = {"average_cosine": self.sums.average_cosine(weights)}
        found |= {name: _means(weights, values) for name, values in self.values.items()}
        found["adjusted_self_similarity"] = found["self_similarity"] - found["average_cosine"]
        return found


def compare_spaces(readers: Sequence[StateReader], sample: SampledWords,
                   contexts: Sequence[WordContext],
                   settings: EmbeddingSpaceConfig) -> Iterator[tuple[dict[str, Any], Space]]:
    """Measure one model after the other on the same words in the same places.

    Yields:
        a line that tells of a model, with 95 % intervals and, from the second model on, the change
        from the first; and its vectors. Words are resampled by band (bootstrap, percentiles), the
        same for all models, so the interval of a change is that of pairs. Neighbours and
        silhouettes of words are not found anew in each resample.

    Raises:
        DataError: there is no place that all models see.
    """
    fitting = narrow(contexts, readers, settings.context)
    first: tuple[str, Draws, Draws] | None = None
    for reader, reading in zip(readers, read_all(fitting, readers), strict=True):
        space = _space(sample, fitting, reading)
        account = WordStatistics.of(space, settings)
        resamples = resample(space.sample.bands, settings)
        values = account.draws(np.ones((1, len(space.sample.words))))
        draws = account.draws(resamples) if settings.resamples else {}
        name = str(reader.checkpoint.path)
        line: dict[str, Any] = {"model": name, **_whole(space, values)}
        line["intervals"] = _intervals(draws)
        if first is None:
            first = name, values, draws
        else:
            line["change"] = _change(first, values, draws)
        line["bands"] = _bands(space, account)
        yield {**line, **_circumstances(space, reader, settings)}, space


def _space(sample: SampledWords, contexts: Sequence[WordContext], reading: WordVectors) -> Space:
    """Leave out the words of which nothing was seen."""
    words = np.array([contexts[number].word for number in reading.contexts], dtype=np.int64)
    kept, places = np.unique(words, return_inverse=True)
    return Space(SampledWords([sample.words[number] for number in kept], sample.counts[kept],
                              sample.bands[kept]), reading, places)


def resample(bands: np.ndarray, settings: EmbeddingSpaceConfig) -> np.ndarray:
    """How often each word is drawn in each resample of its band, (resamples, words)."""
    rng = np.random.default_rng(settings.seed)
    weights = np.zeros((settings.resamples, len(bands)))
    for band in np.unique(bands):
        own = np.flatnonzero(bands == band)
        weights[:, own] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)),
                                          settings.resamples)
    return weights


def _means(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted means of what is known, (draws,); NaN where nothing is."""
    known = ~np.isnan(values)
    totals = weights[:, known].sum(axis=1)
    return np.divide(weights[:, known] @ values[known], totals,
                     out=np.full(len(weights), np.nan), where=totals > 0)


def _whole(space: Space, values: Draws) -> dict[str, Any]:
    """Say what holds for all words together."""
    vectors, logs = space.by_word(), np.log(space.sample.counts)
    shares = variance_shares(space.reading.vectors, _COMPONENTS)
    return {
        "average_cosine": _rounded(values["average_cosine"][0]),
        "partition_isotropy": float(f"{partition_isotropy(space.reading.vectors):.6g}"),
        "top_components": {str(number): _rounded(share)
                           for number, share in zip(_COMPONENTS, shares, strict=True)},
        **{name: _rounded(values[name][0])
           for name in ("self_similarity", "adjusted_self_similarity", "own_band_neighbours")},
        "chance_neighbours": _rounded(chance_of_own_group(space.sample.bands)),
        **{name: _rounded(values[name][0]) for name in ("silhouette", "extremes_silhouette")},
        "frequency_correlation": {
            # A component may as well point the other way.
            "first_component": _rounded(abs(rank_correlation(logs, project(vectors, 1)[:, 0]))),
            "length": _rounded(rank_correlation(logs, np.linalg.norm(vectors, axis=1)))}}


def _intervals(draws: Draws) -> dict[str, list[float | None]]:
    return {name: [_rounded(end) for end in np.percentile(found, _INTERVAL)]
            for name, found in draws.items()}


def _change(first: tuple[str, Draws, Draws], values: Draws, draws: Draws) -> dict[str, Any]:
    """Say how measures differ from the first model's, each with its interval."""
    name, before, draws_before = first
    changes: dict[str, Any] = {"from": name}
    for measure, value in values.items():
        ends = np.percentile(draws[measure] - draws_before[measure], _INTERVAL) if draws else ()
        changes[measure] = {"value": _rounded(value[0] - before[measure][0]),
                            **dict(zip(("low", "high"), map(_rounded, ends), strict=False))}
    return changes


def _bands(space: Space, account: WordStatistics) -> list[dict[str, Any]]:
    """Say the same of each band, most frequent first; pairs are those within it."""
    bands, counts = space.sample.bands, space.sample.counts
    lengths = np.linalg.norm(space.reading.vectors, axis=1)
    lines = []
    for band in np.unique(bands):
        own = bands == band
        within = own[space.places]
        found = account.draws(own[None].astype(np.float64))
        lines.append({
            "band": int(band) + 1, "least_count": int(counts[own].min()),
            "most_count": int(counts[own].max()), "words": int(own.sum()),
            "occurrences": int(within.sum()),
            "pieces": _rounded(space.reading.pieces[within].mean()),
            "length": _rounded(lengths[within].mean()),
            **{name: _rounded(found[name][0]) for name in (
                "average_cosine", "self_similarity", "own_band_neighbours", "silhouette")}})
    return lines


def _circumstances(space: Space, reader: StateReader, settings: EmbeddingSpaceConfig) -> dict[str,
                                                                                              Any]:
    tokenizer, precision = reader.checkpoint.tokenizer, reader.passes.precision
    kept = {name: getattr(settings, name) for name in _KEPT_IN_SIGNATURE}
    return {"words": len(space.sample.words), "occurrences": len(space.places),
            "unknown": int(space.reading.unknown.sum()),
            "vocabulary": short(reader.checkpoint.vocabulary),
            "signature": signature("space", "pieces-mean", tokenizer, **kept,
                                   precision="fp32" if precision == "no" else precision)}


def _rounded(value: float) -> float | None:
    """Six digits behind the point; None for what could not be measured."""
    return None if np.isnan(value) else round(float(value), 6)
