"""Outputs of student and teacher that the losses of distillation compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, setting
from bmtools.recipes.distillation import DistillationConfig

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class Needs:
    """Outputs of a model that losses compare.

    Args:
        logits: predictions at the compared positions.
        last_states: states of the last layer, as its head gets them.
        layers: whose states are compared, 0 for the embeddings; in the order of the other model's.
        relation_layers: whose queries, keys and values are compared, from 1; likewise.
    """

    logits: bool = False
    last_states: bool = False
    layers: tuple[int, ...] = ()
    relation_layers: tuple[int, ...] = ()


def needs_of(settings: DistillationConfig, student: PretrainedConfig,
             teacher: PretrainedConfig) -> tuple[Needs, Needs]:
    """Name what student and teacher have to compute for losses with a weight above 0.

    Raises:
        BmtoolsError: a layer that one of them does not have.
    """
    depths = student.num_hidden_layers, teacher.num_hidden_layers
    layers = _matched(settings.layer_map, "layer_map", depths, 0) \
        if settings.hidden_weight else ((), ())
    relations = _matched(settings.relation_layers, "relation_layers", depths, 1) \
        if settings.relation_weight else ((), ())
    logits = settings.kl_weight > 0 or settings.logit_mse_weight > 0
    own, theirs = (Needs(logits, settings.cosine_weight > 0, *chosen)
                   for chosen in zip(layers, relations, strict=True))
    return own, theirs


def _matched(text: str, name: str, depths: tuple[int, int],
             first: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Resolve pairs of layers: those of the student, and those of the teacher beside them."""
    student, teacher = depths
    if text == "uniform":  # Jiao et al. 2020 (TinyBERT), section 4.1
        own = tuple(range(first, student + 1))
        return own, tuple(round(layer * teacher / student) for layer in own)
    listed = "last:last" if text == "last" else text
    pairs = [pair.split(":") for pair in listed.split(",")]
    matched = []
    for number, (depth, role) in enumerate(((student, "student"), (teacher, "teacher"))):
        layers = tuple(depth if pair[number] == "last" else int(pair[number]) for pair in pairs)
        for layer in layers:
            if not first <= layer <= depth:
                raise BmtoolsError(f"{setting(name)}: found layer {layer} of the {role}, expected "
                                   f"{first} to {depth}")
        matched.append(layers)
    return matched[0], matched[1]


def relation_heads(settings: DistillationConfig, student: PretrainedConfig,
                   teacher: PretrainedConfig) -> int:
    """Return the number of relation heads, by default the teacher's attention heads.

    Raises:
        BmtoolsError: it does not divide both widths.
    """
    heads: int = settings.relation_heads or teacher.num_attention_heads
    widths = student.hidden_size, teacher.hidden_size
    if any(width % heads for width in widths):
        shared = [number for number in range(1, 129) if not any(width % number for width in widths)]
        raise BmtoolsError(
            f"{setting('relation_heads')}: found {heads}, but student and teacher are {widths[0]} "
            f"and {widths[1]} wide, expected a divisor of both: "
            f"{', '.join(map(str, shared))}")
    return heads
