"""Learning WordPiece vocabularies."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bmtools.errors import DataError
from bmtools.vocab.settings import WordPieceConfig
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.wordpiece import SPECIAL, learn

TEXTS = ["La mobilità è ridotta dall'artrosi.", "L'artrosi riduce la mobilità: perché?"] * 30
PROGRAM = """
import hashlib, sys
from bmtools.vocab.settings import WordPieceConfig
from bmtools.vocab.wordpiece import learn
words = [f"{a}{b}{c}" for a in "bcdf" for b in "aeio" for c in "lmnr"]
texts = [" ".join(words[i:] + words[:i]) for i in range(len(words))]
vocabulary = learn(texts, WordPieceConfig(size=150)).get_vocab()
ordered = sorted(vocabulary, key=vocabulary.get)
print(hashlib.sha256(repr(ordered).encode()).hexdigest())
"""


def test_special_tokens_come_first_in_bert_order() -> None:
    vocabulary = learn(TEXTS, WordPieceConfig(size=200)).get_vocab()
    assert [vocabulary[token] for token in SPECIAL] == [0, 1, 2, 3, 4]
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))


def test_case_and_accents_are_two_choices() -> None:
    def pieces(**choices: bool) -> list[str]:
        return learn(TEXTS, WordPieceConfig(size=400, **choices)).tokenize("La mobilità")

    assert pieces() == ["La", "mobilità"]
    assert pieces(uncased=True) == ["la", "mobilità"]
    assert pieces(uncased=True, strip_accents=True) == ["la", "mobilita"]


def test_same_text_same_bytes_at_any_number_of_threads() -> None:
    """Every merge here ties with others, which is where the library's own trainer wavers."""
    found = {
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True,
                       env={**os.environ, "RAYON_NUM_THREADS": threads,
                            "TOKENIZERS_PARALLELISM": "true"}).stdout
        for threads in ("1", "2", "2", "4")}
    assert len(found) == 1


def test_rare_characters_become_unknown() -> None:
    tokenizer = learn(["aaa bbb ab ba"] * 9 + ["q"], WordPieceConfig(size=100, max_alphabet=2))
    assert tokenizer.tokenize("q ab") == ["[UNK]", "ab"]


def test_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="no words"):
        learn(["  ", ""], WordPieceConfig(size=100))


def test_the_fingerprint_follows_tokens_and_casing() -> None:
    settings = WordPieceConfig(size=200)
    same = fingerprint(learn(TEXTS, settings)), fingerprint(learn(TEXTS, settings))
    assert same[0] == same[1]
    assert fingerprint(learn(TEXTS[:1], WordPieceConfig(size=200))) != same[0]
    assert fingerprint(learn(TEXTS, WordPieceConfig(size=200, uncased=True))) != same[0]
