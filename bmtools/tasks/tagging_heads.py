"""Heads of tagging beyond one linear layer: hidden layers, an LSTM, conditional random fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.heads import Head, module_of
from bmtools.tasks.settings import NerConfig
from bmtools.tasks.tagging import SCHEMES, can_follow, group_labels

_ILLEGAL = -1e4
_INITIAL = 0.1


class TaggingHead(Head):
    """Hidden layers and an output layer, perhaps with conditional random fields over its logits.

    Dropout follows each hidden layer, and the last layer of an LSTM.

    Attributes:
        crf: fields over the words' logits, one a type where types overlap; None without any.

    Args:
        config: of the task.
        inputs: width of the encoder's states.
        outputs: number of labels.
    """

    def __init__(self, config: NerConfig, inputs: int, outputs: int) -> None:
        super().__init__()
        self._dropout = config.head_dropout  # no nn.Dropout: the loop sets those to the model's
        widths = [inputs, *[config.head_size] * config.head_layers]
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths)) \
            if config.head == "mlp" else None
        self.lstm = nn.LSTM(inputs, config.head_size // 2, config.head_layers, batch_first=True,
                            bidirectional=True,
                            dropout=self._dropout if config.head_layers > 1 else 0.0) \
            if config.head == "bilstm" else None
        self.output = nn.Linear(inputs if config.head == "linear" else config.head_size, outputs)
        self.crf: Crf | None = None
        if config.crf:
            prefixes = len(SCHEMES[config.scheme])
            types = outputs // (prefixes + 1) if config.overlapping else (outputs - 1) // prefixes
            groups = group_labels(config.scheme, [str(number) for number in range(types)],
                                  config.overlapping)
            self.crf = Crf(len(groups), torch.tensor(
                [[can_follow(config.scheme, tag, following) for following in groups[0]]
                 for tag in groups[0]]))

    def forward(self, states: Tensor) -> Tensor:
        """Compute logits, (batch, tokens, labels)."""
        for layer in self.hidden or ():
            states = self._drop(functional.relu(layer(states)))
        if self.lstm is not None:
            states = self._drop(self._read(self.lstm, states))
        return self.output(states)

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self._dropout, self.training)

    def _read(self, lstm: nn.LSTM, states: Tensor) -> Tensor:
        """Run an LSTM over the tokens that are no padding; padding is at the end."""
        assert self.attention_mask is not None
        packed = pack_padded_sequence(states, self.attention_mask.sum(dim=1).cpu(),
                                      batch_first=True, enforce_sorted=False)
        found, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True,
                                       total_length=states.shape[1])
        return found


def crf_loss(model: nn.Module, logits: Tensor, labels: Tensor) -> Tensor:
    """Sum the negative log likelihood of tags in nats.

    Args:
        model: with a `TaggingHead`.
        logits: (batch, tokens, groups, labels).
        labels: (batch, tokens) or (batch, tokens, groups), IGNORED where there is no word.
    """
    labels = labels.reshape(logits.shape[:-1])
    labelled = (labels != IGNORED).flatten(1).any(dim=1)
    labels, logits = labels[labelled], logits[labelled]
    positions, mask = pack((labels != IGNORED).all(dim=-1))
    rows = torch.arange(len(logits), device=logits.device)[:, None]
    return -module_of(model, Crf).log_likelihood(
        logits[rows, positions].float(), labels[rows, positions].clamp(min=0), mask).sum()


def crf_outputs(model: nn.Module, logits: Tensor, words: Tensor) -> Tensor:
    """Compute marginals and the likeliest path.

    Args:
        model: with a `TaggingHead`.
        logits: (batch, tokens, groups, labels).
        words: (batch, tokens), 1 at first tokens.

    Returns:
        (batch, tokens, groups, labels + 1) float32: log probabilities, then the label id; 0 where
        no word is.
    """
    positions, mask = pack(words.bool())
    rows = torch.arange(len(logits), device=logits.device)[:, None]
    emissions = logits[rows, positions].float()
    crf = module_of(model, Crf)
    found = torch.cat([crf.log_marginals(emissions, mask),
                       crf.viterbi(emissions, mask)[..., None].float()], dim=-1)
    outputs = found.new_zeros(*words.shape, *found.shape[2:])
    outputs[rows.expand_as(mask)[mask], positions[mask]] = found[mask]
    return outputs


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
