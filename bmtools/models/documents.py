"""Lengths and boundaries of packed documents, made on the CPU and moved with their batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

SHAPE_MULTIPLE = 64
"""Tokens of a packed pass, and masked ones, are padded to a multiple of this, so that shapes
repeat, where a GPU allocates memory by shape or compiled code is specialised on it."""


@dataclass(eq=False)
class DocumentLengths:
    """Lengths and boundaries of packed documents, of which the last one may be padding.

    It is no tensor and no frozen dataclass: data parallelism would move a tensor of lengths to
    the GPU, from where reading it waits, and compiled code would guard every field.

    Args:
        lengths: (documents,) int64 on the CPU: tokens of each, special tokens included.
        boundaries: (documents + 1,) int32 on the device of the tokens: the start of each document
            and the end of the last one (FlashAttention's `cu_seqlens`).
        positions: (tokens,) int64 on the same device: each document's tokens, counted from 0;
            padding is at 0.
        longest: tokens of the longest document, or a little more.
        padding: tokens of the last document if it is padding; else 0.
        causal: each token sees only itself and those before it in its document.
        capability: major and minor of an NVIDIA GPU's compute capability; None elsewhere.
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
        """Make them of (documents,) lengths; waits for the GPU if they are on one.

        Args:
            device: of the tokens; the CPU if left out.
            causal: see above.
            multiple: what tokens are padded to a multiple of.

        Raises:
            ValueError: no documents, or one without tokens.
        """
        lengths = lengths.cpu()
        if not len(lengths) or int(lengths.min()) < 1:
            raise ValueError(f"lengths of packed documents: found {tuple(lengths[:8].tolist())}, "
                             "expected at least one, each of 1 token or more")
        padding = -int(lengths.sum()) % multiple
        if padding:
            # A document of its own: kernels give gradients that are no numbers to tokens outside.
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
        """(documents,) int32 first token of each, without padding, on the device of the tokens."""
        return self.boundaries[:len(self.unpadded)]

    def pin_memory(self) -> DocumentLengths:
        """Pin what a GPU reads, so that it is copied without a wait."""
        return replace(self, boundaries=self.boundaries.pin_memory(),
                       positions=self.positions.pin_memory())

    def to(self, device: torch.device, non_blocking: bool = False) -> DocumentLengths:
        """Move boundaries and positions to the device of the tokens; lengths stay on the CPU."""
        return replace(self, boundaries=self.boundaries.to(device, non_blocking=non_blocking),
                       positions=self.positions.to(device, non_blocking=non_blocking),
                       capability=capability(device))

    def document_ids(self) -> Tensor:
        """Number the document of each token, (tokens,) int64 on the device of the tokens."""
        ids = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        return ids.to(self.boundaries.device)


def as_documents(lengths: Tensor | DocumentLengths, device: torch.device) -> DocumentLengths:
    """Return documents as they are, or make them of (documents,) lengths."""
    return lengths if isinstance(lengths, DocumentLengths) else DocumentLengths.of(lengths, device)


def capability(device: torch.device) -> tuple[int, int] | None:
    """Return the compute capability of an NVIDIA GPU; None for other devices."""
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    return torch.cuda.get_device_capability(device)
