"""Correlations of weighted items."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_RELATIVE_ERROR = 1e-13  # variance below this share of the squares is rounding


def pearson(gold: ArrayLike, predicted: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Compute Pearson's r of weighted items, a value for each row of weights.

    Args:
        gold: (items,) or (draws, items).
        predicted: likewise.
        weights: (draws, items), 0 or more, such as how often a resample has an item.

    Returns:
        (draws,); not a number where a side is constant or there are no items.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        total = weights.sum(axis=1, keepdims=True)
        sides = [np.broadcast_to(np.asarray(side, float), weights.shape)
                 for side in (gold, predicted)]
        first, second = (side - (weights * side).sum(axis=1, keepdims=True) / total
                         for side in sides)
        squares = [(weights * side**2).sum(axis=1) for side in (first, second)]
        r = (weights * first * second).sum(axis=1) / np.sqrt(squares[0] * squares[1])
        constant = np.any([square <= _RELATIVE_ERROR * (weights * side**2).sum(axis=1)
                           for square, side in zip(squares, sides, strict=True)], axis=0)
        return np.where(constant, np.nan, np.clip(r, -1, 1))


def spearman(gold: ArrayLike, predicted: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho of weighted items: Pearson's r of their ranks, ties at their mean.

    Args:
        gold: (items,).
        predicted: (items,).
        weights: (draws, items) whole numbers; an item of weight 2 counts as two.
    """
    return pearson(_ranks(gold, weights), _ranks(predicted, weights), weights)


def _ranks(values: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Rank items among those that the weights repeat, (draws, items); equal ones share a rank."""
    scores = np.asarray(values, float)
    if not len(scores):
        return weights
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(scores[order]) != 0])
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    groups = np.empty(len(scores), dtype=int)
    groups[order] = np.repeat(np.arange(len(starts)), np.diff([*starts, len(scores)]))
    return ranks[:, groups]
