"""Linear-chain conditional random fields over the words of a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

_ILLEGAL = -1e4
_INITIAL = 0.1


class Crf(nn.Module):
    """Conditional random fields over the same words, one a group of labels.

    Sequences are at the beginning of their rows, and each has at least one word; results of rows
    without any mean nothing. What a scheme allows at the border of a window is learned, since
    entities may go on there.

    Source: Lafferty et al. 2001; weights are drawn as pytorch-crf's.

    Args:
        groups: number of fields.
        allowed: (labels, labels) bool, which label may follow which.
    """

    penalties: Tensor

    def __init__(self, groups: int, allowed: Tensor) -> None:
        super().__init__()
        labels = len(allowed)
        self.start = nn.Parameter(torch.empty(groups, labels))
        self.end = nn.Parameter(torch.empty(groups, labels))
        self.transitions = nn.Parameter(torch.empty(groups, labels, labels))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -_INITIAL, _INITIAL)
        self.register_buffer("penalties", _ILLEGAL * ~allowed, persistent=False)

    def log_likelihood(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Compute the log likelihood of labels in nats, (batch, groups).

        Args:
            emissions: (batch, words, groups, labels) float32.
            labels: (batch, words, groups) int64; any label beyond a sequence's end.
            mask: (batch, words) bool, True on words.
        """
        scores = self.transitions + self.penalties
        numbers = torch.arange(len(self.start), device=labels.device)
        path = emissions.gather(3, labels[..., None])[..., 0]
        path[:, 1:] += scores[numbers, labels[:, :-1], labels[:, 1:]]
        last = labels.gather(1, _last(mask, labels))[:, 0]
        total = (path * mask[..., None]).sum(dim=1) + self.start[numbers, labels[:, 0]] \
            + self.end[numbers, last]
        *_, alphas = self._forward(emissions, mask, torch.logsumexp)
        return total - (alphas + self.end).logsumexp(dim=-1)

    def log_marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Compute the log probability of each label of each word, (batch, words, groups, labels).

        Forward and backward scores of all words are in memory.
        """
        alphas = torch.stack([*self._forward(emissions, mask, torch.logsumexp)], dim=1)
        scores = self.transitions + self.penalties
        beta = self.end.expand_as(alphas[:, 0])
        betas = [beta]
        for word in range(emissions.shape[1] - 1, 0, -1):
            step = (scores + (beta + emissions[:, word])[..., None, :]).logsumexp(dim=-1)
            beta = torch.where(mask[:, word, None, None], step, beta)
            betas.append(beta)
        return (alphas + torch.stack(betas[::-1], dim=1)).log_softmax(dim=-1)

    def viterbi(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Find the likeliest labels, (batch, words, groups); 0 beyond a sequence's end."""
        pointers: list[Tensor] = []

        def maximum(values: Tensor, dim: int) -> Tensor:
            best, argbest = values.max(dim=dim)
            pointers.append(argbest)
            return best

        *_, alphas = self._forward(emissions, mask, maximum)
        best = (alphas + self.end).argmax(dim=-1)
        path = [best]
        for word in range(emissions.shape[1] - 1, 0, -1):
            before = pointers[word - 1].gather(2, best[..., None])[..., 0]
            best = torch.where(mask[:, word, None], before, best)
            path.append(best)
        return torch.stack(path[::-1], dim=1) * mask[..., None]

    def _forward(self, emissions: Tensor, mask: Tensor,
                 reduce: Callable[..., Tensor]) -> Iterator[Tensor]:
        """Yield the scores of all paths to each word, (batch, groups, labels), reduced."""
        scores = self.transitions + self.penalties
        alphas = self.start + emissions[:, 0]
        yield alphas
        for word in range(1, emissions.shape[1]):
            step = reduce(alphas[..., None] + scores, dim=-2) + emissions[:, word]
            alphas = torch.where(mask[:, word, None, None], step, alphas)
            yield alphas


def _last(mask: Tensor, labels: Tensor) -> Tensor:
    """Number the last word of each sequence, (batch, 1, groups)."""
    last = (mask.sum(dim=1) - 1).clamp(min=0)
    return last[:, None, None].expand(-1, 1, labels.shape[2])


def pack(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Find the marked positions of each row, moved to its beginning.

    Args:
        mask: (batch, positions) bool.

    Returns:
        (batch, most marked ones of a row) int64, positions, and where they are marked, bool; one
        column at least.
    """
    counts = mask.sum(dim=1)
    width = max([1, *counts.tolist()])
    order = (~mask).int().argsort(dim=1, stable=True)[:, :width]
    return order, torch.arange(width, device=mask.device) < counts[:, None]
