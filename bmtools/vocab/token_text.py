"""What tokens of different kinds of tokenizers spell, so that vocabularies can be compared."""

from __future__ import annotations

import json
import re
from typing import Any

from bmtools.vocab.pipeline import component_types

BLANK = "▁"
"""How Metaspace writes a space."""
# Rows that BERT keeps free for later.
_UNUSED = re.compile(r"\[unused_?\d+\]")


def kind_of(backend: Any) -> str:
    """Name a tokenizer's kind: WordPiece, byte-level BPE, BPE, Unigram or WordLevel."""
    steps = json.loads(backend.to_str())
    kind = str(steps["model"]["type"])
    return f"byte-level {kind}" if _has_bytes(steps) else kind


def spellings(backend: Any) -> dict[int, str]:
    """Say what each token spells, with a space first where it begins a word.

    `##oma` of WordPiece, `oma` of byte-level BPE and of Unigram are one; so are `lymph` of
    WordPiece, `Ġlymph` and `▁lymph`. Special tokens and BERT's unused ones are left out.
    """
    steps = json.loads(backend.to_str())
    special = {token["id"] for token in steps["added_tokens"] if token["special"]}
    tokens = {number: token for token, number in backend.get_vocab().items()
              if number not in special and not _UNUSED.fullmatch(token)}
    if _has_bytes(steps):
        return {number: _from_bytes(token) for number, token in tokens.items()}
    inner = steps["model"].get("continuing_subword_prefix")
    if inner:
        return {number: token.removeprefix(inner) if token.startswith(inner) else f" {token}"
                for number, token in tokens.items()}
    return {number: token.replace(BLANK, " ") for number, token in tokens.items()}


def _has_bytes(steps: dict[str, Any]) -> bool:
    return "ByteLevel" in (component_types(steps["pre_tokenizer"])
                           | component_types(steps["decoder"]))


def _from_bytes(token: str) -> str:
    """Undo the byte-level alphabet; a part of a character comes back as its bytes."""
    if any(character not in _BYTE_OF for character in token):
        return token  # an added token, which stands as it is
    found = bytes(_BYTE_OF[character] for character in token)
    return found.decode("utf-8", "backslashreplace")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: visible ones stand for themselves, others from U+0100 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
               *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{chr(byte): byte for byte in visible},
            **{chr(256 + order): byte for order, byte in enumerate(hidden)}}


_BYTE_OF = _byte_alphabet()
