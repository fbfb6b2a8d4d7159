"""Pseudo-perplexity: how surprising each token is, given all others.

Source: Salazar et al. 2020, equations 2 and 3; Buonocore et al. 2023, equation 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.records import Record
from bmtools.scoring.predictors import (
    Masking,
    Predictor,
    check_length,
    special_ids,
    windows,
)
from bmtools.scoring.signature import short, signature

_SPLIT = "split it into sentences first (bmtools import jsonl --sentences)"


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        logprobs: (tokens,) float64 in nats, one per token that is not a special one.
        unknown: how many of these tokens the vocabulary has no name for.
    """

    record: Record
    predictor: int
    logprobs: np.ndarray
    unknown: int

    @property
    def pppl(self) -> float:
        """Exponential of the mean loss per token."""
        return _exp(-self.logprobs.mean())

    def line(self) -> dict[str, Any]:
        """Say it as a line of details."""
        return {"id": self.record.get("id"), "pppl": round(self.pppl, 6),
                "nats": round(-float(self.logprobs.sum()), 6), "tokens": len(self.logprobs),
                "characters": len(self.record["text"]), "unknown": self.unknown}


def score(records: Iterable[Record], predictors: Sequence[Predictor],
          reject: Reject = refuse) -> Iterator[SentenceScore]:
    """Score each sentence under each predictor, sentence by sentence in input order.

    Every token but the special ones is masked once, alone. Unknown tokens count like others;
    each says how many there were.
    """
    for window in windows(records, predictors, _ask, reject):
        columns = [_log_probabilities(predictor, [asked[number] for _, asked in window])
                   for number, predictor in enumerate(predictors)]
        for row, (record, asked) in enumerate(window):
            for number, predictor in enumerate(predictors):
                hidden = asked[number].ids[asked[number].positions]
                unknown = int((hidden == predictor.tokenizer.unk_token_id).sum())
                yield SentenceScore(record, number, columns[number][row], unknown)


def _ask(predictor: Predictor, record: Record) -> Masking:
    encoding = predictor.tokenizer.backend_tokenizer.encode(record["text"])
    ids = np.array(encoding.ids, dtype=np.int64)
    check_length(predictor, record, len(ids), _SPLIT)
    special = np.isin(ids, sorted(special_ids(predictor.tokenizer)))
    special |= np.array(encoding.special_tokens_mask, dtype=bool)
    if special.all():
        raise RecordError(record.place, "key 'text': found no tokens to score, "
                          "expected a sentence", record)
    return Masking(ids, np.flatnonzero(~special))


def _log_probabilities(predictor: Predictor, maskings: Sequence[Masking]) -> list[np.ndarray]:
    """Log probability of each hidden token, in nats: (hidden,) float64 for each sentence."""
    values = [np.zeros(len(masking.ids)) for masking in maskings]
    for sentences, positions, logits in predictor.answers(maskings):
        places = list(zip(sentences, positions, strict=True))
        wanted = torch.tensor([maskings[s].ids[p] for s, p in places], device=logits.device)
        found = logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(1)
        for (sentence, position), value in zip(places, found.tolist(), strict=True):
            values[sentence][position] = value
    return [value[masking.positions] for value, masking in zip(values, maskings, strict=True)]


class Tally:
    """The sums behind a corpus-level score of one predictor."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self._nats = 0.0
        self._pppls = 0.0
        self._tokens = 0
        self._sentences = 0
        self._characters = 0
        self._unknown = 0

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        self._nats -= float(score.logprobs.sum())
        self._pppls += score.pppl
        self._tokens += len(score.logprobs)
        self._sentences += 1
        self._characters += len(score.record["text"])
        self._unknown += score.unknown

    def line(self) -> dict[str, Any]:
        """Say the score and what it rests on.

        Returns:
            `pppl`: equation 1, every token weighs the same;
            `mean_sentence_pppl`: mean of the sentences' own values, as in the evaluation that
            Buonocore et al. published, where one odd sentence can outweigh all others;
            `nats_per_token`: logarithm of `pppl`; `bits_per_character`: the same loss per
            character of text, which models with different vocabularies can be compared by.

        Raises:
            DataError: nothing was counted.
        """
        if not self._sentences:
            raise DataError("no sentences in the input; expected records with text")
        nats = self._nats / self._tokens
        return {
            "model": self.predictor.name,
            "pppl": round(_exp(nats), 6),
            "mean_sentence_pppl": round(self._pppls / self._sentences, 6),
            "nats_per_token": round(nats, 6),
            "bits_per_character": round(self._nats / math.log(2) / self._characters, 6),
            "sentences": self._sentences,
            "tokens": self._tokens,
            "characters": self._characters,
            "unknown": self._unknown,
            "vocabulary": short(self.predictor.vocabulary),
            "signature": signature("pppl", "original", self.predictor.tokenizer, unit="token",
                                   special=False, **self.predictor.kind),
        }


def _exp(nats: float) -> float:
    """Exponentiate a loss; beyond the range of numbers it is infinite, not an error."""
    return math.exp(nats) if nats < 700 else math.inf
