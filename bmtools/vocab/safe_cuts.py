"""Where a text can be cut so that its pieces, encoded apart, give the ids of the whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bmtools.vocab.normalization import MICRO, SPACES
from bmtools.vocab.pipeline import flat_components

# Steps that treat each character, or run of combining characters, by itself.
_LOCAL = frozenset({"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt",
                    "Precompiled", "StripAccents"})
_LEAVE_ASCII = frozenset({"NFC", "NFD", "NFKC", "NFKD", "StripAccents"})
_REPLACED = ({"String": "``"}, {"String": "''"},  # ALBERT
             {"Regex": " {2,}"},  # XLM-R
             {"Regex": r"\s{2,}|[\n\r\t]"},  # DeBERTa
             {"Regex": SPACES}, {"Regex": MICRO})
_SPLIT_AT_SPACES = frozenset({"BertPreTokenizer", "WhitespaceSplit", "Whitespace"})
_AFTER = "x"


class SafeCuts:
    """What a tokenizer's steps say about cutting text before spaces.

    A piece is cut off before each space that follows anything but white space, so it holds its
    leading space and runs of white space stay whole. That is exact for three kinds of first step
    in pre-tokenizing: those that split at white space and drop it (BERT), the byte-level one with
    its regular expression, where a word takes the one space before it along (GPT-2, RoBERTa,
    ModernBERT), and Metaspace (SentencePiece models). Normalizers must not look across a space.
    Every other tokenizer is left alone.

    Args:
        backend: a `tokenizers.Tokenizer`.

    Attributes:
        allowed: whether text may be cut at all.
        drops_spaces: whether white space only parts words and is no part of any.
        inner: prefix of the tokens inside words, where the tokens alone tell words apart; or "".
        separator: a token and its id that keep what stands before and after it apart; or None.
    """

    def __init__(self, backend: Any) -> None:
        steps = json.loads(backend.to_str())
        self._normalizers = list(flat_components(steps["normalizer"]))
        self._splitters = list(flat_components(steps["pre_tokenizer"]))
        self._normalizer = backend.normalizer
        first = self._splitters[0] if self._splitters else {"type": "none"}
        self.drops_spaces = first["type"] in _SPLIT_AT_SPACES
        self.allowed = (
            steps["truncation"] is None and steps["padding"] is None
            and not steps["model"].get("dropout")
            and (self.drops_spaces or _keeps_spaces_ahead(first))
            and all(map(self._is_local, self._normalizers))
            and self._finds_added(steps["added_tokens"]))
        self.inner = _inner_prefix(steps, self._splitters)
        self.separator = next(
            ((token["content"], token["id"]) for token in steps["added_tokens"]
             if not (token["lstrip"] or token["rstrip"] or token["single_word"])
             and not (token["normalized"] and self._normalizers)), None)
        # Most pieces end in a plain character, and need no look at their normalized form.
        self._plain_ends = frozenset(end for end in map(chr, range(33, 127))
                                     if self.allowed and self._ends_firmly("a" + end))

    def cut(self, text: str) -> list[str]:
        """Cut a text before every space; the pieces joined are the text."""
        if "\0" in text:
            return re.split("(?= )", text)
        return text.replace(" ", "\0 ").split("\0")

    def joined(self, pieces: Sequence[str]) -> list[str]:
        """Join the pieces that `cut` should not have parted."""
        whole: list[str] = []
        loose = False
        for piece in pieces:
            if loose:
                whole[-1] += piece
            else:
                whole.append(piece)
            loose = not self.is_firm(whole[-1])
        return whole

    def is_firm(self, piece: str) -> bool:
        """Whether another piece may be cut off after this one."""
        return (self.drops_spaces or piece[-1:] in self._plain_ends
                or self._ends_firmly(piece))

    def with_added_tokens(self, pieces: Sequence[str]) -> set[str]:
        """Name the pieces that may hold an added token, as it is or once they are normalized.

        The library looks for those before anything else, and what it finds may swallow spaces.
        """
        found: set[str] = set()
        if self._added is not None and self._added.search("".join(pieces)):
            found.update(piece for piece in pieces if self._added.search(piece))
        if self._added_later is not None:
            found.update(piece for piece in pieces
                         if not (self._leaves_ascii and piece.isascii())
                         and self._added_later.search(self._normalizer.normalize_str(piece)))
        return found

    @property
    def _leaves_ascii(self) -> bool:
        return all(step["type"] in _LEAVE_ASCII for step in self._normalizers)

    def _is_local(self, step: Mapping[str, Any]) -> bool:
        if step["type"] == "Replace":
            return step["pattern"] in _REPLACED or _is_of_one_character(step)
        if step["type"] == "Strip":
            return self.drops_spaces or not step["strip_left"]
        return step["type"] in _LOCAL

    def _finds_added(self, added: Sequence[dict[str, Any]]) -> bool:
        """Prepare to find added tokens in pieces; no, if one could reach across a cut."""
        raw = {token["content"] for token in added}
        later = {self._normalized(token["content"]) for token in added if token["normalized"]}
        self._added = _any_of(raw | later)
        self._added_later = _any_of(later) if self._normalizers else None
        blank_allowed = not self.drops_spaces
        return all(content and (not any(map(str.isspace, content))
                                or (blank_allowed and content.isspace()))
                   for content in raw | later)

    def _normalized(self, text: str) -> str:
        return text if self._normalizer is None else self._normalizer.normalize_str(text)

    def _ends_firmly(self, piece: str) -> bool:
        """Whether a piece still begins with its space and ends without one when normalized.

        A letter after the end keeps a normalizer from stripping what would stand in mid-text.
        """
        if piece[-1:].isspace() or not piece:
            return False
        normal = self._normalized(piece + _AFTER)
        return (normal[-1:] == _AFTER and len(normal) > 1 and not normal[-2].isspace()
                and (piece[0] != " " or normal[0] == " "))


def _is_of_one_character(step: Mapping[str, Any]) -> bool:
    """Whether a replacement puts signs for one sign, white space on neither side."""
    found, content = step["pattern"].get("String", ""), step["content"]
    return (len(found) == 1 and bool(content)
            and not any(map(str.isspace, found + content)))


def _keeps_spaces_ahead(step: Mapping[str, Any]) -> bool:
    """Whether a pre-tokenizer leaves the space before a word with the word."""
    return ((step["type"] == "ByteLevel" and step["use_regex"])
            or (step["type"] == "Metaspace" and step.get("split", True)))


def _inner_prefix(steps: dict[str, Any], splitters: Sequence[Mapping[str, Any]]) -> str:
    """The prefix of tokens inside words, if no word and no added token can begin with it."""
    prefix = steps["model"].get("continuing_subword_prefix") or ""
    told = (steps["model"]["type"] == "WordPiece" and len(prefix) > 1
            # BERT's splitter makes such a character a word of its own.
            and prefix[0].isascii() and not prefix[0].isalnum() and not prefix[0].isspace()
            and [step["type"] for step in splitters] == ["BertPreTokenizer"]
            and not any(token["content"].startswith(prefix) for token in steps["added_tokens"]))
    return prefix if told else ""


def _any_of(contents: set[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, sorted(contents)))) if contents else None
