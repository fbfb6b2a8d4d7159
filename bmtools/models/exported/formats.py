"""Directories of models that were exported to OpenVINO; a light module without torch."""

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
"""A loaded model: turns int64 inputs by name into float32 logits. Masked language models also need
`positions` in the flattened batch, (queries,), and return (queries, vocabulary). Other models
return (batch, tokens, labels) or (batch, labels). It can be called by one thread per stream."""


def require_engine(name: str, *packages: str) -> None:
    """Raise an error if the engine of a model is not installed.

    Raises:
        BmtoolsError: a package is missing; the message names it and the command that installs it.
    """
    for package in (FORMAT, *packages):
        require_extra(package, name, FORMAT)


@dataclass(frozen=True)
class Exported:
    """Description of an exported model, as in its `bmtools.json`.

    Args:
        format: `FORMAT`.
        precision: precision of its products: float32 or int8.
        model_class: transformers' auto class of the checkpoint.
        inputs: names of the model's inputs, in order.
        max_tokens: maximum length of an input, with special tokens.
        source: directory of the checkpoint, as given to the command.
    """

    format: str
    precision: str
    model_class: str
    inputs: tuple[str, ...]
    max_tokens: int
    source: str


def read_exported(directory: Path) -> Exported | None:
    """Read the description of an exported model; None for other directories.

    Raises:
        CheckpointError: `bmtools.json` is damaged or names an unknown format.
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
