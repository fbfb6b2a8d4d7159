"""Tokenizer directories: reading them without surprises, writing them so that others can."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from bmtools.errors import CheckpointError
from bmtools.io.jsonl import read_lines
from bmtools.vocab.pipeline import flat_components

_CONFIG = "tokenizer_config.json"
_TOKENIZER = "tokenizer.json"
_WORDPIECE = "vocab.txt"
_UNKNOWN = "[UNK]"
_SPECIAL = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Uncased vocabularies hold a few capitals too: SciBERT's has `##TM` from the trade mark sign and
# Greek letters, 0.6 %. A cased one has thousands of capitalised words.
_CASED_SHARE = 0.05


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer that only has to encode.

    Args:
        backend: a `tokenizers.Tokenizer`, without truncation and padding.
        folds_case: whether it folds case before it looks tokens up.
        assumed: whether its casing is a guess from the tokens, as no file says it.
    """

    backend: Any
    folds_case: bool
    assumed: bool = False

    @property
    def size(self) -> int:
        """Number of tokens, special ones included."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    @property
    def casing(self) -> str:
        """In a word: cased or uncased."""
        return "uncased" if self.folds_case else "cased"


def open_vocabulary(path: Path) -> Vocabulary:
    """Read a tokenizer directory, a checkpoint, a tokenizer.json or a vocab.txt of WordPiece.

    Nothing says the casing of a vocab.txt alone. Where one in twenty of its tokens or more holds
    a capital it is taken for cased, and text keeps its case; otherwise text is folded as by BERT's
    uncased models, case and accents. `Vocabulary.assumed` tells that this was so.

    Raises:
        CheckpointError: nothing of the kind, or casing that contradicts itself.
    """
    if path.is_dir():
        if _holds_only_tokens(path):
            return _bare_wordpiece(path / _WORDPIECE)
        tokenizer = load_tokenizer(path)
        return Vocabulary(tokenizer.backend_tokenizer, lower_cases(tokenizer))
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file or directory, expected a tokenizer, "
                              f"a checkpoint, a {_TOKENIZER} or a {_WORDPIECE}")
    return _from_json(path) if path.suffix == ".json" else _bare_wordpiece(path)


def _holds_only_tokens(directory: Path) -> bool:
    return (directory / _WORDPIECE).is_file() and not any(
        (directory / name).is_file() for name in (_TOKENIZER, _CONFIG, "config.json"))


def _from_json(path: Path) -> Vocabulary:
    try:
        backend = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more precise
        raise CheckpointError(f"{path}: no tokenizer could be loaded ({_brief(error)}); expected "
                              f"a {_TOKENIZER}, a {_WORDPIECE} or a directory") from error
    backend.no_truncation()
    backend.no_padding()
    return Vocabulary(backend, _folds(json.loads(backend.to_str()).get("normalizer")))


def _bare_wordpiece(path: Path) -> Vocabulary:
    """Build BERT's tokenizer around a list of tokens, one a line, whose line is their id."""
    tokens = [line.removesuffix("\r") for _, line in read_lines(str(path))]
    if _UNKNOWN not in tokens:
        raise CheckpointError(f"{path}: found no line {_UNKNOWN}, expected the {_WORDPIECE} of a "
                              "WordPiece tokenizer, one token a line; else name the directory")
    folds = not _looks_cased(tokens)
    backend = Tokenizer(models.WordPiece(
        vocab={token: number for number, token in enumerate(tokens)}, unk_token=_UNKNOWN,
        max_input_chars_per_word=100))
    backend.normalizer = normalizers.BertNormalizer(lowercase=folds, strip_accents=folds)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens([token for token in tokens if token in _SPECIAL])
    return Vocabulary(backend, folds, assumed=True)


def _looks_cased(tokens: list[str]) -> bool:
    """Whether capitals are more than the odd ones among tokens with letters that have case."""
    lettered = [token for token in tokens if token.lower() != token.upper()
                and not (token.startswith("[") and token.endswith("]"))]
    capital = sum(token != token.lower() for token in lettered)
    return capital > 0 and capital >= _CASED_SHARE * len(lettered)


