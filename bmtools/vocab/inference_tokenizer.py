"""Tokenizers read from their own files, without transformers, whose import takes a second."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tokenizers import Tokenizer

from bmtools.io.manifest import read_manifest
from bmtools.vocab.tokenizer import check_casing, fingerprint, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Classes that take the pipeline of tokenizer.json as it is; others rebuild a part of it.
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")


class InferenceTokenizer(Protocol):
    """The part of transformers' fast tokenizers that encoding and scoring need."""

    backend_tokenizer: Tokenizer
    bos_token_id: int | None
    eos_token_id: int | None
    unk_token_id: int | None
    sep_token_id: int | None
    pad_token_id: int | None
    cls_token_id: int | None
    mask_token_id: int | None
    all_special_ids: list[int]
    all_special_tokens: list[str]

    def __len__(self) -> int: ...

    def get_vocab(self) -> dict[str, int]: ...


class BackendTokenizer:
    """A tokenizer with the roles of its special tokens; see `InferenceTokenizer`.

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
        ids = {role: backend.token_to_id(token) for role, token in roles.items()}
        self.bos_token_id, self.eos_token_id, self.unk_token_id, self.sep_token_id, \
            self.pad_token_id, self.cls_token_id, self.mask_token_id = map(ids.get, _ROLES)

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size()

    def get_vocab(self) -> dict[str, int]:
        """Return all tokens with their ids."""
        return self.backend_tokenizer.get_vocab()


def read_tokenizer(directory: Path) -> BackendTokenizer | PreTrainedTokenizerFast:
    """Read a tokenizer, by transformers where that might make another one of the same files.

    Raises:
        CheckpointError: see `load_tokenizer`.
    """
    return _read(directory) or load_tokenizer(directory)


def _read(directory: Path) -> BackendTokenizer | None:
    try:
        config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
        backend = Tokenizer.from_file(str(directory / "tokenizer.json"))
        backend.no_truncation()
        backend.no_padding()
        roles = {role: _content(config[f"{role}_token"])
                 for role in _ROLES if config.get(f"{role}_token")}
        extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
        tokenizer = BackendTokenizer(backend, roles, tuple(map(_content, extra)))
        recorded = read_manifest(directory).get("vocabulary")
    except Exception:  # of files that `load_tokenizer` reads, or says what is wrong with
        return None
    special = {token.content for token in backend.get_added_tokens_decoder().values()
               if token.special}
    if not special.issuperset(tokenizer.all_special_tokens) or not {"pad", "cls", "sep"} <= {*roles}:
        return None
    if recorded is None and config.get("tokenizer_class") not in _GENERIC:
        return None
    if recorded is not None and recorded != fingerprint(tokenizer):
        return None
    check_casing(directory, tokenizer)
    return tokenizer


def _content(token: Any) -> str:
    content = token["content"] if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise TypeError(content)
    return content
