"""Mean reciprocal rank: how high the word behind a mask stands among a model's proposals.

Source: Buonocore et al. 2023, equation 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from bmtools.errors import RecordError, Reject, refuse
from bmtools.records import MASK, Record
from bmtools.scoring import mrr_ranking as joint
from bmtools.scoring.distributed import WindowResult, asked_of_all, score_in_windows
from bmtools.scoring.mrr_ranking import best_ranks, best_tokens
from bmtools.scoring.mrr_targets import MaskedTarget, TargetLookup, spell
from bmtools.scoring.predictor import MaskLogits, Predictor, check_length
from bmtools.scoring.settings import MrrConfig

_SHORTEN = "shorten the text around the mask"
_LEAST_PROPOSALS = 5  # named in details, however few count


@dataclass(frozen=True, slots=True)
class MaskScore:
    """One masked word under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        target: the word as the predictor's vocabulary has it.
        rank: place of the word among all proposals, from 1; None where it cannot be one, or lies
            beyond a beam.
        reciprocal_rank: 1/rank, 0 where the word is not among the proposals looked at.
        probability: of the word, in all spellings that count.
        proposals: the best tokens (words of as many tokens where the target is judged jointly)
            with their probabilities, best first.
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
        """Say it as a line of details."""
        domain = {"domain": self.record["domain"]} if "domain" in self.record else {}
        return {"id": self.record.get("id"), **domain, "target": self.record["target"],
                "tokens": self.target.tokens, "rank": self.rank,
                "reciprocal_rank": round(self.reciprocal_rank, 6),
                "probability": round(self.probability, 6),
                "proposals": [word for word, _ in self.proposals],
                "probabilities": [round(share, 6) for _, share in self.proposals]}


def score_masked_words(records: Iterable[Record], predictors: Sequence[Predictor],
                       settings: MrrConfig,
                       reject: Reject = refuse) -> Iterator[MaskScore]:
    """Rank each masked word under each predictor, record by record in input order.

    Every token of the vocabulary is a proposal, pieces of words and special tokens included.
    Among equally probable tokens the lower id goes first.
    """
    vocabularies = {predictor.vocabulary: predictor.tokenizer for predictor in predictors}
    targets = {name: TargetLookup(tokenizer, settings.ignore_case, bool(settings.like))
               for name, tokenizer in vocabularies.items()}
    work = partial(_score_window, predictors=predictors, settings=settings, targets=targets)
    return score_in_windows(records, work, reject)


def _score_window(records: list[Record], predictors: Sequence[Predictor], settings: MrrConfig,
                  targets: dict[str, TargetLookup]) -> WindowResult[MaskScore]:
    asked, refused = asked_of_all(records, predictors,
                                  partial(_ask, settings=settings, targets=targets))
    columns = [_ranked(predictor, [questions[number] for _, questions in asked], settings)
               for number, predictor in enumerate(predictors)]
    return WindowResult([MaskScore(record, number, target, *columns[number][row])
                         for row, (record, questions) in enumerate(asked)
                         for number, target in enumerate(questions)], refused)


def _ask(predictor: Predictor, record: Record, settings: MrrConfig,
         targets: dict[str, TargetLookup]) -> MaskedTarget:
    masks = record["text"].count(MASK)
    if masks != 1:
        raise RecordError(record.place, f"key 'text': found {masks or 'no'} {MASK}, expected one",
                          record)
    if "target" not in record:
        raise RecordError(record.place, f"key 'target' is missing, expected the word behind "
                                        f"{MASK} (bmtools import curated writes it)", record)
    try:
        target = targets[predictor.vocabulary].find(record["text"], record["target"])
    except ValueError as error:
        raise RecordError(record.place, f"key 'target': {error}, expected a visible word",
                          record) from error
    more = len(target.pieces) - 1 if _is_joint(target, settings) else 0
    check_length(predictor, record, len(target.masking.ids) + more, _SHORTEN)
    return target


