"""Pseudo-log-likelihoods of sentences; the masked spans predict each token of a text once.

Sources: Salazar et al. 2020, equations 2 and 3; Kauf and Ivanova 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import Record
from bmtools.scoring.evaluation import score_in_windows
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor, check_length, special_ids
from bmtools.scoring.settings import PpplConfig, Variant
from bmtools.statistics.lines import DIGITS, Line, rounded, safe_exp
from bmtools.vocab.words import word_starts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BIOBIT_TOKENS = 170  # maximum length of a sentence, including special tokens
_NATS_PER_BYTE = math.log(256)


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """One sentence under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        logprobs: (scored,) float64 in nats, of the scored tokens in text order; empty if the
            sentence is left out.
        tokens: number of tokens in the sentence, without special ones.
        unknown: number of unknown tokens among them.
        spelling_nats: cost of spelling out unknown tokens and text that the tokenizer drops.
    """

    record: Record
    predictor: int
    logprobs: np.ndarray
    tokens: int
    unknown: int
    spelling_nats: float

    @property
    def pppl(self) -> float:
        """Exponential of the mean loss per token; NaN if no token was scored."""
        return safe_exp(-self.logprobs.mean()) if len(self.logprobs) else math.nan

    def line(self) -> Line:
        """Return the score as a line of details."""
        return {"id": self.record.get("id"), "pppl": rounded(self.pppl),
                "nats": round(-float(self.logprobs.sum()), DIGITS),
                "scored_tokens": len(self.logprobs), "tokens": self.tokens,
                "characters": len(self.record["text"]),
                "words": len(self.record["text"].split()), "unknown": self.unknown}


class _MaskedSentence(NamedTuple):
    """A sentence's masked copies (empty if it is left out), and counts."""

    copies: MaskedCopies
    tokens: int
    unknown: int
    spelling_nats: float


def score_sentences(records: Iterable[Record], predictors: Sequence[Predictor],
                    config: PpplConfig | None = None,
                    reject: Reject = refuse) -> Iterator[SentenceScore]:
    """Score each sentence under each predictor, sentence by sentence in input order.

    Every token except the special ones around a text is scored once. Unknown tokens count like
    others; the cost of spelling them out is returned separately.

    Args:
        records: sentences.
        predictors: each scores all sentences.
        config: settings of masking.
        reject: receives records that a predictor cannot read; no predictor scores them.
    """
    mask = partial(_mask_sentence, config=config or PpplConfig())
    return score_in_windows(records, predictors, mask, partial(_score_masked, predictors), reject)


def _mask_sentence(predictor: Predictor, record: Record, config: PpplConfig) -> _MaskedSentence:
    """Encode a sentence and choose the tokens to mask.

    Raises:
        RecordError: if there is no token to score, or the sentence is too long for the predictor.
    """
    sentence = encode_sentence(predictor.tokenizer, record["text"])
    if not len(sentence.positions):
        raise RecordError(record.place, "key 'text': found no tokens to score, "
                                        "expected a sentence", record)
    tokens, unknown = len(sentence.positions), int(np.count_nonzero(sentence.spelling_nats))
    if config.like and len(sentence.input_ids) > _BIOBIT_TOKENS:
        return _MaskedSentence(MaskedCopies(sentence.input_ids, np.zeros((0, 2), np.int64)),
                               tokens, unknown, 0.0)
    check_length(predictor, record, len(sentence.input_ids),
                 "split it into sentences first (bmtools import jsonl --sentences)")
    return _MaskedSentence(
        MaskedCopies(sentence.input_ids, masked_spans(sentence, config.variant)), tokens, unknown,
        float(sentence.spelling_nats.sum()) + sentence.dropped_nats)


