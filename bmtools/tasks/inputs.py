"""Inputs: texts and pairs, windows of words to tag, and windows of a question with its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from unicodedata import category

import numpy as np

from bmtools.data.masking.corruption import IGNORED
from bmtools.tasks.task import ModelInput, Outputs, encode_texts, pad, pad_ids

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PretrainedConfig, PreTrainedTokenizerBase


# Thai to Lao, Myanmar, Khmer, kana, ideographs: scripts without spaces between words.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
                       "\uf900-\ufaff\U00020000-\U0003ffff]")
# Full stops, exclamation and question marks, ellipsis, then closing brackets and quotes; then wide.
_STOP = re.compile("[.!?\u2026][])}\"'\u201d\u2019\u00bb]*$")
_WIDE_STOP = re.compile("[\u3002\uff01\uff1f][\u300d\u300f\uff09]*$")
_LONGEST_STOP = 4
# Categories of accents, joiners and soft hyphens, which belong to the character before them.
_MARKS = ("Mn", "Mc", "Me", "Cf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(ModelInput):
    """A part of a text, as one input for the model, without special tokens.

    Args:
        firsts: (words,) int32, index of each word's first token.
        blanks: (white space tokens,) int32, their indices.
        after: index after the last token tagged here; later tokens are context, as are the tokens
            before the first word.
        target: (words, groups) int64; empty in prediction.
    """

    firsts: np.ndarray
    blanks: np.ndarray
    after: int
    target: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def cut_into_windows(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int,
                     by_token: bool = False, stride: int = 0,
                     ) -> Iterator[tuple[np.ndarray, list[Window]]]:
    """Cut texts into words and windows, in order.

    The part of a text that a window tags ends after a sentence if possible, otherwise between
    words. Only a word longer than a part is cut, and its later windows contain no word. A window
    has as much context before its part as after it, so each word is tagged in the window with the
    most context.

    Args:
        tokenizer: tokenizer of the model.
        texts: texts of records.
        max_length: maximum window length in tokens, including its two special tokens.
        by_token: treat every token that begins a character as a word; windows stay the same.
        stride: number of tokens shared by adjacent windows, at most half a window.

    Yields:
        for each text its words, (words, 2) int64, start and end in code points, and windows that
        tag all words in order. A text without tokens has no windows.
    """
    size = max_length - 2
    context = min(stride, size // 2) // 2
    for text, encoding in zip(texts, encode_texts(tokenizer, texts), strict=True):
        words, first_tokens, leads, blank_tokens = _words(text, encoding)
        ids = np.array(encoding.ids, dtype=np.int32)
        borders = _borders(text, words, leads, len(ids), size, context)
        if by_token:
            words, first_tokens, *_ = _words(text, encoding, by_token)
        firsts = np.array(first_tokens, dtype=np.int32)
        blanks = np.array(blank_tokens, dtype=np.int32)
        windows, start = [], 0
        for end in borders:
            first, after = np.searchsorted(firsts, (start, end))
            left, right = max(start - context, 0), end + context
            windows.append(Window(
                ids=ids[left:right], firsts=firsts[first:after] - left, after=end - left,
                blanks=blanks[(blanks >= left) & (blanks < right)] - left))
            start = end
        yield np.array(words, dtype=np.int64).reshape(-1, 2), windows


def with_labels(windows: Sequence[Window], target: np.ndarray) -> Iterator[Window]:
    """Yield windows with the labels of their words."""
    start = 0
    for window in windows:
        after = start + len(window.firsts)
        yield replace(window, target=target[start:after])
        start = after


def _words(text: str, encoding: Encoding, by_token: bool = False,
           ) -> tuple[list[tuple[int, int]], list[int], list[int], list[int]]:
    """Find words: spans in the text, first tokens, and first tokens with the space before them.

    The last list contains the tokens of white space. With `by_token`, a word is a token and the
    tokens that continue its last character.

    Words come from the tokenizer's pre-tokenizer, like `word_ids` in transformers. They are also
    split at punctuation and between characters of unspaced scripts if a token begins there, because
    Metaspace does not split `(cancer),` and whole Japanese sentences. Accents and joiners that a
    normalizer removes belong to the word before them. Words in `vocab.words` are different: they
    join runs of Thai and words that byte-level BPE splits, such as `CYP2D6`.
    """
    spans: list[tuple[int, int]] = []
    firsts: list[int] = []
    leads: list[int] = []
    blanks: list[int] = []
    lead, word_before = 0, None
    for index, ((start, end), word) in enumerate(
            zip(encoding.offsets, encoding.word_ids, strict=True)):
        token = text[start:end]
        start += len(token) - len(token.lstrip())
        end = start + len(token.strip())
        if start == end:
            blanks.append(index)
            continue
        if not spans or _begins(text, spans[-1][1], start, by_token or word != word_before):
            spans.append((start, end))
            firsts.append(index)
            leads.append(lead)
        else:
            spans[-1] = (spans[-1][0], max(spans[-1][1], end))
        lead, word_before = index + 1, word
    return [(start, _after_marks(text, end)) for start, end in spans], firsts, leads, blanks


def whole_characters(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span so that accents or joiners stay with the character before them."""
    while 0 < start < end and category(text[start]) in _MARKS:
        start -= 1
    return start, _after_marks(text, end)


