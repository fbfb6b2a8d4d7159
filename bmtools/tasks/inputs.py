"""Inputs: texts and pairs, windows of words to tag, and of a question beside its text."""

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


# Thai to Lao, Myanmar, Khmer, kana, ideographs: words without spaces between them.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
                       "\uf900-\ufaff\U00020000-\U0003ffff]")
# Full stops, marks and ellipsis, then closing brackets and quotes; then those of wide scripts.
_STOP = re.compile("[.!?\u2026][])}\"'\u201d\u2019\u00bb]*$")
_WIDE_STOP = re.compile("[\u3002\uff01\uff1f][\u300d\u300f\uff09]*$")
_LONGEST_STOP = 4
# Categories of accents, joiners and soft hyphens, which belong to the character before them.
_MARKS = ("Mn", "Mc", "Me", "Cf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(ModelInput):
    """A part of a text, as one input of the model, without special tokens.

    Args:
        firsts: (words,) int32, index of each word's first token.
        blanks: (tokens of white space,) int32, their indices.
        after: index after the last token that is tagged here; later ones are context, as are those
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

    The part of a text that a window tags ends after a sentence if one ends in time, otherwise
    between words; only a word longer than a part is cut, and its later windows have no word. A
    window has as much context before its part as after it, so that each word is tagged in the
    window that has most context of it.

    Args:
        tokenizer: of the model.
        texts: of records.
        max_length: longest window in tokens, its two special tokens included.
        by_token: take every token that begins a character for a word; windows stay the same.
        stride: tokens that a window repeats of the one before, at most half of a window.

    Yields:
        for each text its words, (words, 2) int64, start and end in code points; and windows that
        tag them all in order, none where the text has no token.
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
    """Give windows the labels of their words."""
    start = 0
    for window in windows:
        after = start + len(window.firsts)
        yield replace(window, target=target[start:after])
        start = after


def _words(text: str, encoding: Encoding, by_token: bool = False,
           ) -> tuple[list[tuple[int, int]], list[int], list[int], list[int]]:
    """Find words: spans in the text, first tokens, and first tokens with the space before them.

    The last list has the tokens of white space alone. With `by_token`, a word is a token, with
    those that continue its last character.

    Words are those of the tokenizer's pre-tokenizer, as `word_ids` of transformers has them, cut
    once more at signs and between characters of unspaced scripts where a token begins there:
    Metaspace leaves `(cancer),` and whole Japanese sentences in one. Accents and joiners that a
    normalizer took away belong to the word before them. Those of `vocab.words` are others: they
    join what byte-level BPE divides, as `CYP2D6`, and runs of Thai.
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
    """Widen a span that would cut accents or joiners from the character before them."""
    while 0 < start < end and category(text[start]) in _MARKS:
        start -= 1
    return start, _after_marks(text, end)


def _after_marks(text: str, end: int) -> int:
    while end < len(text) and category(text[end]) in _MARKS:
        end += 1
    return end


def _begins(text: str, end_before: int, start: int, other_word: bool) -> bool:
    """Test whether a token that starts here begins a word."""
    if start < end_before or (start == end_before and category(text[start]) in _MARKS):
        return False  # a part of a character, or its accent
    if other_word or any(character.isspace() for character in text[end_before:start]):
        return True
    return not inside_word(text, start)


def inside_word(text: str, place: int) -> bool:
    """Test whether a place in a text is between two characters of one word."""
    if not 0 < place < len(text):
        return False
    sides = text[place - 1], text[place]
    return all(side.isalnum() or category(side) in _MARKS for side in sides) \
        and not any(_UNSPACED.match(side) for side in sides)


def _borders(text: str, words: list[tuple[int, int]], leads: list[int], total: int,
             size: int, context: int) -> Iterator[int]:
    """Yield the end of each window's part, the last one `total`: after a sentence or between words.

    With `context` tokens from each neighbour, a window has `size` tokens at most.

    A sentence ends at a line break or a stop, but not within `E. coli` and `3.5`.
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
    """A text, or a pair of texts, ready for a model, special tokens included.

    Args:
        token_type_ids: (tokens,) int32, 1 on the second text and its last special token.
    """

    token_type_ids: np.ndarray


class PairEncoder:
    """Special tokens around one text or two, and segments where the model has them.

    BERT reads `[CLS] a [SEP] b [SEP]`, RoBERTa `<s> a </s></s> b </s>`: the format is that of the
    tokenizer's post-processor, BERT's without one.

    Args:
        tokenizer: of the model.
        config: of the model.
        max_length: most tokens, special tokens included.
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
        """Encode texts, each with a second one or None, in order."""
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
        """Pad inputs to the longest: arguments of the model, (batch, tokens) int64 each."""
        batch = pad_ids([item.ids for item in inputs], self._tokenizer.pad_token_id)
        if self._has_segments:
            batch["token_type_ids"] = pad([item.token_type_ids for item in inputs], 0)
        return batch


def longest_first(first: int, second: int, size: int) -> tuple[int, int]:
    """Truncate two lengths to a sum of at most `size`, always taking from the longer one."""
    shorter, longer = sorted((first, second))
    shorter = min(shorter, max(size // 2, size - longer))
    longer = min(longer, size - shorter)
    return (shorter, longer) if first <= second else (longer, shorter)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWindow(TextInput):
    """A question and a part of its text, ready for a model.

    Args:
        place: of the text's first token here, among those of the window.
        first: number of this token in the text.
        size: tokens of the text.
    """

    place: int
    first: int
    size: int

    def aimed_at(self, answer: tuple[int, int] | None) -> AnswerWindow:
        """Train towards the places of an answer, first and last token of the text.

        Where the window does not hold it, that is the first token, twice.
        """
        inside = answer and self.first <= answer[0] and answer[1] < self.first + self.size
        places = np.array(answer) + self.place - self.first if inside else np.zeros(2, dtype=int)
        return replace(self, target=places)


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
        yield AnswerWindow(ids=ids, token_type_ids=types, truncated=truncated,
                           target=np.full(2, IGNORED), place=len(ids) - len(part) - 1,
                           first=first, size=len(part))


def score_spans(windows: Sequence[AnswerWindow], outputs: Outputs,
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
