"""Text as numbers, one for each character, by the rule that a tokenizer folds characters by.

What a character becomes is asked once and kept in a table, so a megabyte of text costs a look-up
for each character. Characters that vanish or become several, and marks that melt into the letter
before them, are few in most scripts and are replaced afterwards.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from bmtools.vocab.pipeline import component_types

EXACT = "exact"
CASELESS = "caseless"
WORD = np.uint32(1 << 29)
"""Added to the code point of letters, figures and marks of scripts that write spaces."""
UNSPACED = np.uint32(1 << 30)
"""Added to those of scripts that write none."""

_CHARACTERS = 0x110000
_SLICE = 1 << 16
_SPECIAL = np.uint32(1 << 31)
_VANISHES, _BECOMES_SEVERAL, _MELTS, _UNKNOWN = (np.uint32(int(_SPECIAL) | n) for n in range(4))
_SPACE = ord(" ")
_AT_THE_ENDS = " \u2581"  # what normalizers put around a character to mark its borders
# They treat each character alone, or each letter with its marks thrown away.
_ALONE = {"BertNormalizer", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace", "Nmt",
          "ByteLevel"}
_JOINERS = "\u200c\u200d"
_UNSPACED_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007),
                    (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
                    (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF))
# Marks without a combining class that compose all the same, beside the vowels and finals of Korean.
_COMPOSE = "".join(map(chr, (
    *range(0x1160, 0x1200), 0x09BE, 0x09D7, 0x0B3E, 0x0B56, 0x0B57, 0x0BBE, 0x0BD7, 0x0CC2, 0x0CD5,
    0x0CD6, 0x0D3E, 0x0D57, 0x0DCF, 0x0DDF, 0x102E, 0x1B35, 0xFF9E, 0xFF9F, 0x11127, 0x1133E,
    0x11357, 0x114B0, 0x114BA, 0x114BD, 0x115AF, 0x11930)))


@dataclass(frozen=True)
class Folded:
    """A text after folding.

    Args:
        codes: (characters,) uint32, what characters became, with the bit of their kind; 32 for
            white space of all kinds.
        origin: (characters + 1,) int64, where in the text each came from, and the text's length;
            None where each stands where it stood.
    """

    codes: np.ndarray
    origin: np.ndarray | None

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Turn places in `codes` into places in the text."""
        return numbers if self.origin is None else self.origin[numbers]


