"""Vocabularies that only encode: tokenizer directories, single files, lists of tokens."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.sources import read_lines
from bmtools.vocab.inference_tokenizer import read_inference_tokenizer
from bmtools.vocab.tokenizer import (
    CONFIG,
    METASPACE,
    TOKENIZER,
    VOCAB,
    is_uncased,
    load_tokenizer,
    lowercases,
    model_name,
)

_UNKNOWN = "[UNK]"
_SPECIAL = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Uncased vocabularies have a few capitals too: SciBERT's has `##TM` from the trade mark sign and
# Greek letters, 0.6 %. A cased one has thousands of capitalised words.
_MIN_CASED_RATIO = 0.05


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer that only has to encode.

    Args:
        backend: without truncation and padding.
        uncased: it lower-cases text.
        casing_assumed: its casing is a guess from the tokens, as no file says it.
    """

    backend: Tokenizer
    uncased: bool
    casing_assumed: bool = False

    @property
    def casing(self) -> str:
        """Casing in a word: cased or uncased."""
        return "uncased" if self.uncased else "cased"

    def facts(self) -> dict[str, Any]:
        """Return size, model and casing, as reports name them."""
        return {"vocab_size": self.backend.get_vocab_size(),
                "tokenizer_model": model_name(self.backend),
                "casing": self.casing, "casing_assumed": self.casing_assumed}


def load_vocabulary(path: Path) -> Vocabulary:
    """Load a tokenizer directory, a checkpoint, a tokenizer.json or a vocab.txt of WordPiece.

    Nothing says the casing of a vocab.txt alone. Where one in twenty of its tokens or more has a
    capital it is taken for cased, and text keeps its case; otherwise text is lower-cased without
    accents, as by BERT's uncased models. `Vocabulary.casing_assumed` is set then.

    Raises:
        CheckpointError: no tokenizer, or casing that contradicts itself.
    """
    if path.is_dir():
        has_more = any((path / name).is_file() for name in (TOKENIZER, CONFIG, "config.json"))
        if (path / VOCAB).is_file() and not has_more:
            return _bare_wordpiece(path / VOCAB)
        read = read_inference_tokenizer(path)
        tokenizer = read[0] if read else load_tokenizer(path)
        return Vocabulary(tokenizer.backend_tokenizer, is_uncased(tokenizer))
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file or directory, expected a tokenizer, "
                              f"a checkpoint, a {TOKENIZER} or a {VOCAB}")
    if path.suffix != ".json":
        return _bare_wordpiece(path)
    with reading(path, "no tokenizer could be loaded",
                 f"expected a {TOKENIZER}, a {VOCAB} or a directory"):
        backend = Tokenizer.from_file(str(path))
    backend.no_truncation()
    backend.no_padding()
    return Vocabulary(backend, lowercases(json.loads(backend.to_str())["normalizer"]))


def load_backend(path: Path) -> Tokenizer:
    """Load a tokenizer without transformers, which takes a second and 200 MB, where possible.

    Raises:
        CheckpointError: no tokenizer, or casing that contradicts itself.
    """
    try:
        backend = Tokenizer.from_file(str(path / TOKENIZER))
        stated = json.loads((path / CONFIG).read_text("utf-8")).get("do_lower_case")
    except Exception:  # `load_vocabulary` reports what is wrong
        stated = None
    if stated is not None:
        normal = "A" if backend.normalizer is None else backend.normalizer.normalize_str("A")
        if bool(stated) == (normal.strip(f" {METASPACE}") == "a"):
            return backend
    return load_vocabulary(path).backend


def _bare_wordpiece(path: Path) -> Vocabulary:
    """Build BERT's tokenizer from a list of tokens, one a line in the order of ids."""
    tokens = [line for _, line in read_lines(str(path))]
    if _UNKNOWN not in tokens:
        raise CheckpointError(f"{path}: found no line {_UNKNOWN}, expected the {VOCAB} of a "
                              "WordPiece tokenizer, one token a line; else name the directory")
    lettered = [token for token in tokens if token.lower() != token.upper()
                and not (token.startswith("[") and token.endswith("]"))]
    capital = sum(token != token.lower() for token in lettered)
    uncased = not capital or capital < _MIN_CASED_RATIO * len(lettered)
    backend = Tokenizer(models.WordPiece(
        vocab={token: number for number, token in enumerate(tokens)}, unk_token=_UNKNOWN,
        max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(lowercase=uncased, strip_accents=uncased)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([token for token in tokens if token in _SPECIAL])
    return Vocabulary(backend, uncased, casing_assumed=True)
