"""Words of several tokens behind as many masks: what a model would write there, and how the right
word compares.

Tokens are chosen left to right, each given those before it while the rest stays hidden, so that
the probability of a word is a product of conditional ones. Source of the order: Kauf and Ivanova
2023, section 3; of several masks for a word: Jiang et al. 2020 (X-FACTR), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from bmtools.scoring.mrr_targets import MaskedTarget
from bmtools.scoring.predictor import MaskedCopies, MaskLogits, Predictor

Word = tuple[int, ...]
Beam = list[tuple[float, Word]]


def best_ranks(logits: Tensor, wanted: Sequence[Sequence[int]]) -> list[int | None]:
    """Rank tokens by logit, equal ones by id, and give the best rank among those wanted.

    Args:
        logits: (batch, vocabulary).
        wanted: ids of the right answers for each row; none where there is no right answer.

    Returns:
        ranks from 1; None where nothing is wanted.
    """
    most = max(map(len, wanted), default=0)
    if not most:
        return [None] * len(wanted)
    filled = [[*ids, *[(ids or (0,))[0]] * (most - len(ids))] for ids in map(tuple, wanted)]
    ids = torch.tensor(filled, device=logits.device)
    numbers = torch.arange(logits.shape[1], device=logits.device)
    ranks = []
    for column in ids.split(1, dim=1):
        value = logits.gather(1, column)
        ahead = (logits > value) | ((logits == value) & (numbers < column))
        ranks.append(1 + ahead.sum(1))
    best = torch.stack(ranks).amin(0).tolist()
    return [rank if right else None for rank, right in zip(best, wanted, strict=True)]


def best_tokens(logits: Tensor, count: int) -> list[list[int]]:
    """Name the best tokens, (batch, vocabulary) to ids, equal ones in the order of their ids.

    `topk` alone leaves open which of several equal tokens it takes.
    """
    count = min(count, logits.shape[1])
    least = logits.topk(count).values[:, -1:]
    rows, ids = (logits >= least).nonzero(as_tuple=True)
    order = np.lexsort((ids.cpu(), -logits[rows, ids].cpu().double().numpy(), rows.cpu()))
    best: list[list[int]] = [[] for _ in range(len(logits))]
    for row, token in zip(rows.cpu().numpy()[order].tolist(), ids.cpu().numpy()[order].tolist(),
                          strict=True):
        if len(best[row]) < count:
            best[row].append(token)
    return best


@dataclass(frozen=True, slots=True)
class RankedWord:
    """A word of several tokens, and what is proposed in its place.

    Args:
        rank: from 1, among proposals of as many tokens; None where as many surpass it as the beam
            holds.
        logprob: of the word, in nats.
        proposals: ids of the best words and their log probabilities, best first.
    """

    rank: int | None
    logprob: float
    proposals: list[tuple[Word, float]]


@dataclass(slots=True)
class _Search:
    """A word looked for: beginnings that are followed, best first, and its own."""

    target: MaskedTarget
    beam: Beam = field(default_factory=lambda: [(0.0, ())])
    logprob: float = 0.0

    def prefixes(self, step: int) -> list[Word]:
        """Beginnings to go on from, the word's own last."""
        return [*(ids for _, ids in self.beam), self.target.pieces[:step]]

    def masking(self, prefix: Word) -> MaskedCopies:
        """Lay out the sentence with a beginning written down and the rest of the word hidden."""
        place, pieces, ids = self.target.place, self.target.pieces, self.target.masking.ids
        filled = [*ids[:place], *prefix, *pieces[len(prefix):], *ids[place + 1:]]
        span = np.array([[place + len(prefix), place + len(pieces)]])
        return MaskedCopies(np.array(filled, dtype=np.int64), span)


def rank_words(predictor: Predictor, targets: Sequence[MaskedTarget], width: int,
               is_right: Callable[[MaskedTarget, Word], bool]) -> list[RankedWord]:
    """Rank words of several tokens among what a model would write in their place.

    Args:
        predictor: asked once for each beginning and token.
        targets: words with known pieces.
        width: beginnings followed at each step.
        is_right: tells whether other ids spell the same word.
    """
    searches = [_Search(target) for target in targets]
    for step in range(max((len(target.pieces) for target in targets), default=0)):
        _advance(predictor, [one for one in searches if step < len(one.target.pieces)], step,
                 width)
    return [_found(one, width, partial(is_right, one.target)) for one in searches]


def _advance(predictor: Predictor, searches: Sequence[_Search], step: int, width: int) -> None:
    """Make all beginnings longer by a token."""
    asked = [(one, prefix) for one in searches for prefix in one.prefixes(step)]
    wanted = np.array([one.target.pieces[step] for one, _ in asked])
    answers: dict[int, tuple[float, list[tuple[int, float]]]] = {}
    digest = partial(_next_tokens, wanted=wanted, width=width)
    for found in predictor.answers([one.masking(prefix) for one, prefix in asked], digest):
        answers.update(found)
    number = 0
    for one in searches:
        own = number + len(one.beam)
        longer = [(logprob + more, (*ids, token))
                  for place, (logprob, ids) in enumerate(one.beam, number)
                  for token, more in answers[place][1]]
        one.beam = sorted(longer, key=_by_merit)[:width]
        one.logprob += answers[own][0]
        number = own + 1


def _next_tokens(asked: MaskLogits, wanted: np.ndarray, width: int,
                 ) -> list[tuple[int, tuple[float, list[tuple[int, float]]]]]:
    """Log probability of each wanted token, and the best tokens with theirs."""
    logprobs = asked.logits.log_softmax(1)
    ids = torch.from_numpy(wanted[asked.sentences])
    own = logprobs.gather(1, ids[:, None].to(logprobs.device))[:, 0].tolist()
    found = []
    for row, (number, tokens) in enumerate(zip(asked.sentences.tolist(),
                                               best_tokens(logprobs, width), strict=True)):
        values = logprobs[row, tokens].tolist()
        found.append((number, (own[row], list(zip(tokens, values, strict=True)))))
    return found


def _found(one: _Search, width: int, is_right: Callable[[Word], bool]) -> RankedWord:
    """Tell where the word stands among the best; its own score holds where it was let go of."""
    pieces = one.target.pieces
    others = [(logprob, ids) for logprob, ids in one.beam if ids != pieces]
    ranked = sorted([*others, (one.logprob, pieces)], key=_by_merit)
    rank = next(place for place, (_, ids) in enumerate(ranked, 1)
                if ids == pieces or is_right(ids))
    # Whoever is surpassed by all that the beam holds may be surpassed by more.
    known = rank <= len(others) or len(one.beam) < width
    in_beam = any(ids == pieces for _, ids in one.beam)
    return RankedWord(rank if known or in_beam else None, one.logprob,
                      [(ids, logprob) for logprob, ids in one.beam])


def _by_merit(candidate: tuple[float, Word]) -> tuple[float, Word]:
    """Order by probability; equally probable words by their ids."""
    return -candidate[0], candidate[1]
