"""A neural model's tokenizer, and the language marks that the model expects."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bmtools.corpus.languages import nllb_code, primary_language, three_letters
from bmtools.errors import CheckpointError
from bmtools.translation.settings import ModelConfig

# How models write languages: NLLB, M2M-100 and mBART mark both sides, Marian and MADLAD-400 put
# the target before the source.
_MARK = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}|__[a-z]{2,3}__|[a-z]{2}_[A-Z]{2}|>>.+<<|<2\w+>")
_BEFORE_SOURCE = (">>", "<2")


class Subwords:
    """Turns sentences into a model's tokens, and its tokens into sentences.

    Args:
        settings: names the tokenizer, or else the model.
        source: ISO 639-1 code.
        target: ISO 639-1 code.

    Attributes:
        prefix: marks that open every source sentence.
        target_mark: mark that opens every translation, where the model wants one.
        positions: how many tokens the model has room for, where that is known.
        max_tokens: longest source sentence, marks included.
    """

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        self._directory = settings.tokenizer or settings.model
        self.tokenizer = _load(self._directory)
        self.vocabulary: dict[str, int] = {
            **self.tokenizer.get_vocab(), **getattr(self.tokenizer, "lang_token_to_id", {})}
        self.positions = self._positions()
        self.max_tokens = settings.max_tokens or self.positions or 0
        if not self.max_tokens:
            raise CheckpointError(f"{self._directory}: does not say how long a sentence may be; "
                                  "--max-tokens does")
        self.prefix: list[str] = []
        self.target_mark: str | None = None
        if any(_MARK.fullmatch(token) for token in self.vocabulary):
            self._set_marks(settings, source, target)
        elif settings.source_code or settings.target_code:
            raise CheckpointError(f"{self._directory}: knows no languages by name, it has one "
                                  "pair; leave out --source-code and --target-code")
        self._special = {*self.tokenizer.all_special_tokens, *self.prefix, self.target_mark}

    def _set_marks(self, settings: ModelConfig, source: str, target: str) -> None:
        mark = self._mark(target, settings.target_code, "--target-code")
        if mark.startswith(_BEFORE_SOURCE):
            self.prefix = [mark]
        else:
            self.prefix = [self._mark(source, settings.source_code, "--source-code")]
            self.target_mark = mark

    def _mark(self, language: str, code: str | None, option: str) -> str:
        """Find the token of a language."""
        short, long = primary_language(code or language), code or three_letters(language)
        names = [code] if code else [nllb_code(language)]
        names += [f"__{short}__", f">>{long}<<", f">>{short}<<", f"<2{short}>"]
        for name in names:
            if name in self.vocabulary:
                return name
        some = sorted(token for token in self.vocabulary if _MARK.fullmatch(token))[:4]
        raise CheckpointError(f"{self._directory}: found no mark for {code or language!r}, only "
                              f"some like {', '.join(some)}; {option} names one")

    def _positions(self) -> int | None:
        """Ask the model's configuration, then the tokenizer."""
        config = self._directory / "config.json"
        content = json.loads(config.read_text("utf-8")) if config.is_file() else {}
        positions = content.get("max_position_embeddings") or self.tokenizer.model_max_length
        return None if positions > sys.maxsize // 2 else int(positions)

    def encode(self, sentence: str) -> list[str]:
        """Cut a sentence into tokens: marks, the sentence, the end of sentence."""
        ids = self.tokenizer(sentence, add_special_tokens=False, verbose=False)["input_ids"]
        return [*self.prefix, *self.tokenizer.convert_ids_to_tokens(ids), self.tokenizer.eos_token]

    def decode(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a translation, marks and ends left out."""
        plain = [token for token in tokens if token not in self._special]
        return " ".join(self.tokenizer.convert_tokens_to_string(plain).split())

    def ends(self, tokens: Sequence[str]) -> bool:
        """Tell whether the model ended the translation by itself."""
        return self.tokenizer.eos_token in tokens[1:]


def _load(directory: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        with warnings.catch_warnings():
            # Marian's normaliser is not used for encoding.
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
            return AutoTokenizer.from_pretrained(
                directory, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{directory}: holds no tokenizer that can be loaded ({reason}); "
                              "--tokenizer names the directory of the original model") from error
