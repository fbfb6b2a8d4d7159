"""Safe splitting: chunks of a text that, encoded apart, give the ids of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer

from bmtools.vocab.normalization import MICRO, SPACES
from bmtools.vocab.tokenizer_json import (
    AddedTokenJson,
    Component,
    TokenizerJson,
    flat_components,
    tokenizer_json,
)

# Normalizers that treat each character, or run of combining characters, by itself.
_LOCAL = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt",
                    "Precompiled", "StripAccents"})
_KEEP_ASCII = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
_SAFE_PATTERNS = ({"String": "``"}, {"String": "''"},  # ALBERT
                  {"Regex": " {2,}"},  # XLM-R
                  {"Regex": r"\s{2,}|[\n\r\t]"},  # DeBERTa
                  {"Regex": SPACES}, {"Regex": MICRO})
_SPLIT_AT_SPACES = frozenset({"BertPreTokenizer", "WhitespaceSplit", "Whitespace"})
_LETTER = "x"


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
        content = tokenizer_json(backend)
        self._normalizers = list(flat_components(content["normalizer"]))
        self._normalizer = backend.normalizer
        pre_tokenizers = list(flat_components(content["pre_tokenizer"]))
        first = pre_tokenizers[0] if pre_tokenizers else {"type": "none"}
        added = content["added_tokens"]
        raw = {token["content"] for token in added}
        normalized = {self._normalize(token["content"]) for token in added if token["normalized"]}
        self._added = _any_of(raw | normalized)
        self._added_normalized = _any_of(normalized) if self._normalizers else None
        self._keeps_ascii = all(step["type"] in _KEEP_ASCII for step in self._normalizers)
        self.drops_spaces = first["type"] in _SPLIT_AT_SPACES
        self.enabled = (
            content["truncation"] is None and content["padding"] is None
            and not content["model"].get("dropout")
            and (self.drops_spaces or _keeps_leading_space(first))
            and all(map(self._is_local, self._normalizers))
            and self._fit_into_chunks(raw | normalized))
        self.inner_prefix = _inner_prefix(content, pre_tokenizers)
        self.separator = next(
            ((token["content"], token["id"]) for token in added
             if not _takes_context(token) and not (token["normalized"] and self._normalizers)),
            None)
        # Most chunks end in a plain character, which needs no look at the normalized form.
        self._plain_ends = frozenset(end for end in map(chr, range(33, 127))
                                     if self.enabled and self._keeps_its_borders("a" + end))

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
        """Return whether another chunk may begin after this one."""
        return (self.drops_spaces or chunk[-1:] in self._plain_ends
                or self._keeps_its_borders(chunk))

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

    def _is_local(self, step: Component) -> bool:
        if step["type"] == "Replace":
            return step["pattern"] in _SAFE_PATTERNS or _replaces_one_character(step)
        if step["type"] == "Strip":
            return self.drops_spaces or not step["strip_left"]
        return step["type"] in _LOCAL

    def _fit_into_chunks(self, tokens: Iterable[str]) -> bool:
        """Return whether none of some added tokens can reach across the end of a chunk."""
        return all(token and (not any(map(str.isspace, token))
                              or (not self.drops_spaces and token.isspace()))
                   for token in tokens)

    def _normalize(self, text: str) -> str:
        return text if self._normalizer is None else self._normalizer.normalize_str(text)

    def _keeps_its_borders(self, chunk: str) -> bool:
        """Return whether a chunk, normalized, still begins with its space and ends without one.

        A letter after the end keeps a normalizer from stripping what would be kept in mid-text.
        """
        if chunk[-1:].isspace() or not chunk:
            return False
        normal = self._normalize(chunk + _LETTER)
        return (normal[-1:] == _LETTER and len(normal) > 1 and not normal[-2].isspace()
                and (chunk[0] != " " or normal[0] == " "))


def _takes_context(token: AddedTokenJson) -> bool:
    return token["lstrip"] or token["rstrip"] or token["single_word"]


def _replaces_one_character(step: Component) -> bool:
    """Return whether a replacement turns one character into others, none of them white space."""
    found, content = step["pattern"].get("String", ""), step["content"]
    return (len(found) == 1 and bool(content)
            and not any(map(str.isspace, found + content)))


def _keeps_leading_space(step: Component) -> bool:
    """Return whether a pre-tokenizer leaves the space before a word with the word."""
    return ((step["type"] == "ByteLevel" and step["use_regex"])
            or (step["type"] == "Metaspace" and step.get("split", True)))


def _inner_prefix(content: TokenizerJson, pre_tokenizers: Sequence[Component]) -> str:
    """Return the prefix of tokens inside words, if no word or added token can begin with it."""
    prefix: str = content["model"].get("continuing_subword_prefix") or ""
    is_certain = (
        content["model"]["type"] == "WordPiece" and len(prefix) > 1
        # BERT's pre-tokenizer makes such a character a word of its own.
        and prefix[0].isascii() and not prefix[0].isalnum() and not prefix[0].isspace()
        and [step["type"] for step in pre_tokenizers] == ["BertPreTokenizer"]
        and not any(token["content"].startswith(prefix) for token in content["added_tokens"]))
    return prefix if is_certain else ""


def _any_of(contents: set[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, sorted(contents)))) if contents else None
