"""Architectures, checkpoints, masked-LM loss, packed encoding and weight transfer."""

from bmtools.lazy import export

export(__name__, init_weights="bmtools.models.init_weights:init_weights")
