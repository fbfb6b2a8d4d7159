"""Headers of safetensors files, which say where each tensor is."""

from __future__ import annotations

from typing import Annotated, TypedDict

import msgspec

LENGTH_BYTES = 8
"""Bytes of a file's beginning that hold the length of the header behind them."""
_Size = Annotated[int, msgspec.Meta(ge=0)]


class TensorEntry(TypedDict):
    """A tensor as its header describes it; offsets count from the end of the header."""

    dtype: str
    shape: list[_Size]
    data_offsets: tuple[_Size, _Size]


def parse_header(content: bytes) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Parse a header: its tensors by name, and the metadata.

    Raises:
        ValueError: no such header.
    """
    try:
        header = msgspec.json.decode(content, type=dict)
        metadata = msgspec.convert(header.pop("__metadata__", {}), dict[str, str])
        return msgspec.convert(header, dict[str, TensorEntry]), metadata
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from error
