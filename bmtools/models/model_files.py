"""Files of models: configuration, and weights in safetensors or other formats; without torch."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.json_files import read_object
from bmtools.records import JsonObject

CONFIG = "config.json"
_LFS = b"version "  # begins a pointer file of Git LFS
WEIGHTS, BIN = "model.safetensors", "pytorch_model.bin"
OLD_CONFIG = "bert_config.json"
"""Name of the configuration file in the first releases of BERT."""
_MEGATRON = "model_optim_rng.pt"


class _Index(TypedDict):
    """The keys that are read from an index of several files of weights."""

    weight_map: dict[str, str]


def conversion(directory: Path) -> str:
    """Return the command that converts a published checkpoint."""
    name = shlex.quote(str(directory))
    return f"bmtools convert {name} -o {shlex.quote(f'{directory.name}-converted')}"


def pickled_files(directory: Path) -> list[Path]:
    """List pickled files of weights, if there are no safetensors.

    Raises:
        CheckpointError: a file that the index lists is missing.
    """
    return [] if _listed(directory, WEIGHTS) else \
        _listed(directory, BIN) or sorted(directory.glob("pytorch_model-*.bin"))


def megatron_file(directory: Path) -> Path | None:
    """Return the weights file of a Megatron-LM checkpoint, or None.

    Raises:
        CheckpointError: there are several checkpoints, or one is split over processes.
    """
    found = sorted(path for pattern in ("", "mp_rank_*/", "*/mp_rank_*/")
                   for path in directory.glob(pattern + _MEGATRON))
    if len({path.parent.parent for path in found}) > 1:
        raise CheckpointError(f"{directory}: found {len(found)} checkpoints of Megatron-LM, "
                              f"expected one; give its directory: {found[-1].parent}")
    if len(found) > 1:
        raise CheckpointError(f"{found[1].parent}: found a model that is split over "
                              f"{len(found)} processes, expected one file; join its parts with "
                              "Megatron-LM's tools/checkpoint first")
    return found[0] if found else None


def _listed(directory: Path, name: str) -> list[Path]:
    """List a file of weights or the files in its index; the list may be empty."""
    if (directory / name).is_file():
        return [directory / name]
    index = directory / f"{name}.index.json"
    if not index.is_file():
        return []
    names = sorted(set(read_object(index, _Index)["weight_map"].values()))
    paths = [directory / one for one in names]
    for one, path in zip(names, paths, strict=True):
        if Path(one).name != one:
            raise CheckpointError(f"{index}: found {one!r}, expected names of files in its "
                                  "directory; download it again")
        if not path.is_file():
            raise CheckpointError(f"{directory}: no {path.name}, which {index.name} lists; "
                                  "download it again")
    return paths


class _Config(TypedDict, total=False):
    """The keys that are read from `config.json`."""

    architectures: list[str] | None
    model_type: str
    hidden_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int | None
    pad_token_id: int | None
    id2label: dict[str, str]
    problem_type: str | None


def read_config(directory: Path, name: str = CONFIG) -> JsonObject:
    """Read a model's `config.json`, or a similar file.

    Raises:
        CheckpointError: it is not a JSON object.
    """
    return read_object(directory / name, _Config)


def count_weights(directory: Path) -> int:
    """Count a checkpoint's weights; tied weights count once.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    return sum(math.prod(shape) for dtype, shape in _tensors(directory).values()
               if dtype.startswith(("F", "BF")))


def weight_bytes(directory: Path) -> int:
    """Return the bytes of a checkpoint's weights in float32; see `count_weights`."""
    return 4 * count_weights(directory)


def weight_names(directory: Path) -> set[str]:
    """List the names of a checkpoint's weights; see `count_weights`."""
    return set(_tensors(directory))


def _tensors(directory: Path) -> dict[str, tuple[str, list[int]]]:
    """Read the types and shapes of all tensors from the headers of their files."""
    from safetensors import safe_open

    found = {}
    for path in weight_files(directory):
        require_no_pointer(path)
        with reading(path, "is damaged or not a safetensors file", "download or copy it again"), \
                safe_open(path, framework="numpy") as stream:
            for name in stream.keys():  # noqa: SIM118, not a mapping
                part = stream.get_slice(name)
                found[name] = part.get_dtype(), part.get_shape()
    return found


def stored_tensors(directory: Path) -> dict[str, Callable[[], Any]]:
    """Return functions that read a checkpoint's weights as torch tensors, by their names.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    from safetensors import safe_open

    found: dict[str, Callable[[], Any]] = {}
    for path in weight_files(directory):
        with reading(path, "no weights could be read", "download or copy it again"):
            stream = safe_open(path, framework="pt")
            found |= {name: partial(stream.get_tensor, name) for name in stream.keys()}  # noqa: SIM118
    return found


def weight_files(directory: Path) -> list[Path]:
    """List the files of a checkpoint's weights.

    Raises:
        CheckpointError: there are none; the message names pickled files and their conversion.
    """
    if found := _listed(directory, WEIGHTS):
        return found
    pickled = pickled_files(directory)
    raise CheckpointError(f"{directory}: no {WEIGHTS}" + (
        f", but {pickled[0].name}, which can run code when it is loaded; to convert it safely, "
        f"run: {conversion(directory)}" if pickled else ", expected safetensors weights"))


def require_no_pointer(path: Path) -> None:
    """Reject a pointer file of Git LFS in place of weights.

    Raises:
        CheckpointError: it is a pointer.
    """
    with path.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            raise CheckpointError(f"{path}: found a pointer of Git LFS, expected weights; run git "
                                  f"lfs pull in {path.parent}")
