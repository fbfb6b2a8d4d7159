"""Architectures, checkpoints, masked-LM loss, packed encoding and weight transfer."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.models.transfer.init_weights import init_weights as init_weights

export(__name__, init_weights="bmtools.models.transfer.init_weights:init_weights")
