"""Passes of a step, made smaller where memory does not suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

MicroBatch = Mapping[str, Tensor]
"""What an objective takes for a pass, by name."""


def split_in_half(pieces: Sequence[MicroBatch]) -> list[MicroBatch]:
    """Cut each pass in two; those of a single row, or a single document, stay as they are."""
    return [half for piece in pieces for half in _halves(piece)]


def _halves(piece: MicroBatch) -> list[MicroBatch]:
    lengths = piece.get("lengths")
    if lengths is None:
        rows = len(next(iter(piece.values())))
        middle = rows // 2
        return _cut(piece, dict.fromkeys(piece, middle)) if middle else [piece]
    # Documents lie end to end: those up to half of the tokens, or the first one, make a half.
    ends = lengths.cumsum(0)
    documents = max(int((ends * 2 <= ends[-1]).sum()), 1)
    if documents == len(lengths):
        return [piece]
    tokens = int(ends[-1])
    middles = {name: int(ends[documents - 1]) if len(value) == tokens else documents
               for name, value in piece.items()}
    middles["lengths"] = documents
    return _cut(piece, middles)


def _cut(piece: MicroBatch, middles: Mapping[str, int]) -> list[MicroBatch]:
    return [{name: value[:middles[name]] for name, value in piece.items()},
            {name: value[middles[name]:] for name, value in piece.items()}]
