"""Masked language models in two steps: encode all tokens, then apply the head to a few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bmtools.errors import CheckpointError
from bmtools.models.architectures import has_segment_embeddings, position_embeddings
from bmtools.models.documents import SHAPE_MULTIPLE
from bmtools.models.families import MASKED_LM_FAMILIES
from bmtools.records import JsonObject

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Number of logits in memory at a time. For larger tensors, a CPU allocates new memory from the
# system each time. A GPU needs larger chunks to be busy.
_LOGITS_ON_CPU = 2**25
_LOGITS_ON_GPU = 2**27
# Modules of heads, in order, by their names in transformers.
_HEADS = (("cls",), ("lm_head",), ("head", "decoder"), ("predictions",),
          ("generator_predictions", "generator_lm_head"),
          ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"))

ChunkLoss = Callable[[Tensor, slice], tuple[Tensor, Tensor | int]]
"""Computes a loss and a count for some rows of states, from the rows and their slice."""


def encode(model: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor,
           causal: bool = False, *, token_type_ids: Tensor | None = None,
           inputs_embeds: Tensor | None = None) -> Tensor:
    """Run the encoder without its head.

    Args:
        input_ids: (batch, tokens) int64.
        attention_mask: (batch, tokens) bool; False on padding.
        causal: let each position see only itself and earlier positions.
        token_type_ids: (batch, tokens) int64, 0 in the first segment and 1 in the second; None for
            a single segment.
        inputs_embeds: (batch, tokens, hidden size) embeddings used instead of the model's
            embeddings, `model.get_input_embeddings()(input_ids)`.

    Returns:
        last-layer states, (batch, tokens, hidden size).

    Raises:
        CheckpointError: there are token types, but the model has no segment embeddings.
    """
    inputs: JsonObject = {"attention_mask": _causal_mask(model, attention_mask) if causal
                          else attention_mask.long()}
    if token_type_ids is not None:
        require_segments(model)
        inputs["token_type_ids"] = token_type_ids
    if inputs_embeds is None:
        inputs["input_ids"] = input_ids
    else:
        inputs["inputs_embeds"] = inputs_embeds
        positions = position_embeddings(model)
        if positions is not None and positions.padding_idx is not None:
            # Number positions as RoBERTa does from ids. From embeddings it would also count
            # padding.
            inputs["position_ids"] = attention_mask.cumsum(dim=1) * attention_mask \
                + positions.padding_idx
    states: Tensor = model.base_model(**inputs).last_hidden_state
    return states


def require_segments(model: PreTrainedModel) -> None:
    """Reject a model without segment embeddings.

    Raises:
        CheckpointError: the model has no segment embeddings.
    """
    if not has_segment_embeddings(model):
        raise CheckpointError(f"{type(model).__name__}: has no segment embeddings, expected a BERT "
                              "or Megatron-BERT with two token types")


def _causal_mask(model: PreTrainedModel, attention_mask: Tensor) -> Any:
    """Make the (batch, 1, tokens, tokens) mask; for ModernBERT, one for each kind of layer.

    Eager attention adds its mask to the scores, so a boolean mask would not mask anything.
    """
    tokens = attention_mask.shape[1]
    causal = torch.ones(tokens, tokens, dtype=torch.bool, device=attention_mask.device).tril()
    mask = causal & attention_mask[:, None, None, :]
    if model.config.model_type == "modernbert":
        window = causal.triu(-model.config.sliding_window)
        return {"full_attention": mask, "sliding_attention": mask & window}
    if model.config._attn_implementation == "eager":
        return torch.zeros(mask.shape, device=mask.device, dtype=model.dtype).masked_fill(
            ~mask, torch.finfo(model.dtype).min)
    return mask


def lm_head(model: PreTrainedModel) -> nn.Module:
    """Find the head that turns states into logits, (..., hidden size) to (..., vocabulary).

    Raises:
        CheckpointError: the structure of this architecture's head is not supported.
    """
    modules = dict(model.named_children())
    if "lm_predictions" in modules:
        return _EmbeddingHead(modules["lm_predictions"], model.get_input_embeddings())
    for names in _HEADS:
        if modules.keys() >= {*names}:
            return nn.Sequential(*(modules[name] for name in names))
    raise CheckpointError(f"{type(model).__name__}: the head of this architecture is not known, "
                          f"expected one of {', '.join(sorted(MASKED_LM_FAMILIES))}")


class _EmbeddingHead(nn.Module):
    """DeBERTa's head, which also receives the input embeddings."""

    def __init__(self, head: nn.Module, embeddings: nn.Module) -> None:
        super().__init__()
        self.head, self.embeddings = head, embeddings

    def forward(self, states: Tensor) -> Tensor:
        """Turn states into logits."""
        logits: Tensor = self.head(states, self.embeddings)
        return logits


