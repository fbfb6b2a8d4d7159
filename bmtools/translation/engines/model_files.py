"""Checks of translation models, without importing torch, and conversion to their tokens."""

from __future__ import annotations

import hashlib
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.errors import CheckpointError, setting
from bmtools.io.failures import reading
from bmtools.io.provenance.manifest import hash_file
from bmtools.models.checkpoint_files import check_directory
from bmtools.models.model_files import CONFIG, pickled_files, read_config, weight_bytes
from bmtools.text.languages import nllb_code, primary_language, three_letters
from bmtools.translation.settings import EngineConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Language tokens: NLLB, M2M-100 and mBART have them on both sides. Marian and MADLAD-400 put the
# token of the target language before the source.
_LANGUAGE_TOKEN = re.compile(
    r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|>>.+<<|<2\w+>")
_STATED_LANGUAGE = re.compile(r"^(?=>>)|(?<=<)(?=2\w+>)")
_BEFORE_SOURCE = (">>", "<2")
_READ = (".safetensors", ".json", ".model", ".spm", ".txt")
_TRANSLATES = ("ForConditionalGeneration", "MTModel")


def is_converted(directory: Path) -> bool:
    """Return whether a directory contains a CTranslate2 model."""
    return (directory / "model.bin").is_file() and any(directory.glob("*_vocabulary.*"))


def check_translation_model(directory: Path, engine: str) -> None:
    """Raise an error if a directory has no complete model for an engine; torch is not imported.

    Raises:
        CheckpointError: files are missing, or belong to another kind of model.
    """
    check_directory(directory)
    if engine == "ctranslate2" and is_converted(directory):
        return
    if not (directory / CONFIG).is_file():
        raise CheckpointError(f"{directory}: found no translation model (no {CONFIG}); expected "
                              f"{CONFIG} and model.safetensors")
    names = read_config(directory).get("architectures") or []
    if names and not names[0].endswith(_TRANSLATES):
        raise CheckpointError(f"{directory}: found no translation model (it is a {names[0]}); "
                              "expected one that writes text, such as MarianMTModel. Run: hf "
                              "download Helsinki-NLP/opus-mt-en-it --local-dir opus-mt-en-it")
    if engine != "ctranslate2" or not pickled_files(directory):
        weight_bytes(directory)


def hash_model(directory: Path, tokenizer: Path | None) -> str:
    """Hash the names and contents of the files that are read from a model and its tokenizer."""
    digest = hashlib.sha256()
    for one in (directory, *filter(None, [tokenizer])):
        for path in sorted(one.iterdir()):
            if path.suffix in _READ or re.fullmatch(r"(pytorch_)?model.*\.bin", path.name):
                digest.update(f"{path.name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


class Subwords:
    """Conversion between sentences and a model's tokens.

    Args:
        settings: name the languages, and the tokenizer or the model.

    Attributes:
        prefix: language tokens at the start of every source sentence.
        target_token: language token at the start of every translation, if the model expects one.
        positions: maximum number of tokens in the model, if it is known.
        max_length: tokens of the longest source sentence, including language tokens.
    """

    def __init__(self, settings: EngineConfig) -> None:
        self._directory = settings.tokenizer or settings.directory
        self.tokenizer = load_tokenizer(self._directory)
        self.vocabulary: dict[str, int] = {
            **self.tokenizer.get_vocab(), **getattr(self.tokenizer, "lang_token_to_id", {})}
        config = read_config(self._directory) if (self._directory / CONFIG).is_file() else {}
        # T5 and MADLAD-400 have no limit of positions, only the lengths used in training.
        positions = (config.get("max_position_embeddings") or config.get("n_positions")
                     or self.tokenizer.model_max_length)
        self.positions = None if positions > sys.maxsize // 2 else int(positions)
        self.max_length = settings.max_source_tokens or self.positions or 0
        if not self.max_length:
            raise CheckpointError(f"{self._directory}: does not state how long a sentence may be; "
                                  f"set {setting('max_source_tokens')}")
        self.prefix: list[str] = []
        self.target_token: str | None = None
        if any(_LANGUAGE_TOKEN.fullmatch(token) for token in self.vocabulary):
            token = self._language_token(settings.target_lang)
            if token.startswith(_BEFORE_SOURCE):
                self.prefix = [token]
            else:
                self.prefix, self.target_token = [
                    self._language_token(settings.source_lang)], token
        self._special = {*self.tokenizer.all_special_tokens, *self.prefix, self.target_token}

    def _language_token(self, language: str) -> str:
        """Find the token of a language."""
        short, long = primary_language(language), three_letters(language)
        for name in (nllb_code(language), f"__{short}__", f">>{long}<<", f">>{short}<<",
                     f"<2{short}>"):
            if name in self.vocabulary:
                return name
        some = sorted(token for token in self.vocabulary if _LANGUAGE_TOKEN.fullmatch(token))[:4]
        raise CheckpointError(f"{self._directory}: found no language token for {language!r}, only "
                              f"tokens such as {', '.join(some)}; use another model")

    def encode(self, sentence: str) -> list[str]:
        """Convert a sentence to tokens: language tokens, the sentence, the end of sentence.

        A special token in the sentence, such as `</s>`, is text; if the model cannot spell it with
        other tokens, it becomes the unknown token. A language token, such as `>>ita<<` at the start
        or `<2it>`, becomes text by adding a blank.
        """
        ids = self.tokenizer(_STATED_LANGUAGE.sub(" ", sentence), add_special_tokens=False,
                             verbose=False, split_special_tokens=True)["input_ids"]
        return [*self.prefix, *(
            self.tokenizer.unk_token or token if token in self._special else token
            for token in self.tokenizer.convert_ids_to_tokens(ids)), self.tokenizer.eos_token]

    def decode(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a translation, without language tokens and ends of sentences."""
        plain = [token for token in tokens if token not in self._special]
        return " ".join(self.tokenizer.convert_tokens_to_string(plain).split())


def load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a translation model without running code from it.

    Raises:
        CheckpointError: there is no tokenizer that can be loaded.
    """
    from transformers import AutoTokenizer

    with reading(directory, "found no tokenizer that can be loaded",
                 f"name the directory of the original model with {setting('tokenizer')}"), \
            warnings.catch_warnings():
        # Marian's normaliser is not used for encoding.
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        return AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
