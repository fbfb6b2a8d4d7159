"""Facts from a tokenizer's JSON: components, model, unknown token, the text of its tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer

METASPACE = "▁"
"""SentencePiece's sign for a space."""
ENCODING_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")
"""Keys of `tokenizer.json` that decide which ids a text gets."""
_NESTED = ("normalizers", "pretokenizers", "decoders", "processors")
_UNUSED = re.compile(r"\[unused_?\d+\]")  # BERT keeps these free for later
# GPT-2's letters for bytes: visible ones are themselves, others follow U+0100.
_VISIBLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
            *range(ord("®"), ord("ÿ") + 1)]
_HIDDEN = sorted({*range(256)} - {*_VISIBLE})
_BYTE_OF = {chr(byte): byte for byte in _VISIBLE} | {
    chr(256 + order): byte for order, byte in enumerate(_HIDDEN)}

Component = Mapping[str, Any]
"""A normalizer, pre-tokenizer, post-processor or decoder as JSON."""


def flat_components(component: Component | None) -> list[Component]:
    """List a component, or those of a nested sequence one after the other."""
    if component is None:
        return []
    if component["type"] != "Sequence":
        return [component]
    return [one for key in _NESTED for inner in component.get(key, ())
            for one in flat_components(inner)]


def lowercases(normalizer: Component | None) -> bool:
    """Return whether a normalizer lower-cases text."""
    return any(one["type"] == "Lowercase" or one.get("lowercase")
               for one in flat_components(normalizer))


def model_name(backend: Tokenizer) -> str:
    """Name a tokenizer's model: WordPiece, byte-level BPE, BPE, Unigram or WordLevel."""
    content = json.loads(backend.to_str())
    name: str = content["model"]["type"]
    return f"byte-level {name}" if _is_byte_level(content) else name


def unknown_ids(backend: Tokenizer) -> frozenset[int]:
    """Return the id of the unknown token, or nothing where everything can be spelled."""
    model = json.loads(backend.to_str())["model"]
    if model["type"] == "Unigram":
        unknown = model["unk_id"]
    else:
        unknown = backend.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return frozenset() if unknown is None else frozenset((unknown,))


def token_texts(backend: Tokenizer) -> dict[int, str]:
    """Return the text of each token by id, with a space first where it begins a word.

    `##oma` of WordPiece, `oma` of byte-level BPE and of Unigram are one; so are `lymph` of
    WordPiece, `Ġlymph` and `▁lymph`. Special tokens and BERT's unused ones are left out.
    """
    content = json.loads(backend.to_str())
    special = {token["id"] for token in content["added_tokens"] if token["special"]}
    tokens = {number: token for token, number in backend.get_vocab().items()
              if number not in special and not _UNUSED.fullmatch(token)}
    if _is_byte_level(content):
        return {number: _decode_bytes(token) for number, token in tokens.items()}
    if prefix := content["model"].get("continuing_subword_prefix"):
        return {number: token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
                for number, token in tokens.items()}
    return {number: token.replace(METASPACE, " ") for number, token in tokens.items()}


def _is_byte_level(content: Mapping[str, Any]) -> bool:
    return any(one["type"] == "ByteLevel" for key in ("pre_tokenizer", "decoder")
               for one in flat_components(content[key]))


def _decode_bytes(token: str) -> str:
    """Undo the byte-level alphabet; a part of a character comes back as its bytes."""
    if any(character not in _BYTE_OF for character in token):
        return token  # an added token, kept as it is
    return bytes(map(_BYTE_OF.__getitem__, token)).decode("utf-8", "backslashreplace")
