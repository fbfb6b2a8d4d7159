"""Search for the size of a vocabulary by how it splits text that it was not trained on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.errors import DataError, setting
from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig
from bmtools.vocab.trainers import TokenizerTrainer, trainer_for
from bmtools.vocab.words import count_words, fragmentation

_MIN_CANDIDATES = 3


@dataclass(frozen=True)
class SizeScore:
    """Cost and effect of one size.

    Args:
        size: tokens of the vocabulary.
        parameters: of its embeddings.
        tokens: of the held-out text, punctuation included.
        relative_tokens: that, divided by the tokens at the largest size.
        pieces_per_word: of the held-out text.
        whole_share: share of its words that stay whole, 0 to 1.
        term_pieces_per_word: of the words of the term list, each counted once.
        term_whole_share: share of those that stay whole, 0 to 1.
    """

    size: int
    parameters: int
    tokens: int
    relative_tokens: float
    pieces_per_word: float
    whole_share: float
    term_pieces_per_word: float | None = None
    term_whole_share: float | None = None

    def figures(self) -> dict[str, Any]:
        """Return the known values, rounded for people."""
        return {name: round(value, 4) if isinstance(value, float) else value
                for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class SizeChoice:
    """A size chosen by data.

    Args:
        tokenizer: of that size, trained on the text that is not held out.
        curve: a score for each size, in rising order.
        knee: size beyond which more tokens gain little on held-out text.
        term_knee: the same on the term list; None without one.
    """

    tokenizer: PreTrainedTokenizerFast
    curve: list[SizeScore]
    knee: int
    term_knee: int | None

    @property
    def size(self) -> int:
        """Size chosen: the larger of the knees."""
        return max(self.knee, self.term_knee or 0)


def search_size(texts: Iterable[str], held_out: Sequence[str], terms: Sequence[str],
                config: VocabularyConfig, size_search: SizeSearchConfig) -> SizeChoice:
    """Train candidates and take the one at the knee of the fragmentation curve.

    WordPiece and BPE are trained once: a smaller vocabulary is the beginning of a larger one.
    Unigram is trained for each size.

    Args:
        texts: read once, trained on.
        held_out: not trained on.
        terms: words or groups of words that should stay whole; may be empty.
        config: all but the size.
        size_search: the candidates.

    Raises:
        DataError: no text, or fewer than three candidates that it supports.
    """
    trainer = trainer_for(config)
    words = trainer.count_words(texts)
    held_out_words = count_words(held_out)
    if not held_out_words:
        raise DataError("no words in the held-out text; expected more documents, or a larger "
                        f"{setting('held_out_ratio')}")
    term_words = dict.fromkeys(count_words(terms), 1)
    candidates = _train_candidates(trainer, words, size_search)
    tokens = {size: sum(len(one.ids) for one in encode(tokenizer, held_out))
              for size, tokenizer in candidates.items()}
    most_tokens = tokens[max(tokens)]
    curve = []
    for size, tokenizer in candidates.items():
        text = fragmentation(tokenizer.backend_tokenizer, held_out_words)
        of_terms = fragmentation(tokenizer.backend_tokenizer, term_words) if term_words else None
        curve.append(SizeScore(
            size, size * size_search.hidden_size, tokens[size], tokens[size] / most_tokens,
            text.pieces_per_word, text.whole_share,
            of_terms.pieces_per_word if of_terms else None,
            of_terms.whole_share if of_terms else None))
    sizes = list(candidates)
    knee = sizes[find_knee(sizes, [score.pieces_per_word for score in curve])]
    term_curve = [score.term_pieces_per_word for score in curve
                  if score.term_pieces_per_word is not None]
    term_knee = sizes[find_knee(sizes, term_curve)] if term_curve else None
    return SizeChoice(candidates[max(knee, term_knee or 0)], curve, knee, term_knee)


def find_knee(sizes: Sequence[float], values: Sequence[float]) -> int:
    """Find the first point of a falling curve that is farthest below the line between its ends.

    Both axes are scaled to 0 to 1 first. Returns an index, 0 where nothing falls.

    Source: Satopaa et al. 2011 (Kneedle), section III, without smoothing and threshold, since the
    points are few and exact.
    """
    width, height = sizes[-1] - sizes[0], values[0] - values[-1]
    if height <= 0 or width <= 0:
        return 0
    below = [(values[0] - value) / height - (size - sizes[0]) / width
             for size, value in zip(sizes, values, strict=True)]
    return below.index(max(below))


def _train_candidates(trainer: TokenizerTrainer, words: Counter[str],
                      size_search: SizeSearchConfig) -> Mapping[int, PreTrainedTokenizerFast]:
    """Train the candidates that the words support, the smallest first."""
    smallest = trainer.min_size(words)
    sizes = [size for size in size_search.sizes() if size >= smallest]
    trained: dict[int, PreTrainedTokenizerFast] = {}
    if trainer.sizes_nest and sizes:
        largest = trainer.train(words, sizes[-1])
        trained = {size: truncate(largest, size, trainer) for size in sizes if size <= len(largest)}
    else:
        for size in sizes:
            tokenizer = trainer.train(words, size)
            if len(tokenizer) < size:
                break
            trained[size] = tokenizer
    if len(trained) < _MIN_CANDIDATES:
        raise DataError(
            f"{setting('candidates')}: found {size_search.candidates}, of which the text supports "
            f"{len(trained)}; expected {_MIN_CANDIDATES} at least, from {smallest} tokens on; "
            "give others, or more text")
    return trained


def truncate(tokenizer: PreTrainedTokenizerFast, size: int,
             trainer: TokenizerTrainer) -> PreTrainedTokenizerFast:
    """Return the tokenizer that training at a smaller size would have given."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    smaller = {**content, "model": trainer.truncated(content["model"], size),
               "added_tokens": [], "post_processor": None}
    return trainer.build(Tokenizer.from_str(json.dumps(smaller)).model)
