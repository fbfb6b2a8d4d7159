"""Engine that uses CTranslate2, and the conversion of published models for it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmtools.errors import BmtoolsError, CheckpointError, setting
from bmtools.installation import require_extra
from bmtools.io.directories import cached
from bmtools.io.failures import reading
from bmtools.io.system import usable_cores
from bmtools.models.model_files import pickled_files
from bmtools.models.pickled_weights import read_weights
from bmtools.status import set_status
from bmtools.translation.engines.model_files import is_converted, load_tokenizer
from bmtools.translation.engines.neural import TYPES, Generated, NeuralTranslator, Search
from bmtools.translation.settings import EngineConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_BATCHES_EACH, _LEAST_TOKENS = 4, 256


class CTranslate2Translator(NeuralTranslator):
    """Translator with CTranslate2."""

    def __init__(self, config: EngineConfig) -> None:
        require_extra("ctranslate2", f"{setting('engine')} ctranslate2")
        import ctranslate2

        converted = is_converted(config.directory)
        device = config.device
        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        if config.precision == "auto" and not converted:
            config = replace(config, precision="int8" if device == "cpu" else "fp16")
        kind = "default" if config.precision == "auto" else \
            TYPES.get(config.precision, config.precision)
        supported = ctranslate2.get_supported_compute_types(device)
        if kind not in ("default", *supported):
            raise BmtoolsError(f"{setting('precision')} {config.precision} is not supported on "
                               f"this {device}; use {', '.join(sorted(supported))}")
        super().__init__(config)
        directory = config.directory if converted else convert(config, self.files)
        self._check_vocabulary(directory)
        # One core per batch is faster than all cores on one batch.
        self._workers = (config.workers or usable_cores()) if device == "cpu" else 1
        try:
            self._model = ctranslate2.Translator(
                str(directory), device=device, compute_type=kind, inter_threads=self._workers,
                intra_threads=1)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{directory}: {error}; expected the directory of a model converted by "
                "ct2-transformers-converter") from error

    def _check_vocabulary(self, directory: Path) -> None:
        """Compare the vocabularies of model and tokenizer.

        CTranslate2 reads an unknown token as `<unk>`, and without its language tokens a model
        writes nonsense.
        """
        known: set[str] = set()
        for path in sorted(directory.glob("*_vocabulary.*")):
            with reading(path, "no vocabulary could be loaded", "convert the model again"):
                content = path.read_text("utf-8")
                known.update(json.loads(content) if path.suffix == ".json" else content.split("\n"))
        own = set(self.subwords.vocabulary) - set(self.subwords.tokenizer.all_special_tokens)
        foreign = sorted(own.union(self.subwords.prefix) - known)
        if len(foreign) > len(own) / 100:
            raise CheckpointError(
                f"{directory}: does not contain {len(foreign)} of the tokenizer's {len(own)} "
                f"tokens, such as {', '.join(foreign[:3])}; name the directory that the model was "
                f"converted from with {setting('tokenizer')}, or with {setting('model')}")

    def generate(self, sources: Sequence[list[str]], longest: int,
                 search: Search) -> list[Generated]:
        """Translate tokens; CTranslate2 forms batches of similar length."""
        mark = self.subwords.target_token
        results = self._model.translate_batch(
            list(sources), target_prefix=[[mark]] * len(sources) if mark else None,
            max_batch_size=self._batch_tokens(sources), batch_type="tokens", max_input_length=0,
            max_decoding_length=longest, return_end_token=True, return_scores=True,
            **search._asdict())
        # The score is a mean over all tokens, including the language token that was given.
        return [Generated(tokens := result.hypotheses[0], round(
            result.scores[0] * len(tokens) / (len(tokens) - bool(mark)), 4)) for result in results]

    def _batch_tokens(self, sources: Sequence[list[str]]) -> int:
        """Return the batch size with which each worker gets several batches."""
        share = sum(map(len, sources)) // (_BATCHES_EACH * self._workers)
        return min(self.config.batch_tokens, max(share, _LEAST_TOKENS))


def convert(settings: EngineConfig, files: str) -> Path:
    """Return the directory of a converted model; convert the model if this was not done before.

    One process converts; other processes that need the same model wait for it. The directory
    appears once the conversion is complete.

    Args:
        settings: name the model and the data type of the weights.
        files: hash of the model's files.

    Raises:
        CheckpointError: CTranslate2 cannot convert the model.
        WriteError: the disk is full, or writing is not permitted.
    """
    def make(partial: Path) -> None:
        set_status(f"converting {settings.directory} for CTranslate2, once")
        _convert(settings, partial)

    name = f"{settings.directory.resolve().name}-{settings.precision}-{files[:16]}"
    return cached(f"ctranslate2/{name}", make)


def _convert(settings: EngineConfig, partial: Path) -> None:
    from ctranslate2.converters import TransformersConverter
    from transformers.utils import logging

    class Converter(TransformersConverter):
        """Converter that runs no code of a model, and corrects a setting from transformers 5."""

        def _load(self) -> object:
            with reading(settings.directory, "cannot be converted for CTranslate2",
                         "expected config.json and model.safetensors of Marian, M2M-100, NLLB, "
                         "MBart or T5"):
                return super()._load()

        def load_model(self, kind: Any, name: str, **options: Any) -> PreTrainedModel:
            # Many OPUS-MT models have only pickled weights, which `read_weights` reads safely.
            source, state = (None, read_weights(Path(name))) if pickled_files(Path(name)) \
                else (name, None)
            model, found = kind.from_pretrained(
                source, state_dict=state, local_files_only=True, use_safetensors=True,
                trust_remote_code=False, output_loading_info=True, **options)
            if found["missing_keys"]:
                raise CheckpointError(f"{name}: the weights {min(found['missing_keys'])} are "
                                      "missing; download or copy it again")
            # transformers 5 says "tied" for every T5; the converter reads "divide the outputs".
            if (config := model.config).model_type in ("t5", "mt5"):
                config.tie_word_embeddings = getattr(config, "scale_decoder_outputs", False)
            return model

        def load_tokenizer(self, _kind: object, name: str,
                           **_options: object) -> PreTrainedTokenizerBase:
            tokenizer = load_tokenizer(settings.tokenizer or Path(name))
            whole = {**tokenizer.get_vocab(), **getattr(tokenizer, "lang_token_to_id", {})}
            tokenizer.get_vocab = lambda: whole  # type: ignore[method-assign]
            return tokenizer

    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Converter(str(settings.directory)).convert(str(partial), force=True, quantization=TYPES.get(
            settings.precision, settings.precision))
