"""Encoding of texts into token ids with word starts, each chunk between spaces once.

Safe splitting finds chunks of a text that, encoded apart, give the ids of the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from bmtools.vocab.segmenters import Segmenter, segmented_starts
from bmtools.vocab.tokenizer import METASPACE, Component, flat_components
from bmtools.vocab.words import PrefixedWords, word_starts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MICRO = "[\u00b5\u03bc](?=[A-Za-z])"
"""The micro sign, or the letter used for it, before a unit."""
SPACES = r"\s+"

_TEXTS_AT_ONCE = 1_000
_CACHED_CHARACTERS = 1 << 26
_ENTRY_CHARACTERS = 150  # what a short chunk and its ids take beside the chunk's characters
_START = np.uint32(1 << 31)  # marks, beside the id, a token that begins a word
# Normalizers that treat each character, or run of combining characters, by itself.
_LOCAL = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt",
                    "Precompiled", "StripAccents"})
_KEEP_ASCII = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
_SPACE_PATTERNS = ({"Regex": " {2,}"},  # XLM-R
                   {"Regex": r"\s{2,}|[\n\r\t]"},  # DeBERTa
                   {"Regex": SPACES})
_SAFE_PATTERNS = (*_SPACE_PATTERNS, {"String": "``"}, {"String": "''"},  # ALBERT
                  {"Regex": MICRO})
_SPLIT_AT_SPACES = frozenset({"BertPreTokenizer", "WhitespaceSplit", "Whitespace"})
_LETTER = "x"


@dataclass(frozen=True, slots=True)
class EncodedText:
    """One text.

    Args:
        ids: (tokens,) int32, no special tokens added.
        word_starts: (tokens,) bool, True where a word begins.
    """

    ids: np.ndarray
    word_starts: np.ndarray


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Texts, end to end.

    Args:
        ids: (all tokens,) int32, no special tokens added.
        word_starts: (all tokens,) bool, True where a word begins.
        lengths: (texts,) int64, tokens of each.
        tokens_at: for each text, the first token that reaches beyond each requested offset, or
            beyond the space before it, counted within the text; its length where there is none.
        in_chunks: texts were encoded chunk by chunk; False where all were encoded whole.
    """

    ids: np.ndarray
    word_starts: np.ndarray
    lengths: np.ndarray
    tokens_at: list[list[int]]
    in_chunks: bool


def encode(tokenizer: PreTrainedTokenizerBase, texts: Iterable[str]) -> Iterator[EncodedText]:
    """Encode texts in order; words are those of `bmtools.vocab.words`."""
    encoder = Encoder(tokenizer.backend_tokenizer)
    pending = iter(texts)
    while batch := list(islice(pending, _TEXTS_AT_ONCE)):
        encoded = encoder.encode(batch)
        ends = np.cumsum(encoded.lengths)
        for start, end in zip(ends - encoded.lengths, ends, strict=True):
            yield EncodedText(encoded.ids[start:end], encoded.word_starts[start:end])


