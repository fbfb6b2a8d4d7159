"""Pretrained encoders with new heads: linear and hidden layers, LSTMs, CRFs and pair pooling."""

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
    """A module that replaces a model's output layer and gets the same inputs.

    Subclasses take the width of the inputs and the number of labels, and initialize weights like
    torch.

    Attributes:
        attention_mask: attention mask of the current batch, (batch, tokens).
        mentions: (batch, 2, tokens) bool, True on the tokens of head and tail in that batch; None
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
        """Replace a model's layer by this module."""
        model.set_submodule(name, self)
        model.register_forward_pre_hook(self._before_model, with_kwargs=True)


class LastLayer:
    """The last layer of an encoder, limited to the states that the head reads.

    In training, all operations after its attention can be limited to some states, which saves most
    of its matrix products. Only layers with BERT's structure are limited.

    Attributes:
        index: rows and positions of the states to return, out of (batch, tokens); None for all.

    Args:
        model: model that contains the encoder.
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
    """Load a checkpoint in float32 with a head that has no labels yet.

    The checkpoint may be a masked language model, a bare encoder or a classifier. Missing layers
    below the output layer, such as BERT's pooler, are newly initialized.

    Args:
        directory: the checkpoint.
        model_class: transformers' auto class, such as AutoModelForTokenClassification.

    Raises:
        CheckpointError: if the directory does not exist, weights are missing or cannot be read
            safely, the tokenizer does not match the model, or the head has no linear output
            layer.
    """
    torch.manual_seed(0)  # new weights are initialized again for each seed
    checkpoint = load_checkpoint(directory, model_class=model_class, new_head=True,
                                 id2label={0: "O"}, label2id={"O": 0})
    output_layer(checkpoint.model, 1, directory)
    return checkpoint


def module_of(model: nn.Module, kind: type[ModuleT]) -> ModuleT:
    """Return the model's only module of a class, such as its head."""
    return next(module for module in model.modules() if isinstance(module, kind))


def with_new_head(encoder: Checkpoint, labels: Sequence[str], seed: int,
                  make_head: MakeHead | None = None,
                  trained_head: nn.Module | None = None) -> PreTrainedModel:
    """Copy a model and give it an output layer for the labels, initialized from the seed.

    Source: Devlin et al. 2019, sections 4.1 and 5.3.

    Args:
        encoder: checkpoint from `load_encoder`.
        labels: labels of the outputs, by id.
        seed: seed for new weights.
        make_head: makes a `Head` to replace the linear layer.
        trained_head: output layer to continue training.
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
    """Make an output layer to replace an existing one."""
    return make_head(old.in_features, outputs) if make_head else \
        nn.Linear(old.in_features, outputs, bias=old.bias is not None)


def read_weights(directory: Path, prefix: str) -> dict[str, Tensor]:
    """Read the weights whose names have a prefix; the prefix is removed from the names."""
    if not (directory / WEIGHTS).is_file():
        return {}
    with safe_open(directory / WEIGHTS, "pt") as weights:
        return {name.removeprefix(prefix): weights.get_tensor(name).float()
                for name in weights.keys() if name.startswith(prefix)}  # noqa: SIM118


def output_layer(model: PreTrainedModel, outputs: int, path: Path) -> tuple[str, nn.Linear]:
    """Find the linear layer in transformers' head that computes the labels, and its name.

    Args:
        model: model with the head.
        outputs: number of labels.
        path: path of the model, for a message.
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
    """Add missing tokens to a checkpoint, changing its tokenizer and embeddings in place.

    Returns:
        the checkpoint with its new fingerprint, and the ids of new tokens, whose embeddings
        `draw_embeddings` initializes.
    """
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    known = tokenizer.get_vocab()
    if not (new := [token for token in tokens if token not in known]):
        return checkpoint, []
    # Special tokens in a text are read as text, but these must not be. Case folding skips them.
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in new])
    if len(tokenizer) > model.config.vocab_size:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return (replace(checkpoint, vocabulary=fingerprint(tokenizer)),
            [tokenizer.get_vocab()[token] for token in new])


def draw_embeddings(model: PreTrainedModel, ids: Sequence[int], seed: int) -> None:
    """Initialize the embeddings of new tokens from a seed, like a new model's embeddings."""
    rng = torch.Generator().manual_seed(seed)
    weight = token_embeddings(model).weight
    with torch.no_grad():
        weight[list(ids)] = torch.empty(len(ids), weight.shape[1]).normal_(
            std=model.config.initializer_range, generator=rng)


