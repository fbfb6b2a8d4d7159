"""Files of models: their configuration, and weights in safetensors or as published; no torch."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TypedDict

from bmtools.errors import CheckpointError
from bmtools.io.json_files import read_object
from bmtools.io.tensor_files import LENGTH_BYTES, TensorEntry, parse_header
from bmtools.records import JsonObject

CONFIG = "config.json"
_OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack", "model.onnx")
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
    if (directory / WEIGHTS).is_file() or (directory / f"{WEIGHTS}.index.json").is_file():
        return []
    if (directory / BIN).is_file():
        return [directory / BIN]
    if (directory / f"{BIN}.index.json").is_file():
        return listed_files(directory / f"{BIN}.index.json")
    return sorted(directory.glob("pytorch_model-*.bin"))


def megatron_file(directory: Path) -> Path | None:
    """Find the weights of a checkpoint of Megatron-LM; None where there is none.

    Raises:
        CheckpointError: there are several, or one is split over processes.
    """
    found = sorted(path for pattern in ("", "mp_rank_*/", "*/mp_rank_*/")
                   for path in directory.glob(pattern + _MEGATRON))
    latest = directory / "latest_checkpointed_iteration.txt"
    if latest.is_file():
        name = latest.read_text("utf-8", "replace").strip()
        name = f"iter_{int(name):07d}" if name.isdecimal() else name
        found = [path for path in found if name in path.parts] or found
    if len({path.parent.parent for path in found}) > 1:
        raise CheckpointError(f"{directory}: found {len(found)} checkpoints of Megatron-LM, "
                              f"expected one; name its directory, as {found[-1].parent}")
    if len(found) > 1:
        raise CheckpointError(f"{found[1].parent}: found a model that is split over "
                              f"{len(found)} processes, expected one whole; join its parts with "
                              "Megatron-LM's tools/checkpoint first")
    return found[0] if found else None


def listed_files(index: Path) -> list[Path]:
    """List the files that an index of weights names."""
    paths = [index.parent / name
             for name in sorted(set(read_object(index, _Index)["weight_map"].values()))]
    for path in paths:
        if not path.is_file():
            raise CheckpointError(f"{index.parent}: no {path.name}, which {index.name} lists; "
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
    return sum(math.prod(one["shape"]) for one in _tensors(directory).values()
               if one["dtype"].startswith(("F", "BF")))


def weight_bytes(directory: Path) -> int:
    """Return the bytes of a checkpoint's weights in float32; see `count_weights`."""
    return 4 * count_weights(directory)


def weight_names(directory: Path) -> set[str]:
    """List the names of a checkpoint's weights.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    return set(_tensors(directory))


def _tensors(directory: Path) -> dict[str, TensorEntry]:
    """Read what the headers of all weight files say of their tensors."""
    return {name: entry for path in weight_files(directory)
            for name, entry in _read_header(path).items()}


def weight_files(directory: Path) -> list[Path]:
    """List the files of a checkpoint's weights."""
    index = directory / f"{WEIGHTS}.index.json"
    if not index.is_file():
        if not (directory / WEIGHTS).is_file():
            raise CheckpointError(f"{directory}: no {WEIGHTS}{_other_weights(directory)}")
        return [directory / WEIGHTS]
    return listed_files(index)


def _other_weights(directory: Path) -> str:
    """Say which weights there are instead of safetensors, and how to convert them."""
    if found := pickled_files(directory):
        return (f", but {found[0].name}, which can run code when it is loaded; convert it without "
                f"that: {conversion(directory)}")
    for name in _OTHER_WEIGHTS:
        if (directory / name).is_file():
            return f", but {name}, which is not read here; convert it with transformers first"
    return ", expected a model with safetensors weights"


def require_no_pointer(path: Path) -> None:
    """Refuse a pointer file of Git LFS in place of weights.

    Raises:
        CheckpointError: it is one.
    """
    with path.open("rb") as stream:
        if stream.read(len(_LFS)) == _LFS:
            raise CheckpointError(f"{path}: found a pointer of Git LFS, expected weights; run git "
                                  f"lfs pull in {path.parent}")


def _read_header(path: Path) -> dict[str, TensorEntry]:
    """Read what a safetensors file says of its tensors, and make sure that it holds them.

    Raises:
        CheckpointError: a file that was cut off, or that only points to another one.
    """
    require_no_pointer(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        head = stream.read(LENGTH_BYTES)
        length = int.from_bytes(head, "little")
        try:
            header, _ = parse_header(stream.read(length) if length < size else b"")
        except ValueError:
            raise CheckpointError(f"{path}: found {size:,} bytes that are no safetensors file; "
                                  "download or copy it again") from None
    expected = LENGTH_BYTES + length + max(
        (one["data_offsets"][1] for one in header.values()), default=0)
    if size < expected:
        raise CheckpointError(f"{path}: found {size:,} bytes, expected {expected:,}; the file was "
                              "cut off, download or copy it again")
    return header
