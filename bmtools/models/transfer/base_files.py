"""Files of the checkpoint that weights are taken from, looked at before torch is imported."""

from __future__ import annotations

from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint_files import (
    MASKED_LM_FAMILIES,
    check_checkpoint,
    check_masked_lm,
    read_config,
)

DECODERS = ("llama", "mistral", "qwen2")
"""Values of `model_type` of decoders that become encoders."""


def check_base(directory: Path) -> None:
    """Refuse a directory without a masked language model or a decoder that can become one.

    Raises:
        CheckpointError: see `check_masked_lm`; or a decoder with other layers.
    """
    check_checkpoint(directory)
    if is_decoder(directory):
        return
    config = read_config(directory)
    family, names = config.get("model_type"), config.get("architectures") or [""]
    if family not in MASKED_LM_FAMILIES and names[0].endswith("ForCausalLM"):
        raise CheckpointError(
            f"{directory}: found the decoder {family}, whose layers EuroBERT does not have; "
            f"expected {', '.join(DECODERS)} or a masked language model")
    check_masked_lm(directory)


def is_decoder(directory: Path) -> bool:
    """Tell whether a checkpoint is a decoder that can become an encoder."""
    return read_config(directory).get("model_type") in DECODERS
