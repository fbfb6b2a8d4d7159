"""Architectures, checkpoints, masked-LM loss, packed encoding and weight transfer."""

from bmtools.lazy import export

export(__name__, init_weights="bmtools.models.transfer.init_weights:init_weights")
