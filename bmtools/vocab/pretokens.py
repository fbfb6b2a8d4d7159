"""Words as a tokenizer splits them before its model: safe splitting and counting."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Model
from tokenizers.trainers import Trainer

from bmtools.errors import DataError
from bmtools.records import JsonObject
from bmtools.vocab.tokenizer import METASPACE, Component, flat_components

SPACES = r"\s+"
BEFORE_EXPONENT = r"(?<=[\d)\]])(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207a\u207b])"
BEFORE_FRACTION = r"(?<=\d)(?=[\u00bc-\u00be\u2150-\u215f])"
"""Positions where NFKC would join an exponent or fraction to a number: `10⁶`, `2½`."""
# Normalizers that treat each character, or run of combining characters, separately.
_LOCAL = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt",
                    "Precompiled", "StripAccents"})
_KEEP_ASCII = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
_SPACE_PATTERNS = ({"Regex": " {2,}"},  # XLM-R
                   {"Regex": r"\s{2,}|[\n\r\t]"},  # DeBERTa
                   {"Regex": SPACES})
_SAFE_PATTERNS = (*_SPACE_PATTERNS, {"Regex": BEFORE_EXPONENT}, {"Regex": BEFORE_FRACTION},
                  {"String": "``"}, {"String": "''"})  # ALBERT
_SPLIT_AT_SPACES = frozenset({"BertPreTokenizer", "WhitespaceSplit", "Whitespace"})
_LETTER = "x"
_LINE_WORDS = 1_000
_SPACE_AFTER_SPACE = re.compile(r"\s ")
_BEFORE_SPACES = re.compile(r"(?<=\S)(?= )")


class SafeSplitter:
    """Splitter of text before spaces, by the rules of a tokenizer.

    A chunk ends before each space that does not follow white space. So it contains its leading
    space, and runs of white space are not split. This is exact for three kinds of first
    pre-tokenizer:

    - pre-tokenizers that split at white space and drop it (BERT)
    - the byte-level pre-tokenizer with its regular expression, which keeps a space with the next
      word (GPT-2, RoBERTa, ModernBERT)
    - Metaspace (SentencePiece models)

    Normalizers must not look across a space. For all other tokenizers, splitting is disabled.

    Args:
        backend: the tokenizer.

    Attributes:
        enabled: whether text may be split.
        drops_spaces: whether white space only separates words and does not belong to them.
        inner_prefix: prefix of the tokens inside words, or "" if tokens alone do not show words.
        separator: a token and its id that separate the texts on both sides, if special tokens in a
            text are not read as text; or None.
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
        # An added token must not reach across the end of a chunk.
        fit_in_chunks = all(token and (not any(map(str.isspace, token))
                                       or (not self.drops_spaces and token.isspace()))
                            for token in tokens)
        self.enabled = all((
            content["truncation"] is None, content["padding"] is None,
            not content["model"].get("dropout"), self.drops_spaces or keeps_spaces, fit_in_chunks,
            *(_is_local(step, self.drops_spaces) for step in steps)))
        self.inner_prefix = _inner_prefix(content, pre_tokenizers)
        self.separator = next(
            ((token["content"], token["id"]) for token in added
             if not (token["lstrip"] or token["rstrip"] or token["single_word"])
             and not (token["normalized"] and steps)), None)
        # Most chunks end in a plain character, for which the normalized form is not needed.
        self._plain_ends: frozenset[str] = frozenset()
        self._plain_ends = frozenset(end for end in map(chr, range(33, 127))
                                     if self.enabled and self.is_safe("a" + end))

    def split(self, text: str) -> list[str]:
        """Split a text before every space into chunks, which together are the text."""
        if "\0" in text:
            return re.split("(?= )", text)
        return text.replace(" ", "\0 ").split("\0")

    def merge_unsafe(self, chunks: Sequence[str]) -> list[str]:
        """Join chunks between which `split` should not have split."""
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

        It may if the chunk, after normalization, still begins with its space and does not end with
        one. The letter at the end stops normalizers from stripping characters that they keep in the
        middle of a text.
        """
        if self.drops_spaces or chunk[-1:] in self._plain_ends:
            return True
        if chunk[-1:].isspace() or not chunk:
            return False
        normal = self._normalize(chunk + _LETTER)
        return (normal[-1:] == _LETTER and len(normal) > 1
                and not (normal[-2].isspace() or normal[-2] == METASPACE)  # as in XLM-R
                and (chunk[0] != " " or normal[0] == " "))

    def with_added_tokens(self, chunks: Sequence[str]) -> set[str]:
        """Return the chunks that may contain an added token, before or after normalization.

        The library searches for added tokens first, and their matches may include spaces.
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
    """Return whether a normalizer changes a chunk exactly as it does inside its text."""
    if step["type"] == "Replace":
        found, content = step["pattern"].get("String", ""), step["content"]
        is_one_character = (len(found) == 1 and bool(content)
                            and not any(map(str.isspace, found + content)))
        # If words end at spaces, the replacement of a space must also end them.
        return is_one_character or (step["pattern"] in _SAFE_PATTERNS and not (
            drops_spaces and step["pattern"] in _SPACE_PATTERNS and content.strip()))
    if step["type"] == "Strip":
        return drops_spaces or not step["strip_left"]
    return step["type"] in _LOCAL


