"""Windows of a question and a part of a text, and the spans of text that can answer it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.task import encode_texts
from bmtools.tasks.texts import PairEncoder, TextInput
from bmtools.tasks.windows import inside_word, whole_characters

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerBase

@dataclass(frozen=True, slots=True)
class AnswerWindow(TextInput):
    """A question and a part of its text, ready for a model.

    Args:
        place: of the text's first token here, among those of the window.
        first: number of this token in the text.
        size: tokens of the text.
        answer: places of the answer's first and last token, or twice that of the first token where
            the window does not hold it; IGNORED where the answer is not known.
    """

    place: int = 0
    first: int = 0
    size: int = 0
    answer: tuple[int, int] = (IGNORED, IGNORED)

    def locate(self, answer: tuple[int, int] | None) -> tuple[int, int]:
        """Find an answer, first and last token of the text, in the window."""
        if answer is None or answer[0] < self.first or answer[1] >= self.first + self.size:
            return 0, 0
        return self.place + answer[0] - self.first, self.place + answer[1] - self.first


@dataclass(frozen=True)
class TokenizedText:
    """A text's tokens.

    Args:
        ids: (tokens,) int32.
        starts: (tokens,) int64, of each token in code points, without white space.
        ends: (tokens,) int64; as the start where nothing of a token can be seen.
        borders: (tokens, 2) bool, whether a token begins and whether it ends a word.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    borders: np.ndarray

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Find the first and last token of a span of characters; None where there is none."""
        [inside] = np.nonzero((self.starts < end) & (self.ends > start)
                              & (self.ends > self.starts))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


def tokenize_each(tokenizer: PreTrainedTokenizerBase,
                  texts: Sequence[str]) -> Mapping[str, TokenizedText]:
    """Tokenize texts, those that come several times once."""
    distinct = list(dict.fromkeys(texts))
    return {text: _tokenized(text, encoding) for text, encoding in zip(
        distinct, encode_texts(tokenizer, distinct), strict=True)}


def _tokenized(text: str, encoding: Encoding) -> TokenizedText:
    ids = np.array(encoding.ids, dtype=np.int32)
    spans = []
    for start, end in encoding.offsets:
        token = text[start:end]
        if token[:1].isspace() or token[-1:].isspace():
            start += len(token) - len(token.lstrip())
            end = start + len(token.strip())
        if start < end and not text.isascii():
            start, end = whole_characters(text, start, end)
        spans.append((start, end))
    borders = [[start < end and not inside_word(text, place) for place in (start, end)]
               for start, end in spans]
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return TokenizedText(ids, starts, ends, np.array(borders, dtype=bool).reshape(-1, 2))


def cut_into_answer_windows(encoder: PairEncoder, question: np.ndarray, text: np.ndarray,
                            max_length: int, stride: int) -> Iterator[AnswerWindow]:
    """Put a question beside overlapping parts of a text.

    The windows are those of transformers' tokenizers with `only_second` truncation, but for a
    stride beyond half of a part, which would make them many.

    Args:
        encoder: of pairs.
        question: its token ids, truncated to half a window.
        text: its token ids.
        max_length: longest window in tokens, special tokens included.
        stride: tokens that a part repeats of the one before.
    """
    room = max_length - encoder.pair_tokens
    truncated = max(len(question) - room // 2, 0)
    question = question[:room // 2]
    size = room - len(question)
    step = size - min(stride, size // 2)
    for first in range(0, max(len(text) - size, 0) + step, step) if len(text) else ():
        part = text[first:first + size]
        ids, types = encoder.frame(question, part)
        yield AnswerWindow(ids, types, truncated, place=len(ids) - len(part) - 1, first=first,
                           size=len(part))


def score_spans(windows: Sequence[AnswerWindow], outputs: Sequence[np.ndarray],
                borders: np.ndarray, longest: int) -> np.ndarray:
    """Score all spans of a text: the sum of start and end logit, the best of its windows.

    Args:
        windows: of the text.
        outputs: of each window, (tokens, 2): logits of start and end.
        borders: (tokens of the text, 2) bool, those that may begin and that may end a span.
        longest: most tokens of a span.

    Returns:
        (tokens, longest), by first token and number of further tokens; minus infinity where a span
        leaves the windows or has another border.
    """
    scores = np.full((len(borders), longest), -np.inf, dtype=np.float32)
    for window, output in zip(windows, outputs, strict=True):
        inside = slice(window.first, window.first + window.size)
        logits = np.where(borders[inside],
                          output[window.place:window.place + window.size], -np.inf)
        ends = np.concatenate([logits[:, 1], np.full(longest - 1, -np.inf)])
        spans = logits[:, :1] + np.lib.stride_tricks.sliding_window_view(ends, longest)
        np.maximum(scores[inside], spans, out=scores[inside])
    return scores