class Folding:
    """Folds texts by a rule.

    Args:
        rule: a tokenizer's normalizer as JSON, which is asked about each letter with its marks;
            or `exact`, under which only canonically equal ways to write a character are one; or
            `caseless`, Unicode's own comparison without case, under which also ß equals ss and
            the two sigmas are one. Under both, soft hyphens and the like count for nothing.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._normalize, self._composes = _normalizer(rule)
        self._table = np.full(_CHARACTERS, _UNKNOWN)
        self._several: dict[str, np.ndarray] = {}

    def fold(self, text: str) -> Folded:
        """Fold a text."""
        found = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        codes = self._looked_up(found)
        highest = codes.max(initial=0)
        if highest == _UNKNOWN:
            self._learn(np.unique(found[codes == _UNKNOWN]))
            codes = self._looked_up(found)
            highest = codes.max(initial=0)
        return Folded(codes, None) if highest < _SPECIAL else self._replaced(text, codes)

    def _looked_up(self, found: np.ndarray) -> np.ndarray:
        """Read the table, a little at a time: numpy makes numbers of eight bytes of places."""
        codes = np.empty(len(found), dtype=np.uint32)
        for low in range(0, len(found), _SLICE):
            self._table.take(found[low:low + _SLICE], mode="clip", out=codes[low:low + _SLICE])
        return codes

    def string(self, text: str) -> str:
        """Give the folded form of a text as text, white space as single spaces."""
        return " ".join(as_string(self.fold(text).codes).split())

    def _learn(self, new: np.ndarray) -> None:
        for code in new.tolist():
            self._table[code] = self._entry(chr(code))

    def _entry(self, character: str) -> np.uint32:
        if character.isspace():
            return np.uint32(_SPACE)
        if self._composes and _melts(character):
            return _MELTS
        if self.rule in (EXACT, CASELESS) and _is_invisible(character):
            return _VANISHES
        became = self._cluster(character)
        if len(became) == 1:
            return np.uint32(became[0])
        return _BECOMES_SEVERAL if len(became) else _VANISHES

    def _cluster(self, characters: str) -> np.ndarray:
        """Fold a character, or one with its marks."""
        became = self._normalize(characters).strip(_AT_THE_ENDS)
        return np.array([ord(one) | int(_kind(one)) for one in became], dtype=np.uint32)

    def _replaced(self, text: str, codes: np.ndarray) -> Folded:
        """Drop what vanishes, and put in what becomes of clusters."""
        counts = (codes != _VANISHES).astype(np.int64)
        clusters = list(self._clusters(text, codes))
        for start, end, became in clusters:
            counts[start:end] = 0
            counts[start] = len(became)
        ends = np.cumsum(counts)
        origin = np.repeat(np.arange(len(codes)), counts)
        kept = codes[origin]
        for start, _, became in clusters:
            kept[ends[start] - len(became):ends[start]] = became
        return Folded(kept, np.append(origin, len(codes)))

    def _clusters(self, text: str, codes: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
        """Find what is not replaced character by character: begin, end and what it becomes."""
        found: list[tuple[int, int, np.ndarray]] = []
        end = 0
        for place in np.flatnonzero(codes > _VANISHES).tolist():
            if place < end:
                continue
            start = place
            if codes[place] == _MELTS and place > end and not text[place - 1].isspace():
                start = place - 1
            end = place + 1
            while end < len(text) and codes[end] == _MELTS:
                end += 1
            cluster = text[start:end]
            if cluster not in self._several:
                if len(self._several) > _CHARACTERS // 16:
                    self._several.clear()
                self._several[cluster] = self._cluster(cluster)
            found.append((start, end, self._several[cluster]))
        return found


def as_string(codes: np.ndarray) -> str:
    """Read folded characters as text."""
    plain = codes & np.uint32(int(WORD) - 1)
    return plain.tobytes().decode("utf-32-le", "surrogatepass")


def _normalizer(rule: str) -> tuple[Callable[[str], str], bool]:
    """Give the function, and whether marks may melt into the letter before them under it."""
    if rule == EXACT:
        return lambda text: unicodedata.normalize("NFC", text), True
    if rule == CASELESS:
        return _caseless, True
    steps = json.loads(rule)
    if steps is None:
        return str, False
    empty = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
             "normalizer": steps, "pre_tokenizer": None, "post_processor": None, "decoder": None,
             "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}
    normalize = Tokenizer.from_str(json.dumps(empty)).normalizer.normalize_str
    return normalize, not component_types(steps) <= _ALONE


def _caseless(text: str) -> str:
    """Source: Unicode Standard, section 3.13, definition D145 (canonical caseless matching)."""
    folded = unicodedata.normalize("NFD", text).casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded))


def _kind(character: str) -> np.uint32:
    """Say whether a character belongs to a word, and to one of what sort."""
    if unicodedata.category(character)[0] not in "LNM" and character not in _JOINERS:
        return np.uint32(0)
    code = ord(character)
    return UNSPACED if any(low <= code <= high for low, high in _UNSPACED_RANGES) else WORD


def _is_invisible(character: str) -> bool:
    """Whether a character says where a line may break or text turns, and nothing else."""
    return unicodedata.category(character) == "Cf" and character not in _JOINERS


def _melts(character: str) -> bool:
    """Whether a character may become one with the letter before it, or change places with marks."""
    return unicodedata.combining(character) > 0 or character in _COMPOSE
