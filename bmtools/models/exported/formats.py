"""Directories of models that were exported to OpenVINO; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bmtools.errors import CheckpointError
from bmtools.installation import require_extra
from bmtools.io.json_files import NAME, read_manifest
from bmtools.records import readable

if TYPE_CHECKING:
    import numpy as np

COMMAND = "export model"
FORMAT = "openvino"
"""Name of the format, of its extra and of its package."""
MASKED_LM = "AutoModelForMaskedLM"
Run = Callable[[Mapping[str, "np.ndarray"]], "np.ndarray"]
"""A loaded model: from inputs by name, all int64, to logits, float32. Masked language models take
`positions` in the flattened batch, too, (queries,), and give (queries, vocabulary); others give
(batch, tokens, labels) or (batch, labels). As many threads as it has streams may call it."""


def require_engine(name: str, *packages: str) -> None:
    """Refuse a model whose engine is not installed.

    Raises:
        BmtoolsError: names the first package that is missing, and the command that installs it.
    """
    for package in (FORMAT, *packages):
        require_extra(package, name, FORMAT)


@dataclass(frozen=True)
class Exported:
    """Description of an exported model, as in its `bmtools.json`.

    Args:
        format: `FORMAT`.
        precision: of its products: float32 or int8.
        model_class: transformers' auto class of the checkpoint.
        inputs: names of what the model takes, in order.
        max_tokens: longest input, special tokens included.
        source: directory of the checkpoint as it was named.
    """

    format: str
    precision: str
    model_class: str
    inputs: tuple[str, ...]
    max_tokens: int
    source: str


def read_exported(directory: Path) -> Exported | None:
    """Read what was exported to a directory; None where it is no exported model.

    Raises:
        CheckpointError: `bmtools.json` is damaged, or names an unknown format.
    """
    manifest = read_manifest(directory)
    if manifest.get("command") != COMMAND:
        return None
    try:
        found = msgspec.convert(manifest.get("settings", {}).get("exported"), Exported)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{directory / NAME}: exported: {readable(str(error))}; export the "
                              "model again") from error
    if found.format != FORMAT:
        raise CheckpointError(f"{directory / NAME}: found format {found.format!r}, expected "
                              f"{FORMAT}; export the model again")
    return found
