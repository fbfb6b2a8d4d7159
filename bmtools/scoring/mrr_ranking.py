"""Ranks of words among a model's proposals, of single tokens and of several tokens jointly.

Equally probable tokens are ranked by id, the lower one first.

Words of several tokens are proposed behind as many masks by a beam search: tokens are chosen left
to right, each given those before it while the rest stays masked, so that the probability of a word
is a product of conditional ones. Source of the order: Kauf and Ivanova 2023, section 3; of several
masks for a word: Jiang et al. 2020 (X-FACTR), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bmtools.scoring.mrr_targets import MaskedTarget
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor

Word = tuple[int, ...]


def best_ranks(logits: Tensor, correct_ids: Sequence[Sequence[int]]) -> list[int | None]:
    """Rank tokens by logit, equal ones by id, and return the best rank of the correct ones.

    Args:
        logits: (batch, vocabulary).
        correct_ids: right answers at each mask; may be none.

    Returns:
        ranks from 1; None where there is no right answer.
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
    """List the ids of the best tokens of (batch, vocabulary), equal ones in order of their ids.

    `topk` alone leaves open which of several equal tokens it takes.
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


@dataclass(frozen=True, slots=True)
class RankedWord:
    """A word of several tokens among the words proposed in its place.

    Args:
        rank: from 1, among proposals of as many tokens; None where a full beam of proposals
            surpasses it.
        logprob: of the word, in nats.
        proposals: ids of the best words and their log probabilities, best first.
    """

    rank: int | None
    logprob: float
    proposals: list[tuple[Word, float]]


@dataclass(slots=True)
class _BeamSearch:
    """A beam search for one target: the best prefixes and their log probabilities, best first."""

    target: MaskedTarget
    beam: list[tuple[float, Word]] = field(default_factory=lambda: [(0.0, ())])
    logprob: float = 0.0

    def masked(self, prefix: Word) -> MaskedCopies:
        """Fill in a prefix and mask the rest of the word."""
        position, word = self.target.position, self.target.token_ids
        ids = self.target.masked.input_ids
        filled = [*ids[:position], *prefix, *word[len(prefix):], *ids[position + 1:]]
        span = np.array([[position + len(prefix), position + len(word)]])
        return MaskedCopies(np.array(filled, dtype=np.int64), span)

    def rank(self, width: int, is_correct: Callable[[MaskedTarget, Word], bool]) -> RankedWord:
        """Rank the word among those in the beam; its own probability counts if it was dropped."""
        word = self.target.token_ids
        others = [(logprob, ids) for logprob, ids in self.beam if ids != word]
        ranked = sorted([*others, (self.logprob, word)], key=_best_first)
        rank = next(number for number, (_, ids) in enumerate(ranked, 1)
                    if ids == word or is_correct(self.target, ids))
        # A word that all of a full beam surpass may be surpassed by more.
        known = rank <= len(others) or len(self.beam) < width
        return RankedWord(rank if known or len(others) < len(self.beam) else None, self.logprob,
                          [(ids, logprob) for logprob, ids in self.beam])


def rank_words(predictor: Predictor, targets: Sequence[MaskedTarget], beam_size: int,
               is_correct: Callable[[MaskedTarget, Word], bool]) -> list[RankedWord]:
    """Rank words of several tokens among the words that a model proposes in their place.

    Args:
        predictor: predicts once for each prefix and token.
        targets: words with known tokens.
        beam_size: prefixes kept at each step.
        is_correct: tells whether other ids spell the same word.
    """
    searches = [_BeamSearch(target) for target in targets]
    for step in range(max((len(target.token_ids) for target in targets), default=0)):
        _extend(predictor, [search for search in searches if step < len(search.target.token_ids)],
                step, beam_size)
    return [search.rank(beam_size, is_correct) for search in searches]


def _extend(predictor: Predictor, searches: Sequence[_BeamSearch], step: int,
            beam_size: int) -> None:
    """Extend all prefixes by a token: those in the beams, and the first tokens of the words."""
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