def _inner_prefix(content: JsonObject, pre_tokenizers: Sequence[Component]) -> str:
    """Return the prefix of tokens inside words, if no word or added token can begin with it."""
    prefix: str = content["model"].get("continuing_subword_prefix") or ""
    is_certain = (
        content["model"]["type"] == "WordPiece" and len(prefix) > 1
        # BERT's pre-tokenizer makes such a character a separate word.
        and prefix[0].isascii() and not prefix[0].isalnum() and not prefix[0].isspace()
        and [step["type"] for step in pre_tokenizers] == ["BertPreTokenizer"]
        and not any(token["content"].startswith(prefix) for token in content["added_tokens"]))
    return prefix if is_certain else ""


def count_pretokens(texts: Iterable[str], backend: Tokenizer) -> Counter[str]:
    """Count words as they reach a tokenizer's model, normalized and split.

    Each distinct chunk between spaces is split once. The counts are the same as for complete
    texts. The only exception is an accent after a space, if accents are dropped. Distinct chunks
    and words are kept in memory, which grows with the corpus's vocabulary and not with its length.

    Args:
        texts: texts, read once.
        backend: tokenizer; only its normalizer and pre-tokenizer are used.

    Raises:
        DataError: there are no words.
    """
    splitter = SafeSplitter(backend)
    chunks: Counter[str] = Counter()
    for text in texts:
        if not splitter.enabled:
            chunks[text] += 1
        elif splitter.drops_spaces:
            chunks.update(text.split())
        else:
            # The first split is much faster, and correct if no space follows white space.
            chunks.update(_BEFORE_SPACES.split(text) if _SPACE_AFTER_SPACE.search(text)
                          else splitter.split(text))
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word in pretokenize(chunk, backend):
            words[word] += count
    if not words:
        raise DataError("no words in the input; expected records with some text")
    return words


def pretokenize(text: str, backend: Tokenizer) -> list[str]:
    """Normalize a text and split it into words exactly as a tokenizer does."""
    normal = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    if backend.pre_tokenizer is None:
        return [normal] if normal else []
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal)]


def train_model(model: Model, trainer: Trainer, words: Counter[str]) -> Model:
    """Train one of the library's models on words with counts, and return it.

    The library does not accept counts, so each word is repeated as often as it occurs. Words must
    not contain white space.
    """
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    lines = (" ".join([word] * min(_LINE_WORDS, count - start)) for word, count in words.items()
             for start in range(0, count, _LINE_WORDS))
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer.model


def most_frequent(counts: Counter[str], limit: int) -> list[str]:
    """Return the most frequent keys; ties are sorted by key."""
    return sorted(counts, key=lambda key: (-counts[key], key))[:limit]
