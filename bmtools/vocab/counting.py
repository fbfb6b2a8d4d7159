"""Counting the words of a corpus, as a tokenizer's own steps split them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from bmtools.vocab.safe_cuts import SafeCuts

_CHUNKS_AT_ONCE = 1_000
_LINE_WORDS = 1_000
_SPACE_BEHIND_SPACE = re.compile(r"\s ")
_BEFORE_SPACES = re.compile(r"(?<=\S)(?= )")


def count_split_words(texts: Iterable[str], backend: Tokenizer) -> Counter[str]:
    """Count words as they reach a tokenizer's model, normalized and split.

    Each distinct chunk between spaces is looked at once, and chunks of one count are looked at
    together. That counts what splitting whole texts would, but for accents that stand alone
    behind a space where accents are dropped. Distinct chunks and words are held in memory, which
    grows with the corpus's vocabulary and not with its length.

    Args:
        texts: read once.
        backend: its normalizer and pre-tokenizer are used, its model is not.
    """
    cutting = SafeCuts(backend)
    if not cutting.allowed:
        return _words_of(Counter(texts), backend, None)
    chunks: Counter[str] = Counter()
    if cutting.drops_spaces:
        for text in texts:
            chunks.update(text.split())
        return _words_of(chunks, backend, " ")
    for text in texts:
        # The usual cut is much faster, and right where no space follows white space.
        chunks.update(_BEFORE_SPACES.split(text) if _SPACE_BEHIND_SPACE.search(text)
                      else cutting.cut(text))
    apart = Counter({chunk: count for chunk, count in chunks.items()
                     if chunk[:1] != " " or chunk[-1:].isspace()})
    words = _words_of(apart, backend, None)
    words.update(_words_of(chunks - apart, backend, ""))
    return words


def _words_of(chunks: Counter[str], backend: Tokenizer, joint: str | None) -> Counter[str]:
    """Split chunks into words.

    Args:
        chunks: with their counts.
        backend: splits them.
        joint: what several chunks can be joined by without a word of it; None for one at a time.
    """
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for chunk, count in chunks.items():
        alike[count].append(chunk)
    words: Counter[str] = Counter()
    for count, group in alike.items():
        for text in group if joint is None else _joined(group, joint):
            for word in split(text, backend):
                words[word] += count
    return words


def _joined(chunks: Sequence[str], joint: str) -> Iterator[str]:
    for start in range(0, len(chunks), _CHUNKS_AT_ONCE):
        yield joint.join(chunks[start:start + _CHUNKS_AT_ONCE])


def split(text: str, backend: Tokenizer) -> list[str]:
    """Normalize a text and split it into words, all as a tokenizer does it."""
    normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    if backend.pre_tokenizer is None:
        return [normal] if normal else []
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]


def train(model: Any, trainer: Any, words: Counter[str]) -> Any:
    """Train a model of the library on words with counts, and return it.

    The library takes no counts, so each word is spelled as often as it occurs. Words must hold no
    white space.
    """
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated(words), trainer)
    return tokenizer.model


def blank(normalizer: Any, pre_tokenizer: Any, decoder: Any) -> Tokenizer:
    """A tokenizer with an empty model."""
    made = Tokenizer(models.BPE())
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer, made.decoder = pre_tokenizer, decoder
    return made


def alphabet_of(words: Counter[str]) -> Counter[str]:
    """Count the characters of words."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return counts


def most_frequent(counts: Counter[str], limit: int) -> list[str]:
    """The most frequent keys; among those of one frequency the alphabet decides."""
    return sorted(counts, key=lambda key: (-counts[key], key))[:limit]


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Spell a count as that many words, in lines of bounded length."""
    for word, count in words.items():
        for start in range(0, count, _LINE_WORDS):
            yield " ".join([word] * min(_LINE_WORDS, count - start))