def wide(values: Tensor) -> Tensor:
    """Convert half precision to float32; more precise values stay as they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def chunks_of_logits(model: PreTrainedModel, states: Tensor,
                     chunk_size: int | None = None) -> list[slice]:
    """Divide positions into chunks whose logits are computed together; see `masked_lm_loss`."""
    kind = states.device.type
    if chunk_size is None:
        numbers = _LOGITS_ON_CPU if kind == "cpu" else _LOGITS_ON_GPU
        chunk_size = max(1, numbers // model.config.vocab_size)
    in_fp16 = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.float16
    if len(states) < 2 * chunk_size or in_fp16:
        return [slice(0, len(states))]
    return [slice(start, start + chunk_size) for start in range(0, len(states), chunk_size)]


def head_weights(model: PreTrainedModel) -> list[Tensor]:
    """List the weights of the head that are trained."""
    return [weight for weight in lm_head(model).parameters() if weight.requires_grad]


def masked_lm_loss(model: PreTrainedModel, states: Tensor, labels: Tensor,
                   chunk_size: int | None = None) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of the head's predictions, in nats, and count correct ones.

    From twice `chunk_size` positions on, logits are computed and differentiated chunk by chunk, so
    that they need the memory of one chunk. Fewer positions are not worth the second copy of the
    head's gradients. The sum differs only by rounding from a sum in one chunk. Under fp16 all
    logits are computed at once, because chunks compute gradients before the scale of the gradient
    scaler is known.

    Args:
        model: a masked language model.
        states: (masked positions, hidden size) last-layer states.
        labels: (masked positions,) int64.
        chunk_size: positions per chunk; None for a number that suits the device.

    Returns:
        two scalars: the sum, at least in float32, and the count, int64, which has no gradient.
    """
    kind = states.device.type
    chunks = chunks_of_logits(model, states, chunk_size)
    if len(chunks) == 1:
        if kind == "cuda" or (kind == "cpu" and torch.is_autocast_enabled(kind)):
            # Each new shape of a half-precision product also costs a CPU some milliseconds.
            states = functional.pad(states, (0, 0, 0, -len(states) % SHAPE_MULTIPLE))
        loss, correct = sum_cross_entropy(wide(lm_head(model)(states)), labels)
    elif torch.is_grad_enabled():
        loss, correct = sum_by_chunks(
            lambda inputs, rows: masked_lm_loss(model, inputs, labels[rows], chunk_size),
            chunks, states, head_weights(model))
    else:
        sums, counts = zip(*(masked_lm_loss(model, states[rows], labels[rows], chunk_size)
                             for rows in chunks), strict=True)
        loss, correct = torch.stack(sums).sum(), torch.stack(counts).sum()
    return loss, correct


def sum_cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of logits, in nats, and count correct ones; logits are overwritten.

    Args:
        logits: (positions, vocabulary), at least float32; positions after the last label are
            ignored.
        labels: (labelled positions,) int64.
    """
    loss, correct = _SummedLoss.apply(logits, labels)
    return loss, correct


class _SummedLoss(torch.autograd.Function):
    """Summed cross-entropy, and the number of labels that have the highest logit.

    Logits are overwritten by their gradient. On a CPU, log_softmax and its backward pass take six
    times as long, mostly to allocate memory.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both from (positions, vocabulary) float32 logits; set unlabelled rows to 0."""
        probabilities, labels = logits[:len(labels)], labels[:, None]
        highest = probabilities.amax(dim=-1)
        label_logits = probabilities.gather(1, labels)[:, 0]
        torch.softmax(probabilities, dim=-1, out=probabilities)
        # The highest probability is at least 1 / vocabulary; a label's may be close to 0.
        loss = (highest - probabilities.amax(dim=-1).log() - label_logits).sum()
        probabilities.scatter_add_(1, labels,
                                   probabilities.new_full((1, 1), -1.0).expand_as(labels))
        logits[len(labels):] = 0
        ctx.save_for_backward(logits)
        # Two tokens that share the highest logit are both correct.
        correct = (label_logits >= highest).sum()
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: object) -> tuple[Tensor, None]:
        """Scale the saved gradient, in place: torch forbids a second backward pass."""
        gradient, = ctx.saved_tensors
        return gradient.mul_(upstream), None


def sum_by_chunks(compute: ChunkLoss, chunks: Iterable[slice], states: Tensor,
                  weights: Iterable[Tensor] = ()) -> tuple[Tensor, Tensor]:
    """Add up losses and counts of chunks, in the memory of one chunk and of its gradients.

    Args:
        compute: computes the loss and the count of the rows in a chunk.
        chunks: slices of rows; rows outside all chunks get no gradient.
        states: (rows, ...).
        weights: trained weights that `compute` uses.

    Returns:
        two scalars: the sum, at least in float32, and the count, int64, which has no gradient.
    """
    total, count = _ChunkedSum.apply(compute, chunks, states, *weights)
    return total, count


class _ChunkedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: ChunkLoss, chunks: Iterable[slice], states: Tensor,
                *weights: Tensor) -> tuple[Tensor, Tensor]:
        """Add up losses and counts, and save the gradients of the losses."""
        precision = torch.promote_types(states.dtype, torch.float32)
        total = torch.zeros((), device=states.device, dtype=precision)
        count = torch.zeros((), dtype=torch.int64, device=states.device)
        state_gradients = torch.zeros_like(states)
        # In float32 even if weights are sharded and gathered in bfloat16.
        weight_gradients = [torch.zeros_like(weight, dtype=precision) for weight in weights]
        for chunk in chunks:
            with torch.enable_grad():
                inputs = states[chunk].detach().requires_grad_()
                loss, counted = compute(inputs, chunk)
            state_gradients[chunk], *parts = torch.autograd.grad(loss, [inputs, *weights])
            for gradient, part in zip(weight_gradients, parts, strict=True):
                gradient += part
            total += loss.detach()
            count += counted
        ctx.save_for_backward(state_gradients, *weight_gradients)
        ctx.mark_non_differentiable(count)
        return total, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: object) -> tuple[Any, ...]:
        """Multiply the saved gradients."""
        return (None, None, *(upstream * gradient for gradient in ctx.saved_tensors))
