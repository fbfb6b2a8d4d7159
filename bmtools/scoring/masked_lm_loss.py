"""Masked-LM loss under strategies, rates and corruptions of masking: which task is how hard.

Texts are cut, masked and predicted in `masked_lm_sequences`.

Source: Pavlova and Makhlouf 2023 (BIOptimus), section 8.1 and figure 4.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import product
from statistics import stdev

import numpy as np

from bmtools.data.masking.corruption import Coverage
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.models.families import require_length
from bmtools.records import Record, RecordSource, full_text
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor, load_predictors
from bmtools.scoring.evaluation import Progress, gather_records, signed
from bmtools.scoring.masked_lm_sequences import (
    REPLACEMENTS,
    MaskedSequences,
    SequenceMasker,
    Sequences,
    TokenLosses,
    predict_batch,
    text_keys,
)
from bmtools.scoring.settings import InferenceConfig, MaskedLmLossConfig, Models
from bmtools.settings import split_settings
from bmtools.statistics.lines import Groups, Line, content_key, data_fields, rounded, safe_exp
from bmtools.statistics.ratios import interval
from bmtools.statistics.settings import StatisticsConfig
from bmtools.vocab.encoding import EncodedTexts
from bmtools.vocab.unknown_tokens import UnknownTokens

_MASKED = 1
# Tokens of one window, counted once for each combination and draw: some 20 MB.
_TOKENS_AT_ONCE = 1 << 20
_CHARACTERS_PER_TOKEN = 4


def masked_lm_loss(records: RecordSource, models: Models, *, terms: Sequence[str] = (),
                   by: Sequence[str] = (), reject: Reject = refuse,
                   progress: Progress[int] = iter, **settings: object) -> list[Line]:
    """Score checkpoints by loss: `masked_lm_loss("dev.jsonl", "bio", masking="tokens,words")`.

    Args:
        records: a file or several, or dictionaries with `id` and `text`; titles are part of the
            text.
        models: directory of a checkpoint, or several.
        terms: words and phrases for masking by terms.
        by: keys of records; the texts of each value are also scored apart. Dots reach into
            objects: `meta.year`.
        reject: receives records without a maskable token; they are kept from all models.
        progress: wraps the iterator of passes, as `tqdm` does.
        settings: fields of `MaskedLmLossConfig`, `InferenceConfig` and `StatisticsConfig`.

    Returns:
        a line for each model and combination, see `MaskedLmEvaluation.lines`.

    Raises:
        BmtoolsError: nothing to score, or a checkpoint, device or record that cannot be used.
        ValueError: a setting out of range.
    """
    config, inference, statistics = split_settings(
        settings, MaskedLmLossConfig, InferenceConfig, StatisticsConfig)
    config.check_usage(bool(terms))
    evaluation = MaskedLmEvaluation(load_predictors(models, inference, whole=True), config,
                                    terms=terms, by=by, seed=statistics.seed)
    deque(progress(evaluation.run(as_records(records, reject), reject)), maxlen=0)
    return list(evaluation.lines(statistics))


class MaskedLmEvaluation:
    """Masking of texts in several combinations, and sums of what models restore.

    Every masked position is predicted, also where the token stays itself or becomes a random one,
    as in training. Models of one vocabulary get the same masks. 24 bytes are kept for each text,
    model and combination, as intervals are drawn over texts.

    Args:
        models: each predicts all texts.
        config: masking.
        terms: words and phrases for masking by terms.
        by: keys of records to score apart by.
        seed: of masks.

    Raises:
        BmtoolsError: a model that does not take sequences of this length, or no such segmenter.
    """

    def __init__(self, models: Sequence[CheckpointPredictor], config: MaskedLmLossConfig, *,
                 terms: Sequence[str] = (), by: Sequence[str] = (), seed: int = 0) -> None:
        for model in models:
            require_length(config.max_length, model.max_tokens, model.name)
        self._combinations = config.combinations()
        self._variants = list(product(range(len(self._combinations)), range(config.repeats)))
        self._config, self._terms, self._seed = config, terms, seed
        tokenizers = {model.vocabulary: model.tokenizer for model in models}
        names = {model.vocabulary: model.name for model in reversed(models)}
        self._vocabularies = {
            name: _Vocabulary(SequenceMasker(tokenizer, config, terms, seed),
                              [Coverage()] * len(self._combinations),
                              UnknownTokens(names[name], tokenizer.unk_token_id))
            for name, tokenizer in tokenizers.items()}
        self._totals = [_Totals(model, np.zeros((
            len(self._combinations), config.repeats, len(REPLACEMENTS), 3))) for model in models]
        self._groups = Groups(by)
        self._keys: list[np.ndarray] = []
        self._data = 0

    def run(self, records: Iterable[Record], reject: Reject = refuse) -> Iterator[int]:
        """Predict all texts, some megabytes at a time; the order of texts does not matter.

        Args:
            records: titles are part of the text.
            reject: receives records without a maskable token; they are kept from all models.

        Yields:
            for each pass of a model, the number of predictions.
        """
        characters = _TOKENS_AT_ONCE * _CHARACTERS_PER_TOKEN // len(self._variants)
        maskers = {name: vocabulary.masker for name, vocabulary in self._vocabularies.items()}
        for window in gather_records(records, characters):
            encoded = {name: masker.encode(window) for name, masker in maskers.items()}
            counts = [masker.maskable_counts(encoded[name]) for name, masker in maskers.items()]
            kept = []
            for record, count in zip(window, np.min(counts, axis=0).tolist(), strict=True):
                if count:
                    kept.append(record)
                else:
                    reject(RecordError(record.place, "key 'text': found no tokens to mask, "
                                       "expected words of the models' vocabularies", record))
            if len(kept) < len(window):
                encoded = {name: masker.encode(kept) for name, masker in maskers.items()}
            if kept:
                yield from self._predict_window(kept, encoded)

    def _predict_window(self, records: list[Record],
                        encoded: dict[str, EncodedTexts]) -> Iterator[int]:
        keys = text_keys(records)
        self._keys.append(keys)
        for record in records:
            self._groups.add(record)
            self._data += content_key(full_text(record))
        for totals in self._totals:
            totals.windows.append(np.zeros((len(self._combinations), len(records), 3)))
        for name, vocabulary in self._vocabularies.items():
            sequences = vocabulary.masker.cut(encoded[name], keys)
            vocabulary.tokens += int(sequences.maskable.sum())
            vocabulary.unknown.add(sequences.input_ids, records[0])
            vocabulary.sequences += len(sequences.texts)
            step = max(1, _TOKENS_AT_ONCE // len(sequences.input_ids))  # fits into memory
            for start in range(0, len(self._variants), step):
                masked = self._mask(vocabulary, sequences, self._variants[start:start + step])
                for totals in self._totals:
                    model = totals.model
                    if model.vocabulary == name:
                        for losses in model.map(partial(predict_batch, model, masked),
                                                masked.batches(model.tokens_per_pass)):
                            totals.add(losses)
                            yield len(losses.nats)

    def _mask(self, vocabulary: _Vocabulary, sequences: Sequences,
              variants: Sequence[tuple[int, int]]) -> MaskedSequences:
        """Mask all sequences, once for each combination and draw."""
        input_ids = np.empty((len(variants), len(sequences.input_ids)), dtype=np.int32)
        masked = np.empty(input_ids.shape, dtype=bool)
        for index, (number, draw) in enumerate(variants):
            tokens, coverage = vocabulary.masker.mask(sequences, self._combinations[number], draw)
            vocabulary.coverage[number] += coverage
            input_ids[index], masked[index] = tokens.inputs, tokens.labels >= 0
        return MaskedSequences(sequences, np.array(variants), input_ids, masked)

    def lines(self, statistics: StatisticsConfig | None = None) -> Iterator[Line]:
        """Yield the scores, a line for each model and combination.

        Yields:
            `perplexity`: exponential of `nats_per_token`, the mean loss over all masked positions
            in all draws, with an `interval` over texts; `perplexity_sd`: standard deviation of
            the draws' own perplexities (the paper draws samples of text, here the text stays and
            masks are drawn anew); `accuracy`: share of positions where no token has a higher
            logit; `masked_tokens`: predictions in all draws; `tokens`: maskable ones, once;
            `unknown_tokens`: share of all tokens, which is never masked;
            `masked_share`: share masked in a draw, above the rate where sequences are so short
            that one token is more; `whole_words`: words wholly masked among words with a masked
            token; `by_replacement`: the same figures by the input at the masked position, where a
            random token that happens to be the right one counts to `same`; `by`: for each value
            of a key.

        Raises:
            DataError: no text was read.
        """
        if not self._keys:
            raise DataError("no text in the input; expected records with text")
        for vocabulary in self._vocabularies.values():
            vocabulary.unknown.warn()
        keys = np.concatenate(self._keys)
        for totals, number in product(self._totals, range(len(self._combinations))):
            yield self._line(totals, number, keys, statistics or StatisticsConfig())

    def _line(self, totals: _Totals, number: int, keys: np.ndarray,
              statistics: StatisticsConfig) -> Line:
        combination = self._combinations[number]
        vocabulary = self._vocabularies[totals.model.vocabulary]
        coverage, sums = vocabulary.coverage[number], totals.sums[number]
        by_text = np.concatenate([window[number] for window in totals.windows])
        by = self._groups.scores(
            lambda members: _scores(by_text[members], keys[members], statistics))
        return {
            "model": totals.model.name,
            "masking": combination.masking,
            "mask_rate": combination.mask_rate,
            "corruption": combination.corruption,
            **_scores(by_text, keys, statistics),
            **_spread(sums.sum(axis=1)),
            "tokens": vocabulary.tokens,
            "unknown_tokens": rounded(vocabulary.unknown.share),
            "sequences": vocabulary.sequences,
            "repeats": self._config.repeats,
            "masked_share": rounded(coverage.masked_share),
            "whole_words": rounded(coverage.whole_share),
            "by_replacement": {name: _figures(own) for name, own in
                               zip(REPLACEMENTS, sums.sum(axis=0), strict=True) if own[_MASKED]},
            **({"by": by} if by else {}),
            **data_fields(self._data),
            **signed("mlm", combination.masking, totals.model.tokenizer, totals.model.vocabulary,
                     rate=combination.mask_rate, corruption=combination.corruption,
                     repeats=self._config.repeats, seed=self._seed,
                     max_length=self._config.max_length, segmenter=self._config.segmenter,
                     terms=sha256("\n".join(self._terms).encode()).hexdigest()[:12]
                     if combination.masking == "terms" else None,
                     **totals.model.signature_fields),
        }


@dataclass
class _Vocabulary:
    """Masking that models of one vocabulary share; coverage by combination, and counts of texts."""

    masker: SequenceMasker
    coverage: list[Coverage]
    unknown: UnknownTokens
    tokens: int = 0
    sequences: int = 0


@dataclass
class _Totals:
    """Sums of one model: nats, predictions and correct ones, in this order along the last axis.

    Args:
        model: the model.
        sums: (combinations, repeats, replacements, 3).
        windows: (combinations, texts, 3) of each window.
    """

    model: CheckpointPredictor
    sums: np.ndarray
    windows: list[np.ndarray] = field(default_factory=list)

    def add(self, losses: TokenLosses) -> None:
        """Count predictions of the last window."""
        values = np.stack([losses.nats, np.ones_like(losses.nats), losses.correct], axis=1)
        np.add.at(self.sums, (losses.combinations, losses.draws, losses.replacements), values)
        np.add.at(self.windows[-1], (losses.combinations, losses.texts), values)


def _scores(by_text: np.ndarray, keys: np.ndarray, statistics: StatisticsConfig) -> Line:
    """Score some of the texts, with an interval over them.

    Args:
        by_text: (texts, 3) sums.
        keys: (texts,) to sort texts by: their order in the input must not matter.
        statistics: of the interval.
    """
    ordered = by_text[np.argsort(keys, kind="stable")]
    bounds = interval(ordered.T[:2], statistics)
    return {**_figures(ordered.sum(axis=0)),
            **({"interval": [rounded(safe_exp(bound)) for bound in bounds]} if bounds else {}),
            "records": len(by_text)}


def _spread(draws: np.ndarray) -> Line:
    """Compute the standard deviation of perplexity over draws, (repeats, 3), if it is finite."""
    perplexities = [safe_exp(nats / masked) for nats, masked, _ in draws.tolist()]
    if len(perplexities) < 2 or math.inf in perplexities:
        return {}
    return {"perplexity_sd": rounded(stdev(perplexities))}


def _figures(sums: np.ndarray) -> Line:
    nats, masked, correct = sums.tolist()
    return {"perplexity": rounded(safe_exp(nats / masked)),
            "nats_per_token": rounded(nats / masked),
            "accuracy": rounded(correct / masked), "masked_tokens": int(masked)}
