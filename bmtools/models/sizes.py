"""Sizes of named architectures; a light module without torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bmtools.errors import BmtoolsError, did_you_mean, require, setting

STATE_COPIES = 4
"""Weights, gradients and the optimizer's two moments, all in float32. Muon keeps only one moment
for the matrices inside the encoder."""

HEAD_SIZE = 64
"""Width of an attention head."""
_NAME = re.compile(r"(bert|roberta|megatron-bert|modernbert)-(\d+)x(\d+)")


@dataclass(frozen=True)
class ModelSize:
    """Size of an encoder, with the names in transformers' configurations.

    Args:
        num_attention_heads: number of heads; 0 for the hidden size divided by 64.
        intermediate_size: size of the feed-forward part; 0 for the family's usual multiple of the
            hidden size.
    """

    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int = 0
    intermediate_size: int = 0


# bert-tiny to -medium: Turc et al. 2019, table 1; base and large: Devlin et al. 2019, section 3.
# roberta: Liu et al. 2019, section 5. modernbert: Warner et al. 2024, table 4; 17m to 68m: Weller
# et al. 2025 (Ettin); its 150m and 400m are base and large. megatron-bert: Shin et al. 2020
# (BioMegatron), section 3, states totals but no shapes. 345m is from NVIDIA's model card. 800m and
# 1.2b use the shapes in Shoeybi et al. 2020 (Megatron-LM) with the nearest totals, 752 million and
# 1.2 billion.
SIZES = {
    "bert-tiny": ModelSize(2, 128),
    "bert-mini": ModelSize(4, 256),
    "bert-small": ModelSize(4, 512),
    "bert-medium": ModelSize(8, 512),
    "bert-base": ModelSize(12, 768),
    "bert-large": ModelSize(24, 1024),
    "roberta-base": ModelSize(12, 768),
    "roberta-large": ModelSize(24, 1024),
    "megatron-bert-345m": ModelSize(24, 1024),
    "megatron-bert-800m": ModelSize(36, 1280),
    "megatron-bert-1.2b": ModelSize(40, 1536, num_attention_heads=16),
    "modernbert-17m": ModelSize(7, 256, intermediate_size=384),
    "modernbert-32m": ModelSize(10, 384, intermediate_size=576),
    "modernbert-68m": ModelSize(19, 512, intermediate_size=768),
    "modernbert-base": ModelSize(22, 768, intermediate_size=1152),
    "modernbert-large": ModelSize(28, 1024, intermediate_size=2624),
}


def named_size(architecture: str) -> tuple[str, ModelSize]:
    """Return the family and the size of a named architecture.

    Args:
        architecture: a name from `SIZES`, or FAMILY-LAYERSxWIDTH.

    Raises:
        BmtoolsError: the name is unknown, or the width is not a multiple of a head's width.
    """
    match = _NAME.fullmatch(architecture)
    if match:
        family, size = match[1], ModelSize(int(match[2]), int(match[3]))
    elif architecture in SIZES:
        family, size = architecture.rpartition("-")[0], SIZES[architecture]
    else:
        meant = did_you_mean(architecture, SIZES)
        raise BmtoolsError(
            f"{setting('architecture')}: found {architecture!r}, expected {', '.join(SIZES)}, "
            "FAMILY-LAYERSxWIDTH (bert, roberta, megatron-bert or modernbert) or the path of a "
            f"config.json{meant and f'; {meant}'}")
    if size.num_hidden_layers < 1 or size.hidden_size % HEAD_SIZE or not size.hidden_size:
        raise BmtoolsError(
            f"{setting('architecture')}: found {architecture!r}, expected at least one layer "
            f"and a width that is a multiple of {HEAD_SIZE}")
    return family, size


def parse_size(size: str) -> tuple[str, ModelSize]:
    """Return the family and the size of a name, or of LAYERSxWIDTH, whose family is empty.

    Raises:
        ValueError: the value has neither form.
    """
    if match := re.fullmatch(r"(\d+)x(\d+)", size):
        return "", ModelSize(int(match[1]), int(match[2]))
    require(size in SIZES, "grow", repr(size),
            f"LAYERSxWIDTH, such as 12x768, or {', '.join(SIZES)}")
    return size.rpartition("-")[0], SIZES[size]
