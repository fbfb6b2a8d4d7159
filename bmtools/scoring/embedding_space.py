"""Isotropy of a model's word vectors, and separation of words by frequency.

The measures are in `space_metrics` and the sample of words in `space_sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from bmtools.errors import DataError, Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import Checkpoint, autocast_dtype, load_checkpoint
from bmtools.models.hardware import resolve_device
from bmtools.models.transfer.context_embeddings import (
    TokenSpan,
    check_layers,
    contextual_embeddings,
    locate_pieces,
)
from bmtools.records import Record, RecordSource
from bmtools.scoring import space_metrics
from bmtools.scoring.evaluation import Progress, signed
from bmtools.scoring.settings import EmbeddingSpaceConfig, InferenceConfig, Models
from bmtools.scoring.space_sample import SampledWords, WordContext, cut_context, sample_contexts
from bmtools.settings import split_settings
from bmtools.statistics.lines import Line, rounded
from bmtools.statistics.resampling import FEWEST_UNITS
from bmtools.status import set_status
from bmtools.vocab.unknown_tokens import warn_of_unknown_tokens

_SPECIAL_TOKENS = 2  # before and after a context
_TOKENS_PER_PASS = 4_096
_PERCENTILES = (2.5, 97.5)
_SIGNED = ("layers", "bands", "words_per_band", "occurrences", "min_count", "min_letters",
           "single_token_words", "context_characters", "neighbours", "seed")
Estimates = Mapping[str, np.ndarray]
"""(resamples,) values by measure, or only the value of the sample."""


@dataclass(frozen=True)
class EmbeddingSpace:
    """One model's vectors of the words that all models can read.

    Args:
        sample: the words.
        occurrences: vectors of their occurrences in context.
        words: (occurrences,) word of each occurrence, as its number in the sample.
    """

    sample: SampledWords
    occurrences: WordVectors
    words: np.ndarray

    def word_means(self) -> np.ndarray:
        """Average the vectors of each word's occurrences, (words, width) float64."""
        sums = np.zeros((len(self.sample.words), self.occurrences.vectors.shape[1]))
        np.add.at(sums, self.words, self.occurrences.vectors)
        return sums / np.bincount(self.words)[:, None]


@dataclass(frozen=True)
class WordStatistics:
    """Measures of a space for each word, and for any subset or resample of its words.

    Args:
        sums: sums of the unit vectors of occurrences.
        values: by measure, (words,) float64; NaN for words without a value.
    """

    sums: space_metrics.UnitVectorSums
    values: dict[str, np.ndarray]

    @classmethod
    def of(cls, space: EmbeddingSpace, config: EmbeddingSpaceConfig) -> WordStatistics:
        """Measure every word; neighbours and silhouettes use the mean vectors of words."""
        vectors, bands = space.word_means(), space.sample.bands
        sums = space_metrics.UnitVectorSums.of(space.occurrences.vectors, space.words, len(bands))
        return cls(sums, {
            "self_similarity": sums.self_similarities(),
            "own_band_neighbours": space_metrics.own_group_neighbours(
                vectors, bands, min(config.neighbours, len(bands) - 1)),
            "silhouette": space_metrics.silhouettes(vectors, bands)})

    def estimate(self, weights: np.ndarray) -> dict[str, np.ndarray]:
        """Compute each measure's values, (resamples,), for weights of words, (resamples, words)."""
        found = {"average_cosine": self.sums.average_cosine(weights)}
        found |= {name: _means(weights, values) for name, values in self.values.items()}
        found["adjusted_self_similarity"] = found["self_similarity"] - found["average_cosine"]
        return found


def embedding_space(records: RecordSource, models: Models, *,
                    reject: Reject = refuse, progress: Progress[Record] = iter,
                    on_space: Callable[[EmbeddingSpace], object] | None = None,
                    **settings: object) -> list[Line]:
    """Measure how checkpoints spread words in space: `embedding_space("notes.jsonl", "bio")`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`; read once.
        models: directories of one or several checkpoints; changes are relative to the first one.
        reject: receives bad records.
        progress: wraps the iterator of records, like `tqdm`.
        on_space: called with the vectors of each model.
        settings: fields of `EmbeddingSpaceConfig` and `InferenceConfig`.

    Returns:
        a line for each model; see `compare_spaces`.

    Raises:
        BmtoolsError: if a checkpoint or device cannot be used, a model does not have a layer, or
            there is too little text.
        ValueError: if a setting is out of range.
    """
    config, inference = split_settings(settings, EmbeddingSpaceConfig, InferenceConfig)
    device, checkpoints = resolve_device(inference.device), []
    for path in [models] if isinstance(models, str | PathLike) else models:
        checkpoints.append(load_checkpoint(Path(path), device))
        check_layers(checkpoints[-1].model.config, config.layers, checkpoints[-1].path)
    word_filter = partial(are_single_tokens, checkpoints=checkpoints) \
        if config.single_token_words else None
    sample, contexts = sample_contexts(progress(as_records(records, reject)), config, word_filter)
    lines = []
    for line, space in compare_spaces(checkpoints, sample, contexts, config, inference):
        lines.append(line)
        if on_space:
            on_space(space)
    return lines


