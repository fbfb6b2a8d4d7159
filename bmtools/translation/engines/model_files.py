"""Files of translation models, looked at before torch is imported."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import hash_file
from bmtools.models.checkpoint_files import CONFIG, check_directory, read_config, weight_bytes
from bmtools.models.published_files import pickled_files

_READ = (".safetensors", ".json", ".model", ".spm", ".txt")
_TRANSLATES = ("ForConditionalGeneration", "MTModel")


def is_converted(directory: Path) -> bool:
    """Tell whether a directory holds a model of CTranslate2."""
    return (directory / "model.bin").is_file() and any(directory.glob("*_vocabulary.*"))


def check_translation_model(directory: Path) -> None:
    """Refuse a directory without a model of CTranslate2, and without one that can be converted.

    Raises:
        CheckpointError: see `check_sequence_to_sequence`.
    """
    check_directory(directory)
    if not is_converted(directory):
        check_sequence_to_sequence(directory, may_be_pickled=True)


def hash_model(directory: Path, tokenizer: Path | None) -> str:
    """Hash the files of a model and its tokenizer that are read, with their names."""
    digest = hashlib.sha256()
    for one in (directory, *filter(None, [tokenizer])):
        for path in sorted(one.iterdir()):
            if path.suffix in _READ or re.fullmatch(r"(pytorch_)?model.*\.bin", path.name):
                digest.update(f"{path.name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def check_sequence_to_sequence(directory: Path, may_be_pickled: bool = False) -> None:
    """Refuse a directory without a whole sequence-to-sequence model of transformers.

    Args:
        directory: of the model.
        may_be_pickled: whether weights that are no safetensors will do.

    Raises:
        CheckpointError: files are missing, or are those of another kind of model.
    """
    check_directory(directory)
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: no model for translation (no {CONFIG}); expected "
                              f"{CONFIG} and model.safetensors")
    names = read_config(directory).get("architectures") or []
    if names and not names[0].endswith(_TRANSLATES):
        raise CheckpointError(f"{directory}: no model for translation (it is a {names[0]}); "
                              "expected one that writes text, such as MarianMTModel: hf download "
                              "Helsinki-NLP/opus-mt-en-it --local-dir opus-mt-en-it")
    if not (may_be_pickled and pickled_files(directory)):
        weight_bytes(directory)
