"""Tokenizers read from their own files, without transformers, whose import takes a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tokenizers import Tokenizer

from bmtools.io.provenance.manifest import read_manifest
from bmtools.vocab.tokenizer import CONFIG, TOKENIZER, check_casing, fingerprint, require_encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Classes that take the pipeline of tokenizer.json as it is; others rebuild a part of it.
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")


class BackendTokenizer:
    """The part of transformers' fast tokenizers that encoding and scoring need.

    Args:
        backend: without truncation and padding.
        roles: token by role: bos, eos, unk, sep, pad, cls or mask.
        extra: further special tokens.
    """

    def __init__(self, backend: Tokenizer, roles: Mapping[str, str],
                 extra: tuple[str, ...] = ()) -> None:
        self.backend_tokenizer = backend
        self.all_special_tokens = list(dict.fromkeys((*roles.values(), *extra)))
        self.all_special_ids = [backend.token_to_id(token) for token in self.all_special_tokens]
        for role in _ROLES:
            setattr(self, f"{role}_token_id",
                    backend.token_to_id(roles[role]) if role in roles else None)

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens with their ids."""
        return self.backend_tokenizer.get_vocab()


def read_inference_tokenizer(directory: Path) -> tuple[PreTrainedTokenizerFast, str] | None:
    """Read a tokenizer and its fingerprint, which is that of `bmtools.json` if there is one.

    Returns:
        None where transformers might make another one of the same files.

    Raises:
        CheckpointError: casing that contradicts itself.
    """
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        backend = Tokenizer.from_file(str(directory / TOKENIZER))
        backend.no_truncation()
        backend.no_padding()
        require_encoding(directory, backend)
        roles = {role: _content(config[f"{role}_token"])
                 for role in _ROLES if config.get(f"{role}_token")}
        extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
        tokenizer = cast("PreTrainedTokenizerFast",
                         BackendTokenizer(backend, roles, tuple(map(_content, extra))))
        recorded = read_manifest(directory).get("vocabulary")
    except Exception:  # transformers reads it, or says what is wrong
        return None
    special = {token.content for token in backend.get_added_tokens_decoder().values()
               if token.special}
    if not (special.issuperset(tokenizer.all_special_tokens) and {"pad", "cls", "sep"} <= {*roles}):
        return None
    if recorded is None and config.get("tokenizer_class") not in _GENERIC:
        return None
    vocabulary = fingerprint(tokenizer)
    if recorded is not None and recorded != vocabulary:
        return None
    check_casing(directory, tokenizer)
    return tokenizer, vocabulary


def _content(token: Any) -> str:
    content = token["content"] if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise TypeError(content)
    return content
