"""Mean reciprocal rank: how high the word behind a mask stands among a model's proposals.

Source: Buonocore et al. 2023, equation 2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.records import MASK, Record
from bmtools.scoring.predictors import Predictor, check_length, windows
from bmtools.scoring.settings import MrrSettings
from bmtools.scoring.signature import short, signature
from bmtools.scoring.targets import Target, Targets, spell

_SHORTEN = "shorten the text around the mask"


@dataclass(frozen=True, slots=True)
class MaskScore:
    """One masked word under one predictor.

    Args:
        record: the sentence.
        predictor: index of the predictor.
        target: the word as the predictor's vocabulary has it.
        rank: place of the word among all tokens, from 1; None where it is no token.
        reciprocal_rank: 1/rank, 0 where the word is not among the proposals.
        proposals: the best tokens, best first.
    """

    record: Record
    predictor: int
    target: Target
    rank: int | None
    reciprocal_rank: float
    proposals: list[str]

    def line(self) -> dict[str, Any]:
        """Say it as a line of details."""
        domain = {"domain": self.record["domain"]} if "domain" in self.record else {}
        return {"id": self.record.get("id"), **domain, "target": self.record["target"],
                "tokens": self.target.tokens, "rank": self.rank,
                "reciprocal_rank": round(self.reciprocal_rank, 6), "proposals": self.proposals}


def score(records: Iterable[Record], predictors: Sequence[Predictor], settings: MrrSettings,
          reject: Reject = refuse) -> Iterator[MaskScore]:
    """Rank each masked word under each predictor, record by record in input order.

    Every token of the vocabulary is a proposal, pieces of words and special tokens included.
    Among equally probable tokens the lower id goes first.
    """
    targets = {predictor.vocabulary: Targets(predictor.tokenizer, settings.ignore_case)
               for predictor in predictors}

    def ask(predictor: Predictor, record: Record) -> Target:
        if "target" not in record:
            raise RecordError(record.place, f"key 'target' is missing, expected the word behind "
                              f"{MASK} (bmtools import curated writes it)", record)
        try:
            target = targets[predictor.vocabulary].find(record["text"], record["target"])
        except ValueError as error:
            raise RecordError(record.place, f"key 'target': {error}, expected a visible word",
                              record) from error
        check_length(predictor, record, len(target.masking.ids), _SHORTEN)
        return target

    for window in windows(records, predictors, ask, reject):
        columns = [_ranked(predictor, [asked[number] for _, asked in window], settings.top)
                   for number, predictor in enumerate(predictors)]
        for row, (record, asked) in enumerate(window):
            for number, column in enumerate(columns):
                yield MaskScore(record, number, asked[number], *column[row])


class _Ranked(NamedTuple):
    rank: int | None
    reciprocal_rank: float
    proposals: list[str]


def _ranked(predictor: Predictor, targets: Sequence[Target], top: int) -> list[_Ranked]:
    """Rank the wanted tokens at each mask, and name what is proposed there."""
    found: dict[int, _Ranked] = {}
    backend = predictor.tokenizer.backend_tokenizer
    for sentences, _, logits in predictor.answers([target.masking for target in targets]):
        ranks = best_ranks(logits, [targets[number].wanted for number in sentences])
        for number, rank, ids in zip(sentences, ranks, best_tokens(logits, top), strict=True):
            reciprocal_rank = 1 / rank if rank is not None and rank <= top else 0.0
            found[number] = _Ranked(rank, reciprocal_rank,
                                    [spell(backend, token) for token in ids])
    return [found[number] for number in range(len(targets))]


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


class Tally:
    """The sums behind a mean reciprocal rank of one predictor."""

    def __init__(self, predictor: Predictor, settings: MrrSettings) -> None:
        self.predictor = predictor
        self.settings = settings
        self._counts: Counter[str] = Counter()
        self._reciprocals = 0.0
        self._domains: Counter[str] = Counter()
        self._domain_reciprocals: defaultdict[str, float] = defaultdict(float)
        # Whole texts, by hash: maskings of one sentence are told from those of another.
        self._sentences: set[int] = set()

    def add(self, score: MaskScore) -> None:
        """Count a masked word; one of several tokens as the settings say."""
        record, target = score.record, score.target
        self._counts["multi_token"] += target.multi_token
        self._counts["unknown"] += target.unknown
        if target.multi_token and self.settings.multi_token == "skip":
            return
        self._reciprocals += score.reciprocal_rank
        self._counts["maskings"] += 1
        self._counts["first"] += score.rank == 1
        self._counts["within_5"] += score.rank is not None and score.rank <= 5
        self._sentences.add(hash(record["text"].replace(MASK, record["target"])))
        if record.get("domain"):
            self._domains[record["domain"]] += 1
            self._domain_reciprocals[record["domain"]] += score.reciprocal_rank

    def line(self) -> dict[str, Any]:
        """Say the score and what it rests on.

        Returns:
            `mrr`: equation 2; `hits_at_1` and `hits_at_5`: shares of maskings whose word stands
            first, or among the first five; `sentences`: distinct texts behind the maskings;
            `multi_token` and `unknown`: words that are no single token, or none at all, of the
            vocabulary; `domains`: the score of each domain that records name.

        Raises:
            DataError: nothing was counted.
        """
        counts = self._counts
        maskings = counts["maskings"]
        if not maskings:
            raise DataError(self._nothing())
        return {
            "model": self.predictor.name,
            "mrr": round(self._reciprocals / maskings, 6),
            "hits_at_1": round(counts["first"] / maskings, 6),
            "hits_at_5": round(counts["within_5"] / maskings, 6),
            "maskings": maskings,
            "sentences": len(self._sentences),
            "multi_token": counts["multi_token"],
            "unknown": counts["unknown"],
            "domains": {name: {"mrr": round(self._domain_reciprocals[name] / count, 6),
                               "count": count} for name, count in self._domains.items()},
            "vocabulary": short(self.predictor.vocabulary),
            "signature": signature(
                "mrr", f"top{self.settings.top}", self.predictor.tokenizer,
                multi_token=self.settings.multi_token, proposals="all", ties="lower-id",
                match="caseless" if self.settings.ignore_case else "exact",
                **self.predictor.kind),
        }

    def _nothing(self) -> str:
        skipped = self._counts["multi_token"]
        if skipped:
            return (f"all {skipped} masked words are of several tokens in {self.predictor.name}; "
                    "--multi-token miss counts them")
        return "no masked words in the input; expected records with text and target"
