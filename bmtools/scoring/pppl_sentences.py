"""Pseudo-log-likelihoods of sentences: each token masked and predicted once.

Sources: Salazar et al. 2020, equations 2 and 3; Kauf and Ivanova 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.records import Record
from bmtools.scoring.distributed import score_in_windows
from bmtools.scoring.evaluation import Line
from bmtools.scoring.pll_masking import (
    encode_sentence,
    masked_spans,
    sample_spans,
    split_into_windows,
)
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor, check_length, special_ids
from bmtools.scoring.settings import PpplConfig

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        logprobs: (scored,) float64 in nats, of the scored tokens in the order of the text; none
            where the sentence is left out.
        predictions: (copies,) int64, tokens scored in each masked copy, in the same order.
        tokens: tokens of the sentence, without special ones.
        unknown: how many of these are the unknown token.
    """

    record: Record
    predictor: int
    logprobs: np.ndarray
    predictions: np.ndarray
    tokens: int
    unknown: int

    @property
    def pppl(self) -> float:
        """Exponential of the mean loss per token; not a number where none was scored."""
        return safe_exp(-self.logprobs.mean()) if len(self.logprobs) else math.nan

    @property
    def words(self) -> int:
        """Words of the text between white space, the same for all vocabularies."""
        return len(self.record["text"].split())

    def line(self) -> Line:
        """Return the score as a line of details."""
        return {"id": self.record.get("id"), "pppl": rounded(self.pppl),
                "nats": round(-float(self.logprobs.sum()), _DIGITS),
                "scored_tokens": len(self.logprobs), "tokens": self.tokens,
                "characters": len(self.record["text"]), "words": self.words,
                "unknown": self.unknown}


@dataclass(frozen=True, slots=True)
class _MaskedSentence:
    """A sentence in as many windows as the model needs; none where it is left out."""

    windows: list[MaskedCopies]
    tokens: int
    unknown: int

    @property
    def predictions(self) -> np.ndarray:
        """Number of scored tokens in each copy of each window, (copies,) int64."""
        sizes = [np.diff(window.spans)[:, 0] if window.predict_all
                 else np.ones(len(window.spans), np.int64) for window in self.windows]
        return np.concatenate([np.zeros(0, np.int64), *sizes])


def score_sentences(records: Iterable[Record], predictors: Sequence[Predictor],
                    config: PpplConfig | None = None, reject: Reject = refuse,
                    seed: int = 0) -> Iterator[SentenceScore]:
    """Score each sentence under each predictor, sentence by sentence in input order.

    Every token but the special ones is scored once; unknown tokens count like others.

    Args:
        records: sentences, or longer texts where `config.context_tokens` is set.
        predictors: each scores all of them.
        config: what is masked, and how much of it is scored.
        reject: receives records that a predictor cannot take; they are kept from all.
        seed: of `config.sample`.
    """
    mask = partial(_mask_sentence, config=config or PpplConfig(), seed=seed)
    return score_in_windows(records, predictors, mask, partial(_score_masked, predictors), reject)


def _mask_sentence(predictor: Predictor, record: Record, config: PpplConfig,
                   seed: int) -> _MaskedSentence:
    """Encode a sentence and choose what to mask in it.

    Raises:
        RecordError: no token to score, or more tokens than the predictor takes.
    """
    tokenizer = predictor.tokenizer
    sentence = encode_sentence(tokenizer.backend_tokenizer.encode(record["text"]),
                               sorted(special_ids(tokenizer)))
    if not len(sentence.positions):
        raise RecordError(record.place, "key 'text': found no tokens to score, "
                                        "expected a sentence", record)
    unknown = int((sentence.input_ids[sentence.positions] == tokenizer.unk_token_id).sum())
    tokens = len(sentence.positions)
    if config.longest_sentence and len(sentence.input_ids) > config.longest_sentence:
        return _MaskedSentence([], tokens, unknown)
    if not config.context_tokens:
        check_length(predictor, record, len(sentence.input_ids),
                     f"score it in windows ({setting('context_tokens')} 64) or split it into "
                     "sentences first (bmtools import jsonl --sentences)")
    name = f"{record.get('id')}\0{record['text']}"
    spans = sample_spans(masked_spans(sentence, config.variant), config.sample, name, seed)
    try:
        windows = split_into_windows(sentence, spans, config, predictor.max_tokens)
    except ValueError as error:
        raise RecordError(record.place, f"{error}, as {predictor.name} takes "
                                        f"{predictor.max_tokens} at a time", record) from error
    return _MaskedSentence(windows, tokens, unknown)


def _score_masked(predictors: Sequence[Predictor], index: int, records: Sequence[Record],
                  sentences: Sequence[_MaskedSentence]) -> list[SentenceScore]:
    """Predict the log probability of each scored token, in the order of the text."""
    inputs = [window for sentence in sentences for window in sentence.windows]
    batches = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)),
               *predictors[index].predict(inputs, partial(_true_logprobs, inputs))]
    windows, positions, logprobs = map(np.concatenate, zip(*batches, strict=True))
    in_order = iter(np.split(logprobs[np.lexsort((positions, windows))], np.cumsum(
        [int(sentence.predictions.sum()) for sentence in sentences])))
    return [SentenceScore(record, index, own, sentence.predictions, sentence.tokens,
                          sentence.unknown)
            for record, sentence, own in zip(records, sentences, in_order, strict=False)]


def _true_logprobs(inputs: Sequence[MaskedCopies],
                   batch: MaskLogits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Read the log probability of each masked token: sequences, positions and values."""
    labels = torch.tensor([[inputs[sequence].input_ids[position]] for sequence, position in
                           zip(batch.sequences, batch.positions, strict=True)],
                          device=batch.logits.device)
    logprobs = batch.logits.gather(1, labels)[:, 0] - batch.logits.logsumexp(1)
    return batch.sequences, batch.positions, logprobs.double().cpu().numpy()


def rounded(value: float) -> float | None:
    """Round for output; None for what is not a number."""
    return None if math.isnan(value) else round(float(value), _DIGITS)


def safe_exp(nats: float) -> float:
    """Exponentiate a loss; beyond the range of floats it is infinite, not an error."""
    return math.exp(nats) if nats < 700 else math.inf
