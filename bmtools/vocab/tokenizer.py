"""Tokenizers: loading them without surprises, saving them so that others can, their contents."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from bmtools.errors import CheckpointError
from bmtools.io.jsonl import read_lines

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

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
_CONFIG = "tokenizer_config.json"
_TOKENIZER = "tokenizer.json"
_VOCAB = "vocab.txt"
_UNKNOWN = "[UNK]"
_SPECIAL = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Uncased vocabularies have a few capitals too: SciBERT's has `##TM` from the trade mark sign and
# Greek letters, 0.6 %. A cased one has thousands of capitalised words.
_MIN_CASED_RATIO = 0.05

Component = Mapping[str, Any]
"""A normalizer, pre-tokenizer, post-processor or decoder as JSON."""


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
        has_more = any((path / name).is_file() for name in (_TOKENIZER, _CONFIG, "config.json"))
        if (path / _VOCAB).is_file() and not has_more:
            return _bare_wordpiece(path / _VOCAB)
        tokenizer = load_tokenizer(path)
        return Vocabulary(tokenizer.backend_tokenizer, is_uncased(tokenizer))
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file or directory, expected a tokenizer, "
                              f"a checkpoint, a {_TOKENIZER} or a {_VOCAB}")
    if path.suffix != ".json":
        return _bare_wordpiece(path)
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise CheckpointError(f"{path}: no tokenizer could be loaded ({_brief(error)}); expected "
                              f"a {_TOKENIZER}, a {_VOCAB} or a directory") from error
    backend.no_truncation()
    backend.no_padding()
    return Vocabulary(backend, lowercases(json.loads(backend.to_str())["normalizer"]))


def _bare_wordpiece(path: Path) -> Vocabulary:
    """Build BERT's tokenizer from a list of tokens, one a line in the order of ids."""
    tokens = [line.removesuffix("\r") for _, line in read_lines(str(path))]
    if _UNKNOWN not in tokens:
        raise CheckpointError(f"{path}: found no line {_UNKNOWN}, expected the {_VOCAB} of a "
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
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{directory}: no tokenizer could be loaded ({_brief(error)}); "
                              "expected tokenizer.json or vocab.txt") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise CheckpointError(f"{directory}: the tokenizer has no tokenizer.json; "
                              "convert it with transformers first")
    uncased = is_uncased(tokenizer)
    config, content = (json.loads(path.read_text("utf-8")) if path.is_file() else {}
                       for path in (directory / _CONFIG, directory / _TOKENIZER))
    stated = config.get("do_lower_case")
    written = lowercases(content.get("normalizer")) if content else uncased
    if written != uncased or (stated is not None and bool(stated) != uncased):
        raise CheckpointError(
            f"{directory}: {_CONFIG} says do_lower_case {json.dumps(stated)}, but {_TOKENIZER} "
            f"{'folds' if written else 'keeps'} case; correct the one that is wrong")
    if stated is None and uncased:
        cased = [token for token in tokenizer.get_vocab() if token != token.lower()
                 and token not in tokenizer.all_special_tokens]
        if cased:
            raise CheckpointError(
                f"{directory}: the vocabulary holds upper case ({min(cased)!r}), but text would "
                f'be lower-cased; write {{"do_lower_case": false}} into {_CONFIG}')
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def load_backend(path: Path) -> Tokenizer:
    """Load a tokenizer without transformers, which takes a second and 200 MB, where possible.

    Raises:
        CheckpointError: no tokenizer, or casing that contradicts itself.
    """
    try:
        backend = Tokenizer.from_file(str(path / _TOKENIZER))
        stated = json.loads((path / _CONFIG).read_text("utf-8")).get("do_lower_case")
    except Exception:  # `load_vocabulary` reports what is wrong
        stated = None
    if stated is not None:
        normal = "A" if backend.normalizer is None else backend.normalizer.normalize_str("A")
        if bool(stated) == (normal.strip(f" {METASPACE}") == "a"):
            return backend
    return load_vocabulary(path).backend


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json with its casing, and vocab.txt for WordPiece."""
    tokenizer.save_pretrained(directory)
    path = directory / _CONFIG
    config = json.loads(path.read_text("utf-8"))
    config["do_lower_case"] = is_uncased(tokenizer)
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name before transformers 5
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n",
                    encoding="utf-8")
    if type(tokenizer.backend_tokenizer.model).__name__ == "WordPiece":
        tokens = tokenizer.get_vocab()
        lines = "".join(f"{token}\n" for token in sorted(tokens, key=tokens.__getitem__))
        (directory / _VOCAB).write_text(lines, encoding="utf-8")


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
    return lowercases(json.loads(tokenizer.backend_tokenizer.to_str())["normalizer"])


def _brief(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:160]


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