class Encoder:
    """Encoder with the tokenizer's ids, but faster: a chunk between spaces is encoded once.

    Where the tokenizer does not allow that, and for texts with added tokens in them, the
    tokenizer encodes whole texts. As a guard, one text of every call is encoded both ways; where
    they differ, all texts of that call are encoded whole.

    Memory is bounded: the cache is emptied when it fills some tens of megabytes.

    Args:
        backend: the tokenizer.
        segmenter: finds words in scripts without spaces; texts are encoded whole then.
    """

    def __init__(self, backend: Tokenizer, segmenter: Segmenter | None = None) -> None:
        self._backend = backend
        self._segmenter = segmenter
        self._splitter = SafeSplitter(backend)
        self._in_chunks = self._splitter.enabled and segmenter is None
        prefix = self._splitter.inner_prefix
        self._prefixed = PrefixedWords(backend, prefix) if prefix and segmenter is None else None
        self._packed_ids: dict[str, bytes] = {}
        self._unsafe: set[str] = set()
        self._with_added: set[str] = set()
        self._cached_characters = 0

    def encode(self, texts: Sequence[str],
               offsets: Sequence[Sequence[int]] | None = None) -> EncodedTexts:
        """Encode texts, and find the tokens at some offsets of them.

        Args:
            texts: any number.
            offsets: for each text, in code points.
        """
        chunks = self._split(texts) if self._in_chunks else [None] * len(texts)
        ids_of = self._packed_ids.__getitem__
        packed = [b"" if own is None else b"".join(map(ids_of, own)) for own in chunks]
        # The first text is encoded whole too, as a guard.
        guarded = packed[:1] if any(chunks[:1]) else []
        whole = [number for number, own in enumerate(chunks) if own is None or not number]
        for number, ids in zip(whole, self._encode_whole([texts[n] for n in whole]), strict=True):
            packed[number] = ids
        if guarded and packed[:1] != guarded:
            chunks, packed = [None] * len(texts), self._encode_whole(texts)
        flat = np.frombuffer(b"".join(packed), dtype=np.uint32)
        lengths = np.array([len(one) // 4 for one in packed], dtype=np.int64)
        tokens_at = [self._tokens_at(*each) if each[-1] else []
                     for each in zip(texts, chunks, offsets, strict=True)] if offsets else []
        return EncodedTexts((flat & ~_START).astype(np.int32), flat >= _START, lengths, tokens_at,
                            any(own is not None for own in chunks))

    def _split(self, texts: Sequence[str]) -> list[list[str] | None]:
        """Split texts into chunks whose ids are in the cache; None for texts to encode whole."""
        if self._cached_characters > _CACHED_CHARACTERS:
            for cache in (self._packed_ids, self._unsafe, self._with_added):
                cache.clear()
            self._cached_characters = 0
        chunks = [self._splitter.split(text) for text in texts]
        self._cache_chunks(set().union(*chunks))
        unsafe = [number for number, own in enumerate(chunks)
                  if not self._unsafe.isdisjoint(own)] if self._unsafe else []
        for number in unsafe:
            chunks[number] = self._splitter.merge_unsafe(chunks[number])
        if unsafe:
            self._cache_chunks(set().union(*(chunks[number] for number in unsafe)))
        return [None if self._with_added and not self._with_added.isdisjoint(own) else own
                for own in chunks]

    def _cache_chunks(self, chunks: set[str]) -> None:
        """Encode the chunks that are not in the cache."""
        new = [chunk for chunk in chunks if chunk not in self._packed_ids]
        with_added = self._splitter.with_added_tokens(new)
        self._with_added |= with_added
        self._unsafe.update(chunk for chunk in new if not self._splitter.is_safe(chunk))
        self._packed_ids.update(dict.fromkeys(with_added, b""))
        self._cached_characters += sum(map(len, new)) + _ENTRY_CHARACTERS * len(new)
        plain = [chunk for chunk in new if chunk not in with_added]
        # A text's first chunk has no space ahead, and some pre-tokenizers give it one there.
        inner = [chunk for chunk in plain if chunk[:1] == " "]
        first = [chunk for chunk in plain if chunk[:1] != " "]
        if inner and self._splitter.separator is not None:
            # As one text, with a token between the chunks that keeps them apart.
            separator, separator_id = self._splitter.separator
            [flat] = self._encode_whole([separator.join(inner)])
            marked = np.append(np.frombuffer(flat, dtype=np.uint32), np.uint32(0))
            borders = np.flatnonzero(marked[:-1] & ~_START == separator_id)
            if len(borders) == len(inner) - 1:
                begins = np.append(0, borders + 1)
                marked[begins] |= _START
                flat, ends = marked.tobytes(), 4 * np.append(borders, len(marked) - 1)
                self._packed_ids |= {chunk: flat[begin:end] for chunk, begin, end
                                     in zip(inner, (4 * begins).tolist(), ends.tolist(),
                                            strict=True)}
                inner = []
        whole = inner + first
        self._packed_ids.update(zip(whole, self._encode_whole(whole), strict=True))

    def _encode_whole(self, texts: Sequence[str]) -> list[bytes]:
        """Encode texts as they are: ids as four bytes each, the highest bit where words begin."""
        # Without offsets the library takes a fifth less time.
        encode_batch = self._backend.encode_batch_fast if self._prefixed is not None \
            else self._backend.encode_batch
        encodings = encode_batch(list(texts), add_special_tokens=False)
        ids = np.fromiter(chain.from_iterable(one.ids for one in encodings), np.uint32)
        if self._prefixed is not None:
            starts = self._prefixed.starts(ids)
        elif self._segmenter is not None:
            starts = np.concatenate([np.zeros(0, dtype=bool), *(
                segmented_starts(text, one.offsets, self._segmenter)
                for text, one in zip(texts, encodings, strict=True))])
        else:
            starts = word_starts(self._backend, texts, encodings)
        packed = (ids | starts * _START).tobytes()
        ends = [*accumulate((4 * len(one) for one in encodings), initial=0)]
        return [packed[begin:end] for begin, end in pairwise(ends)]

    def _tokens_at(self, text: str, chunks: list[str] | None,
                   offsets: Sequence[int]) -> list[int]:
        """Find the first token that reaches beyond each offset, or beyond the space before it."""
        offsets = [offset - (text[offset - 1:offset] == " ") for offset in offsets]
        if chunks is None:
            return self._tokens_within(text, offsets)
        sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
        ends = np.cumsum(sizes)
        tokens_before = np.cumsum([0, *(len(self._packed_ids[own]) // 4 for own in chunks)])
        numbers = np.searchsorted(ends, offsets, side="right").tolist()
        tokens: list[int] = tokens_before[numbers].tolist()
        for which, number in enumerate(numbers):
            within = offsets[which] - int(ends[number] - sizes[number]) if number < len(ends) else 0
            if within:
                tokens[which] += self._tokens_within(chunks[number], [within])[0]
        return tokens

    def _tokens_within(self, text: str, offsets: Sequence[int]) -> list[int]:
        found = self._backend.encode(text, add_special_tokens=False)
        ends = np.maximum.accumulate([end for _, end in found.offsets], dtype=np.int64)
        # A token before the first character, as Metaspace adds it there, belongs to it.
        return np.where(offsets, np.searchsorted(ends, offsets, side="right"), 0).tolist()


class SafeSplitter:
    """Splitter of text before spaces, by the rules of a tokenizer.

    A chunk ends before each space that follows anything but white space, so it holds its leading
    space and runs of white space stay whole. That is exact for three kinds of first
    pre-tokenizer: those that split at white space and drop it (BERT), the byte-level one with
    its regular expression, where a word takes the one space before it along (GPT-2, RoBERTa,
    ModernBERT), and Metaspace (SentencePiece models). Normalizers must not look across a space.
    No other tokenizer's text may be split.

    Args:
        backend: the tokenizer.

    Attributes:
        enabled: text may be split at all.
        drops_spaces: white space only separates words and is no part of any.
        inner_prefix: prefix of the tokens inside words, where the tokens alone tell words apart;
            or "".
        separator: a token and its id that keep the text on both sides apart; or None.
    """

    def __init__(self, backend: Tokenizer) -> None:
        content = json.loads(backend.to_str())
        steps = flat_components(content["normalizer"])
        pre_tokenizers = flat_components(content["pre_tokenizer"])
        first = pre_tokenizers[0] if pre_tokenizers else {"type": "none"}
        self._normalize = backend.normalizer.normalize_str if backend.normalizer else str
        self._keeps_ascii = all(step["type"] in _KEEP_ASCII for step in steps)
        added = content["added_tokens"]
        normalized = {self._normalize(token["content"]) for token in added if token["normalized"]}
        tokens = normalized.union(token["content"] for token in added)
        patterns = ("|".join(map(re.escape, sorted(some)))
                    for some in (tokens, normalized if steps else ()))
        self._added, self._added_normalized = (re.compile(one) if one else None for one in patterns)
        self.drops_spaces = first["type"] in _SPLIT_AT_SPACES
        # A word keeps the space before it.
        keeps_spaces = {"ByteLevel": first.get("use_regex", False),
                        "Metaspace": first.get("split", True)}.get(first["type"], False)
        # No added token may reach across the end of a chunk.
        fit_in_chunks = all(token and (not any(map(str.isspace, token))
                                       or (not self.drops_spaces and token.isspace()))
                            for token in tokens)
        self.enabled = all((
            content["truncation"] is None, content["padding"] is None,
            not content["model"].get("dropout"), self.drops_spaces or keeps_spaces, fit_in_chunks,
            *(_is_local(step, self.drops_spaces) for step in steps)))
        self.inner_prefix = _inner_prefix(content, pre_tokenizers)
        self.separator = None if backend.encode_special_tokens else next(
            ((token["content"], token["id"]) for token in added
             if not (token["lstrip"] or token["rstrip"] or token["single_word"])
             and not (token["normalized"] and steps)), None)
        # Most chunks end in a plain character, which needs no look at the normalized form.
        self._plain_ends: frozenset[str] = frozenset()
        self._plain_ends = frozenset(end for end in map(chr, range(33, 127))
                                     if self.enabled and self.is_safe("a" + end))

    def split(self, text: str) -> list[str]:
        """Split a text before every space; the chunks joined are the text."""
        if "\0" in text:
            return re.split("(?= )", text)
        return text.replace(" ", "\0 ").split("\0")

    def merge_unsafe(self, chunks: Sequence[str]) -> list[str]:
        """Join the chunks that `split` should not have separated."""
        merged: list[str] = []
        is_open = False
        for chunk in chunks:
            if is_open:
                merged[-1] += chunk
            else:
                merged.append(chunk)
            is_open = not self.is_safe(merged[-1])
        return merged

    def is_safe(self, chunk: str) -> bool:
        """Return whether another chunk may begin after this one.

        It may where the chunk, normalized, still begins with its space and ends without one. A
        letter after the end keeps a normalizer from stripping what would be kept in mid-text.
        """
        if self.drops_spaces or chunk[-1:] in self._plain_ends:
            return True
        if chunk[-1:].isspace() or not chunk:
            return False
        normal = self._normalize(chunk + _LETTER)
        return (normal[-1:] == _LETTER and len(normal) > 1
                and not (normal[-2].isspace() or normal[-2] == METASPACE)  # as XLM-R writes several
                and (chunk[0] != " " or normal[0] == " "))

    def with_added_tokens(self, chunks: Sequence[str]) -> set[str]:
        """Return the chunks that may contain an added token, as it is or once normalized.

        The library looks for those before anything else, and what it finds may swallow spaces.
        """
        found: set[str] = set()
        if self._added is not None and self._added.search("".join(chunks)):
            found.update(chunk for chunk in chunks if self._added.search(chunk))
        if self._added_normalized is not None:
            found.update(chunk for chunk in chunks
                         if not (self._keeps_ascii and chunk.isascii())
                         and self._added_normalized.search(self._normalize(chunk)))
        return found


def _is_local(step: Component, drops_spaces: bool) -> bool:
    """Return whether a normalizer gives a chunk what it gives it within its text."""
    if step["type"] == "Replace":
        found, content = step["pattern"].get("String", ""), step["content"]
        is_one_character = (len(found) == 1 and bool(content)
                            and not any(map(str.isspace, found + content)))
        # Where words end at spaces, what spaces become must end them, too.
        return is_one_character or (step["pattern"] in _SAFE_PATTERNS and not (
            drops_spaces and step["pattern"] in _SPACE_PATTERNS and content.strip()))
    if step["type"] == "Strip":
        return drops_spaces or not step["strip_left"]
    return step["type"] in _LOCAL


def _inner_prefix(content: Mapping[str, Any], pre_tokenizers: Sequence[Component]) -> str:
    """Return the prefix of tokens inside words, if no word or added token can begin with it."""
    prefix: str = content["model"].get("continuing_subword_prefix") or ""
    is_certain = (
        content["model"]["type"] == "WordPiece" and len(prefix) > 1
        # BERT's pre-tokenizer makes such a character a word of its own.
        and prefix[0].isascii() and not prefix[0].isalnum() and not prefix[0].isspace()
        and [step["type"] for step in pre_tokenizers] == ["BertPreTokenizer"]
        and not any(token["content"].startswith(prefix) for token in content["added_tokens"]))
    return prefix if is_certain else ""
