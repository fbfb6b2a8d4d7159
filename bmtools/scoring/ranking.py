"""Ranks of tokens by their logits; of equal ones the lower id goes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


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
