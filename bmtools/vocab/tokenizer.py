"""Tokenizers: loading them without surprises, saving them so that others can, their contents."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.provenance.manifest import read_object

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

METASPACE = "▁"
"""SentencePiece's sign for a space."""
ENCODING_PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")
"""Keys of `tokenizer.json` that decide which ids a text gets."""
_NESTED = ("normalizers", "pretokenizers", "decoders", "processors")
_SPECIAL = re.compile(r"\[[A-Z]+\]")
_BYTE_TOKEN = re.compile("<0x([0-9A-F]{2})>")  # of SentencePiece
_UNUSED = re.compile(r"\[unused_?\d+\]")  # BERT keeps these free for later
# GPT-2's letters for bytes: visible ones are themselves, others follow U+0100.
_VISIBLE = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
            *range(ord("®"), ord("ÿ") + 1)]
_HIDDEN = sorted({*range(256)} - {*_VISIBLE})
_BYTE_OF = {chr(byte): byte for byte in _VISIBLE} | {
    chr(256 + order): byte for order, byte in enumerate(_HIDDEN)}
CONFIG = "tokenizer_config.json"
TOKENIZER = "tokenizer.json"
VOCAB = "vocab.txt"
"""Files of a tokenizer directory."""
RARE = "\U00010380"
"""A letter (Ugaritic) that few vocabularies have: it shows whether unknown text can be encoded."""
_LARGEST_ID = 1 << 24  # vocabularies have a million tokens at most
_MACHINE_BOUND = ("is_local", "local_files_only", "name_or_path")

Component = Mapping[str, Any]
"""A normalizer, pre-tokenizer, post-processor or decoder as JSON."""


def load_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer and make sure that its casing is the one its vocabulary was made for.

    transformers silently lower-cases text for a BERT directory that has a cased `vocab.txt`
    alone; here that is an error.

    Raises:
        CheckpointError: no tokenizer, no fast tokenizer, or casing that contradicts itself.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such directory, expected a tokenizer or checkpoint")
    with reading(directory, "no tokenizer could be loaded", f"expected {TOKENIZER} or {VOCAB}"):
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise CheckpointError(f"{directory}: the tokenizer has no tokenizer.json; "
                              "convert it with transformers first")
    check_casing(directory, tokenizer)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    require_encoding(directory, tokenizer.backend_tokenizer)
    return tokenizer


def require_encoding(directory: Path, backend: Tokenizer) -> None:
    """Refuse a tokenizer that cannot encode text.

    Raises:
        CheckpointError: it cannot, or an id or a template is damaged so that the library would end
            the program.
    """
    with reading(directory, "the tokenizer cannot encode text", "restore the tokenizer"):
        if (largest := max(backend.get_vocab().values(), default=0)) > _LARGEST_ID:
            raise ValueError(f"found a token's id {largest}, expected {_LARGEST_ID} at most")
        steps = backend.post_processor and json.loads(backend.post_processor.__getstate__())
        for step in flat_components(steps):
            pieces = [*step.get("single", ()), *step.get("pair", ())]
            named = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
            if unknown := named.difference(step.get("special_tokens", named)):
                raise ValueError(f"its template names {min(unknown)!r}, which it does not define")
        backend.encode(RARE)


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


def read_special_tokens_as_text(tokenizer: PreTrainedTokenizerBase) -> None:
    """Encode `[SEP]` in a text as the characters that it is, so that all models read the text.

    SentencePiece models still have special tokens among their pieces.
    """
    tokenizer.backend_tokenizer.encode_special_tokens = True


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Hash all that decides which ids a text gets: tokens, ids and every step before them.

    Two tokenizers with one fingerprint give the same ids for every text.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    canonical = json.dumps({key: content[key] for key in ENCODING_PARTS}, sort_keys=True,
                           ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def require_same_vocabulary(found: str, expected: str, what: str) -> None:
    """Refuse ids made by one tokenizer where another would read them.

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


def check_casing(directory: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Compare what both files say of casing with what the tokenizer made of them does.

    Raises:
        CheckpointError: they contradict each other.
    """
    uncased = is_uncased(tokenizer)
    config, content = (read_object(path) if path.is_file() else {}
                       for path in (directory / CONFIG, directory / TOKENIZER))
    stated = config.get("do_lower_case")
    with reading(directory / TOKENIZER, "its normalizer could not be read",
                 "restore the tokenizer"):
        written = lowercases(content.get("normalizer")) if content else uncased
    if written != uncased or (stated is not None and bool(stated) != uncased):
        raise CheckpointError(
            f"{directory}: {CONFIG} says do_lower_case {json.dumps(stated)}, but {TOKENIZER} "
            f"{'folds' if written else 'keeps'} case; correct the one that is wrong")
    plain = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if stated is None and uncased and (cased := upper_case_tokens(plain)):
        raise CheckpointError(
            f"{directory}: the vocabulary holds upper case ({min(cased)!r}), but text would "
            f'be lower-cased; write {{"do_lower_case": false}} into {CONFIG}')


def upper_case_tokens(tokens: Iterable[str]) -> list[str]:
    """List tokens with upper case, but for special ones such as `[MASK]`."""
    return [token for token in tokens if token != token.lower() and not _SPECIAL.fullmatch(token)]


def flat_components(component: Component | None) -> list[Component]:
    """List a component, or those of a nested sequence one after the other."""
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
    return {number: text.decode("utf-8", "backslashreplace")
            for number, text in token_bytes(backend).items()}


def token_bytes(backend: Tokenizer) -> dict[int, bytes]:
    """Return the text of each token as `token_texts` does, in UTF-8.

    A token of byte-level BPE may be a part of a character.
    """
    content = json.loads(backend.to_str())
    special = {token["id"] for token in content["added_tokens"] if token["special"]}
    tokens = {number: token for token, number in backend.get_vocab().items()
              if number not in special and not _UNUSED.fullmatch(token)}
    if _is_byte_level(content):
        return {number: _decode_bytes(token) for number, token in tokens.items()}
    if prefix := content["model"].get("continuing_subword_prefix"):
        return {number: (token.removeprefix(prefix) if token.startswith(prefix) else f" {token}")
                .encode() for number, token in tokens.items()}
    falls_back = content["model"].get("byte_fallback")
    return {number: bytes([int(byte[1], 16)])
            if falls_back and (byte := _BYTE_TOKEN.fullmatch(token))
            else token.replace(METASPACE, " ").encode() for number, token in tokens.items()}


def _is_byte_level(content: Mapping[str, Any]) -> bool:
    return any(one["type"] == "ByteLevel" for key in ("pre_tokenizer", "decoder")
               for one in flat_components(content[key]))


def _decode_bytes(token: str) -> bytes:
    """Undo the byte-level alphabet."""
    if any(character not in _BYTE_OF for character in token):
        return token.encode()  # an added token, kept as it is
    return bytes(map(_BYTE_OF.__getitem__, token))
