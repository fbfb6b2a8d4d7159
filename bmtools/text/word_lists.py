"""Words to search for: from a file, or words in one vocabulary that are missing in another."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tokenizers import Tokenizer

from bmtools.errors import DataError, setting
from bmtools.io.sources import read_list, source_name
from bmtools.text.case_folding import CASELESS, EXACT, UNSPACED, WORD, Folding
from bmtools.vocab.loading import load_vocabulary
from bmtools.vocab.tokenizer import token_texts

StrPath = str | PathLike[str]


@dataclass(frozen=True)
class WordList:
    """Words to search for.

    Args:
        words: words as written; of words that are equal after folding, only the first.
        folded: folded words, in the same order.
        rule: rule for `Folding`, which folds text before it is compared.
    """

    words: tuple[str, ...]
    folded: tuple[str, ...]
    rule: str

    @staticmethod
    def of(words: Iterable[str], rule: str) -> WordList:
        """Fold words; words without a letter or digit are left out."""
        folding = Folding(rule)
        folded: dict[str, str] = {}
        for word in words:
            if is_word(folding, word):
                folded.setdefault(folding.string(word), word)
        return WordList(tuple(folded.values()), tuple(folded), rule)


def choose_words(words: StrPath | Iterable[str] | None, tokenizer: StrPath | None = None,
                 base: StrPath | None = None, uncased: bool = False) -> WordList:
    """Return the listed words, or else the words of a tokenizer that are not in `base`.

    Args:
        words: a list of words, or a file with one word per line.
        tokenizer: directory of a tokenizer, whose rule folds the text.
        base: directory of a tokenizer whose words are left out if `words` is None.
        uncased: ignore case, if no tokenizer is given.

    Raises:
        ValueError: words and tokenizer are both missing.
        DataError: there are no words, or a word in the file has no letter or digit.
        CheckpointError: a directory contains no tokenizer.
    """
    backend = load_vocabulary(Path(tokenizer)).backend if tokenizer else None
    if words is None:
        if backend is None:
            raise ValueError(f"{setting('words')}: found no words; set words, or set "
                             f"{setting('tokenizer')} to search for its words")
        return new_words(backend, load_vocabulary(Path(base)).backend if base else None)
    rule = folding_rule(backend, uncased)
    return read_word_list(str(words), rule) if isinstance(words, str | PathLike) \
        else WordList.of(words, rule)


def read_word_list(name: str, rule: str) -> WordList:
    """Read words from a file, one per line; blank lines are skipped.

    Raises:
        DataError: there are no words, or a word has no letter or digit.
    """
    folding = Folding(rule)
    listed = read_list(name, "words")
    for number, word in listed:
        if not is_word(folding, word):
            raise DataError(f"{source_name(name)}:{number}: found {word!r}, which contains no "
                            "letter or digit to search for; correct or remove the line")
    return WordList.of([word for _, word in listed], rule)


def new_words(tokenizer: Tokenizer, base: Tokenizer | None) -> WordList:
    """List the words of a tokenizer that are missing in another tokenizer.

    Words are tokens that begin a word and contain a letter, except for special tokens.

    Args:
        tokenizer: tokenizer with the words; its rule folds the text.
        base: tokenizer whose words are left out; None to list all words.

    Raises:
        DataError: there are no such words.
    """
    known = set() if base is None else set(_words_of(base))
    words = [word for word in _words_of(tokenizer) if word not in known]
    targets = WordList.of(words, folding_rule(tokenizer))
    if not targets.words:
        found = f"found no word in {setting('tokenizer')}"
        raise DataError(f"{found} that is missing in {setting('base')}; choose another tokenizer"
                        if base else f"{found}, expected tokens that begin words")
    return targets


def folding_rule(tokenizer: Tokenizer | None, uncased: bool = False) -> str:
    """Return the rule of a tokenizer; without one, the rule that keeps or ignores case."""
    if tokenizer is None:
        return CASELESS if uncased else EXACT
    return json.dumps(json.loads(tokenizer.to_str())["normalizer"])


def is_word(folding: Folding, word: str) -> bool:
    """Return whether a word still contains a letter or digit after folding."""
    return bool((folding.fold(word).codes >= min(WORD, UNSPACED)).any())


def _words_of(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens that begin a word and contain a letter, as text, in the order of ids."""
    texts = sorted(token_texts(tokenizer).items())
    return [text[1:] for _, text in texts
            if text.startswith(" ") and any(unicodedata.category(one)[0] == "L" for one in text)]