class _RankedTarget(NamedTuple):
    rank: int | None
    reciprocal_rank: float
    probability: float
    proposals: tuple[tuple[str, float], ...]


def _is_joint(target: MaskedTarget, settings: MrrConfig) -> bool:
    return settings.multi_token == "joint" and not target.wanted and len(target.pieces) > 1


def _ranked(predictor: Predictor, targets: Sequence[MaskedTarget],
            settings: MrrConfig) -> list[_RankedTarget]:
    """Rank the wanted words at each mask, and name what is proposed there."""
    found: dict[int, _RankedTarget] = {}
    several = [number for number, target in enumerate(targets) if _is_joint(target, settings)]
    found.update(zip(several, _ranked_jointly(
        predictor, [targets[number] for number in several], settings), strict=True))
    single = [number for number in range(len(targets)) if number not in found]
    wanted = [_wanted(targets[number], settings) for number in single]
    digest = partial(_rank_tokens, wanted=wanted, settings=settings,
                     name=partial(spell, predictor.tokenizer.backend_tokenizer))
    for part in predictor.answers([targets[number].masking for number in single], digest):
        found.update((single[number], ranked) for number, ranked in part)
    return [found[number] for number in range(len(targets))]


def _wanted(target: MaskedTarget, settings: MrrConfig) -> tuple[int, ...]:
    """Say which tokens are right at a single mask."""
    if settings.multi_token == "first" and not target.wanted:
        return target.pieces[:1] if len(target.pieces) > 1 else ()
    return target.wanted


def _rank_tokens(asked: MaskLogits, wanted: Sequence[tuple[int, ...]], settings: MrrConfig,
                 name: Callable[[int], str]) -> list[tuple[int, _RankedTarget]]:
    """Rank the tokens wanted at each mask of a batch."""
    right = [wanted[number] for number in asked.sentences]
    sums = asked.logits.logsumexp(1)
    best = best_tokens(asked.logits, max(settings.top, _LEAST_PROPOSALS))
    found = []
    for row, (number, ids, rank) in enumerate(zip(asked.sentences.tolist(), right,
                                                  best_ranks(asked.logits, right), strict=True)):
        shares = (asked.logits[row, [*best[row], *ids]] - sums[row]).exp().tolist()
        proposals = tuple((name(token), share) for token, share in
                          zip(best[row], shares, strict=False))[:settings.top]
        last = max((place for place, token in enumerate(best[row], 1) if token in ids), default=0)
        found.append((number, _RankedTarget(rank, _reciprocal(rank, last, settings),
                                            sum(shares[len(best[row]):]), proposals)))
    return found


def _reciprocal(rank: int | None, last: int, settings: MrrConfig) -> float:
    """Score a rank.

    Args:
        rank: of the best spelling.
        last: place of the worst spelling among those proposed, which the published evaluation
            takes; 0 where none is.
    """
    if rank is None or rank > settings.top:
        return 0.0
    return round(1 / last, 2) if settings.like else 1 / rank


def _ranked_jointly(predictor: Predictor, targets: Sequence[MaskedTarget],
                    settings: MrrConfig) -> list[_RankedTarget]:
    """Rank words of several tokens among words of as many."""
    backend = predictor.tokenizer.backend_tokenizer

    def spelled(ids: Sequence[int]) -> str:
        return str(backend.decode(list(ids), skip_special_tokens=False))

    def is_right(target: MaskedTarget, ids: tuple[int, ...]) -> bool:
        return settings.caseless \
            and spelled(ids).casefold() == spelled(target.pieces).casefold()

    width = max(settings.beam, settings.top)
    return [_RankedTarget(one.rank, _reciprocal(one.rank, one.rank or 0, settings),
                          math.exp(one.logprob),
                          tuple((spelled(ids), math.exp(logprob))
                                for ids, logprob in one.proposals[:settings.top]))
            for one in joint.rank_words(predictor, targets, width, is_right)]
