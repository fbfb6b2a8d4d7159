"""Pretrained encoders under new heads: linear, hidden layers, an LSTM, random fields, pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import safe_open
from tokenizers import AddedToken
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError
from bmtools.models.architectures import token_embeddings
from bmtools.models.checkpoint import Checkpoint, load_checkpoint
from bmtools.models.model_files import WEIGHTS
from bmtools.tasks.settings import HeadConfig, NerConfig
from bmtools.tasks.tagging import SCHEMES, can_follow, group_labels
from bmtools.training.layers import encoder_layers
from bmtools.vocab.tokenizer import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_AS_BERT = frozenset({"bert", "roberta", "xlm-roberta", "camembert", "megatron-bert"})
_ILLEGAL = -1e4
_INITIAL = 0.1
StateIndex = tuple[Tensor | slice, Tensor | slice]


class Head(nn.Module):
    """A module in place of a model's output layer; it gets what that layer would.

    A subclass is made of the width of its inputs and the number of labels, and draws its weights
    as torch does.

    Attributes:
        attention_mask: of the batch that the model is reading, (batch, tokens).
        mentions: of that batch, (batch, 2, tokens) bool, True on the tokens of head and tail; None
            without pooling of mentions.
    """

    attention_mask: Tensor | None = None
    mentions: Tensor | None = None

    def _before_model(self, _model: nn.Module, args: object,
                      inputs: dict[str, Tensor]) -> tuple[object, dict[str, Tensor]]:
        self.attention_mask = inputs.get("attention_mask")
        self.mentions = inputs.pop("mentions", None)
        return args, inputs

    def replace_layer(self, model: nn.Module, name: str) -> None:
        """Take the place of a model's layer."""
        model.set_submodule(name, self)
        model.register_forward_pre_hook(self._before_model, with_kwargs=True)


class LastLayer:
    """The last layer of an encoder, which need not compute the states that no head reads.

    In training, all that follows its attention can be limited to some states: most of its
    products. Only layers built as BERT's are limited.

    Attributes:
        index: rows and positions of the states to return, (batch, tokens) before; None for all.

    Args:
        model: with the encoder.
    """

    index: StateIndex | None = None

    def __init__(self, model: PreTrainedModel) -> None:
        self.can_be_limited = model.config.model_type in _AS_BERT
        if self.can_be_limited:
            layer: Any = encoder_layers(model)[-1]
            layer.attention.output.register_forward_pre_hook(self._select)

    def _select(self, module: nn.Module, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Select from the attended states and from the residual stream."""
        return states if self.index is None or not module.training else \
            tuple(one[self.index] for one in states)


ModuleT = TypeVar("ModuleT", bound=nn.Module)
MakeHead = Callable[[int, int], Head]


def load_encoder(directory: Path, model_class: str) -> Checkpoint:
    """Load a checkpoint in float32 under a head that has no labels yet.

    The checkpoint may be a masked language model, a bare encoder or a classifier. What it lacks of
    the layers below the output layer, such as BERT's pooler, is new.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.

    Raises:
        CheckpointError: no such directory, no weights that can be read safely, weights of the
            encoder missing, a tokenizer that does not belong to it, or a head without a linear
            output layer.
    """
    torch.manual_seed(0)  # weights that are new are drawn once more for each seed
    checkpoint = load_checkpoint(directory, model_class=model_class, new_head=True,
                                 id2label={0: "O"}, label2id={"O": 0})
    output_layer(checkpoint.model, 1, directory)
    return checkpoint


def module_of(model: nn.Module, kind: type[ModuleT]) -> ModuleT:
    """Return the one module of a kind, such as a model's head."""
    return next(module for module in model.modules() if isinstance(module, kind))


def with_new_head(encoder: Checkpoint, labels: Sequence[str], seed: int,
                  make_head: MakeHead | None = None,
                  trained_head: nn.Module | None = None) -> PreTrainedModel:
    """Copy a model and give it an output layer for some labels; new weights come from the seed.

    Source: Devlin et al. 2019, sections 4.1 and 5.3.

    Args:
        encoder: loaded by `load_encoder`.
        labels: of the outputs, by id.
        seed: of new weights.
        make_head: makes a `Head` in place of the linear layer.
        trained_head: output layer to go on with.
    """
    model: Any = encoder.copy_model()
    name, old = output_layer(model, 1, encoder.path)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        output = trained_head or new_layer(old, len(labels), make_head)
    new = [key for key in sorted(encoder.new_weights) if not key.startswith(f"{name}.")]
    if not trained_head and not make_head:
        new = [f"{name}.weight", f"{name}.bias", *new]
    if isinstance(output, Head):
        output.replace_layer(model, name)
    else:
        model.set_submodule(name, output)
    rng = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    for key in dict.fromkeys(new):
        if key in parameters and parameters[key].ndim > 1:
            nn.init.normal_(parameters[key], std=model.config.initializer_range, generator=rng)
        elif key in parameters:
            nn.init.constant_(parameters[key], 0.0 if key.endswith("bias") else 1.0)
    model.num_labels = len(labels)
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: number for number, label in enumerate(labels)}
    return model


