"""Search for the size of a vocabulary by how it splits text that it was not trained on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from bmtools.errors import DataError, setting
from bmtools.status import counted
from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig
from bmtools.vocab.trainers import TRAINERS, TokenizerTrainer
from bmtools.vocab.words import count_words, fragmentation

_MIN_CANDIDATES = 3
_LEAST_SIZE = 100  # of a vocabulary, see `VocabularyConfig`


def search_size(texts: Iterable[str], held_out: Sequence[str], terms: Sequence[str],
                config: VocabularyConfig, size_search: SizeSearchConfig,
                ) -> tuple[PreTrainedTokenizerFast, dict[str, Any]]:
    """Train candidates and take the one at the knee of the fragmentation curve.

    WordPiece and BPE are trained once: a smaller vocabulary is the beginning of a larger one.
    Unigram is trained for each size.

    Args:
        texts: read once, trained on.
        held_out: not trained on.
        terms: words or groups of words that should stay whole; may be empty.
        config: all but the size.
        size_search: the candidates.

    Returns:
        the tokenizer of the size chosen, and figures for JSON: `chosen_size`, the larger of
        `knee` and `term_knee`, beyond which more tokens gain little on held-out text and on the
        terms; `held_out_documents`; and the `curve`, for each size in rising order with the
        `parameters` of its embeddings, the `tokens` of the held-out text, punctuation included,
        also divided by those at the largest size, `pieces_per_word` and `whole_share` of its
        words, and of the words of the terms, each counted once.

    Raises:
        DataError: no text, or fewer than three candidates that it supports.
    """
    trainer = TRAINERS[config.tokenizer_type](config)
    words = trainer.count_words(texts)
    held_out_words = count_words(held_out)
    if not held_out_words:
        raise DataError("no words in the held-out text; expected more documents, a larger "
                        f"{setting('held_out_ratio')}, or a number in place of auto: "
                        f"{setting('size')} {_LEAST_SIZE} {setting('allow_fewer')}")
    term_words = dict.fromkeys(count_words(terms), 1)
    candidates = _train_candidates(trainer, words, size_search)
    tokens = {size: sum(len(one.ids) for one in encode(tokenizer, held_out))
              for size, tokenizer in candidates.items()}
    most_tokens = tokens[max(tokens)]
    curve: list[dict[str, float]] = []
    for size, tokenizer in candidates.items():
        text = fragmentation(tokenizer.backend_tokenizer, held_out_words)
        score = {"size": size, "parameters": size * size_search.hidden_size,
                 "tokens": tokens[size], "relative_tokens": tokens[size] / most_tokens,
                 "pieces_per_word": text.pieces_per_word, "whole_share": text.whole_share}
        if term_words:
            of_terms = fragmentation(tokenizer.backend_tokenizer, term_words)
            score |= {"term_pieces_per_word": of_terms.pieces_per_word,
                      "term_whole_share": of_terms.whole_share}
        curve.append(score)
    sizes = list(candidates)
    knees = {name: sizes[find_knee(sizes, [score[value] for score in curve])]
             for name, value in (("knee", "pieces_per_word"), ("term_knee", "term_pieces_per_word"))
             if value in curve[0]}
    chosen = max(knees.values())
    return candidates[chosen], {
        "chosen_size": chosen, **knees, "held_out_documents": len(held_out),
        "curve": [{name: round(value, 4) for name, value in score.items()} for score in curve]}


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
        for size in counted(sizes, "trying sizes", len(sizes), "sizes"):
            tokenizer = trainer.train(words, size)
            if len(tokenizer) < size:
                break
            trained[size] = tokenizer
    if len(trained) < _MIN_CANDIDATES:
        raise DataError(
            f"{setting('candidates')}: found {size_search.candidates}, of which the text supports "
            f"{len(trained)}; expected {_MIN_CANDIDATES} at least, from {smallest} tokens on; "
            f"give others, more text, or a number in place of auto: {setting('size')} "
            f"{max(2 * smallest, _LEAST_SIZE)} {setting('allow_fewer')}")
    return trained


def truncate(tokenizer: PreTrainedTokenizerFast, size: int,
             trainer: TokenizerTrainer) -> PreTrainedTokenizerFast:
    """Return the tokenizer that training at a smaller size would have given."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    smaller = {**content, "model": trainer.truncated(content["model"], size),
               "added_tokens": [], "post_processor": None}
    return trainer.build(Tokenizer.from_str(json.dumps(smaller)).model)
