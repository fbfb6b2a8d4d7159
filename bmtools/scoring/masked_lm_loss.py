"""Masked-LM loss for masking strategies, rates and corruptions: how hard each task is.

Texts are cut, masked and predicted in `masked_lm_sequences`.

Source: Pavlova and Makhlouf 2023 (BIOptimus), section 8.1 and figure 4.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import product
from statistics import stdev

import numpy as np

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.models.families import require_length
from bmtools.records import Record, RecordSource, full_text
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor, load_predictors
from bmtools.scoring.evaluation import Progress, compare_models, gather_records, last_keys
from bmtools.scoring.masked_lm_sequences import (
    MaskedSequences,
    SequenceMasker,
    predict_batch,
    text_keys,
)
from bmtools.scoring.settings import InferenceConfig, MaskedLmLossConfig, Models
from bmtools.settings import split_settings
from bmtools.statistics.lines import Groups, Line, content_key, data_fields, rounded, safe_exp
from bmtools.statistics.ratios import Metric, Units, interval, with_unit
from bmtools.statistics.settings import StatisticsConfig
from bmtools.vocab.unknown_tokens import UnknownTokens

# Tokens of one window, counted once per combination and draw: about 20 MB.
_TOKENS_AT_ONCE = 1 << 20
_CHARACTERS_PER_TOKEN = 4


def masked_lm_loss(records: RecordSource, models: Models, *, terms: Sequence[str] = (),
                   by: Sequence[str] = (), reject: Reject = refuse,
                   progress: Progress[int] = iter, **settings: object) -> list[Line]:
    """Score checkpoints by loss: `masked_lm_loss("dev.jsonl", "bio", masking="tokens,words")`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`; titles are part of the
            text.
        models: directories of one or several checkpoints.
        terms: words and phrases for masking by terms.
        by: keys of records; texts are also scored separately for each value of a key. Dots reach
            into objects: `meta.year`.
        reject: receives records without a maskable token; no model scores them.
        progress: wraps the iterator of passes, like `tqdm`.
        settings: fields of `MaskedLmLossConfig`, `InferenceConfig` and `StatisticsConfig`.

    Returns:
        a line for each model and combination, see `MaskedLmEvaluation.lines`; then a line for each
        pair of models with the same vocabulary and each combination, see `compare_models`.

    Raises:
        BmtoolsError: if there are no records to score, or a checkpoint, device or record cannot be
            used.
        ValueError: if a setting is out of range.
    """
    config, inference, statistics = split_settings(
        settings, MaskedLmLossConfig, InferenceConfig, StatisticsConfig)
    config.check_usage(bool(terms))
    evaluation = MaskedLmEvaluation(load_predictors(models, inference, whole=True), config,
                                    terms=terms, by=by, seed=statistics.seed, unit=statistics.unit)
    deque(progress(evaluation.run(
        with_unit(as_records(records, reject), statistics.unit, reject), reject)), maxlen=0)
    return [*evaluation.lines(statistics), *evaluation.comparisons(statistics)]


class MaskedLmEvaluation:
    """Masking of texts in several combinations, and sums of the models' losses.

    Every masked position is predicted, including positions where the token is kept or replaced by
    a random one, as in training. Models with the same vocabulary get the same masks. For each
    text, model and combination, 24 bytes are kept in memory to resample them by unit.

    Args:
        models: each predicts all texts.
        config: settings of masking.
        terms: words and phrases for masking by terms.
        by: keys of records for separate scores.
        seed: seed of masks.
        unit: key of records whose values are resampled together, see `Units`.

    Raises:
        BmtoolsError: if a model does not support sequences of this length, or the segmenter does
            not exist.
    """

    def __init__(self, models: Sequence[CheckpointPredictor], config: MaskedLmLossConfig, *,
                 terms: Sequence[str] = (), by: Sequence[str] = (), seed: int = 0,
                 unit: str | None = None) -> None:
        for model in models:
            require_length(config.max_length, model.max_tokens, model.name)
        self._models, self._config, self._terms, self._seed = models, config, terms, seed
        self._combinations = config.combinations()
        self._variants = list(product(range(len(self._combinations)), range(config.repeats)))
        self._vocabularies = {model.vocabulary: _Vocabulary(
            SequenceMasker(model.tokenizer, config, terms, seed),
            UnknownTokens(model.name, model.tokenizer.unk_token_id)) for model in reversed(models)}
        # Sums of nats, predictions and correct predictions, in this order along the last axis.
        self._by_draw = np.zeros((len(models), len(self._combinations), config.repeats, 3))
        self._by_text: list[np.ndarray] = []  # (models, combinations, texts, 3) of each window
        self._groups, self._units = Groups(by), Units(unit)
        self._data = 0

    def run(self, records: Iterable[Record], reject: Reject = refuse) -> Iterator[int]:
        """Predict all texts, some megabytes at a time; the order of texts does not matter.

        Args:
            records: records; titles are part of the text.
            reject: receives records without a maskable token; no model scores them.

        Yields:
            the number of predictions, for each pass of a model.
        """
        characters = _TOKENS_AT_ONCE * _CHARACTERS_PER_TOKEN // len(self._variants)
        maskers = [vocabulary.masker for vocabulary in self._vocabularies.values()]
        for window in gather_records(records, characters):
            counts = np.min([masker.maskable_counts(window) for masker in maskers], axis=0)
            kept = [record for record, count in zip(window, counts, strict=True) if count]
            for record, count in zip(window, counts, strict=True):
                if not count:
                    reject(RecordError(record.place, "key 'text': found no tokens to mask, "
                                       "expected words of the models' vocabularies", record))
            if kept:
                yield from self._predict_window(kept)

    def _predict_window(self, records: list[Record]) -> Iterator[int]:
        keys = text_keys(records)
        for record, key in zip(records, keys.tolist(), strict=True):
            self._groups.add(record)
            self._units.add(record, str(key))
            self._data += content_key(full_text(record))
        by_text = np.zeros((len(self._models), len(self._combinations), len(records), 3))
        self._by_text.append(by_text)
        for name, vocabulary in self._vocabularies.items():
            sequences = vocabulary.masker.cut(vocabulary.masker.encode(records), keys)
            vocabulary.tokens += int(sequences.maskable.sum())
            vocabulary.unknown.add(sequences.input_ids, records[0])
            vocabulary.sequences += len(sequences.texts)
            step = max(1, _TOKENS_AT_ONCE // len(sequences.input_ids))  # fits into memory
            for start in range(0, len(self._variants), step):
                variants = self._variants[start:start + step]
                tokens = [vocabulary.masker.mask(sequences, self._combinations[number], draw)
                          for number, draw in variants]
                masked = MaskedSequences(
                    sequences, np.array(variants), np.array([one.inputs for one in tokens]),
                    np.array([one.labels >= 0 for one in tokens]))
                for index, model in enumerate(self._models):
                    if model.vocabulary != name:
                        continue
                    model.measure(sequences.masked_once(model.tokenizer))
                    for combinations, draws, texts, sums in model.map(
                            partial(predict_batch, model, masked),
                            masked.batches(model.tokens_per_pass)):
                        np.add.at(self._by_draw[index], (combinations, draws), sums)
                        np.add.at(by_text[index], (combinations, texts), sums)
                        yield len(sums)

    def lines(self, statistics: StatisticsConfig | None = None) -> Iterator[Line]:
        """Yield the scores, a line for each model and combination.

        Yields:
            `perplexity` is the exponential of `nats_per_token`, the mean loss over all masked
            positions in all draws. It has an `interval` over `units`, whose kind is `unit`.
            `perplexity_sd` is the standard deviation of the perplexity over draws; in the paper,
            texts are sampled, while here the texts stay and the masks are sampled. `accuracy` is
            the share of positions where no token has a higher logit. `masked_tokens` is the number
            of predictions in all draws, and `tokens` is the number of maskable tokens.
            `unknown_tokens` is the share of unknown tokens, which are never masked. `masked_share`
            is the share masked in a draw; it exceeds the rate if one token is more than the rate of
            a short sequence. `by` contains the same for each value of a key.

        Raises:
            DataError: if no text was read.
        """
        if not self._by_text:
            raise DataError("no text in the input; expected records with text")
        for vocabulary in self._vocabularies.values():
            vocabulary.unknown.warn()
        statistics = statistics or StatisticsConfig()
        if statistics.resamples:
            self._units.warn()
        by_text = np.concatenate(self._by_text, axis=2)
        for index, number in product(range(len(self._models)), range(len(self._combinations))):
            yield self._line(index, number, by_text[index, number], statistics)

    def comparisons(self, statistics: StatisticsConfig) -> Iterator[Line]:
        """Yield the differences of models with the same vocabulary, for each combination.

        Yields:
            lines of `compare_models` by `nats_per_token`, with the combination; p-values are
            adjusted for the number of comparisons in the combination.
        """
        by_text = np.concatenate(self._by_text, axis=2)
        for number, combination in enumerate(self._combinations):
            for line in compare_models([
                    (model.name, {"nats_per_token": self._metric(by_text[index, number], model)})
                    for index, model in enumerate(self._models)], statistics):
                yield {"compared": line.pop("compared"), **vars(combination), **line}

    def _metric(self, by_text: np.ndarray, model: CheckpointPredictor) -> Metric:
        return Metric(by_text.T[:2], self._units.keys, model.vocabulary, "records",
                      self._units.kind)

    def _line(self, index: int, number: int, by_text: np.ndarray,
              statistics: StatisticsConfig) -> Line:
        model, combination = self._models[index], self._combinations[number]
        vocabulary, config = self._vocabularies[model.vocabulary], self._config
        metric = self._metric(by_text, model)
        scores = _scores(by_text, metric, statistics)
        draws = [safe_exp(nats / masked) for nats, masked, _ in self._by_draw[index, number]]
        by = self._groups.scores(
            lambda members: _scores(by_text[members], metric.select(members), statistics))
        return {
            "model": model.name,
            **vars(combination),
            **scores,
            "unit": metric.unit,
            **({"perplexity_sd": rounded(stdev(draws))}
               if len(draws) > 1 and math.inf not in draws else {}),
            "tokens": vocabulary.tokens,
            "unknown_tokens": rounded(vocabulary.unknown.share),
            "sequences": vocabulary.sequences,
            "repeats": config.repeats,
            "masked_share": rounded(
                scores["masked_tokens"] / (vocabulary.tokens * config.repeats)),
            **last_keys(model, by, data_fields(self._data), "mlm", combination.masking,
                        rate=combination.mask_rate, corruption=combination.corruption,
                        repeats=config.repeats, seed=self._seed, max_length=config.max_length,
                        segmenter=config.segmenter,
                        terms=sha256("\n".join(self._terms).encode()).hexdigest()[:12]
                        if combination.masking == "terms" else None),
        }


@dataclass
class _Vocabulary:
    """Masking shared by models with the same vocabulary, and counts of their texts."""

    masker: SequenceMasker
    unknown: UnknownTokens
    tokens: int = 0
    sequences: int = 0


def _scores(by_text: np.ndarray, metric: Metric, statistics: StatisticsConfig) -> Line:
    """Score some of the texts, with an interval over their units.

    Args:
        by_text: (texts, 3) sums.
        metric: nats per token of these texts.
        statistics: settings of the interval.
    """
    by_unit = metric.by_unit()
    bounds = interval(by_unit, statistics)
    nats, masked, correct = by_text.sum(axis=0).tolist()
    return {"perplexity": rounded(safe_exp(nats / masked)),
            "nats_per_token": rounded(nats / masked),
            "accuracy": rounded(correct / masked), "masked_tokens": int(masked),
            **({"interval": [rounded(safe_exp(bound)) for bound in bounds]} if bounds else {}),
            "records": len(by_text), "units": by_unit.shape[1]}
