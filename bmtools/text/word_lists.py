"""Words to look for: listed in a file, or those that one vocabulary has and another lacks."""

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
    """Words to look for.

    Args:
        words: as they were given, each once; of those that fold to one, the first.
        folded: folded words, in the same order.
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


def choose_words(words: StrPath | Iterable[str] | None, tokenizer: StrPath | None = None,
                 base: StrPath | None = None, uncased: bool = False) -> WordList:
    """Take words as they are listed, or else those of a tokenizer that another one lacks.

    Args:
        words: as a list, or a file with one a line.
        tokenizer: directory; text is folded by its rule.
        base: directory of a tokenizer whose words are left out, where none are listed.
        uncased: ignore case, where no tokenizer decides it.

    Raises:
        ValueError: neither words nor a tokenizer.
        DataError: no words, or one without a letter or figure in a file.
        CheckpointError: no tokenizer.
    """
    backend = load_vocabulary(Path(tokenizer)).backend if tokenizer else None
    if words is None:
        if backend is None:
            raise ValueError(f"{setting('words')}: found none, expected words or a "
                             f"{setting('tokenizer')} with words of its own")
        return new_words(backend, load_vocabulary(Path(base)).backend if base else None)
    rule = folding_rule(backend, uncased)
    return read_word_list(str(words), rule) if isinstance(words, str | PathLike) \
        else WordList.of(words, rule)


def read_word_list(name: str, rule: str) -> WordList:
    """Read words from a file, one a line; blank lines are skipped.

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


def new_words(tokenizer: Tokenizer, base: Tokenizer | None) -> WordList:
    """List the words of a tokenizer that another one lacks.

    Those are tokens that begin a word and contain a letter, special ones left out.

    Args:
        tokenizer: text is folded by its rule.
        base: another one; None for all words.

    Raises:
        DataError: there are none.
    """
    known = set() if base is None else set(_words_of(base))
    words = [word for word in _words_of(tokenizer) if word not in known]
    targets = WordList.of(words, folding_rule(tokenizer))
    if not targets.words:
        found = f"found no word in {setting('tokenizer')}"
        raise DataError(f"{found} that {setting('base')} lacks, expected a tokenizer with words of "
                        "its own" if base else f"{found}, expected tokens that begin words")
    return targets


def folding_rule(tokenizer: Tokenizer | None, uncased: bool = False) -> str:
    """Return how text is folded: as a tokenizer does it, or else with or without case."""
    if tokenizer is None:
        return CASELESS if uncased else EXACT
    return json.dumps(json.loads(tokenizer.to_str())["normalizer"])


def is_word(folding: Folding, word: str) -> bool:
    """Return whether a letter or figure is left of a word when it is folded."""
    return bool((folding.fold(word).codes >= min(WORD, UNSPACED)).any())


def _words_of(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens that begin a word and contain a letter, as text, in the order of ids."""
    texts = sorted(token_texts(tokenizer).items())
    return [text[1:] for _, text in texts
            if text.startswith(" ") and any(unicodedata.category(one)[0] == "L" for one in text)]
