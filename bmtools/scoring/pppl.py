"""Pseudo-perplexity: how surprising each token is, given all others.

Sources: Salazar et al. 2020, equations 2 and 3; Kauf and Ivanova 2023; Buonocore et al. 2023,
equation 1.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.records import Record
from bmtools.scoring.comparison import RatioMetric
from bmtools.scoring.distributed import WindowResult, asked_of_all, score_in_windows
from bmtools.scoring.groups import Groups
from bmtools.scoring.pll_masking import encode_sentence, sample_spans, spans_of, split_into_windows
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor, check_length, special_ids
from bmtools.scoring.settings import PpplConfig, StatisticsConfig
from bmtools.scoring.signature import short, signature
from bmtools.scoring.statistics import Moments, interval

_SPLIT = ("score it in windows (--context 64) or split it into sentences first (bmtools import "
          "jsonl --sentences)")
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        logprobs: (asked,) float64 in nats, of the tokens asked for, in the order of the text;
            none where the sentence is left out.
        copies: (copies,) int64, tokens asked for in each masked copy, in the same order.
        tokens: how many there are, special ones not counted.
        unknown: how many of these the vocabulary has no name for.
    """

    record: Record
    predictor: int
    logprobs: np.ndarray
    copies: np.ndarray
    tokens: int
    unknown: int

    @property
    def pppl(self) -> float:
        """Exponential of the mean loss per token; not a number where none was asked for."""
        return _exp(-self.logprobs.mean()) if len(self.logprobs) else math.nan

    @property
    def words(self) -> int:
        """Words of the text between white space, which no vocabulary has a say in."""
        return len(self.record["text"].split())

    def line(self) -> dict[str, Any]:
        """Say it as a line of details."""
        nats = round(-float(self.logprobs.sum()), _DIGITS)
        return {"id": self.record.get("id"), "pppl": _rounded(self.pppl), "nats": nats,
                "asked": len(self.logprobs), "tokens": self.tokens,
                "characters": len(self.record["text"]), "words": self.words,
                "unknown": self.unknown}


@dataclass(frozen=True, slots=True)
class _SentenceCopies:
    """A sentence, in as many parts as the model needs; none where it is left out."""

    parts: list[MaskedCopies]
    tokens: int
    unknown: int

    @property
    def copies(self) -> np.ndarray:
        """Tokens asked for in each copy of each part."""
        sizes = [np.diff(part.spans)[:, 0] if part.every else np.ones(len(part.spans), np.int64)
                 for part in self.parts]
        return np.concatenate([np.zeros(0, np.int64), *sizes])


def score_sentences(records: Iterable[Record], predictors: Sequence[Predictor],
                    settings: PpplConfig | None = None, reject: Reject = refuse,
                    seed: int = 0) -> Iterator[SentenceScore]:
    """Score each sentence under each predictor, sentence by sentence in input order.

    Every token but the special ones is asked for once. Unknown tokens count like others; each
    sentence says how many there were.

    Args:
        records: sentences, or longer texts where `settings.context` is set.
        predictors: each asked about all of them.
        settings: what is hidden, and how much of it.
        reject: receives what a predictor cannot take; it is kept from all.
        seed: of `settings.sample`.
    """
    work = partial(_score_window, predictors=predictors, settings=settings or PpplConfig(),
                   seed=seed)
    return score_in_windows(records, work, reject)


def _score_window(records: list[Record], predictors: Sequence[Predictor], settings: PpplConfig,
                  seed: int) -> WindowResult[SentenceScore]:
    asked, refused = asked_of_all(records, predictors,
                                  partial(_ask, settings=settings, seed=seed))
    columns = [_log_probabilities(predictor, [questions[number] for _, questions in asked])
               for number, predictor in enumerate(predictors)]
    return WindowResult([SentenceScore(record, number, columns[number][row], question.copies,
                                       question.tokens, question.unknown)
                         for row, (record, questions) in enumerate(asked)
                         for number, question in enumerate(questions)], refused)