class StatesHead(Head):
    """Layers over the states of tokens: an LSTM, pooling, hidden layers and an output layer.

    An LSTM reads all tokens. With pooling, an input has logits, computed from the pooled states;
    otherwise each token has logits. Dropout follows each hidden layer and the LSTM's last layer.

    Source: Gu et al. 2021 (BLURB), sections 5.2 and 6.5, tables 10 and 12; Baldini Soares et al.
    2019, figure 3 (e) and (f); Shin et al. 2020 (BioMegatron), tables 1 and 2. They do not state
    how an LSTM labels a whole input; here each direction's last state is used.

    Attributes:
        crf: conditional random fields over the words' logits, one per type if types may overlap;
            None without CRF.

    Args:
        config: settings of the task.
        pooling: `pooling` of relations, or empty.
        inputs: width of the encoder's states.
        outputs: number of labels.
    """

    def __init__(self, config: HeadConfig, pooling: str, inputs: int, outputs: int) -> None:
        super().__init__()
        self.pooling = pooling
        self._dropout = config.head_dropout  # not nn.Dropout, because the loop sets its probability
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
        """Whether a batch has `mentions` whose states are pooled."""
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
        """Run an LSTM over the tokens before the padding, which is at the end.

        Returns:
            states of tokens, and the last states of both directions, (batch, width).
        """
        assert self.attention_mask is not None
        packed = pack_padded_sequence(states, self.attention_mask.sum(dim=1).cpu(),
                                      batch_first=True, enforce_sorted=False)
        found, (last, _) = lstm(packed)
        return (pad_packed_sequence(found, batch_first=True, total_length=states.shape[1])[0],
                torch.cat([last[-2], last[-1]], dim=1))

    def _pool(self, states: Tensor) -> Tensor:
        """Concatenate the maximum or mean of each mention's states, (batch, 2 x width)."""
        assert self.mentions is not None
        mentions, states = self.mentions[..., None], states[:, None]
        pooled = (states * mentions).sum(dim=2) / mentions.sum(dim=2) \
            if self.pooling == "mentions-mean" else \
            states.masked_fill(~mentions, -torch.inf).amax(dim=2)
        return pooled.flatten(1)


def crf_loss(model: nn.Module, logits: Tensor, labels: Tensor) -> Tensor:
    """Sum the negative log likelihood of tags in nats.

    Args:
        model: model with a `StatesHead`.
        logits: (batch, tokens, groups, labels).
        labels: (batch, tokens, groups), IGNORED at positions without a word.
    """
    labelled = (labels != IGNORED).flatten(1).any(dim=1)
    labels, logits = labels[labelled], logits[labelled]
    rows, positions, mask = pack((labels != IGNORED).all(dim=-1))
    return -module_of(model, Crf).log_likelihood(
        logits[rows, positions].float(), labels[rows, positions].clamp(min=0), mask).sum()


def crf_outputs(model: nn.Module, logits: Tensor, words: Tensor) -> Tensor:
    """Compute marginals and the most probable path.

    Args:
        model: model with a `StatesHead`.
        logits: (batch, tokens, groups, labels).
        words: (batch, tokens), 1 at first tokens.

    Returns:
        (batch, tokens, groups, labels + 1) float32: log probabilities, then the label id. All are 0
        at positions without a word.
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
    """Conditional random fields over the same words, one per group of labels.

    Each sequence starts at the beginning of its row and has at least one word; results for rows
    without words are undefined. Transitions at the boundaries of a window are learned without the
    scheme's rules, because entities may continue there.

    Source: Lafferty et al. 2001; weights are initialized as in pytorch-crf.

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
            labels: (batch, words, groups) int64; any label after a sequence's end.
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
        """Compute the log probability of each label for each word, (batch, words, groups, labels).

        The forward and backward scores of all words are kept in memory.
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
        """Find the most probable labels, (batch, words, groups); 0 after a sequence's end."""
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
        """Yield the reduced scores of all paths to each word, (batch, groups, labels)."""
        scores = self.transitions + self.penalties
        alphas = self.start + emissions[:, 0]
        yield alphas
        for word in range(1, emissions.shape[1]):
            step = reduce(alphas[..., None] + scores, dim=-2) + emissions[:, word]
            alphas = torch.where(mask[:, word, None, None], step, alphas)
            yield alphas


def pack(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the marked positions of each row and move them to its beginning.

    Args:
        mask: (batch, positions) bool.

    Returns:
        row numbers, (batch, 1), positions, (batch, maximum number of marked positions in a row)
        int64, and a mask of the marked ones. There is at least one column.
    """
    counts = mask.sum(dim=1)
    width = max([1, *counts.tolist()])
    order = (~mask).int().argsort(dim=1, stable=True)[:, :width]
    return (torch.arange(len(mask), device=mask.device)[:, None], order,
            torch.arange(width, device=mask.device) < counts[:, None])
