"""Lengths and boundaries of packed documents, made on the CPU and moved with their batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

SHAPE_MULTIPLE = 64
"""All tokens of a packed pass, and its masked tokens, are padded to a multiple of this. Then shapes
repeat, because GPUs allocate memory by shape and compiled code is specialised on it."""


@dataclass(eq=False)
class DocumentLengths:
    """Lengths and boundaries of packed documents; the last document may be padding.

    This is not a tensor, because data parallelism would move a tensor of lengths to the GPU, and
    reading it there waits. It is not a frozen dataclass, because compiled code would guard every
    field.

    Args:
        lengths: (documents,) int64 on the CPU: tokens of each, special tokens included.
        boundaries: (documents + 1,) int32 on the device of the tokens: the start of each document
            and the end of the last one (FlashAttention's `cu_seqlens`).
        positions: (tokens,) int64 on the same device: each token's position in its document, from
            0; padding has position 0.
        longest: tokens of the longest document, or a little more.
        padding: tokens of the last document if it is padding, otherwise 0.
        causal: each token sees only itself and earlier tokens of its document.
        capability: major and minor of an NVIDIA GPU's compute capability; None for other devices.
    """

    lengths: Tensor
    boundaries: Tensor
    positions: Tensor
    longest: int
    padding: int = 0
    causal: bool = False
    capability: tuple[int, int] | None = None

    @classmethod
    def of(cls, lengths: Tensor, device: torch.device | None = None, causal: bool = False,
           multiple: int = 1) -> DocumentLengths:
        """Make them from (documents,) lengths; waits for the GPU if the lengths are on one.

        Args:
            device: device of the tokens; default: the CPU.
            causal: see above.
            multiple: pad the number of tokens to a multiple of this.

        Raises:
            ValueError: there are no documents, or a document has no tokens.
        """
        lengths = lengths.cpu()
        if not len(lengths) or int(lengths.min()) < 1:
            raise ValueError(f"lengths of packed documents: found {tuple(lengths[:8].tolist())}, "
                             "expected at least one, each of 1 token or more")
        padding = -int(lengths.sum()) % multiple
        if padding:
            # Make padding a separate document: kernels return NaN gradients for tokens outside all
            # documents.
            lengths = torch.cat([lengths, lengths.new_tensor([padding])])
        ends = lengths.cumsum(0)
        tokens = int(ends[-1])
        positions = torch.arange(tokens) - (ends - lengths).repeat_interleave(lengths)
        positions[tokens - padding:] = 0  # a model may have fewer positions than there is padding
        longest = int(lengths.max())
        made = cls(lengths, functional.pad(ends, (1, 0)).int(), positions,
                   min(longest + -longest % multiple, tokens), padding, causal)
        return made if device is None else made.to(device)

    @property
    def tokens(self) -> int:
        """Number of tokens, padding included."""
        return len(self.positions)

    @property
    def unpadded(self) -> Tensor:
        """(documents,) lengths on the CPU, without padding."""
        return self.lengths[:-1] if self.padding else self.lengths

    @property
    def starts(self) -> Tensor:
        """(documents,) int32 first token of each document except padding, on the tokens' device."""
        return self.boundaries[:len(self.unpadded)]

    def pin_memory(self) -> DocumentLengths:
        """Pin the tensors that a GPU reads, so that they are copied without a wait."""
        return replace(self, boundaries=self.boundaries.pin_memory(),
                       positions=self.positions.pin_memory())

    def to(self, device: torch.device, non_blocking: bool = False) -> DocumentLengths:
        """Move boundaries and positions to the device of the tokens; lengths stay on the CPU."""
        return replace(self, boundaries=self.boundaries.to(device, non_blocking=non_blocking),
                       positions=self.positions.to(device, non_blocking=non_blocking),
                       capability=capability(device))

    def document_ids(self) -> Tensor:
        """Return the number of each token's document, (tokens,) int64 on the tokens' device."""
        ids = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        return ids.to(self.boundaries.device)


def as_documents(lengths: Tensor | DocumentLengths, device: torch.device) -> DocumentLengths:
    """Return documents unchanged, or make them from (documents,) lengths."""
    return lengths if isinstance(lengths, DocumentLengths) else DocumentLengths.of(lengths, device)


def capability(device: torch.device) -> tuple[int, int] | None:
    """Return the compute capability of an NVIDIA GPU; None for other devices."""
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    return torch.cuda.get_device_capability(device)
