"""Files of checkpoints as they are published, found without torch."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TypedDict

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import read_object

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
