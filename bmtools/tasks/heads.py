"""Pretrained encoders under new heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from safetensors import safe_open
from tokenizers import AddedToken
from torch import Tensor, nn
from transformers import PreTrainedModel

from bmtools.errors import CheckpointError
from bmtools.models.architectures import token_embeddings
from bmtools.models.checkpoint import Checkpoint, load_checkpoint
from bmtools.models.model_files import WEIGHTS, read_config
from bmtools.vocab.tokenizer import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Head(nn.Module):
    """A module in place of a model's output layer; it gets what that layer would.

    A subclass is made of the width of its inputs and the number of labels, and draws its weights
    as torch does.

    Attributes:
        attention_mask: of the batch that the model is reading, (batch, tokens).
    """

    attention_mask: Tensor | None = None

    def _before_model(self, _model: nn.Module, _args: object, inputs: dict[str, Tensor]) -> None:
        self.attention_mask = inputs.get("attention_mask")

    def replace_layer(self, model: nn.Module, name: str) -> None:
        """Take the place of a model's layer."""
        model.set_submodule(name, self)
        model.register_forward_pre_hook(self._before_model, with_kwargs=True)


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
    output_layer(checkpoint, 1)
    return checkpoint


def load_with_head(directory: Path, device: str, model_class: str,
                   make_head: MakeHead) -> Checkpoint:
    """Load a fine-tuned model whose output layer is a `Head`.

    Raises:
        CheckpointError: see `load_checkpoint`; or weights of the head are missing.
    """
    checkpoint = load_checkpoint(directory, device, model_class, new_head=True)
    model = checkpoint.model
    outputs = len(model.config.id2label or {})
    name = output_layer(checkpoint, outputs)
    head = make_head(linear_layer(model, name).in_features, outputs)
    try:
        head.load_state_dict(_read_weights(directory, f"{name}."))
    except RuntimeError as error:
        raise CheckpointError(f"{directory}: the weights of {name} do not fit a "
                              f"{type(head).__name__}, expected those that bmtools finetune "
                              "wrote with the settings of bmtools.json") from error
    head.to(device).eval().replace_layer(model, name)
    return checkpoint


def module_of(model: nn.Module, kind: type[ModuleT]) -> ModuleT:
    """Return the one module of a kind, such as a model's head."""
    return next(module for module in model.modules() if isinstance(module, kind))


def load_trained_head(encoder: Checkpoint, labels: Sequence[str],
                      make_head: MakeHead | None = None,
                      any_names: bool = False) -> nn.Module | None:
    """Load the output layer of a fine-tuned model that is trained further.

    Args:
        encoder: loaded by `load_encoder`.
        labels: that it must have been trained for, in order.
        make_head: makes a `Head` in place of the linear layer.
        any_names: as many labels of any names will do.

    Returns:
        the layer; None if the checkpoint has none of this kind, or one for other labels.
    """
    config = read_config(encoder.path)
    stated = config.get("id2label") or {}
    own = [stated.get(str(number)) for number in range(len(stated))]
    if config.get("architectures") != [type(encoder.model).__name__] \
            or not (any_names or own == [*labels]):
        return None
    name = output_layer(encoder, 1)
    weights = _read_weights(encoder.path, f"{name}.")
    old = linear_layer(encoder.model, name)
    with torch.random.fork_rng(devices=[]):
        head = _new_layer(old, len(labels), make_head)
    if {key: weight.shape for key, weight in weights.items()} != \
            {key: weight.shape for key, weight in head.state_dict().items()}:
        return None
    head.load_state_dict(weights)
    return head


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
    name = output_layer(encoder, 1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        output = trained_head or _new_layer(linear_layer(model, name), len(labels), make_head)
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


def _new_layer(old: nn.Linear, outputs: int, make_head: MakeHead | None) -> nn.Module:
    """Make an output layer in place of an older one."""
    return make_head(old.in_features, outputs) if make_head else \
        nn.Linear(old.in_features, outputs, bias=old.bias is not None)


def _read_weights(directory: Path, prefix: str) -> dict[str, Tensor]:
    """Read the weights whose names have a prefix, by what follows it."""
    if not (directory / WEIGHTS).is_file():
        return {}
    with safe_open(directory / WEIGHTS, "pt") as weights:
        return {name.removeprefix(prefix): weights.get_tensor(name).float()
                for name in weights.keys() if name.startswith(prefix)}  # noqa: SIM118


def output_layer(encoder: Checkpoint, outputs: int) -> str:
    """Name the linear layer of transformers' head that computes the labels."""
    model = encoder.model
    found = [name for name, module in model.named_modules()
             if isinstance(module, nn.Linear) and module.out_features == outputs
             and not name.startswith(f"{model.base_model_prefix}.")]
    if len(found) != 1:
        raise CheckpointError(f"{encoder.path}: the head of a {type(model).__name__} is not known, "
                              "expected one linear output layer, as over BERT, RoBERTa or "
                              "ModernBERT")
    return found[0]


def linear_layer(model: nn.Module, name: str) -> nn.Linear:
    """Return a linear layer of a model by its name."""
    return cast("nn.Linear", model.get_submodule(name))


class PairHead(Head):
    """A linear layer over the joined states of two mentions.

    Source: Gu et al. 2021, section 6.5; Baldini Soares et al. 2019, figure 3 (e) and (f).
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.output = nn.Linear(2 * inputs, outputs)

    def forward(self, states: Tensor) -> Tensor:
        """Pass states on; `classify` needs the mentions, too."""
        return states

    def classify(self, states: Tensor, mentions: Tensor) -> Tensor:
        """Compute logits, (batch, labels).

        Args:
            states: (batch, tokens, hidden size).
            mentions: (batch, 2, tokens) bool, True on the tokens of head and tail.
        """
        masked = states[:, None].masked_fill(~mentions[..., None], -torch.inf)
        return self.output(masked.amax(dim=2).flatten(1))


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