def _ask(predictor: Predictor, record: Record, settings: PpplConfig, seed: int) -> _SentenceCopies:
    tokenizer = predictor.tokenizer
    sentence = encode_sentence(tokenizer.backend_tokenizer.encode(record["text"]),
                               sorted(special_ids(tokenizer)))
    if not len(sentence.asked):
        raise RecordError(record.place, "key 'text': found no tokens to score, "
                                        "expected a sentence", record)
    unknown = int((sentence.ids[sentence.asked] == tokenizer.unk_token_id).sum())
    tokens = len(sentence.asked)
    if settings.most_tokens is not None and len(sentence.ids) > settings.most_tokens:
        return _SentenceCopies([], tokens, unknown)
    if not settings.context:
        check_length(predictor, record, len(sentence.ids), _SPLIT)
    name = f"{record.get('id')}\0{record['text']}"
    spans = sample_spans(spans_of(sentence, settings.variant), settings.sample, name, seed)
    try:
        parts = split_into_windows(sentence, spans, settings.variant == "whole-word",
                                   predictor.max_tokens,
                                   settings.context)
    except ValueError as error:
        raise RecordError(record.place, f"--context: {error}, for {predictor.name} takes "
                                        f"{predictor.max_tokens} at a time", record) from error
    return _SentenceCopies(parts, tokens, unknown)


def _log_probabilities(predictor: Predictor,
                       questions: Sequence[_SentenceCopies]) -> list[np.ndarray]:
    """Log probability of each token asked for, in nats: (asked,) float64 for each sentence."""
    maskings = [part for question in questions for part in question.parts]
    found: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in maskings]
    for sentences, positions, values in predictor.answers(maskings, partial(_nats, maskings)):
        borders = np.flatnonzero(np.diff(sentences)) + 1
        for own, places, part in zip(*(np.split(one, borders) for one in
                                       (sentences, positions, values)), strict=True):
            found[own[0]].append((places, part))
    ordered = [_in_order(parts) for parts in found]
    numbers = np.cumsum([0, *(len(question.parts) for question in questions)])
    return [np.concatenate([np.zeros(0), *ordered[first:end]])
            for first, end in pairwise(numbers.tolist())]


def _nats(maskings: Sequence[MaskedCopies], asked: MaskLogits) -> tuple[np.ndarray, ...]:
    """Read off the log probability of what was hidden: sentences, positions and values."""
    ids = np.array([maskings[sentence].ids[place] for sentence, place in
                    zip(asked.sentences, asked.positions, strict=True)], dtype=np.int64)
    wanted = torch.from_numpy(ids).to(asked.logits.device)
    found = asked.logits.gather(1, wanted[:, None])[:, 0] - asked.logits.logsumexp(1)
    return asked.sentences, asked.positions, found.double().cpu().numpy()


