"""Word segmentation of languages without spaces between words.

For languages with spaces, the tokenizer's own words are correct. A segmenter is any function that
returns the starts of a text's words, in code points. White space may be a word, part of a word, or
neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bmtools.errors import BmtoolsError, setting
from bmtools.installation import install_command

TOKENIZER = "tokenizer"
# Sudachi accepts at most 49,149 bytes at once, and a character has at most four bytes.
_PIECE = re.compile(r"(?s).{1,12000}(?<=[\n。])|.{1,12000}")

Segmenter = Callable[[str], Sequence[int]]
"""Function that finds the starts of a text's words, in code points."""


def segmented_starts(text: str, offsets: ArrayLike, segment: Segmenter) -> np.ndarray:
    """Mark the tokens that begin a segmenter's words.

    White space before a word belongs to the word, even if it is a separate token. If one character
    has several tokens, as in byte-level tokenizers, only the first token can begin a word. A token
    across the border of two words joins them, because they cannot be masked separately.

    Args:
        offsets: (tokens, 2) start and end of each token in code points.

    Returns:
        (tokens,) bool.

    Raises:
        ValueError: the segmenter returned an offset outside the text.
    """
    places = np.asarray(offsets, dtype=np.int64).reshape(-1, 2)
    found = np.array(segment(text), dtype=np.int64)
    if len(found) and not 0 <= found.min() <= found.max() <= len(text):
        raise ValueError(f"segmenter: found offsets {found.min()} to {found.max()}, "
                         f"expected 0 to {len(text)}, the length of the text")
    borders = np.zeros(len(text) + 1, dtype=bool)
    borders[found] = borders[len(text)] = True
    # For each offset, the next one that is not white space.
    visible = np.array([*(not one.isspace() for one in text), True])
    numbers = np.where(visible, np.arange(len(text) + 1), len(text))
    begins = np.minimum.accumulate(numbers[::-1])[::-1][places[:, 0]]
    starts = borders[begins]
    seen = np.maximum.accumulate(places[:-1, 1])
    starts[1:] &= (places[1:, 0] >= seen) & (begins[1:] != begins[:-1])
    starts[:1] = True
    return starts


def load_segmenter(name: str) -> Segmenter | None:
    """Return the segmenter with this name, or None for the tokenizer's own words.

    A segmenter can be pickled for other processes, which import its package again.

    Raises:
        BmtoolsError: there is no such segmenter, or its package is not installed.
    """
    if name == TOKENIZER:
        return None
    if name not in _SEGMENTERS:
        raise BmtoolsError(f"{setting('segmenter')}: found {name}, expected "
                           f"{' or '.join((TOKENIZER, *_SEGMENTERS))}")
    segment = _SEGMENTERS[name]
    try:
        segment("")
    except ImportError as error:
        raise BmtoolsError(f"{setting('segmenter')} {name}: {error}; "
                           f"{install_command(name)}") from error
    return segment


def japanese(text: str) -> list[int]:
    """Segment words with Sudachi in the mode with the longest units, which does not split terms."""
    tokenizer = _sudachi()
    return [piece.start() + word.begin() for piece in _PIECE.finditer(text)
            for word in tokenizer.tokenize(piece.group())]


def chinese(text: str) -> list[int]:
    """Segment words with the Rust edition of jieba."""
    return _find_in_order(text, import_module("rjieba").cut(text, True))


def thai(text: str) -> list[int]:
    """Segment words with PyThaiNLP's newmm."""
    return _find_in_order(text, _thai()(text, engine="newmm", join_broken_num=False))


_SEGMENTERS: dict[str, Segmenter] = {"japanese": japanese, "chinese": chinese, "thai": thai}


@cache
def _sudachi() -> Any:
    sudachi = import_module("sudachipy")
    return sudachi.Dictionary().tokenizer(mode=sudachi.SplitMode.C)


@cache
def _thai() -> Any:
    # Prevents the package from creating a directory in the user's home.
    if "PYTHAINLP_READ_MODE" not in os.environ:
        os.environ.setdefault("PYTHAINLP_READ_ONLY", "1")
    return import_module("pythainlp.tokenize").word_tokenize


def _find_in_order(text: str, words: Iterable[str]) -> list[int]:
    """Find the offsets of words that are given in text order."""
    begins, end = [], 0
    for word in words:
        begins.append(text.index(word, end))
        end = begins[-1] + len(word)
    return begins
