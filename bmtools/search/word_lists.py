"""Words to look for: listed in a file, or those that one vocabulary has and another lacks."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bmtools.errors import DataError
from bmtools.io.jsonl import read_list, source_name
from bmtools.search.case_folding import CASELESS, EXACT, UNSPACED, WORD, Folding
from bmtools.vocab.token_text import spellings

_TOKENIZER = "tokenizer.json"
_CONFIG = "tokenizer_config.json"


@dataclass(frozen=True)
class WordList:
    """Words to look for.

    Args:
        words: as they were given, each once; of those that fold to one, the first.
        folded: what text is compared with, in the same order.
        rule: how text is folded before it is compared, as `Folding` takes it.
    """

    words: tuple[str, ...]
    folded: tuple[str, ...]
    rule: str

    @staticmethod
    def of(words: Iterable[str], rule: str) -> WordList:
        """Fold words; those without a letter or figure are left out."""
        folding = Folding(rule)
        folded: dict[str, str] = {}
        for word in words:
            if is_word(folding, word):
                folded.setdefault(folding.string(word), word)
        return WordList(tuple(folded.values()), tuple(folded), rule)


def read_word_list(name: str, rule: str) -> WordList:
    """Read words from a file, one a line; blank lines are passed over.

    Raises:
        DataError: no words, or one without a letter or figure.
    """
    folding = Folding(rule)
    listed = read_list(name, "words")
    for number, word in listed:
        if not is_word(folding, word):
            raise DataError(f"{source_name(name)}:{number}: found {word!r}, of which no letter and "
                            "no figure is left to look for; correct the line or leave it out")
    return WordList.of([word for _, word in listed], rule)


def new_words(tokenizer: Any, base: Any | None) -> WordList:
    """List the words of a tokenizer that another one lacks.

    Those are tokens that begin a word and hold a letter, special ones left out.

    Args:
        tokenizer: a `tokenizers.Tokenizer`, by whose rule text is folded as well.
        base: another one; None for all words.

    Raises:
        DataError: there are none.
    """
    known = set() if base is None else set(_words_of(base))
    words = [word for word in _words_of(tokenizer) if word not in known]
    targets = WordList.of(words, rule_of(tokenizer))
    if not targets.words:
        raise DataError("found no word in --tokenizer that --base lacks, expected a tokenizer with "
                        "words of its own" if base else
                        "found no word in --tokenizer, expected tokens that begin words")
    return targets


def rule_of(tokenizer: Any | None, uncased: bool = False) -> str:
    """Say how text is folded: as a tokenizer does it, or with or without case."""
    if tokenizer is None:
        return CASELESS if uncased else EXACT
    return json.dumps(json.loads(tokenizer.to_str())["normalizer"])


def is_word(folding: Folding, word: str) -> bool:
    """Whether a letter or figure is left of a word when it is folded."""
    codes = folding.fold(word).codes
    return bool((codes >= min(WORD, UNSPACED)).any())


def open_backend(path: Path) -> Any:
    """Read a tokenizer without transformers, which takes a second and 200 MB, where that will do.

    Raises:
        CheckpointError: no tokenizer, or casing that contradicts itself.
    """
    if _speaks_for_itself(path):
        return Tokenizer.from_file(str(path / _TOKENIZER))
    from bmtools.vocab.tokenizer import open_vocabulary

    return open_vocabulary(path).backend


def _speaks_for_itself(directory: Path) -> bool:
    """Whether tokenizer.json is there and folds case if, and only if, its neighbour says so."""
    try:
        backend = Tokenizer.from_file(str(directory / _TOKENIZER))
        stated = json.loads((directory / _CONFIG).read_text(encoding="utf-8")).get("do_lower_case")
    except Exception:  # what is wrong is told by those who read it thoroughly
        return False
    folds = Folding(rule_of(backend)).string("A") == "a"
    return stated is not None and bool(stated) == folds


def _words_of(tokenizer: Any) -> list[str]:
    """Tokens that begin a word and hold a letter, without their marks, in the order of ids."""
    spelled = sorted(spellings(tokenizer).items())
    return [text[1:] for _, text in spelled
            if text.startswith(" ") and any(unicodedata.category(one)[0] == "L" for one in text)]
