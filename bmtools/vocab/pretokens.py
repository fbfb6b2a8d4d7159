"""Pre-token counts: the words of a corpus as a tokenizer splits them before its model."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Model
from tokenizers.trainers import Trainer

from bmtools.errors import DataError
from bmtools.vocab.encoding import SafeSplitter

_CHUNKS_AT_ONCE = 1_000
_LINE_WORDS = 1_000
_SPACE_AFTER_SPACE = re.compile(r"\s ")
_BEFORE_SPACES = re.compile(r"(?<=\S)(?= )")


def count_pretokens(texts: Iterable[str], backend: Tokenizer) -> Counter[str]:
    """Count words as they reach a tokenizer's model, normalized and split.

    Each distinct chunk between spaces is split once, together with others of the same count.
    That counts what splitting whole texts would, except for accents that stand alone after a
    space where accents are dropped. Distinct chunks and words are held in memory, which grows
    with the corpus's vocabulary and not with its length.

    Args:
        texts: read once.
        backend: its normalizer and pre-tokenizer are used, its model is not.

    Raises:
        DataError: no words.
    """
    splitter = SafeSplitter(backend)
    chunks: Counter[str] = Counter()
    # Chunks, and what joins several of them without changing their words; None: one at a time.
    groups: list[tuple[Counter[str], str | None]]
    if not splitter.enabled:
        groups = [(Counter(texts), None)]
    elif splitter.drops_spaces:
        for text in texts:
            chunks.update(text.split())
        groups = [(chunks, " ")]
    else:
        for text in texts:
            # The usual split is much faster, and right where no space follows white space.
            chunks.update(_BEFORE_SPACES.split(text) if _SPACE_AFTER_SPACE.search(text)
                          else splitter.split(text))
        apart = Counter({chunk: count for chunk, count in chunks.items()
                         if chunk[:1] != " " or chunk[-1:].isspace()})
        groups = [(apart, None), (chunks - apart, "")]
    words: Counter[str] = Counter()
    for some, separator in groups:
        _add_words(words, some, backend, separator)
    if not words:
        raise DataError("no words in the input; expected records with some text")
    return words


def _add_words(words: Counter[str], chunks: Counter[str], backend: Tokenizer,
               separator: str | None) -> None:
    """Split chunks into words, those of the same count together, and count the words."""
    by_count: defaultdict[int, list[str]] = defaultdict(list)
    for chunk, count in chunks.items():
        by_count[count].append(chunk)
    for count, group in by_count.items():
        texts = group if separator is None else [
            separator.join(group[start:start + _CHUNKS_AT_ONCE])
            for start in range(0, len(group), _CHUNKS_AT_ONCE)]
        for text in texts:
            for word in pretokenize(text, backend):
                words[word] += count


def pretokenize(text: str, backend: Tokenizer) -> list[str]:
    """Normalize a text and split it into words, all as a tokenizer does it."""
    normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    if backend.pre_tokenizer is None:
        return [normal] if normal else []
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]


def train_model(model: Model, trainer: Trainer, words: Counter[str]) -> Model:
    """Train one of the library's models on words with counts, and return it.

    The library takes no counts, so each word is repeated as often as it occurs. Words must not
    contain white space.
    """
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    lines = (" ".join([word] * min(_LINE_WORDS, count - start)) for word, count in words.items()
             for start in range(0, count, _LINE_WORDS))
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer.model


def most_frequent(counts: Counter[str], limit: int) -> list[str]:
    """Return the most frequent keys; ties go in the order of the keys."""
    return sorted(counts, key=lambda key: (-counts[key], key))[:limit]
