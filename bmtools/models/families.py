"""Families of models, by `model_type`, and the positions that they count; without torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bmtools.errors import BmtoolsError, setting
from bmtools.records import JsonMapping

# Families that number positions from the padding token's id plus one.
POSITIONS_AFTER_PADDING = frozenset(
    {"camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm",
     "xlm-roberta", "xlm-roberta-xl"})
MASKED_LM_FAMILIES = frozenset((
    "albert", "bert", "big_bird", "camembert", "convbert", "data2vec-text", "deberta",
    "deberta-v2", "distilbert", "electra", "ernie", "esm", "eurobert", "fnet", "gte",
    "jina_embeddings_v3", "longformer", "megatron-bert", "mobilebert", "modernbert", "mpnet",
    "nomic_bert", "rembert", "roberta", "roberta-prelayernorm", "roformer", "squeezebert",
    "xlm-roberta", "xlm-roberta-xl"))
"""Values of `model_type` whose encoder and head are supported here."""


def positions(config: JsonMapping) -> int | None:
    """Return the tokens that a model can read by its configuration; None if not stated."""
    found = config.get("max_position_embeddings")
    if found is None:
        return None
    return int(found) - first_position(
        SimpleNamespace(**{"model_type": "", "pad_token_id": 1, **config}))


def first_position(config: Any) -> int:
    """Return the first position id: padding's id plus one in RoBERTa's relatives, otherwise 0.

    Args:
        config: transformers' configuration, or an object with the same attributes.
    """
    if config.model_type in POSITIONS_AFTER_PADDING and config.pad_token_id is not None:
        return int(config.pad_token_id) + 1
    return 0


def require_length(max_length: int, limit: int | None, model: str) -> None:
    """Reject sequences longer than a model's positions, if their number is known.

    Raises:
        BmtoolsError: the sequences are longer; the message names both lengths.
    """
    if limit is not None and max_length > limit:
        raise BmtoolsError(f"{setting('max_length')}: found {max_length}, but {model} has {limit} "
                           "positions; expected that or less")
