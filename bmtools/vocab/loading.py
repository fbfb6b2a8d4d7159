"""Tokenizers read from directories, files and lists of tokens, if possible without transformers.

Importing transformers takes a second and 200 MB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from bmtools.errors import CheckpointError
from bmtools.io.failures import reading
from bmtools.io.json_files import read_manifest, read_object
from bmtools.io.sources import read_lines
from bmtools.records import JsonObject
from bmtools.vocab.tokenizer import (
    CONFIG,
    RARE,
    TOKENIZER,
    VOCAB,
    fingerprint,
    flat_components,
    is_uncased,
    lowercases,
    model_name,
    upper_case_tokens,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_UNKNOWN = "[UNK]"
_SPECIAL = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Uncased vocabularies also contain a few capitals: SciBERT has `##TM` from the trade mark sign and
# Greek letters, 0.6 %. A cased vocabulary contains thousands of capitalised words.
_MIN_CASED_RATIO = 0.05
_LARGEST_ID = 1 << 24  # vocabularies have at most a million tokens
_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Classes that use the pipeline of tokenizer.json unchanged; other classes rebuild a part.
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")


class BackendTokenizer:
    """The part of transformers' fast tokenizers that encoding and scoring need.

    Args:
        backend: tokenizer without truncation and padding.
        roles: token by role (bos, eos, unk, sep, pad, cls or mask).
        extra: other special tokens.
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
    """Read a tokenizer and its fingerprint, which equals the one in `bmtools.json`, if any.

    Returns:
        the tokenizer and fingerprint, or None if transformers might build another tokenizer from
        the same files.

    Raises:
        CheckpointError: the files contradict each other about the casing.
    """
    try:
        config = json.loads((directory / CONFIG).read_text(encoding="utf-8"))
        backend = Tokenizer.from_file(str(directory / TOKENIZER))
        _encode_texts_whole(backend)
        require_encoding(directory, backend)
        roles = {role: _content(config[f"{role}_token"])
                 for role in _ROLES if config.get(f"{role}_token")}
        extra = config.get("extra_special_tokens") or config.get("additional_special_tokens") or []
        tokenizer = cast("PreTrainedTokenizerFast",
                         BackendTokenizer(backend, roles, tuple(map(_content, extra))))
        recorded = read_manifest(directory).get("vocabulary")
    except Exception:  # transformers reads it, or reports the error
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


def _content(token: object) -> str:
    content = token["content"] if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise TypeError(content)
    return content


def load_tokenizer(directory: Path) -> PreTrainedTokenizerFast:
    """Load a tokenizer, and check that its casing fits its vocabulary.

    transformers silently lower-cases text for a BERT directory that contains only a cased
    `vocab.txt`. Here that is an error.

    Raises:
        CheckpointError: there is no tokenizer or no fast tokenizer, or the files contradict each
            other about the casing.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such directory, expected a tokenizer or checkpoint")
    with reading(directory, "no tokenizer could be loaded", f"expected {TOKENIZER} or {VOCAB}"):
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
        if tokenizer.unk_token == "":  # transformers would look for its id for ever
            raise ValueError("unk_token is empty")
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise CheckpointError(f"{directory}: the tokenizer has no tokenizer.json; "
                              "convert it with transformers first")
    check_casing(directory, tokenizer)
    _encode_texts_whole(tokenizer.backend_tokenizer)
    require_encoding(directory, tokenizer.backend_tokenizer)
    return tokenizer


def _encode_texts_whole(backend: Tokenizer) -> None:
    """Turn off truncation and padding, and encode `[SEP]` in a text as ordinary characters.

    The pieces of Unigram models still include special tokens; see `special_tokens_as_text`.
    """
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True


def require_encoding(directory: Path, backend: Tokenizer) -> None:
    """Check that a tokenizer can encode text.

    Raises:
        CheckpointError: encoding fails, or an id or a template is so damaged that the library would
            end the program.
    """
    with reading(directory, "the tokenizer cannot encode text", "restore the tokenizer"):
        if (largest := max(backend.get_vocab().values(), default=0)) > _LARGEST_ID:
            raise ValueError(f"found the token id {largest}, expected at most {_LARGEST_ID}")
        steps = backend.post_processor and json.loads(backend.post_processor.__getstate__())
        for step in flat_components(steps):
            pieces = [*step.get("single", ()), *step.get("pair", ())]
            named = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
            if unknown := named.difference(step.get("special_tokens", named)):
                raise ValueError(f"its template uses {min(unknown)!r}, which it does not define")
        backend.encode(RARE)


def check_casing(directory: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Compare the casing that both files state with the casing of the loaded tokenizer.

    Raises:
        CheckpointError: the casings differ.
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
            f"{directory}: {CONFIG} has do_lower_case {json.dumps(stated)}, but {TOKENIZER} "
            f"{'folds' if written else 'keeps'} case; correct the wrong file")
    plain = set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)
    if stated is None and uncased and (cased := upper_case_tokens(plain)):
        raise CheckpointError(
            f"{directory}: the vocabulary contains upper case ({min(cased)!r}), but text would "
            f'be lower-cased; write {{"do_lower_case": false}} into {CONFIG}')


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer that is only used for encoding.

    Args:
        backend: tokenizer without truncation and padding.
        uncased: whether it lower-cases text.
        casing_assumed: whether the casing was guessed from the tokens because no file states it.
    """

    backend: Tokenizer
    uncased: bool
    casing_assumed: bool = False

    @property
    def casing(self) -> str:
        """Casing as a word: cased or uncased."""
        return "uncased" if self.uncased else "cased"

    def facts(self) -> JsonObject:
        """Return size, model and casing under the keys of reports."""
        return {"vocab_size": self.backend.get_vocab_size(),
                "tokenizer_model": model_name(self.backend),
                "casing": self.casing, "casing_assumed": self.casing_assumed}


def load_vocabulary(path: Path) -> Vocabulary:
    """Load a tokenizer directory, a checkpoint, a tokenizer.json or a vocab.txt of WordPiece.

    A vocab.txt without other files does not state its casing. If at least one in twenty of its
    tokens has a capital, it is assumed to be cased, and text keeps its case. Otherwise text is
    lower-cased without accents, as in BERT's uncased models. `Vocabulary.casing_assumed` is set.

    Raises:
        CheckpointError: there is no tokenizer, or files contradict each other about the casing.
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
    _encode_texts_whole(backend)
    return Vocabulary(backend, lowercases(json.loads(backend.to_str())["normalizer"]))


def _bare_wordpiece(path: Path) -> Vocabulary:
    """Build BERT's tokenizer from a list of tokens, one per line in the order of ids."""
    tokens = [line for _, line in read_lines(str(path))]
    if _UNKNOWN not in tokens:
        raise CheckpointError(f"{path}: found no line {_UNKNOWN}, expected the {VOCAB} of a "
                              "WordPiece tokenizer; give such a file or a tokenizer's directory")
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
    _encode_texts_whole(backend)
    return Vocabulary(backend, uncased, casing_assumed=True)