def _after_marks(text: str, end: int) -> int:
    while end < len(text) and category(text[end]) in _MARKS:
        end += 1
    return end


def _begins(text: str, end_before: int, start: int, other_word: bool) -> bool:
    """Return whether a token that starts here begins a word."""
    if start < end_before or (start == end_before and category(text[start]) in _MARKS):
        return False  # part of a character, or its accent
    if other_word or any(character.isspace() for character in text[end_before:start]):
        return True
    return not inside_word(text, start)


def inside_word(text: str, place: int) -> bool:
    """Return whether a position in a text is between two characters of one word."""
    if not 0 < place < len(text):
        return False
    sides = text[place - 1], text[place]
    return all(side.isalnum() or category(side) in _MARKS for side in sides) \
        and not any(_UNSPACED.match(side) for side in sides)


def _borders(text: str, words: list[tuple[int, int]], leads: list[int], total: int,
             size: int, context: int) -> Iterator[int]:
    """Yield each window's end, after a sentence or between words; the last one is `total`.

    With `context` tokens from each neighbour, a window has at most `size` tokens. A sentence ends
    at a line break or a stop, but not within `E. coli` and `3.5`.
    """
    if total <= size:
        if total:
            yield total
        return
    sentences = []
    for (_, end), (start, _), lead in zip(words, words[1:], leads[1:], strict=False):
        gap, before = text[end:start], text[max(end - _LONGEST_STOP, 0):end]
        if "\n" in gap or _WIDE_STOP.search(before) \
                or (gap and not text[start].islower() and _STOP.search(before)):
            sentences.append(lead)
    start = 0
    while total - start > size - context:
        limit = start + size - context * (2 if start else 1)
        lasts = [allowed[bisect_right(allowed, limit) - 1] for allowed in (sentences, leads)
                 if bisect_right(allowed, limit)]
        start = next((last for last in lasts if last > start), limit)
        yield start
    if total > start:
        yield total


@dataclass(frozen=True, slots=True, kw_only=True)
class TextInput(ModelInput):
    """A text or a pair of texts, prepared for a model, including special tokens.

    Args:
        token_type_ids: (tokens,) int32, 1 on the second text and its last special token.
    """

    token_type_ids: np.ndarray


class PairEncoder:
    """Special tokens around one text or two, and segment ids if the model has segments.

    BERT reads `[CLS] a [SEP] b [SEP]`, RoBERTa `<s> a </s></s> b </s>`. The format is defined by
    the tokenizer's post-processor; without one, it is BERT's.

    Args:
        tokenizer: tokenizer of the model.
        config: configuration of the model.
        max_length: maximum number of tokens, including special tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, config: PretrainedConfig,
                 max_length: int) -> None:
        self._tokenizer = tokenizer
        backend = tokenizer.backend_tokenizer
        self._max_length = max_length
        self._has_segments = getattr(config, "type_vocab_size", 0) > 1
        empty = backend.encode("", add_special_tokens=False)
        special = [token for token in backend.post_process(empty, empty).ids
                   if token in tokenizer.all_special_ids]
        self._between = special[1:-1] or [tokenizer.sep_token_id]

    def encode(self, texts: Sequence[tuple[str, str | None]]) -> Iterator[TextInput]:
        """Encode pairs of texts in order; the second text may be None."""
        encodings = encode_texts(self._tokenizer, (text for pair in texts for text in pair
                                                   if text is not None))
        for _, second in texts:
            first = next(encodings).ids
            yield self._join(first, None if second is None else next(encodings).ids)

    def _join(self, first: Sequence[int], second: Sequence[int] | None) -> TextInput:
        """Truncate the tokens of one text or two to fit and put special tokens around them."""
        between = [] if second is None else self._between
        texts = first, second or ()
        sizes = longest_first(len(texts[0]), len(texts[1]), self._max_length - 2 - len(between))
        kept = [text[:size] for text, size in zip(texts, sizes, strict=True)]
        ids, types = self.frame(kept[0], None if second is None else kept[1])
        return TextInput(ids=ids, token_type_ids=types,
                         truncated=sum(map(len, texts)) - sum(sizes))

    def frame(self, first: Sequence[int] | np.ndarray,
              second: Sequence[int] | np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Put special tokens around the tokens of one text or two.

        Returns:
            ids and token_type_ids, (tokens,) int32 each.
        """
        between = [] if second is None else self._between
        ids = np.array([self._tokenizer.cls_token_id, *first, *between,
                        *(() if second is None else second), self._tokenizer.sep_token_id],
                       dtype=np.int32)
        types = np.zeros_like(ids)
        if second is not None:
            types[len(ids) - len(second) - 1:] = 1
        return ids, types

    @property
    def pair_tokens(self) -> int:
        """Special tokens around and between two texts."""
        return 2 + len(self._between)

    def collate(self, inputs: Sequence[TextInput]) -> dict[str, np.ndarray]:
        """Pad inputs to the longest one: arguments of the model, (batch, tokens) int64 each."""
        batch = pad_ids([item.ids for item in inputs], self._tokenizer.pad_token_id)
        if self._has_segments:
            batch["token_type_ids"] = pad([item.token_type_ids for item in inputs], 0)
        return batch