def new_layer(old: nn.Linear, outputs: int, make_head: MakeHead | None) -> nn.Module:
    """Make an output layer in place of an older one."""
    return make_head(old.in_features, outputs) if make_head else \
        nn.Linear(old.in_features, outputs, bias=old.bias is not None)


def read_weights(directory: Path, prefix: str) -> dict[str, Tensor]:
    """Read the weights whose names have a prefix, by what follows it."""
    if not (directory / WEIGHTS).is_file():
        return {}
    with safe_open(directory / WEIGHTS, "pt") as weights:
        return {name.removeprefix(prefix): weights.get_tensor(name).float()
                for name in weights.keys() if name.startswith(prefix)}  # noqa: SIM118


def output_layer(model: PreTrainedModel, outputs: int, path: Path) -> tuple[str, nn.Linear]:
    """Find the linear layer of transformers' head that computes the labels, and its name.

    Args:
        model: with the head.
        outputs: number of labels.
        path: of the model, for a message.
    """
    found = [(name, module) for name, module in model.named_modules()
             if isinstance(module, nn.Linear) and module.out_features == outputs
             and not name.startswith(f"{model.base_model_prefix}.")]
    if len(found) != 1:
        raise CheckpointError(f"{path}: the head of a {type(model).__name__} is not known, "
                              "expected one linear output layer, as over BERT, RoBERTa or "
                              "ModernBERT")
    return found[0]


def add_tokens(checkpoint: Checkpoint, tokens: Sequence[str]) -> tuple[Checkpoint, list[int]]:
    """Give a checkpoint tokens that it lacks; its tokenizer and embeddings are changed in place.

    Returns:
        the checkpoint with its new fingerprint, and the ids of new tokens, whose embeddings
        `draw_embeddings` makes.
    """
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    known = tokenizer.get_vocab()
    if not (new := [token for token in tokens if token not in known]):
        return checkpoint, []
    # Special tokens in a text are read as text, these must not be; case folding leaves them alone.
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in new])
    if len(tokenizer) > model.config.vocab_size:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return (replace(checkpoint, vocabulary=fingerprint(tokenizer)),
            [tokenizer.get_vocab()[token] for token in new])


def draw_embeddings(model: PreTrainedModel, ids: Sequence[int], seed: int) -> None:
    """Draw the embeddings of new tokens from a seed, as those of a new model."""
    rng = torch.Generator().manual_seed(seed)
    weight = token_embeddings(model).weight
    with torch.no_grad():
        weight[list(ids)] = torch.empty(len(ids), weight.shape[1]).normal_(
            std=model.config.initializer_range, generator=rng)


