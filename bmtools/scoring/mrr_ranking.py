"""Ranks of masked words: how high a model ranks the word at each mask.

Equally probable tokens are ranked by id, the lower one first.

For words with several tokens, a beam search fills the same number of masks. Tokens are chosen from
left to right. Each token depends on the tokens before it, while the tokens after it are masked, so
the probability of a word is a product of conditional ones. Source of the order: Kauf and Ivanova
2023, section 3; of several masks for a word: Jiang et al. 2020 (X-FACTR), section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import MASK, Record
from bmtools.scoring.evaluation import score_in_windows
from bmtools.scoring.mrr_targets import MaskedTarget, TargetLookup, token_text
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor, check_length
from bmtools.scoring.settings import MrrConfig
from bmtools.statistics.lines import DIGITS, Line, rounded

Word = tuple[int, ...]
Ranking = tuple[int | None, float, float, tuple[tuple[str, float], ...]]
"""The last fields of `MaskScore`."""
BEAM_SIZE = 20
"""Number of prefixes kept at each step for words with several tokens; other words have no rank."""
_LEAST_PROPOSALS = 5  # minimum number to look up
_HINT = "split it into sentences first (bmtools import jsonl --sentences)"


@dataclass(frozen=True, slots=True)
class MaskScore:
    """One masked word under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        target: the word in the predictor's vocabulary.
        rank: rank of the word among all proposals, from 1; None if it cannot be proposed or is
            outside the beam.
        reciprocal_rank: 1/rank, 0 if the word is not among the proposals that count; NaN if the
            word is left out.
        probability: probability of the word, in all spellings that count.
        proposals: the best tokens with their probabilities, best first; for joint ranking, words
            with the same number of tokens as the word.
    """

    record: Record
    predictor: int
    target: MaskedTarget
    rank: int | None
    reciprocal_rank: float
    probability: float
    proposals: tuple[tuple[str, float], ...]

    def line(self) -> Line:
        """Return the score as a line of details."""
        domain = {"domain": self.record["domain"]} if "domain" in self.record else {}
        return {"id": self.record.get("id"), **domain, "target": self.record["target"],
                # A word inside a larger token counts as two tokens.
                "tokens": len(self.target.token_ids) or 2, "rank": self.rank,
                "reciprocal_rank": rounded(self.reciprocal_rank),
                "probability": round(self.probability, DIGITS),
                "proposals": [word for word, _ in self.proposals],
                "probabilities": [round(share, DIGITS) for _, share in self.proposals]}


def score_masked_words(records: Iterable[Record], predictors: Sequence[Predictor],
                       config: MrrConfig, reject: Reject = refuse) -> Iterator[MaskScore]:
    """Rank each masked word under each predictor, record by record in input order.

    Every token of the vocabulary is a proposal, including pieces of words and special tokens.
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
            raise RecordError(record.place, f"key 'target' is missing, expected the word hidden by "
                                            f"{MASK} (bmtools import curated writes it)", record)
        try:
            target = lookups[predictor.vocabulary].find(record["text"], record["target"])
        except ValueError as error:
            raise RecordError(record.place, f"key 'target': {error}, expected a visible word",
                              record) from error
        masks = len(target.token_ids) if config.multi_token == "joint" and target.splits else 1
        check_length(predictor, record, len(target.masked.input_ids) + masks - 1, _HINT)
        return target

    rank = partial(_rank_targets, predictors, config)
    return score_in_windows(records, predictors, find_target, rank, reject)


def check_text(predictors: Sequence[Predictor], record: Record) -> None:
    """Raise an error for a text that is too long for a predictor, before its words are masked.

    Raises:
        RecordError: names both lengths and a fix.
    """
    for predictor in predictors:
        tokens = len(predictor.tokenizer.backend_tokenizer.encode(record["text"]).ids)
        check_length(predictor, record, tokens, _HINT)