def longest_first(first: int, second: int, size: int) -> tuple[int, int]:
    """Truncate two lengths to a sum of at most `size`, always shortening the longer one."""
    shorter, longer = sorted((first, second))
    shorter = min(shorter, max(size // 2, size - longer))
    longer = min(longer, size - shorter)
    return (shorter, longer) if first <= second else (longer, shorter)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWindow(TextInput):
    """A question and a part of its text, prepared for a model.

    Args:
        place: position of the text's first token in this window.
        first: number of this token in the text.
        size: number of text tokens in this window.
    """

    place: int
    first: int
    size: int

    def aimed_at(self, answer: tuple[int, int] | None) -> AnswerWindow:
        """Set the target to an answer, given by the first and last of its tokens in the text.

        If the window does not contain the answer, the target is the first token, twice.
        """
        inside = answer and self.first <= answer[0] and answer[1] < self.first + self.size
        places = np.array(answer) + self.place - self.first if inside else np.zeros(2, dtype=int)
        return replace(self, target=places)


@dataclass(frozen=True)
class TokenizedText:
    """A text's tokens.

    Args:
        ids: (tokens,) int32.
        starts: (tokens,) int64, start of each token in code points, without white space.
        ends: (tokens,) int64; equal to the start for invisible tokens.
        borders: (tokens, 2) bool, whether a token begins and whether it ends a word.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    borders: np.ndarray

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Find the first and last token in a span of characters; None without tokens."""
        [inside] = np.nonzero((self.starts < end) & (self.ends > start)
                              & (self.ends > self.starts))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


def tokenize_each(tokenizer: PreTrainedTokenizerBase,
                  texts: Sequence[str]) -> Mapping[str, TokenizedText]:
    """Tokenize distinct texts, each once."""
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
    """Combine a question with overlapping parts of a text.

    The windows equal the windows of transformers' tokenizers with `only_second` truncation, except
    that the stride is limited to half of a part to avoid a large number of windows.

    Args:
        encoder: encoder of pairs.
        question: its token ids, truncated to half a window.
        text: its token ids.
        max_length: maximum window length in tokens, including special tokens.
        stride: number of text tokens shared by adjacent parts.
    """
    room = max_length - encoder.pair_tokens
    truncated = max(len(question) - room // 2, 0)
    question = question[:room // 2]
    size = room - len(question)
    step = size - min(stride, size // 2)
    for first in range(0, max(len(text) - size, 0) + step, step) if len(text) else ():
        part = text[first:first + size]
        ids, types = encoder.frame(question, part)
        yield AnswerWindow(ids=ids, token_type_ids=types, truncated=truncated,
                           target=np.full(2, IGNORED), place=len(ids) - len(part) - 1,
                           first=first, size=len(part))


def score_spans(windows: Sequence[AnswerWindow], outputs: Outputs,
                borders: np.ndarray, longest: int) -> np.ndarray:
    """Score all spans of a text: the sum of start and end logit, the maximum over its windows.

    Args:
        windows: windows of the text.
        outputs: logits of start and end for each window, (tokens, 2).
        borders: (tokens of the text, 2) bool, tokens that may begin and tokens that may end a span.
        longest: maximum number of tokens per span.

    Returns:
        (tokens, longest), by first token and number of further tokens; minus infinity for spans
        that cross the end of a window or have a forbidden boundary.
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