def compare_spaces(checkpoints: Sequence[Checkpoint], sample: SampledWords,
                   contexts: Sequence[WordContext], config: EmbeddingSpaceConfig,
                   inference: InferenceConfig) -> Iterator[tuple[Line, EmbeddingSpace]]:
    """Measure the models one after the other on the same words in the same contexts.

    Yields:
        a model's line and its vectors. The line has 95 % intervals if each band has ten words and,
        from the second model on, the change from the first model. Words are resampled by band
        (bootstrap, percentiles). All models use the same resamples, so the interval of a change is
        paired. Neighbours and silhouettes of words are not computed again in each resample.

    Raises:
        DataError: if all models have no readable occurrence in common.
    """
    set_status("reading words in their contexts")
    fitting = fit_contexts(contexts, checkpoints, config.context_characters)
    first: tuple[str, Estimates, Estimates] | None = None
    precision = "fp32" if inference.precision == "float32" else inference.precision
    for checkpoint, occurrences in zip(checkpoints, read_vectors(
            fitting, checkpoints, config.layers, inference), strict=True):
        set_status(f"measuring {checkpoint.path}")
        words = np.array([fitting[number].word for number in occurrences.contexts], dtype=np.int64)
        kept, renumbered = np.unique(words, return_inverse=True)  # words with an occurrence
        space = EmbeddingSpace(SampledWords([sample.words[number] for number in kept],
                                            sample.counts[kept], sample.bands[kept]),
                               occurrences, renumbered)
        word_statistics = WordStatistics.of(space, config)
        values = word_statistics.estimate(np.ones((1, len(space.sample.words))))
        fewest = np.unique(space.sample.bands, return_counts=True)[1].min()
        resamples = word_statistics.estimate(bootstrap_weights(space.sample.bands, config)) \
            if config.resamples and fewest >= FEWEST_UNITS else {}
        name = str(checkpoint.path)
        line: Line = {"model": name, **_overall(space, values),
                      "intervals": {measure: [rounded(end) for end in
                                              np.percentile(found, _PERCENTILES)]
                                    for measure, found in resamples.items()}}
        if first is None:
            first = name, values, resamples
        else:
            line["change"] = _change(first, values, resamples)
        unknown = int(space.occurrences.unknown.sum())
        warn_of_unknown_tokens(name, unknown, len(space.words), [], "sampled words")
        yield {**line, "bands": _bands(space, word_statistics),
               "words": len(space.sample.words), "occurrences": len(space.words),
               "unknown": unknown,
               **signed("space", "pieces-mean", checkpoint.tokenizer, checkpoint.vocabulary,
                        **{setting: getattr(config, setting) for setting in _SIGNED},
                        precision=precision)}, space


def bootstrap_weights(bands: np.ndarray, config: EmbeddingSpaceConfig) -> np.ndarray:
    """Draw the count of each word in each resample of its band, (resamples, words)."""
    rng = np.random.default_rng(config.seed)
    weights = np.zeros((config.resamples, len(bands)))
    for band in np.unique(bands):
        own = np.flatnonzero(bands == band)
        weights[:, own] = rng.multinomial(len(own), np.full(len(own), 1 / len(own)),
                                          config.resamples)
    return weights