def _in_order(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Put values in the order of their places; batches may have come in any."""
    if not parts:
        return np.zeros(0)
    places, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return values[np.argsort(places, kind="stable")]


class PpplTotals:
    """The sums behind a corpus-level score of one predictor.

    About sixty bytes are kept for each sentence: intervals are drawn over sentences.

    Args:
        predictor: whose scores are counted.
        settings: they were made with.
        by: keys to tell sentences apart by.
        statistics: of intervals.
    """

    def __init__(self, predictor: Predictor, settings: PpplConfig | None = None,
                 by: Sequence[str] = (),
                 statistics: StatisticsConfig | None = None) -> None:
        self.predictor = predictor
        self.settings = settings or PpplConfig()
        self._statistics = statistics or StatisticsConfig()
        self._groups = Groups(by)
        self._rows = array("d")
        self._sampled = Moments()

    def add(self, score: SentenceScore) -> None:
        """Count a sentence."""
        nats = -score.logprobs
        self._rows.extend((nats.sum(), len(nats), score.tokens, len(score.record["text"]),
                           score.words, score.unknown, score.pppl))
        self._groups.add(score.record)
        if self.settings.sample < 1 and len(nats):
            firsts = np.cumsum(score.copies) - score.copies
            self._sampled.add(np.add.reduceat(nats, firsts), score.copies)

    def measures(self) -> dict[str, RatioMetric]:
        """Give what models are compared by, each as sums over sentences; see `comparisons`."""
        found = self._sums()
        return {"bits_per_character": RatioMetric(found.all_nats / math.log(2), found.characters),
                "nats_per_token": RatioMetric(found.nats, found.asked, self.predictor.vocabulary)}

    def line(self) -> dict[str, Any]:
        """Say the score and what it rests on.

        Returns:
            `pppl`: equation 1, every token weighs the same, with an interval over sentences;
            `mean_sentence_pppl`: mean of the sentences' own values, as in the evaluation that
            Buonocore et al. published, where one odd sentence can outweigh all others (and which
            is `pppl` under `--like biobit`); `nats_per_token`: the mean loss; `bits_per_character`
            and `bits_per_word`: the same loss per character of text and per word between white
            space, which models with different vocabularies can be compared by; `by`: the same for
            each value of a key.

        Raises:
            DataError: nothing was counted.
        """
        found = self._sums()
        if not len(found):
            raise DataError("no sentences in the input; expected records with text")
        if not found.asked.any():
            raise DataError(f"none of {len(found)} sentences has a token to score: all are left "
                            "out, or --sample drew none; expected shorter sentences or a larger "
                            "share")
        by: dict[str, dict[str, Any]] = {}
        for key, value, members in self._groups.members():
            by.setdefault(key, {})[value] = self._figures(found.of(members))
        left_out = int((found.asked == 0).sum()) if self.settings.most_tokens else 0
        return {
            "model": self.predictor.name,
            **self._figures(found),
            **({"left_out": left_out} if left_out else {}),
            **self._sampling(found),
            **({"by": by} if by else {}),
            **self.predictor.notes,
            "vocabulary": short(self.predictor.vocabulary),
            "signature": self._signature(),
        }

    def _sums(self) -> _Sums:
        share = self.settings.sample
        return _Sums(np.frombuffer(self._rows).reshape(-1, len(_COLUMNS)), share)

    def _figures(self, found: _Sums) -> dict[str, Any]:
        """Score some of the sentences."""
        kept = found.of(found.asked > 0) if self.settings.most_tokens else found
        asked = kept.asked.sum()
        if not asked:
            return {"pppl": None, "sentences": len(kept), "tokens": int(kept.tokens.sum())}
        nats = kept.nats.sum() / asked
        bits = nats * kept.tokens.sum() / math.log(2)
        like, whole = self.settings.like, self.settings.sample == 1
        mean = float(kept.pppl.mean()) if whole else math.nan
        bounds = interval(kept.pppl, np.ones(len(kept)), self._statistics) if like \
            else interval(kept.nats, kept.asked, self._statistics)
        if bounds and not like:
            bounds = _exp(bounds[0]), _exp(bounds[1])
        return {
            "pppl": _rounded(mean if like else _exp(nats)),
            **({"interval": [_rounded(bound) for bound in bounds]} if bounds else {}),
            **({"mean_sentence_pppl": _rounded(mean)} if whole else {}),
            "nats_per_token": _rounded(nats),
            "bits_per_character": _rounded(bits / kept.characters.sum()),
            "bits_per_word": _rounded(bits / max(kept.words.sum(), 1)),
            "sentences": len(kept),
            "tokens": int(kept.tokens.sum()),
            "characters": int(kept.characters.sum()),
            "words": int(kept.words.sum()),
            "unknown": int(kept.unknown.sum()),
        }

    def _sampling(self, found: _Sums) -> dict[str, Any]:
        """Say what share was asked for, and how far off that may be."""
        share = self.settings.sample
        if share == 1:
            return {}
        error = self._sampled.sampling_error(share, self._statistics.confidence)
        nats = found.nats.sum() / found.asked.sum()
        bounds = {} if error is None else {"sampling_error": {
            "nats_per_token": _rounded(error),
            "pppl": [_rounded(_exp(nats - error)), _rounded(_exp(nats + error))]}}
        return {"asked": int(found.asked.sum()), **bounds}

    def _signature(self) -> str:
        settings = self.settings
        more: dict[str, object] = {}
        if settings.sample < 1:
            more |= {"sample": settings.sample, "sample_seed": self._statistics.seed}
        if settings.context:
            more["context"] = settings.context
        if settings.like:
            more["like"] = settings.like
        return signature("pppl", settings.variant, self.predictor.tokenizer, unit="token",
                         special=False, **more, **self.predictor.kind)


_COLUMNS = ("nats", "asked", "tokens", "characters", "words", "unknown", "pppl")


class _Sums:
    """Columns of numbers, a row for each sentence."""

    def __init__(self, table: np.ndarray, share: float) -> None:
        self._table = table
        self._share = share
        (self.nats, self.asked, self.tokens, self.characters, self.words, self.unknown,
         self.pppl) = table.T

    def __len__(self) -> int:
        return len(self._table)

    @property
    def all_nats(self) -> np.ndarray:
        """Loss of all tokens, as those asked for let it expect."""
        return self.nats / self._share

    def of(self, members: np.ndarray) -> _Sums:
        """Keep some rows."""
        return _Sums(self._table[members], self._share)


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), _DIGITS)


def _exp(nats: float) -> float:
    """Exponentiate a loss; beyond the range of numbers it is infinite, not an error."""
    return math.exp(nats) if nats < 700 else math.inf
