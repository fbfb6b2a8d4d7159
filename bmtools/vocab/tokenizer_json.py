"""Facts read from a tokenizer's JSON: components, model, unknown id, what its tokens spell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from tokenizers import Tokenizer

METASPACE = "▁"
"""How SentencePiece writes a space."""
_NESTED = ("normalizers", "pretokenizers", "decoders", "processors")
_UNUSED = re.compile(r"\[unused_?\d+\]")  # rows that BERT keeps free for later

Component = Mapping[str, Any]
"""A normalizer, pre-tokenizer, post-processor or decoder as JSON."""


class AddedTokenJson(TypedDict):
    """A token beside the model's own ones."""

    id: int
    content: str
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool
    special: bool


class TokenizerJson(TypedDict):
    """Content of `tokenizer.json`."""

    truncation: Component | None
    padding: Component | None
    added_tokens: list[AddedTokenJson]
    normalizer: Component | None
    pre_tokenizer: Component | None
    post_processor: Component | None
    decoder: Component | None
    model: dict[str, Any]


ENCODING_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")
"""Keys that decide which ids a text gets."""


def tokenizer_json(backend: Tokenizer) -> TokenizerJson:
    """Return a tokenizer's content as `tokenizer.json` holds it."""
    content: TokenizerJson = json.loads(backend.to_str())
    return content


def encoding_parts(backend: Tokenizer) -> dict[str, Any]:
    """Return the parts of a tokenizer that decide which ids a text gets."""
    content: dict[str, Any] = json.loads(backend.to_str())
    return {key: content[key] for key in ENCODING_PARTS}


def flat_components(component: Component | None) -> Iterator[Component]:
    """Yield a component, or those of a nested sequence one after the other."""
    if component is None:
        return
    if component["type"] == "Sequence":
        for key in _NESTED:
            for inner in component.get(key, ()):
                yield from flat_components(inner)
    else:
        yield component


def component_types(component: Component | None) -> set[str]:
    """Return the types of a component or of those in a sequence."""
    return {one["type"] for one in flat_components(component)}


def lowercases(normalizer: Component | None) -> bool:
    """Return whether a normalizer lower-cases text."""
    return any(one["type"] == "Lowercase" or one.get("lowercase")
               for one in flat_components(normalizer))


def model_name(backend: Tokenizer) -> str:
    """Name a tokenizer's model: WordPiece, byte-level BPE, BPE, Unigram or WordLevel."""
    content = tokenizer_json(backend)
    name = str(content["model"]["type"])
    return f"byte-level {name}" if _is_byte_level(content) else name


def unknown_ids(backend: Tokenizer) -> frozenset[int]:
    """Return the id of the unknown token, or nothing where everything can be spelled."""
    model = tokenizer_json(backend)["model"]
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
    content = tokenizer_json(backend)
    special = {token["id"] for token in content["added_tokens"] if token["special"]}
    tokens = {number: token for token, number in backend.get_vocab().items()
              if number not in special and not _UNUSED.fullmatch(token)}
    if _is_byte_level(content):
        return {number: _decode_bytes(token) for number, token in tokens.items()}
    prefix = content["model"].get("continuing_subword_prefix")
    if prefix:
        return {number: token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
                for number, token in tokens.items()}
    return {number: token.replace(METASPACE, " ") for number, token in tokens.items()}


def _is_byte_level(content: TokenizerJson) -> bool:
    return "ByteLevel" in (component_types(content["pre_tokenizer"])
                           | component_types(content["decoder"]))


def _decode_bytes(token: str) -> str:
    """Undo the byte-level alphabet; a part of a character comes back as its bytes."""
    if any(character not in _BYTE_OF for character in token):
        return token  # an added token, kept as it is
    found = bytes(_BYTE_OF[character] for character in token)
    return found.decode("utf-8", "backslashreplace")


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's letters for bytes: visible ones are themselves, others follow U+0100."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
               *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{chr(byte): byte for byte in visible},
            **{chr(256 + order): byte for order, byte in enumerate(hidden)}}


_BYTE_OF = _byte_alphabet()
