"""A masked language model in two parts, so that the vocabulary is met only where it is asked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, finfo, ones, tril, zeros
from torch import bool as boolean
from torch.autograd.function import once_differentiable
from torch.nn import functional

from bmtools.errors import CheckpointError

# Logits in memory at a time, in numbers. On a CPU, what is larger than this is fetched anew from
# the system each time; a GPU wants larger pieces to be busy.
_LOGITS_ON_CPU = 2**25
_LOGITS_ON_GPU = 2**27
# Each new shape of a product in halves costs a CPU some milliseconds, for code made to measure.
_STEP_ON_CPU = 64


def encode(model: Any, ids: Tensor, attended: Tensor, causal: bool = False, *,
           token_types: Tensor | None = None, embeddings: Tensor | None = None) -> Tensor:
    """Run the encoder without its head.

    Args:
        ids: (batch, tokens) int64.
        attended: (batch, tokens) bool; False on padding.
        causal: let each position see only itself and what stands before it.
        token_types: (batch, tokens) int64, 0 in the first segment and 1 in the second; None for
            a single one.
        embeddings: (batch, tokens, width) vectors that stand for the tokens in place of the
            model's own, which `model.get_input_embeddings()(ids)` gives.

    Returns:
        last-layer states, (batch, tokens, width).

    Raises:
        CheckpointError: token types for a model that tells no segments apart.
    """
    mask: Any = attended.long()
    if causal:
        mask = _causal_mask(model, attended)
    given: dict[str, Any] = {"attention_mask": mask}
    if token_types is not None:
        _require_segments(model)
        given["token_type_ids"] = token_types
    if embeddings is None:
        given["input_ids"] = ids
    else:
        given["inputs_embeds"] = embeddings
        given |= _explicit_positions(model, attended)
    return model.base_model(**given).last_hidden_state


def has_segment_embeddings(model: Any) -> bool:
    """Tell whether a model has vectors for a first and a second segment."""
    return getattr(model.config, "type_vocab_size", 1) > 1 \
        and hasattr(getattr(model.base_model, "embeddings", None), "token_type_embeddings")


def _require_segments(model: Any) -> None:
    if not has_segment_embeddings(model):
        raise CheckpointError(f"{type(model).__name__}: tells no segments apart, expected a BERT "
                              "or Megatron-BERT with two token types")


def _explicit_positions(model: Any, attended: Tensor) -> dict[str, Tensor]:
    """Number the tokens as RoBERTa does from ids; from embeddings alone it would count padding."""
    layer = getattr(getattr(model.base_model, "embeddings", None), "position_embeddings", None)
    if layer is None or layer.padding_idx is None:
        return {}
    return {"position_ids": attended.cumsum(dim=1) * attended + layer.padding_idx}


def _causal_mask(model: Any, attended: Tensor) -> Any:
    """Make the (batch, 1, tokens, tokens) mask; ModernBERT wants one for each kind of layer.

    Eager attention adds its mask to the scores, so a boolean one would hide nothing.
    """
    tokens = attended.shape[1]
    before = tril(ones(tokens, tokens, dtype=boolean, device=attended.device))
    mask = before & attended[:, None, None, :]
    if model.config.model_type == "modernbert":
        near = before.triu(-model.config.sliding_window)
        return {"full_attention": mask, "sliding_attention": mask & near}
    if model.config._attn_implementation == "eager":
        return zeros(mask.shape, device=mask.device, dtype=model.dtype).masked_fill(
            ~mask, finfo(model.dtype).min)
    return mask


def vocabulary_logits(model: Any, states: Tensor) -> Tensor:
    """Turn states into vocabulary logits, (..., width) to (..., vocabulary).

    Raises:
        CheckpointError: an architecture whose head is laid out in a way not known here.
    """
    for part in _head(model):
        states = part(states)
    return states


def _head(model: Any) -> list[torch.nn.Module]:
    """Find the modules that turn states into logits, one after the other."""
    for name in ("cls", "lm_head"):
        if hasattr(model, name):
            return [getattr(model, name)]
    if hasattr(model, "head") and hasattr(model, "decoder"):
        return [model.head, model.decoder]
    raise CheckpointError(f"{type(model).__name__}: the head of this architecture is not known, "
                          "expected BERT, RoBERTa, XLM-R, Megatron-BERT or ModernBERT")


def masked_lm_loss(model: Any, states: Tensor, labels: Tensor,
                   chunk: int | None = None) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of the head's predictions, in nats, and count those that are right.

    From twice `chunk` places on, logits are made and differentiated piece by piece, so that they
    take the memory of one piece; fewer are not worth the second copy of the head's gradients. The
    sum differs from that of one piece by rounding alone. Under fp16 all are made at once: the
    scaling of losses has to reach the logits' gradients, which are taken here before it is known.

    Args:
        model: a masked language model.
        states: (places, width) last-layer states where something is asked.
        labels: (places,) int64.
        chunk: places at a time; None for as many as fit well.

    Returns:
        two scalars: the sum, float32, and the count, int64, which has no gradient.
    """
    if chunk is None:
        numbers = _LOGITS_ON_CPU if states.device.type == "cpu" else _LOGITS_ON_GPU
        chunk = max(1, numbers // model.config.vocab_size)
    if len(labels) < 2 * chunk or _scales_losses(states.device.type):
        return _judge_at_once(model, states, labels)
    if not torch.is_grad_enabled():
        pieces = zip(states.split(chunk), labels.split(chunk), strict=True)
        sums, counts = zip(*(_judge_at_once(model, *piece) for piece in pieces), strict=True)
        return torch.stack(sums).sum(), torch.stack(counts).sum()
    weights = [weight for part in _head(model) for weight in part.parameters()
               if weight.requires_grad]
    return _ChunkedLoss.apply(model, labels, chunk, states, *weights)


def _judge_at_once(model: Any, states: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    logits = vocabulary_logits(model, _in_steps(states))
    total, right = _SummedLoss.apply(logits.float(), labels)
    return total, right


def _in_steps(states: Tensor) -> Tensor:
    """Add rows of zeros where that spares a CPU ever new shapes."""
    if states.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return states
    return functional.pad(states, (0, 0, 0, -len(states) % _STEP_ON_CPU))


class _SummedLoss(torch.autograd.Function):
    """Summed cross-entropy, and how often a label has the highest logit.

    Logits are overwritten by their own gradient. On a CPU the other way, log_softmax and all it
    asks for on the way back, takes six times as long, most of it to be given new memory.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both of (places, vocabulary) float32 logits; places past the labels are idle."""
        shares, asked = logits[:len(labels)], labels[:, None]
        highest = shares.amax(dim=-1)
        chosen = shares.gather(1, asked)[:, 0]
        torch.softmax(shares, dim=-1, out=shares)
        # The highest share is at least one in the vocabulary; that of a label may be close to 0.
        total = (highest - shares.amax(dim=-1).log() - chosen).sum()
        shares.scatter_add_(1, asked, shares.new_full((1, 1), -1.0).expand_as(asked))
        logits[len(labels):] = 0
        ctx.save_for_backward(logits)
        # Two tokens that share the top are both right.
        right = (chosen >= highest).sum()
        ctx.mark_non_differentiable(right)
        return total, right

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Any) -> tuple[Tensor, None]:
        """Scale what was kept, in place: torch refuses to go back a second time."""
        kept, = ctx.saved_tensors
        return kept.mul_(upstream), None


def _scales_losses(kind: str) -> bool:
    return torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.float16


class _ChunkedLoss(torch.autograd.Function):
    """`masked_lm_loss` whose gradients are taken on the way forward, a piece at a time."""

    @staticmethod
    def forward(ctx: Any, model: Any, labels: Tensor, chunk: int, states: Tensor,
                *weights: Tensor) -> tuple[Tensor, Tensor]:
        """Add up both, and keep the gradients of the losses."""
        total = torch.zeros((), device=states.device)
        count = torch.zeros((), dtype=torch.int64, device=states.device)
        ours = torch.empty_like(states)
        theirs = [torch.zeros_like(weight) for weight in weights]
        for start in range(0, len(labels), chunk):
            place = slice(start, start + chunk)
            with torch.enable_grad():
                held = states[place].detach().requires_grad_()
                loss, right = _judge_at_once(model, held, labels[place])
            ours[place], *parts = torch.autograd.grad(loss, [held, *weights])
            for gradient, part in zip(theirs, parts, strict=True):
                gradient += part
            total += loss.detach()
            count += right
        ctx.save_for_backward(ours, *theirs)
        ctx.mark_non_differentiable(count)
        return total, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Any) -> tuple[Any, ...]:
        """Multiply the kept gradients."""
        return (None, None, None, *(upstream * kept for kept in ctx.saved_tensors))
