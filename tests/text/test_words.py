"""Words of chunks against words of whole texts."""

from __future__ import annotations

from collections import Counter

import pytest

from bmtools.text import words
from bmtools.text.words import ChunkWords
from bmtools.vocab.words import find_words

TEXTS = ("L'asma (grave), x-ray 0.5\u00a0mg", "Tosse\tasma\nH\u2082O 日本語", "", " - ")


@pytest.mark.parametrize("most_chunks", [0, 2, 100])
def test_words_are_those_of_whole_texts(most_chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST_CHUNKS", most_chunks)
    chunks = ChunkWords()
    assert [chunks.number(text) for text in TEXTS] == [len(find_words(text)) for text in TEXTS]
    assert chunks.frequencies(TEXTS) == Counter(
        word for text in TEXTS for word in find_words(text))
    assert len(chunks) <= most_chunks