def load_tokenizer(directory: Path) -> Any:
    """Load a tokenizer and make sure that its casing is the one its vocabulary was made for.

    transformers lower-cases whatever a BERT directory with a cased `vocab.txt` alone is given,
    silently; here that is an error.

    Raises:
        CheckpointError: no tokenizer, no fast tokenizer, or casing that contradicts itself.
    """
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: no such directory, expected a tokenizer or checkpoint")
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"{directory}: no tokenizer could be loaded ({_brief(error)}); "
                              "expected tokenizer.json or vocab.txt") from error
    if not getattr(tokenizer, "is_fast", False):
        raise CheckpointError(f"{directory}: the tokenizer has no tokenizer.json; "
                              "convert it with transformers first")
    _check_casing(directory, tokenizer)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def save_tokenizer(tokenizer: Any, directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json with its casing, and vocab.txt for WordPiece."""
    tokenizer.save_pretrained(directory)
    path = directory / _CONFIG
    config = json.loads(path.read_text(encoding="utf-8"))
    config["do_lower_case"] = lower_cases(tokenizer)
    if config.get("tokenizer_class") == "TokenizersBackend":
        config["tokenizer_class"] = "PreTrainedTokenizerFast"  # its name before transformers 5
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n",
                    encoding="utf-8")
    if _backend(tokenizer)["model"]["type"] == "WordPiece":
        by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        (directory / _WORDPIECE).write_text(
            "".join(f"{token}\n" for token, _ in by_id), encoding="utf-8")


def fingerprint(tokenizer: Any) -> str:
    """Name what a text becomes under this tokenizer: tokens, ids and every step before them.

    Two tokenizers with one fingerprint give the same ids for every text.
    """
    backend = _backend(tokenizer)
    steps = {key: backend[key] for key in
             ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "model")}
    canonical = json.dumps(steps, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def same_vocabulary(found: str, expected: str, what: str) -> None:
    """Raise where ids made by one tokenizer would be read by another.

    Raises:
        CheckpointError: the fingerprints differ.
    """
    if found != expected:
        raise CheckpointError(
            f"{what}: found vocabulary {found[:12]}, expected {expected[:12]}; "
            "use the tokenizer that it was made with")


def lower_cases(tokenizer: Any) -> bool:
    """Whether the tokenizer folds case before it looks tokens up."""
    return _folds(_backend(tokenizer).get("normalizer"))


def _folds(normalizer: Any) -> bool:
    return any(step["type"] == "Lowercase" or step.get("lowercase")
               for step in flat_components(normalizer or None))


def _backend(tokenizer: Any) -> dict[str, Any]:
    return json.loads(tokenizer.backend_tokenizer.to_str())


def _check_casing(directory: Path, tokenizer: Any) -> None:
    """Compare three witnesses: the two files, and what transformers made of them."""
    folds = lower_cases(tokenizer)
    stated = _read_json(directory / _CONFIG).get("do_lower_case")
    steps = _read_json(directory / _TOKENIZER)
    written = _folds(steps.get("normalizer")) if steps else folds
    if written != folds or (stated is not None and bool(stated) != folds):
        raise CheckpointError(
            f"{directory}: {_CONFIG} says do_lower_case {json.dumps(stated)}, but {_TOKENIZER} "
            f"{'folds' if written else 'keeps'} case; correct the one that is wrong")
    if stated is None and folds:
        special = set(tokenizer.all_special_tokens)
        cased = [token for token in tokenizer.get_vocab()
                 if token not in special and token != token.lower()]
        if cased:
            raise CheckpointError(
                f"{directory}: the vocabulary holds upper case ({min(cased)!r}), but text would "
                f'be lower-cased; write {{"do_lower_case": false}} into {_CONFIG}')


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _brief(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:160]
