"""Signatures of corpora in a directory, for comparisons without their texts.

Each run adds a part, `part-00000` and so on: arrays in numpy's format, nothing pickled, and
`bmtools.json`. A part appears when it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.corpus.duplicates.sketches import ROWS, TYPES, Part
from bmtools.errors import CheckpointError, DataError
from bmtools.io.directories import new_directory
from bmtools.io.failures import reading
from bmtools.io.json_files import read_manifest
from bmtools.io.provenance.manifest import Manifest
from bmtools.io.sources import source_name
from bmtools.io.step import Step
from bmtools.records import JsonObject

COMMAND = "dedup"
_VERSION = 1  # of folding, words and their hashes
_PART, _PARTS = "part-{:05}", "part-?????"
_WAY_OUT = "remove this part, or make it again"


def open_parts(directory: Path, config: DedupConfig, allow_none: bool = False) -> list[Part]:
    """Map all parts of a directory; there may be none if that is allowed.

    Raises:
        DataError: signatures that were made with other settings than these.
        CheckpointError: no signatures, or damaged ones.
    """
    paths = list_parts(directory)
    if not paths and (not allow_none or (directory.is_dir() and any(directory.iterdir()))):
        raise CheckpointError(f"{directory}: found no signatures, expected a directory that "
                              "bmtools dedup --signatures wrote")
    return [_open_part(path, config) for path in paths]


def list_parts(directory: Path) -> list[Path]:
    """List the parts of a directory, none where it is a file or absent."""
    return sorted(directory.glob(_PARTS)) if directory.is_dir() else []


def _open_part(path: Path, config: DedupConfig) -> Part:
    manifest = read_manifest(path)
    if manifest.get("command") != COMMAND:
        raise CheckpointError(f"{path}: found no signatures; {_WAY_OUT}")
    found, expected = manifest.get("settings", {}), _identity(config)
    for name, value in expected.items():
        if found.get(name) != value:
            raise DataError(f"{path}: made with {name} {found.get(name)}, found {value}; compare "
                            "with the settings of the signatures, or keep others elsewhere")
    arrays = {}
    for name, kind in TYPES.items():
        file = path / f"{name}.npy"
        with reading(file, "cannot be read", _WAY_OUT):
            arrays[name] = np.load(file, mmap_mode="r", allow_pickle=False)
            if arrays[name].dtype != kind or not arrays[name].ndim:
                raise ValueError(f"found {arrays[name].dtype}, expected {kind}")
    records, ends = len(arrays["digests"]), arrays["id_ends"]
    shapes = {"signatures": (records, expected["permutations"]), "ids": (int(ends[-1:].sum()),)}
    for name, array in arrays.items():
        if array.shape != shapes.get(name, (records,)):
            raise CheckpointError(f"{path / name}.npy: found the shape {array.shape}, expected "
                                  f"{shapes.get(name, (records,))}; {_WAY_OUT}")
    if (np.diff(ends, prepend=0) < 0).any():
        raise CheckpointError(f"{path}/id_ends.npy: found ids that overlap; {_WAY_OUT}")
    inputs = manifest.get("inputs", {})
    return Part(arrays, [(0, f"{path.parent.name}/{path.name} ({', '.join(inputs)})")])


def refuse_known(directory: Path, hashes: Mapping[str, str]) -> None:
    """Refuse to add files whose signatures are in a directory already.

    Raises:
        DataError: names the file and the part.
    """
    for path in list_parts(directory):
        known = read_manifest(path).get("inputs", {}).values()
        for name, digest in hashes.items():
            if digest in known:
                raise DataError(f"{name}: {path} has its signatures already, so that all of it "
                                "would be duplicates; leave it out, or remove that part")


def add_signatures(directory: Path, part: Part, stays: np.ndarray, hashes: Mapping[str, str],
                   config: DedupConfig, step: Step | None = None) -> Path:
    """Add a part with the records that stay of a corpus.

    Args:
        directory: of the signatures.
        part: sketches of the corpus.
        stays: (records,) bool.
        hashes: of its files, by name.
        config: that the sketches were made with.
        step: the command, if one runs.
    """
    numbers = np.flatnonzero(stays)
    directory.mkdir(parents=True, exist_ok=True)
    used = [int(path.name.partition("-")[2]) for path in list_parts(directory)]
    target = directory / _PART.format(max(used, default=-1) + 1)
    with new_directory(target) as unfinished:
        sizes = np.diff(part.arrays["id_ends"], prepend=0)[numbers]
        shapes: dict[str, tuple[int, ...]] = {"ids": (int(sizes.sum()),)}
        for name, kind in TYPES.items():
            array = part.arrays[name]
            with (unfinished / f"{name}.npy").open("wb") as stream:
                shape = shapes.get(name, (len(numbers), *array.shape[1:]))
                np.lib.format.write_array_header_1_0(stream, {
                    "descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False,
                    "shape": shape})
                for first in range(0, len(numbers), ROWS):
                    chosen = numbers[first:first + ROWS]
                    if name == "ids":
                        stream.write("".join(map(part.id, chosen.tolist())).encode())
                    elif name == "id_ends":
                        stream.write(np.cumsum(sizes)[first:first + ROWS].astype(kind).tobytes())
                    else:
                        stream.write(array[chosen].tobytes())
                    part.forget_pages()
        Manifest(COMMAND, _identity(config), "", config.seed,
                 {source_name(name): digest for name, digest in hashes.items()},
                 results={"records": len(numbers)}, step=step).write(unfinished)
    return target


def _identity(config: DedupConfig) -> JsonObject:
    """Return what two signatures must have in common to be compared."""
    found: JsonObject = {"duplicates": config.duplicates, "version": _VERSION, "permutations": 0}
    if config.duplicates == "near":
        from rensa import RMinHash

        found |= {"ngram_words": config.ngram_words, "permutations": config.permutations,
                  "seed": config.seed, "rensa_version": RMinHash.ALGORITHM_VERSION}
    return found
