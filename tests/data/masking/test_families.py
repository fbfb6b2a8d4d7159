"""Whole words on real text, for each family of tokenizers and for each kind of writing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_tokenizers import train_tokenizer

from bmtools.data.masking.corruption import TokenBatch
from bmtools.data.masking.strategies import TermList, spellings
from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.words import find_words

pytestmark = pytest.mark.data


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe", "unigram"])
@pytest.mark.parametrize("split_digits", [False, True])
def test_masked_words_and_terms_match_the_text(
        tokenizer_type: Any, split_digits: bool, read: Callable[[str], list[str]],
        data: Path) -> None:
    texts = [*read("en"), "IL-6 (histamine), histamine1 and 37°C/CYP2D6-positive 'sepsis', 5-HT3)."]
    terms = sorted({*bc5cdr_terms(data), "CYP2D6", "histamine", "sepsis", "C", "5-HT3"})
    tokenizer = train_tokenizer(texts, VocabularyConfig(
        size=2_500, tokenizer_type=tokenizer_type, split_digits=split_digits))
    backend = tokenizer.backend_tokenizer
    marks = TermList(spellings(tokenizer, terms))
    by_word = defaultdict(list)
    for term in terms:
        by_word[re.split(r"[\W_]", term)[0]].append(term)
    places = found = 0
    for text, encoded in zip(texts, encode(tokenizer, texts), strict=True):
        offsets = backend.encode(text, add_special_tokens=False).offsets
        tokens = len(encoded.ids)
        # Starts of words and contents of terms, in characters.
        begins, inside = np.zeros((2, len(text) + 1), dtype=bool)
        marked, _ = marks.mark(TokenBatch(
            encoded.ids.astype(np.int64), encoded.word_starts, np.ones(tokens, dtype=bool),
            np.zeros(tokens, dtype=np.int64), np.zeros(1, dtype=np.uint64)))
        for (begin, end), is_start, is_marked in zip(offsets, encoded.word_starts, marked,
                                                     strict=True):
            begin += len(text[begin:end]) - len(text[begin:end].lstrip())
            begins[begin] |= is_start
            inside[begin:end] |= is_marked
        for word in re.finditer(r"[^\W_]+", text):
            assert find_words(word[0]) == [word[0]]
            assert not begins[word.start() + 1:word.end()].any(), word[0]
            for term in by_word.get(word[0], ()):
                end = word.start() + len(term)
                if text[word.start():end] == term and not text[end:end + 1].isalnum():
                    places += 1
                    found += all(one or text[place].isspace() for place, one
                                 in enumerate(inside[word.start():end], word.start()))
    assert found == places > 1_000
    assert not inside[text.index("histamine1")]


def bc5cdr_terms(data: Path) -> set[str]:
    """Read the mentions in a task that have one token, or several with only spaces between them."""
    terms: set[str] = set()
    words: list[str] = []
    for line in (data / "en/ner/BC5CDR/test.tsv").read_text("utf-8").splitlines():
        token, _, tag = line.partition("\t")
        if not tag.startswith("I-"):
            terms.add(" ".join(words))
            words = []
        if tag[:2] in ("B-", "I-"):
            words.append(token)
    return {term for term in terms if term.replace(" ", "").isalnum()}
