"""Reader of published weights that does not run any code in their files."""

from __future__ import annotations

import argparse
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.serialization import safe_globals

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.models.model_files import pickled_files, require_no_pointer, stored_tensors
from bmtools.status import set_status

_FORBIDDEN = re.compile(r"GLOBAL:? ([\w.]+)|class (\S+) ")
_LAYER_NORM = re.compile(r"(?<=LayerNorm\.)(gamma|beta)$")
_TODAY = {"gamma": "weight", "beta": "bias"}  # TensorFlow's names and today's
_BUFFER = ".position_ids"  # numbers from 0 that transformers once saved with the weights


class _Placeholder:
    """Placeholder for an object of Megatron-LM that does not describe the weights."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


# Versions of Megatron-LM store these in their arguments or with the optimizer.
_MEGATRON_CLASSES = (
    *(f"megatron.{module}.{name}" for module in ("model.enums", "core.enums",
                                                 "core.transformer.enums")
      for name in ("ModelType", "LayerType", "AttnType", "AttnMaskType",
                   "PositionEmbeddingType", "AttnBackend")),
    *(f"{module}.loss_scaler.DynamicLossScaler"
      for module in ("fp16", "megatron.fp16", "megatron.fp16_deprecated")))


def read_pickle(path: Path) -> Any:
    """Read tensors, plain values and command-line arguments; reject objects that can run code.

    Raises:
        CheckpointError: the file is damaged or contains another object, which the message names.
    """
    require_no_pointer(path)
    allowed: list[Callable[..., object] | tuple[Callable[..., object], str]] = [
        argparse.Namespace, *((_Placeholder, name) for name in _MEGATRON_CLASSES),
        *_numpy_globals()]
    set_status(f"reading {path.name}")
    with reading(path, "no weights could be read", "download or copy it again"), \
            safe_globals(allowed):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError) as error:
            found = _FORBIDDEN.search(str(error))
            if found is None and "weights_only" not in str(error):
                raise  # torch advises to set it to False, which runs code
            if found is None and not _is_pickle(path):
                with path.open("rb") as stream:
                    raise ValueError(f"it begins with {stream.read(20)!r}") from error
            name = (found[1] or found[2]) if found else "an unknown pickle or TorchScript"
            raise CheckpointError(
                f"{path}: found {name}, which is not a weight and could run code, "
                "expected weights; no code was run. Look for a safetensors version of this "
                "model") from error


def _is_pickle(path: Path) -> bool:
    """Return whether a file is a torch archive or a pickle, and not, for example, a web page."""
    if zipfile.is_zipfile(path):
        return True
    with path.open("rb") as stream, suppress(ValueError):
        return any(operation.name == "STOP" for operation, _, _ in pickletools.genops(stream))
    return False


def _numpy_globals() -> list[Any]:
    """List globals in pickled random states, which Megatron-LM stores with the weights."""
    import numpy as np

    rebuild = np.zeros(0).__reduce__()[0]  # its module has another name before numpy 2
    assert callable(rebuild)
    return [np.ndarray, np.dtype, type(np.dtype(np.uint32)),
            *((rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core"))]


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Read a checkpoint's weights, pickled or safetensors, with today's names and in float32.

    Raises:
        CheckpointError: weights are missing or cannot be read, or there are other objects.
    """
    state: dict[str, Tensor] = {}
    contents = ((path, read_pickle(path)) for path in pickled_files(directory)) \
        if pickled_files(directory) else \
        [(directory, {name: read() for name, read in stored_tensors(directory).items()})]
    for path, content in contents:
        if not isinstance(content, Mapping):
            raise CheckpointError(f"{path}: found {type(content).__name__}, expected weights by "
                                  "their names")
        inner = content.get("state_dict")
        for name, value in (inner if isinstance(inner, Mapping) else content).items():
            if not isinstance(value, Tensor):
                raise CheckpointError(f"{path}: found {name!r}, {type(value).__name__}, expected "
                                      "only weights")
            if not name.endswith(_BUFFER):
                known = _LAYER_NORM.sub(lambda old: _TODAY[old[0]], name)
                state[known] = value.float() if value.is_floating_point() else value
    return state
