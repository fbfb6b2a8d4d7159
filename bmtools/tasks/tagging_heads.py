"""Heads of tagging beyond one linear layer: hidden layers, an LSTM, conditional random fields."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.crf import Crf, pack
from bmtools.tasks.heads import Head, module_of
from bmtools.tasks.settings import NerConfig
from bmtools.tasks.tagging import SCHEMES, can_follow, group_labels


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
        logits: Tensor = self.output(states)
        return logits

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
