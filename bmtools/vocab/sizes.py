"""Choosing the size of a vocabulary by what it does to text that it has not seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tokenizers import Tokenizer

from bmtools.errors import DataError
from bmtools.vocab.encoding import Encoder
from bmtools.vocab.fragmentation import fragmentation
from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig
from bmtools.vocab.tokenizer_type import TokenizerType, Words
from bmtools.vocab.train import FAMILIES
from bmtools.vocab.words import count_words

_LEAST_POINTS = 3
_TEXTS_AT_ONCE = 1_000


@dataclass(frozen=True)
class Point:
    """What one size does.

    Args:
        size: tokens of the vocabulary.
        parameters: numbers in its embeddings.
        tokens: of the held-out text, punctuation included.
        tokens_to_largest: that, as a ratio to the tokens with the largest size.
        pieces_per_word: of the held-out text.
        whole_share: share of its words that stay whole, 0 to 1.
        term_pieces_per_word: of the words of the term list, each counted once.
        term_whole_share: share of those that stay whole, 0 to 1.
    """

    size: int
    parameters: int
    tokens: int
    tokens_to_largest: float
    pieces_per_word: float
    whole_share: float
    term_pieces_per_word: float | None = None
    term_whole_share: float | None = None

    def figures(self) -> dict[str, Any]:
        """What is known, with figures that people read."""
        return {name: round(value, 4) if isinstance(value, float) else value
                for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Choice:
    """A size chosen by data.

    Args:
        tokenizer: of that size, learned from the text that is not held out.
        curve: a point for each size, rising.
        knee: size beyond which more tokens gain little on held-out text.
        term_knee: the same on the term list; None where there is none.
    """

    tokenizer: Any
    curve: list[Point]
    knee: int
    term_knee: int | None

    @property
    def chosen(self) -> int:
        """The larger of the knees."""
        return max(self.knee, self.term_knee or 0)


def choose_size(texts: Iterable[str], held_out: Sequence[str], terms: Sequence[str],
                settings: VocabularyConfig, choosing: SizeSearchConfig) -> Choice:
    """Learn candidates and take the one at the knee of the fragmentation curve.

    WordPiece and BPE learn once: what they learn at a smaller size is the beginning of what they
    learn at a larger one. Unigram is learned for each.

    Args:
        texts: read once, learned from.
        held_out: not learned from.
        terms: words or groups of words that should stay whole; may be empty.
        settings: all but the size.
        choosing: the candidates.

    Raises:
        DataError: no text, or fewer than three candidates that it supports.
    """
    family = FAMILIES[settings.kind]
    words = family.count(texts, settings)
    unseen = count_words(held_out)
    if not unseen:
        raise DataError("no words in the held-out text; expected more documents, or a larger "
                        "--held-out")
    wanted = count_words(terms)
    made = dict(_candidates(family, words, settings, choosing))
    tokens = {size: _count_tokens(tokenizer.backend_tokenizer, held_out)
              for size, tokenizer in made.items()}
    curve = [_point(size, tokenizer.backend_tokenizer, tokens, unseen, wanted, choosing.width)
             for size, tokenizer in made.items()]
    sizes = list(made)
    knee = sizes[find_knee(sizes, [point.pieces_per_word for point in curve])]
    of_terms = [point.term_pieces_per_word for point in curve
                if point.term_pieces_per_word is not None]
    choice = Choice(None, curve, knee, sizes[find_knee(sizes, of_terms)] if of_terms else None)
    return replace(choice, tokenizer=made[choice.chosen])


def find_knee(sizes: Sequence[float], values: Sequence[float]) -> int:
    """Find the place of a falling curve that is farthest below the line between its ends.

    Both axes are scaled to 0 to 1 first. The first such place; 0 where nothing falls.

    Source: Satopaa et al. 2011 (Kneedle), section III, without smoothing and threshold, since the
    points are few and exact.
    """
    width, height = sizes[-1] - sizes[0], values[0] - values[-1]
    if height <= 0 or width <= 0:
        return 0
    below = [(values[0] - value) / height - (size - sizes[0]) / width
             for size, value in zip(sizes, values, strict=True)]
    return below.index(max(below))


def _candidates(family: TokenizerType, words: Words, settings: VocabularyConfig,
                choosing: SizeSearchConfig) -> Iterator[tuple[int, Any]]:
    """Learn the candidates that the words support, the smallest first."""
    least = family.least(words, settings)
    sizes = [size for size in choosing.sizes() if size >= least]
    if family.first is None:
        made = _one_by_one(family, words, settings, sizes)
    else:
        made = _from_largest(family, words, settings, sizes)
    if len(made) < _LEAST_POINTS:
        raise DataError(
            f"--candidates: found {choosing.candidates}, of which the text supports {len(made)}; "
            f"expected {_LEAST_POINTS} at least, from {least} tokens on; give "
            "others, or more text")
    yield from made.items()


def _one_by_one(family: TokenizerType, words: Words, settings: VocabularyConfig,
                sizes: Sequence[int]) -> dict[int, Any]:
    made = {}
    for size in sizes:
        tokenizer = family.learn(words, replace(settings, size=size))
        if len(tokenizer) < size:
            break
        made[size] = tokenizer
    return made


def _from_largest(family: TokenizerType, words: Words, settings: VocabularyConfig,
                  sizes: Sequence[int]) -> dict[int, Any]:
    if not sizes:
        return {}
    largest = family.learn(words, replace(settings, size=sizes[-1]))
    return {size: cut(largest, size, family, settings)
            for size in sizes if size <= len(largest)}


def cut(tokenizer: Any, size: int, family: TokenizerType, settings: VocabularyConfig) -> Any:
    """Give the tokenizer that would have been learned at a smaller size."""
    assert family.first is not None
    steps = json.loads(tokenizer.backend_tokenizer.to_str())
    steps = {**steps, "model": family.first(steps["model"], size),
             "added_tokens": [], "post_processor": None}
    return family.build(Tokenizer.from_str(json.dumps(steps)).model, settings)


def _point(size: int, backend: Tokenizer, tokens: Mapping[int, int], unseen: Counter[str],
           terms: Counter[str], width: int) -> Point:
    text = fragmentation(backend, unseen)
    point = Point(size, size * width, tokens[size], tokens[size] / tokens[max(tokens)],
                  text.pieces_per_word, text.whole_share)
    if not terms:
        return point
    found = fragmentation(backend, dict.fromkeys(terms, 1))
    return replace(point, term_pieces_per_word=found.pieces_per_word,
                   term_whole_share=found.whole_share)


def _count_tokens(backend: Tokenizer, texts: Sequence[str]) -> int:
    encoder = Encoder(backend)
    return sum(int(encoder.encode(texts[start:start + _TEXTS_AT_ONCE]).lengths.sum())
               for start in range(0, len(texts), _TEXTS_AT_ONCE))