def _means(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Compute weighted means without NaN values, (resamples,); NaN if there are no other values."""
    known = ~np.isnan(values)
    totals = weights[:, known].sum(axis=1)
    return np.divide(weights[:, known] @ values[known], totals,
                     out=np.full(len(weights), np.nan), where=totals > 0)


def _overall(space: EmbeddingSpace, values: Estimates) -> Line:
    """Measure all words together."""
    isotropy = space_metrics.partition_isotropy(space.occurrences.vectors)
    return {
        "average_cosine": rounded(values["average_cosine"][0]),
        "partition_isotropy": float(f"{isotropy:.6g}"),
        **{name: rounded(values[name][0])
           for name in ("self_similarity", "adjusted_self_similarity", "own_band_neighbours")},
        "chance_neighbours": rounded(space_metrics.chance_of_own_group(space.sample.bands)),
        "silhouette": rounded(values["silhouette"][0])}


def _change(first: tuple[str, Estimates, Estimates], values: Estimates,
            resamples: Estimates) -> Line:
    """Return differences from the first model's measures, with intervals."""
    name, first_values, first_resamples = first
    changes: Line = {"from": name}
    for measure, value in values.items():
        ends = np.percentile(resamples[measure] - first_resamples[measure], _PERCENTILES) \
            if resamples else ()
        changes[measure] = {"value": rounded(value[0] - first_values[measure][0]),
                            **dict(zip(("low", "high"), map(rounded, ends), strict=False))}
    return changes


def _bands(space: EmbeddingSpace, word_statistics: WordStatistics) -> list[Line]:
    """Measure each band, most frequent first; pairs of occurrences are within the band."""
    bands, counts = space.sample.bands, space.sample.counts
    norms = np.linalg.norm(space.occurrences.vectors, axis=1)
    lines = []
    for band in np.unique(bands):
        own = bands == band
        within = own[space.words]
        found = word_statistics.estimate(own[None].astype(np.float64))
        lines.append({
            "band": int(band) + 1, "min_count": int(counts[own].min()),
            "max_count": int(counts[own].max()), "words": int(own.sum()),
            "occurrences": int(within.sum()),
            "tokens_per_word": rounded(space.occurrences.token_counts[within].mean()),
            "norm": rounded(norms[within].mean()),
            **{name: rounded(found[name][0]) for name in (
                "average_cosine", "self_similarity", "own_band_neighbours", "silhouette")}})
    return lines


@dataclass(frozen=True)
class WordVectors:
    """One model's vectors of the occurrences that all models can read.

    Args:
        contexts: (occurrences,) indices of contexts, ascending; the same for all models.
        vectors: (occurrences, width) float32.
        token_counts: (occurrences,) number of tokens in the model's vocabulary.
        unknown: (occurrences,) bool, whether one of these tokens is the unknown token.
    """

    contexts: np.ndarray
    vectors: np.ndarray
    token_counts: np.ndarray
    unknown: np.ndarray


def are_single_tokens(forms: Sequence[str], checkpoints: Sequence[Checkpoint]) -> np.ndarray:
    """Return which words, written after a space, are one token for every model, bool."""
    single = np.ones(len(forms), dtype=bool)
    for checkpoint in checkpoints:
        encodings = checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
            [f" {form}" for form in forms], add_special_tokens=False)
        unknown = checkpoint.tokenizer.unk_token_id
        single &= [len(one.ids) == 1 and one.ids[0] != unknown for one in encodings]
    return single


def fit_contexts(contexts: Sequence[WordContext], checkpoints: Sequence[Checkpoint],
                 reach: int) -> list[WordContext]:
    """Halve contexts until every model can read them; contexts are the same for all models.

    Args:
        contexts: contexts; not changed if they fit.
        checkpoints: all models.
        reach: number of characters before and after a word in the contexts.
    """
    fitting = list(contexts)
    pending = set(range(len(fitting)))
    while pending and reach:
        texts = {number: fitting[number].text for number in sorted(pending)}
        pending = set()
        for checkpoint in checkpoints:
            encodings = checkpoint.tokenizer.backend_tokenizer.encode_batch_fast(
                list(texts.values()), add_special_tokens=False)
            longest = max_tokens(checkpoint.model) - _SPECIAL_TOKENS
            pending |= {number for number, encoding in zip(texts, encodings, strict=True)
                        if len(encoding.ids) > longest}
        reach //= 2
        for number in pending:
            fitting[number] = cut_context(fitting[number], reach)
    return fitting


def read_vectors(contexts: Sequence[WordContext], checkpoints: Sequence[Checkpoint], layers: str,
                 inference: InferenceConfig) -> Iterator[WordVectors]:
    """Yield each model's vectors of the occurrences that all models can read.

    Source: Ethayarajh 2019, section 3; the vector of a word with several tokens is their mean, as
    in Pavlova and Makhlouf 2023 (BIOptimus), equation 1.

    Args:
        contexts: contexts of the words.
        checkpoints: each on its device.
        layers: layers to average, as in `EmbeddingSpaceConfig`.
        inference: size and precision of passes.

    Raises:
        DataError: if all models have no readable occurrence in common.
    """
    spans: dict[str, list[TokenSpan]] = {}
    for number, context in enumerate(contexts):
        spans.setdefault(context.text, []).append((number, context.start, context.end))
    located = [locate_pieces(checkpoint, spans) for checkpoint in checkpoints]
    common = reduce(np.intersect1d, (one.tokens for one in located), np.arange(len(contexts)))
    if not len(common):
        raise DataError("found no word that all models can read; use models with a larger maximum "
                        "length, or whose vocabularies contain these characters")
    for checkpoint, one in zip(checkpoints, located, strict=True):
        kept = one.select(np.isin(one.tokens, common))
        order = np.argsort(kept.tokens)
        unknown_id = checkpoint.tokenizer.unk_token_id
        unknown = np.array([
            unknown_id in kept.input_ids[sentence][start:end]
            for sentence, start, end in zip(kept.sentences, kept.starts, kept.ends, strict=True)
        ], dtype=bool)
        dtype = autocast_dtype(checkpoint, inference.precision)
        with torch.autocast(checkpoint.model.device.type, dtype=dtype, enabled=dtype is not None):
            found = contextual_embeddings(checkpoint, kept, layers,
                                          inference.batch_tokens or _TOKENS_PER_PASS)
        yield WordVectors(common, found.vectors.numpy(), (kept.ends - kept.starts)[order],
                          unknown[order])