def _rank_targets(predictors: Sequence[Predictor], config: MrrConfig, index: int,
                  records: Sequence[Record], targets: Sequence[MaskedTarget]) -> list[MaskScore]:
    """Rank the target word at each mask; single tokens in one pass, several tokens jointly."""
    predictor, policy = predictors[index], config.multi_token
    joint = [number for number, target in enumerate(targets) if policy == "joint" and target.splits]
    rankings = dict(zip(joint, _rank_jointly(predictor, [targets[number] for number in joint],
                                             config), strict=True)) if joint else {}
    single = [number for number in range(len(targets)) if number not in rankings]
    correct_ids = [target.token_ids[:1] if policy == "first" and target.splits
                   else target.correct_ids for target in map(targets.__getitem__, single)]
    rank_batch = partial(_rank_batch, predictor, config, correct_ids)
    for part in predictor.predict([targets[number].masked for number in single], rank_batch):
        rankings.update((single[sequence], ranking) for sequence, ranking in part)
    if policy == "skip":
        for number, target in enumerate(targets):
            if target.multi_token:
                rank, _, probability, proposals = rankings[number]
                rankings[number] = rank, math.nan, probability, proposals
    return [MaskScore(record, index, target, *rankings[number])
            for number, (record, target) in enumerate(zip(records, targets, strict=True))]


def _rank_batch(predictor: Predictor, config: MrrConfig, correct_ids: Sequence[tuple[int, ...]],
                batch: MaskLogits) -> list[tuple[int, Ranking]]:
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
        reciprocal = 1 / rank if rank and rank <= config.top_k else 0.0
        if config.like and reciprocal:
            # The published evaluation uses the lower rank of a word proposed in two spellings.
            reciprocal = round(1 / max(place for place, token in enumerate(tokens, 1)
                                       if token in ids), 2)
        ranked.append((sequence, (rank, reciprocal, sum(shares[len(tokens):]), proposals)))
    return ranked


def _rank_jointly(predictor: Predictor, targets: Sequence[MaskedTarget],
                  config: MrrConfig) -> list[Ranking]:
    """Rank words with several tokens among the words that a model proposes instead."""
    searches = [_BeamSearch(target) for target in targets]
    width = max(BEAM_SIZE, config.top_k)
    for step in range(max(len(target.token_ids) for target in targets)):
        _extend(predictor, [search for search in searches if step < len(search.target.token_ids)],
                step, width)
    backend = predictor.tokenizer.backend_tokenizer
    rankings: list[Ranking] = []
    for search in searches:
        rank = search.rank(width, backend if config.ignore_case else None)
        rankings.append((
            rank, 1 / rank if rank and rank <= config.top_k else 0.0, math.exp(search.logprob),
            tuple((_spell(backend, ids), math.exp(logprob))
                  for logprob, ids in search.beam[:config.top_k])))
    return rankings


def best_ranks(logits: Tensor, correct_ids: Sequence[Sequence[int]]) -> list[int | None]:
    """Rank tokens by logit, and equal ones by id; return the best rank of the correct ones.

    Args:
        logits: (batch, vocabulary).
        correct_ids: correct ids at each mask; may be empty.

    Returns:
        ranks from 1; None for masks without a correct id.
    """
    most = max(map(len, correct_ids), default=0)
    if not most:
        return [None] * len(correct_ids)
    padded = [[*ids, *[(ids or (0,))[0]] * (most - len(ids))] for ids in map(tuple, correct_ids)]
    ids = torch.tensor(padded, device=logits.device)
    token_ids = torch.arange(logits.shape[1], device=logits.device)
    ranks = []
    for column in ids.split(1, dim=1):
        value = logits.gather(1, column)
        ahead = (logits > value) | ((logits == value) & (token_ids < column))
        ranks.append(1 + ahead.sum(1))
    best = torch.stack(ranks).amin(0).tolist()
    return [rank if correct else None for rank, correct in zip(best, correct_ids, strict=True)]


