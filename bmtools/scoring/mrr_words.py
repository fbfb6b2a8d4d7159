"""Ranks of masked words: how high a model ranks the word behind each mask."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import MASK, Record
from bmtools.scoring.distributed import score_in_windows
from bmtools.scoring.mrr_ranking import Word, best_ranks, best_tokens, rank_words
from bmtools.scoring.mrr_targets import MaskedTarget, TargetLookup, token_text
from bmtools.scoring.predictor import MaskLogits, Predictor, check_length
from bmtools.scoring.settings import MrrConfig

_DIGITS = 6
_LEAST_PROPOSALS = 5  # looked up, however few count


@dataclass(frozen=True, slots=True)
class MaskScore:
    """One masked word under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        target: the word in the predictor's vocabulary.
        rank: of the word among all proposals, from 1; None where it cannot be proposed, or is
            beyond a beam.
        reciprocal_rank: 1/rank, 0 where the word is not among the proposals that count.
        probability: of the word, in all spellings that count.
        proposals: the best tokens (words of as many tokens where the word is ranked jointly) with
            their probabilities, best first.
    """

    record: Record
    predictor: int
    target: MaskedTarget
    rank: int | None
    reciprocal_rank: float
    probability: float
    proposals: tuple[tuple[str, float], ...]

    @property
    def sentence(self) -> str:
        """The text with the word put back."""
        return str(self.record["text"]).replace(MASK, self.record["target"])

    def line(self) -> dict[str, Any]:
        """Return the score as a line of details."""
        domain = {"domain": self.record["domain"]} if "domain" in self.record else {}
        return {"id": self.record.get("id"), **domain, "target": self.record["target"],
                "tokens": self.target.tokens, "rank": self.rank,
                "reciprocal_rank": round(self.reciprocal_rank, _DIGITS),
                "probability": round(self.probability, _DIGITS),
                "proposals": [word for word, _ in self.proposals],
                "probabilities": [round(share, _DIGITS) for _, share in self.proposals]}


class _Ranking(NamedTuple):
    """The last fields of `MaskScore`."""

    rank: int | None
    reciprocal_rank: float
    probability: float
    proposals: tuple[tuple[str, float], ...]


def score_masked_words(records: Iterable[Record], predictors: Sequence[Predictor],
                       config: MrrConfig, reject: Reject = refuse) -> Iterator[MaskScore]:
    """Rank each masked word under each predictor, record by record in input order.

    Every token of the vocabulary is a proposal, pieces of words and special tokens included.
    """
    tokenizers = {predictor.vocabulary: predictor.tokenizer for predictor in predictors}
    lookups = {vocabulary: TargetLookup(tokenizer, config.ignore_case, bool(config.like))
               for vocabulary, tokenizer in tokenizers.items()}

    def find_target(predictor: Predictor, record: Record) -> MaskedTarget:
        masks = record["text"].count(MASK)
        if masks != 1:
            raise RecordError(record.place,
                              f"key 'text': found {masks or 'no'} {MASK}, expected one", record)
        if "target" not in record:
            raise RecordError(record.place, f"key 'target' is missing, expected the word behind "
                                            f"{MASK} (bmtools import curated writes it)", record)
        try:
            target = lookups[predictor.vocabulary].find(record["text"], record["target"])
        except ValueError as error:
            raise RecordError(record.place, f"key 'target': {error}, expected a visible word",
                              record) from error
        masks = len(target.token_ids) if config.multi_token == "joint" and target.splits else 1
        check_length(predictor, record, len(target.masked.input_ids) + masks - 1,
                     "shorten the text around the mask")
        return target

    rank = partial(_rank_targets, predictors, config)
    return score_in_windows(records, predictors, find_target, rank, reject)


def _rank_targets(predictors: Sequence[Predictor], config: MrrConfig, index: int,
                  records: Sequence[Record], targets: Sequence[MaskedTarget]) -> list[MaskScore]:
    """Rank the target word at each mask, single tokens in one pass, several tokens jointly."""
    predictor, policy = predictors[index], config.multi_token
    joint = [number for number, target in enumerate(targets)
             if policy == "joint" and target.splits]
    rankings = dict(zip(joint, _rank_jointly(predictor, [targets[number] for number in joint],
                                             config), strict=True)) if joint else {}
    single = [number for number in range(len(targets)) if number not in rankings]
    correct_ids = [target.token_ids[:1] if policy == "first" and target.splits
                   else target.correct_ids for target in map(targets.__getitem__, single)]
    rank_batch = partial(_rank_batch, predictor, config, correct_ids)
    for part in predictor.predict([targets[number].masked for number in single], rank_batch):
        rankings.update((single[sequence], ranking) for sequence, ranking in part)
    return [MaskScore(record, index, target, *rankings[number])
            for number, (record, target) in enumerate(zip(records, targets, strict=True))]


def _rank_batch(predictor: Predictor, config: MrrConfig, correct_ids: Sequence[tuple[int, ...]],
                batch: MaskLogits) -> list[tuple[int, _Ranking]]:
    """Rank the correct tokens at each mask of a batch; return sequences with their rankings."""
    backend = predictor.tokenizer.backend_tokenizer
    correct = [correct_ids[sequence] for sequence in batch.sequences]
    totals = batch.logits.logsumexp(1)
    best = best_tokens(batch.logits, max(config.top_k, _LEAST_PROPOSALS))
    ranked = []
    for row, (sequence, ids, tokens, rank) in enumerate(zip(
            batch.sequences.tolist(), correct, best, best_ranks(batch.logits, correct),
            strict=True)):
        shares = (batch.logits[row, [*tokens, *ids]] - totals[row]).exp().tolist()
        proposals = tuple((token_text(backend, token), share) for token, share in
                          zip(tokens[:config.top_k], shares, strict=False))
        # The published evaluation takes the lower place of a word proposed in two spellings.
        lowest = max((place for place, token in enumerate(tokens, 1) if token in ids), default=0)
        ranked.append((sequence, _Ranking(rank, _reciprocal_rank(rank, lowest, config),
                                          sum(shares[len(tokens):]), proposals)))
    return ranked


def _rank_jointly(predictor: Predictor, targets: Sequence[MaskedTarget],
                  config: MrrConfig) -> list[_Ranking]:
    """Rank words of several tokens among words of as many."""
    backend = predictor.tokenizer.backend_tokenizer

    def spell(ids: Word) -> str:
        return str(backend.decode(list(ids), skip_special_tokens=False))

    def is_correct(target: MaskedTarget, ids: Word) -> bool:
        return config.caseless and spell(ids).casefold() == spell(target.token_ids).casefold()

    words = rank_words(predictor, targets, max(config.beam_size, config.top_k), is_correct)
    return [_Ranking(word.rank, _reciprocal_rank(word.rank, word.rank or 0, config),
                     math.exp(word.logprob),
                     tuple((spell(ids), math.exp(logprob))
                           for ids, logprob in word.proposals[:config.top_k]))
            for word in words]


def _reciprocal_rank(rank: int | None, lowest: int, config: MrrConfig) -> float:
    """Score a rank.

    Args:
        rank: of the best spelling.
        lowest: rank of the worst spelling among the proposals, for the published evaluation.
        config: proposals that count.
    """
    if rank is None or rank > config.top_k:
        return 0.0
    return round(1 / lowest, 2) if config.like else 1 / rank
