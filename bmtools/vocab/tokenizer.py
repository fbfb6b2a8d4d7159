"""Tokenizer directories: reading them without surprises, writing them so that others can."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from bmtools.errors import CheckpointError

_CONFIG = "tokenizer_config.json"
_TOKENIZER = "tokenizer.json"


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
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n",
                    encoding="utf-8")
    if _backend(tokenizer)["model"]["type"] == "WordPiece":
        by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        (directory / "vocab.txt").write_text(
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
    if not normalizer:
        return False
    if normalizer["type"] == "Sequence":
        return any(_folds(step) for step in normalizer["normalizers"])
    return normalizer["type"] == "Lowercase" or bool(normalizer.get("lowercase"))


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
