"""Conversion of published translation models for CTranslate2, once for all."""

from __future__ import annotations

import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bmtools.errors import CheckpointError
from bmtools.io.directories import new_directory
from bmtools.io.failures import naming, reading
from bmtools.io.unfinished import remove_abandoned
from bmtools.models.pickled_weights import read_weights
from bmtools.models.published_files import pickled_files
from bmtools.status import set_status
from bmtools.translation.engines.model_files import check_sequence_to_sequence, is_converted
from bmtools.translation.engines.subwords import load_tokenizer
from bmtools.translation.settings import ModelConfig


def convert(settings: ModelConfig, files: str) -> Path:
    """Return the conversion of a model, which is made where there is none.

    One process converts, others that want the same wait for it. A conversion appears when it is
    whole.

    Args:
        settings: name the model, the type of the weights, and where conversions are.
        files: hash of the model's files.

    Raises:
        CheckpointError: no model that CTranslate2 can convert.
        WriteError: no room, or no permission to write.
    """
    place = settings.convert_to or _cache() / "ctranslate2"
    name = f"{settings.directory.resolve().name}-{settings.compute_type}-{files[:16]}"
    target = place / name
    if not is_converted(target):
        check_sequence_to_sequence(settings.directory, may_be_pickled=True)
        with _alone(target):
            remove_abandoned(place, target)
            if not is_converted(target):
                set_status(f"converting {settings.directory} for CTranslate2, once")
                with new_directory(target) as partial:
                    _convert(settings, partial)
    return target


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bmtools"


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Wait until no other process makes a directory; the kernel ends the lock of a killed one."""
    path = target.with_name(f".{target.name}.lock")
    with naming(target):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    with lock:
        with suppress(OSError):  # the file system knows no locks
            set_status(f"waiting for another process that converts to {target}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        path.unlink(missing_ok=True)


def _convert(settings: ModelConfig, partial: Path) -> None:
    from ctranslate2.converters import TransformersConverter
    from transformers.utils import logging

    class Converter(TransformersConverter):
        """Converter that runs nothing of a model, and mends what transformers 5 says of it."""

        def _load(self) -> Any:
            with reading(settings.directory, "cannot be converted for CTranslate2",
                         "expected config.json and model.safetensors of Marian, M2M-100, NLLB, "
                         "MBart or T5"):
                return super()._load()

        def load_model(self, kind: Any, name: str, **options: Any) -> Any:
            # Many models of OPUS-MT have pickled weights alone, which only `read_weights` reads.
            source, state = (None, read_weights(Path(name))) if pickled_files(Path(name)) \
                else (name, None)
            model, found = kind.from_pretrained(
                source, state_dict=state, local_files_only=True, use_safetensors=True,
                trust_remote_code=False, output_loading_info=True, **options)
            if found["missing_keys"]:
                raise CheckpointError(f"{name}: lacks the weights {min(found['missing_keys'])}; "
                                      "download or copy it again")
            # Says "tied" of every T5 now; the converter takes it for "divide the outputs".
            if (config := model.config).model_type in ("t5", "mt5"):
                config.tie_word_embeddings = getattr(config, "scale_decoder_outputs", False)
            return model

        def load_tokenizer(self, _kind: Any, name: str, **_options: Any) -> Any:
            tokenizer = load_tokenizer(settings.tokenizer or Path(name))
            whole = {**tokenizer.get_vocab(), **getattr(tokenizer, "lang_token_to_id", {})}
            tokenizer.get_vocab = lambda: whole  # type: ignore[method-assign]
            return tokenizer

    logging.disable_progress_bar()
    made = partial / "made"  # a directory that the converter makes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Converter(str(settings.directory)).convert(str(made), quantization=settings.compute_type)
    for path in made.iterdir():
        path.rename(partial / path.name)
    made.rmdir()
