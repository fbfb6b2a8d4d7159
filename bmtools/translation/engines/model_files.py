"""Files of translation models, looked at before torch is imported."""

from __future__ import annotations

import shlex
from pathlib import Path

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint_files import CONFIG, check_directory, read_config, weight_bytes

_TRANSLATES = ("ForConditionalGeneration", "MTModel")


def check_converted(directory: Path) -> None:
    """Refuse a directory without a model of CTranslate2.

    Raises:
        CheckpointError: with the command that converts one.
    """
    check_directory(directory)
    if not any(directory.glob("*_vocabulary.*")):
        name = shlex.quote(str(directory))
        raise CheckpointError(
            f"{directory}: found no vocabulary; expected the directory of a model converted by "
            f"ct2-transformers-converter: ct2-transformers-converter --model {name} --output_dir "
            f"{name}-ct2")


def check_sequence_to_sequence(directory: Path) -> None:
    """Refuse a directory without a whole sequence-to-sequence model of transformers.

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
    weight_bytes(directory)
