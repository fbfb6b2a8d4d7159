"""Contents of tokenizers: their steps, tokens, fingerprints and files."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tokenizers import Tokenizer, pre_tokenizers

from bmtools.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bmtools.records import JsonObject

METASPACE = "▁"
"""SentencePiece's sign for a space."""
ENCODING_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")
"""Keys of `tokenizer.json` that determine the ids of a text."""
_NESTED = ("normalizers", "pretokenizers", "decoders", "processors")
_SPECIAL = re.compile(r"\[[A-Z]+\]")
_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")  # in SentencePiece
_UNUSED = re.compile(r"\[unused_?\d+\]")  # BERT reserves these tokens
# GPT-2's letters for bytes: visible characters represent themselves, others begin at U+0100.
_LETTERS = sorted(pre_tokenizers.ByteLevel.alphabet())
_HIDDEN = sorted({*range(256)}.difference(map(ord, _LETTERS)))
_BYTE_OF = {letter: ord(letter) if ord(letter) < 256 else _HIDDEN[ord(letter) - 256]
            for letter in _LETTERS}
CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
VOCAB = "vocab.txt"
"""Files of a tokenizer directory."""
RARE = "\U00010380"
"""A Ugaritic letter in few vocabularies, to test whether unknown text can be encoded."""
_MACHINE_BOUND = ("is_local", "local_files_only", "name_or_path")

Component: TypeAlias = "JsonObject"
"""A normalizer, pre-tokenizer, post-processor or decoder as JSON."""


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json with its casing, and vocab.txt for WordPiece."""
    tokenizer.save_pretrained(directory)
    path = directory / CONFIG
    config = json.loads(path.read_text("utf-8"))
    config["do_lower_case"] = is_uncased(tokenizer)
    for key in _MACHINE_BOUND:
        config.pop(key, None)
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name before transformers 5
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n",
                    encoding="utf-8")
    if type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece":
        tokens = tokenizer.get_vocab()
        lines = "".join(f"{token}\n" for token in sorted(tokens, key=tokens.__getitem__))
        (directory / VOCAB).write_text(lines, encoding="utf-8")


def special_tokens_as_text(backend: Tokenizer, texts: Sequence[str]) -> Sequence[str]:
    """Make a tokenizer read `[SEP]` in a text as ordinary characters.

    Returns:
        the texts to encode. Unigram's pieces include special tokens, and it has no other spelling
        of `</s>`. So the same number of rare letters replaces it and becomes the unknown token.
    """
    backend.encode_special_tokens = True
    if type(backend.model).__name__ != "Unigram":
        return texts
    special = "|".join(re.escape(token.content) for token
                       in backend.get_added_tokens_decoder().values() if token.special)
    return [re.sub(special, lambda found: RARE * len(found[0]), text) for text in texts] \
        if special else texts


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash everything that determines the ids of a text: tokens, ids and all earlier steps.

    Two tokenizers with the same fingerprint encode every text to the same ids.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    canonical = json.dumps({key: content[key] for key in ENCODING_PARTS}, sort_keys=True,
                           ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def require_same_vocabulary(found: str, expected: str, what: str) -> None:
    """Raise an error if another tokenizer than the one that made the ids would read them.

    Raises:
        CheckpointError: the fingerprints differ.
    """
    if found != expected:
        raise CheckpointError(
            f"{what}: found vocabulary {found[:12]}, expected {expected[:12]}; "
            "use the tokenizer that it was made with")


def is_uncased(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer lower-cases text."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return normalizer is not None and lowercases(json.loads(normalizer.__getstate__()))


def strips_accents(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether a tokenizer drops accents from letters."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return normalizer is not None and "\u0301" not in unicodedata.normalize(
        "NFD", normalizer.normalize_str("\u00e9"))


def upper_case_tokens(tokens: Iterable[str]) -> list[str]:
    """List tokens with upper-case letters, except for special tokens such as `[MASK]`."""
    return [token for token in tokens if token != token.lower() and not _SPECIAL.fullmatch(token)]


def flat_components(component: Component | None) -> list[Component]:
    """List a component, or all components of a nested sequence in order."""
    if component is None:
        return []
    if component.get("type") != "Sequence":
        return [component]
    return [one for key in _NESTED for inner in component.get(key, ())
            for one in flat_components(inner)]


def lowercases(normalizer: Component | None) -> bool:
    """Return whether a normalizer lower-cases text."""
    return any(one.get("type") == "Lowercase" or one.get("lowercase")
               for one in flat_components(normalizer))


def model_name(backend: Tokenizer) -> str:
    """Return the type of a tokenizer's model: WordPiece, byte-level BPE, Unigram and so on."""
    content = json.loads(backend.to_str())
    name: str = content["model"]["type"]
    return f"byte-level {name}" if _is_byte_level(content) else name


def unknown_ids(backend: Tokenizer) -> frozenset[int]:
    """Return the id of the unknown token; empty if the tokenizer can encode any text."""
    model = json.loads(backend.to_str())["model"]
    if model["type"] == "Unigram":
        unknown = model["unk_id"]
    else:
        unknown = backend.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return frozenset() if unknown is None else frozenset((unknown,))


def token_texts(backend: Tokenizer) -> dict[int, str]:
    """Return the text of each token by id, with a leading space if the token begins a word.

    `##oma` in WordPiece equals `oma` in byte-level BPE and Unigram. `lymph` in WordPiece equals
    `Ġlymph` and `▁lymph`. Special tokens and BERT's unused tokens are left out.
    """
    content = json.loads(backend.to_str())
    special = {token["id"] for token in content["added_tokens"] if token["special"]}
    is_byte_level, model = _is_byte_level(content), content["model"]
    prefix, falls_back = model.get("continuing_subword_prefix"), model.get("byte_fallback")
    texts: dict[int, str] = {}
    for token, number in backend.get_vocab().items():
        if number in special or _UNUSED.fullmatch(token):
            continue
        if is_byte_level:
            # An added token is not written with letters for bytes.
            known = all(character in _BYTE_OF for character in token)
            text = bytes(map(_BYTE_OF.__getitem__, token)) if known else token.encode()
        elif prefix:
            text = (token.removeprefix(prefix) if token.startswith(prefix)
                    else f" {token}").encode()
        else:
            byte = falls_back and _BYTE_TOKEN.fullmatch(token)
            text = bytes([int(byte[1], 16)]) if byte else token.replace(METASPACE, " ").encode()
        texts[number] = text.decode("utf-8", "backslashreplace")
    return texts


def _is_byte_level(content: JsonObject) -> bool:
    return any(one["type"] == "ByteLevel" for key in ("pre_tokenizer", "decoder")
               for one in flat_components(content[key]))