def best_tokens(logits: Tensor, count: int) -> list[list[int]]:
    """List the ids of the best tokens of (batch, vocabulary); equal ones are ordered by id.

    `topk` does not define which of several equal tokens it returns.
    """
    count = min(count, logits.shape[1])
    lowest = logits.topk(count).values[:, -1:]
    rows, ids = (logits >= lowest).nonzero(as_tuple=True)
    order = np.lexsort((ids.cpu(), -logits[rows, ids].cpu().double().numpy(), rows.cpu()))
    best: list[list[int]] = [[] for _ in range(len(logits))]
    for row, token in zip(rows.cpu().numpy()[order].tolist(), ids.cpu().numpy()[order].tolist(),
                          strict=True):
        if len(best[row]) < count:
            best[row].append(token)
    return best


@dataclass(slots=True)
class _BeamSearch:
    """A beam search for one target: the best prefixes and their log probabilities, best first."""

    target: MaskedTarget
    beam: list[tuple[float, Word]] = field(default_factory=lambda: [(0.0, ())])
    logprob: float = 0.0

    def masked(self, prefix: Word) -> MaskedCopies:
        """Insert a prefix and mask the rest of the word."""
        word, ids = self.target.token_ids, self.target.masked.input_ids
        position = int(self.target.masked.spans[0, 0])
        filled = [*ids[:position], *prefix, *word[len(prefix):], *ids[position + 1:]]
        span = np.array([[position + len(prefix), position + len(word)]])
        return MaskedCopies(np.array(filled, dtype=np.int64), span)

    def rank(self, width: int, caseless: Tokenizer | None) -> int | None:
        """Rank the word among the words in the beam, also if the search has dropped it.

        Args:
            width: width of the beam.
            caseless: tokenizer used to treat words that differ only in case as equal.

        Returns:
            the rank, from 1; None if a full beam of proposals is better.
        """
        word = self.target.token_ids
        right = _spell(caseless, word).casefold() if caseless else None
        others = [(logprob, ids) for logprob, ids in self.beam if ids != word]
        ranked = sorted([*others, (self.logprob, word)], key=_best_first)
        rank = next(number for number, (_, ids) in enumerate(ranked, 1) if ids == word
                    or (caseless and _spell(caseless, ids).casefold() == right))
        # If a full beam is better than a word, words outside the beam may also be better.
        known = rank <= len(others) or len(self.beam) < width or len(others) < len(self.beam)
        return rank if known else None


def _extend(predictor: Predictor, searches: Sequence[_BeamSearch], step: int,
            beam_size: int) -> None:
    """Extend all prefixes by a token: prefixes in the beams, and the first tokens of the words."""
    inputs = [search.masked(prefix) for search in searches for prefix in
              [*(ids for _, ids in search.beam), search.target.token_ids[:step]]]
    own_ids = np.array([search.target.token_ids[step] for search in searches
                        for _ in range(len(search.beam) + 1)])

    def best_next(batch: MaskLogits) -> list[tuple[int, float, list[tuple[int, float]]]]:
        logprobs = batch.logits.log_softmax(1)
        ids = torch.from_numpy(own_ids[batch.sequences])[:, None].to(logprobs.device)
        tokens = best_tokens(logprobs, beam_size)
        return [(sequence, own, list(zip(best, logprobs[row, best].tolist(), strict=True)))
                for row, (sequence, own, best) in enumerate(zip(
                    batch.sequences.tolist(), logprobs.gather(1, ids)[:, 0].tolist(), tokens,
                    strict=True))]

    found = {sequence: (own, best) for part in predictor.predict(inputs, best_next)
             for sequence, own, best in part}
    first = 0
    for search in searches:
        last = first + len(search.beam)
        longer = [(logprob + more, (*ids, token))
                  for number, (logprob, ids) in enumerate(search.beam, first)
                  for token, more in found[number][1]]
        search.beam = sorted(longer, key=_best_first)[:beam_size]
        search.logprob += found[last][0]
        first = last + 1


def _best_first(candidate: tuple[float, Word]) -> tuple[float, Word]:
    """Order by probability; equally probable words by their ids."""
    return -candidate[0], candidate[1]


def _spell(backend: Tokenizer, ids: Word) -> str:
    return str(backend.decode(list(ids), skip_special_tokens=False))
