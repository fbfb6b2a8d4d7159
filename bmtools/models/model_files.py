"""Files of models: their configuration, and weights in safetensors or as published; no torch."""

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
_LFS = b"version "  # begins a file of Git LFS that stands for another
WEIGHTS, BIN = "model.safetensors", "pytorch_model.bin"
OLD_CONFIG = "bert_config.json"
"""Name of BERT's configuration in its first years."""
_MEGATRON = "model_optim_rng.pt"


class _Index(TypedDict):
    """The keys of an index of several files of weights that are read here."""

    weight_map: dict[str, str]


def conversion(directory: Path) -> str:
    """Write the command that converts a published checkpoint."""
    name = shlex.quote(str(directory))
    return f"bmtools convert {name} -o {shlex.quote(f'{directory.name}-converted')}"


def pickled_files(directory: Path) -> list[Path]:
    """List files of weights as torch writes them, where there are no safetensors.

    Raises:
        CheckpointError: the index of several lists one that is not there.
    """
    return [] if _listed(directory, WEIGHTS) else \
        _listed(directory, BIN) or sorted(directory.glob("pytorch_model-*.bin"))


def megatron_file(directory: Path) -> Path | None:
    """Find the weights of a checkpoint of Megatron-LM; None where there is none.

    Raises:
        CheckpointError: there are several, or one is split over processes.
    """
    found = sorted(path for pattern in ("", "mp_rank_*/", "*/mp_rank_*/")
                   for path in directory.glob(pattern + _MEGATRON))
    if len({path.parent.parent for path in found}) > 1:
        raise CheckpointError(f"{directory}: found {len(found)} checkpoints of Megatron-LM, "
                              f"expected one; name its directory, as {found[-1].parent}")
    if len(found) > 1:
        raise CheckpointError(f"{found[1].parent}: found a model that is split over "
                              f"{len(found)} processes, expected one whole; join its parts with "
                              "Megatron-LM's tools/checkpoint first")
    return found[0] if found else None


def _listed(directory: Path, name: str) -> list[Path]:
    """List a file of weights, or those that its index names, or nothing."""
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
    """The keys of `config.json` that are read here."""

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
    """Read a model's `config.json`, or a file like it.

    Raises:
        CheckpointError: it is no JSON object.
    """
    return read_object(directory / name, _Config)


def count_weights(directory: Path) -> int:
    """Count a checkpoint's weights; those that are tied count once.

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
            for name in stream.keys():  # noqa: SIM118, it is no mapping
                part = stream.get_slice(name)
                found[name] = part.get_dtype(), part.get_shape()
    return found


def stored_tensors(directory: Path) -> dict[str, Callable[[], Any]]:
    """Return functions that read a checkpoint's weights as tensors of torch, by their names.

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
        CheckpointError: there are none; names pickled ones, and how to convert them.
    """
    if found := _listed(directory, WEIGHTS):
        return found
    pickled = pickled_files(directory)
    raise CheckpointError(f"{directory}: no {WEIGHTS}" + (
        f", but {pickled[0].name}, which can run code when it is loaded; convert it without that: "
        f"{conversion(directory)}" if pickled else ", expected a model with safetensors weights"))


def require_no_pointer(path: Path) -> None:
    """Refuse a pointer file of Git LFS in place of weights.

    Raises:
        CheckpointError: it is one.
    """
    with path.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            raise CheckpointError(f"{path}: found a pointer of Git LFS, expected weights; run git "
                                  f"lfs pull in {path.parent}")