def _score_masked(predictors: Sequence[Predictor], index: int, records: Sequence[Record],
                  sentences: Sequence[_MaskedSentence]) -> list[SentenceScore]:
    """Predict the log probability of each scored token, in text order."""
    inputs = [sentence.copies for sentence in sentences]

    def true_logprobs(batch: MaskLogits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        labels = torch.tensor([[inputs[sequence].input_ids[position]] for sequence, position in
                               zip(batch.sequences, batch.positions, strict=True)],
                              device=batch.logits.device)
        logprobs = batch.logits.gather(1, labels)[:, 0] - batch.logits.logsumexp(1)
        return batch.sequences, batch.positions, logprobs.cpu().double().numpy()

    batches = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)),
               *predictors[index].predict(inputs, true_logprobs)]
    sequences, positions, logprobs = map(np.concatenate, zip(*batches, strict=True))
    logprobs = logprobs[np.lexsort((positions, sequences))]
    ends = np.cumsum([len(copies.spans) for copies in inputs])
    return [SentenceScore(record, index, own, *sentence[1:]) for record, sentence, own in
            zip(records, sentences, np.split(logprobs, ends[:-1]), strict=True)]


@dataclass(frozen=True)
class EncodedSentence:
    """A text as a model reads it.

    Args:
        input_ids: (tokens,) int64, including special tokens.
        word_ids: (tokens,) int64, number of each token's word, see `bmtools.vocab.words`.
        positions: (scored,) int64, positions of all tokens except special ones, ascending.
        spelling_nats: (tokens,) float64, cost of spelling out each token; 0 for known tokens.
        dropped_nats: cost of spelling out the text that is in no token.
    """

    input_ids: np.ndarray
    word_ids: np.ndarray
    positions: np.ndarray
    spelling_nats: np.ndarray
    dropped_nats: float = 0.0


def encode_sentence(tokenizer: PreTrainedTokenizerBase, text: str) -> EncodedSentence:
    """Encode a text and find the positions to score: all except the special tokens around it.

    An unknown token does not identify its characters, so a small vocabulary would seem to need few
    bits. Unknown tokens are therefore spelled out in UTF-8 with 8 bits per byte, as in vocabularies
    with byte fallback, plus 8 bits for the end (a byte that does not occur in UTF-8). The model's
    loss for the unknown token is the cost of this escape. Special tokens that occur in a text are
    unknown. Characters that the tokenizer drops cost the model no bits; they are spelled out in
    the same way.
    """
    encoding = tokenizer.backend_tokenizer.encode(text)
    input_ids = np.array(encoding.ids, dtype=np.int64)
    added = np.array(encoding.special_tokens_mask, dtype=bool)
    inner = np.flatnonzero(~added)
    word_ids = word_starts(tokenizer.backend_tokenizer, [text], [encoding]).cumsum()
    unknown_id = tokenizer.unk_token_id
    if unknown_id is not None:  # SentencePiece models have special tokens among their pieces
        input_ids[~added & np.isin(input_ids, sorted(special_ids(tokenizer)))] = unknown_id
    spelling_nats = np.zeros(len(input_ids))
    for position in np.flatnonzero(~added & (input_ids == unknown_id)).tolist():
        start, end = encoding.token_to_chars(position)
        spelled = text[start:end].strip().encode()
        spelling_nats[position] = (len(spelled) + 1) * _NATS_PER_BYTE
    covered = np.zeros(len(text) + 1, dtype=np.int64)
    starts, ends = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)[inner].T
    np.add.at(covered, starts, 1)
    np.add.at(covered, ends, -1)
    dropped = "".join(" " if count else character for character, count
                      in zip(text, covered.cumsum().tolist(), strict=False)).split()
    dropped_nats = sum(len(run.encode()) + 1 for run in dropped) * _NATS_PER_BYTE
    return EncodedSentence(input_ids, word_ids, inner, spelling_nats, dropped_nats)


def masked_spans(sentence: EncodedSentence, variant: Variant) -> np.ndarray:
    """Choose the span that each copy of a sentence masks, (copies, 2): first position and end.

    Sources: Salazar et al. 2020, section 2 (original); Kauf and Ivanova 2023, section 3
    (within-word: left to right within a word).
    """
    positions = sentence.positions
    if variant == "original":
        return np.stack([positions, positions + 1], axis=1)
    words = sentence.word_ids[positions]
    begins = np.ones(len(positions), dtype=bool)
    begins[1:] = (words[1:] != words[:-1]) | (positions[1:] != positions[:-1] + 1)
    ends = np.append(positions[np.flatnonzero(begins)[1:] - 1], positions[-1:]) + 1
    return np.stack([positions, ends[np.cumsum(begins) - 1]], axis=1)