class StatesHead(Head):
    """Layers over the states of tokens: an LSTM, pooling, hidden layers and an output layer.

    An LSTM reads all tokens. Without pooling each token has logits; otherwise an input has them, of
    the pooled states. Dropout follows each hidden layer, and the last layer of an LSTM.

    Source: Gu et al. 2021 (BLURB), sections 5.2 and 6.5, tables 10 and 12; Baldini Soares et al.
    2019, figure 3 (e) and (f); Shin et al. 2020 (BioMegatron), tables 1 and 2. None of them states
    how an LSTM labels a whole input: here by the last state of each direction.

    Attributes:
        crf: conditional random fields over the words' logits, one a type where types overlap; None
            without any.

    Args:
        config: of the task.
        pooling: `pooling` of relations, or nothing.
        inputs: width of the encoder's states.
        outputs: number of labels.
    """

    def __init__(self, config: HeadConfig, pooling: str, inputs: int, outputs: int) -> None:
        super().__init__()
        self.pooling = pooling
        self._dropout = config.head_dropout  # no nn.Dropout: the loop sets those to the model's
        is_lstm, layers, size = config.head == "bilstm", config.head_layers, config.head_size
        pooled = (size if is_lstm else inputs) * (2 if self.reads_mentions else 1)
        widths = [pooled, *[size] * layers * (config.head == "mlp")]
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.lstm = nn.LSTM(inputs, size // 2, layers, batch_first=True, bidirectional=True,
                            dropout=self._dropout if layers > 1 else 0.0) if is_lstm else None
        self.output = nn.Linear(widths[-1], outputs)
        self.crf: Crf | None = None
        if isinstance(config, NerConfig) and config.crf:
            prefixes = len(SCHEMES[config.scheme])
            types = outputs // (prefixes + 1) if config.overlapping else (outputs - 1) // prefixes
            groups = group_labels(config.scheme, [str(number) for number in range(types)],
                                  config.overlapping)
            self.crf = Crf(len(groups), torch.tensor(
                [[can_follow(config.scheme, tag, following) for following in groups[0]]
                 for tag in groups[0]]))

    @property
    def reads_mentions(self) -> bool:
        """Whether a batch has `mentions`, whose states are pooled."""
        return self.pooling not in ("", "cls")

    def forward(self, states: Tensor) -> Tensor:
        """Compute logits, (batch, tokens, labels), or (batch, labels) with pooling."""
        first = states[:, 0]
        if self.lstm is not None:
            states, first = self._read(self.lstm, states)
        if self.pooling:
            states = self._pool(states) if self.reads_mentions else first
        if self.lstm is not None:
            states = self._drop(states)
        for layer in self.hidden:
            states = self._drop(functional.relu(layer(states)))
        return self.output(states)

    def _drop(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self._dropout, self.training)

    def _read(self, lstm: nn.LSTM, states: Tensor) -> tuple[Tensor, Tensor]:
        """Run an LSTM over the tokens that are no padding; padding is at the end.

        Returns:
            states of tokens, and the last ones of both directions, (batch, width).
        """
        assert self.attention_mask is not None
        packed = pack_padded_sequence(states, self.attention_mask.sum(dim=1).cpu(),
                                      batch_first=True, enforce_sorted=False)
        found, (last, _) = lstm(packed)
        return (pad_packed_sequence(found, batch_first=True, total_length=states.shape[1])[0],
                torch.cat([last[-2], last[-1]], dim=1))

    def _pool(self, states: Tensor) -> Tensor:
        """Join the maximum or mean of both mentions' states, (batch, 2 x width)."""
        assert self.mentions is not None
        mentions, states = self.mentions[..., None], states[:, None]
        pooled = (states * mentions).sum(dim=2) / mentions.sum(dim=2) \
            if self.pooling == "mentions-mean" else \
            states.masked_fill(~mentions, -torch.inf).amax(dim=2)
        return pooled.flatten(1)


def crf_loss(model: nn.Module, logits: Tensor, labels: Tensor) -> Tensor:
    """Sum the negative log likelihood of tags in nats.

    Args:
        model: with a `StatesHead`.
        logits: (batch, tokens, groups, labels).
        labels: (batch, tokens, groups), IGNORED where there is no word.
    """
    labelled = (labels != IGNORED).flatten(1).any(dim=1)
    labels, logits = labels[labelled], logits[labelled]
    rows, positions, mask = pack((labels != IGNORED).all(dim=-1))
    return -module_of(model, Crf).log_likelihood(
        logits[rows, positions].float(), labels[rows, positions].clamp(min=0), mask).sum()


def crf_outputs(model: nn.Module, logits: Tensor, words: Tensor) -> Tensor:
    """Compute marginals and the likeliest path.

    Args:
        model: with a `StatesHead`.
        logits: (batch, tokens, groups, labels).
        words: (batch, tokens), 1 at first tokens.

    Returns:
        (batch, tokens, groups, labels + 1) float32: log probabilities, then the label id; 0 where
        no word is.
    """
    rows, positions, mask = pack(words.bool())
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
        ends = (mask.sum(dim=1) - 1).clamp(min=0)[:, None, None].expand(-1, 1, len(self.start))
        last = labels.gather(1, ends)[:, 0]
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


def pack(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the marked positions of each row, moved to its beginning.

    Args:
        mask: (batch, positions) bool.

    Returns:
        (batch, 1), numbers of the rows; (batch, most marked ones of a row) int64, positions, and
        where they are marked, bool; one column at least.
    """
    counts = mask.sum(dim=1)
    width = max([1, *counts.tolist()])
    order = (~mask).int().argsort(dim=1, stable=True)[:, :width]
    return (torch.arange(len(mask), device=mask.device)[:, None], order,
            torch.arange(width, device=mask.device) < counts[:, None])
