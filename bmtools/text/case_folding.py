"""Case folding: convert text to one code per character by the rule of a tokenizer's normalizer.

The code of a character is computed once and kept in a table, so folding costs one look-up per
character. In most scripts, few characters vanish, become several or compose with the letter before
them. These characters are replaced afterwards.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tokenizers import Tokenizer

from bmtools.vocab.tokenizer import flat_components

EXACT = "exact"
CASELESS = "caseless"
WORD = np.uint32(1 << 29)
"""Bit in the codes of letters, digits and marks of scripts with spaces between words."""
UNSPACED = np.uint32(1 << 30)
"""Bit in the codes of letters, digits and marks of scripts without spaces."""

_CHARACTERS = 0x110000
_SLICE = 1 << 16
_SPECIAL = np.uint32(1 << 31)
_VANISHES, _EXPANDS, _COMBINES, _UNKNOWN = (np.uint32(int(_SPECIAL) | n) for n in range(4))
_SPACE = ord(" ")
_BORDER_MARKS = " \u2581"  # added by normalizers at the borders of a text
# Normalizers that treat each character separately, or each letter without its marks.
_LOCAL = {"BertNormalizer", "Lowercase", "StripAccents", "Strip", "Prepend", "Replace", "Nmt",
          "ByteLevel"}
_JOINERS = "\u200c\u200d"
_UNSPACED_RANGES = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007),
                    (0x3040, 0x30FF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
                    (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF))
# Marks that compose although they have no combining class, and Korean vowels and finals.
_COMPOSE = "".join(map(chr, (
    *range(0x1160, 0x1200), 0x09BE, 0x09D7, 0x0B3E, 0x0B56, 0x0B57, 0x0BBE, 0x0BD7, 0x0CC2, 0x0CD5,
    0x0CD6, 0x0D3E, 0x0D57, 0x0DCF, 0x0DDF, 0x102E, 0x1B35, 0xFF9E, 0xFF9F, 0x11127, 0x1133E,
    0x11357, 0x114B0, 0x114BA, 0x114BD, 0x115AF, 0x11930)))


@dataclass(frozen=True)
class Folded:
    """A text after folding.

    Args:
        codes: (characters,) uint32, code points with the bit of their kind; 32 for any white space.
        origin: (characters + 1,) int64, position of each code in the text, and the text's length;
            None if no position has changed.
    """

    codes: np.ndarray
    origin: np.ndarray | None

    def positions(self, indices: np.ndarray) -> np.ndarray:
        """Convert indices of `codes` to positions in the text."""
        return indices if self.origin is None else self.origin[indices]


class Folding:
    """Folding of texts by a rule.

    Args:
        rule: a tokenizer's normalizer as JSON, `exact` or `caseless`. A normalizer is applied to
            each letter with its marks. `exact` only unites canonically equal spellings of a
            character. `caseless` is Unicode's comparison without case, which also unites ß with ss
            and the two sigmas. Both ignore soft hyphens and similar characters.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._normalize, self._composes = _normalizer(rule)
        self._table = np.full(_CHARACTERS, _UNKNOWN)
        self._clusters: dict[str, np.ndarray] = {}

    def fold(self, text: str) -> Folded:
        """Fold a text."""
        found = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        codes = self._looked_up(found)
        highest = codes.max(initial=0)
        if highest == _UNKNOWN:
            for code in np.unique(found[codes == _UNKNOWN]).tolist():
                self._table[code] = self._entry(chr(code))
            codes = self._looked_up(found)
            highest = codes.max(initial=0)
        return Folded(codes, None) if highest < _SPECIAL else self._replaced(text, codes)

    def _looked_up(self, found: np.ndarray) -> np.ndarray:
        """Read the table in slices, because numpy converts each index to eight bytes."""
        codes = np.empty(len(found), dtype=np.uint32)
        for low in range(0, len(found), _SLICE):
            self._table.take(found[low:low + _SLICE], mode="clip", out=codes[low:low + _SLICE])
        return codes

    def string(self, text: str) -> str:
        """Return a folded text as a string with single spaces."""
        return " ".join(as_string(self.fold(text).codes).split())

    def _entry(self, character: str) -> np.uint32:
        if character.isspace():
            return np.uint32(_SPACE)
        # The character may compose with the letter before it, or be reordered.
        if self._composes and (unicodedata.combining(character) or character in _COMPOSE):
            return _COMBINES
        # The character only controls line breaks or text direction.
        if (self.rule in (EXACT, CASELESS) and unicodedata.category(character) == "Cf"
            and character not in _JOINERS):
            return _VANISHES
        codes = self._fold_cluster(character)
        if len(codes) == 1:
            return np.uint32(codes[0])
        return _EXPANDS if len(codes) else _VANISHES

    def _fold_cluster(self, characters: str) -> np.ndarray:
        """Fold a character, with or without its marks."""
        return as_codes(self._normalize(characters).strip(_BORDER_MARKS))

    def _replaced(self, text: str, codes: np.ndarray) -> Folded:
        """Drop characters that vanish, and insert the codes of clusters."""
        counts = (codes != _VANISHES).astype(np.int64)
        clusters = self._find_clusters(text, codes)
        for start, end, folded in clusters:
            counts[start:end] = 0
            counts[start] = len(folded)
        ends = np.cumsum(counts)
        origin = np.repeat(np.arange(len(codes)), counts)
        kept = codes[origin]
        for start, _, folded in clusters:
            kept[ends[start] - len(folded):ends[start]] = folded
        return Folded(kept, np.append(origin, len(codes)))

    def _find_clusters(self, text: str, codes: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
        """Find characters that must be folded together: start, end and codes."""
        found: list[tuple[int, int, np.ndarray]] = []
        end = 0
        for position in np.flatnonzero(codes > _VANISHES).tolist():
            if position < end:
                continue
            start = position
            if codes[position] == _COMBINES and position > end and not text[position - 1].isspace():
                start = position - 1
            end = position + 1
            while end < len(text) and codes[end] == _COMBINES:
                end += 1
            cluster = text[start:end]
            if cluster not in self._clusters:
                if len(self._clusters) > _CHARACTERS // 16:
                    self._clusters.clear()
                self._clusters[cluster] = self._fold_cluster(cluster)
            found.append((start, end, self._clusters[cluster]))
        return found


def as_codes(folded: str) -> np.ndarray:
    """Convert a folded text with single spaces to codes, without folding it again.

    Some rules change text that is already folded. For example, a Greek letter without its accents
    may be spelled out.
    """
    return np.array([ord(one) | int(_kind(one)) for one in folded], dtype=np.uint32)


def as_string(codes: np.ndarray) -> str:
    """Convert codes to text."""
    plain = codes & np.uint32(int(WORD) - 1)
    return plain.tobytes().decode("utf-32-le", "surrogatepass")


def _normalizer(rule: str) -> tuple[Callable[[str], str], bool]:
    """Return a rule's function, and whether marks may compose with the letter before them."""
    if rule == EXACT:
        return lambda text: unicodedata.normalize("NFC", text), True
    if rule == CASELESS:
        return _caseless, True
    normalizer = json.loads(rule)
    if normalizer is None:
        return str, False
    empty = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
             "normalizer": normalizer, "pre_tokenizer": None, "post_processor": None,
             "decoder": None, "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}}
    normalize = Tokenizer.from_str(json.dumps(empty)).normalizer.normalize_str
    return normalize, any(one["type"] not in _LOCAL for one in flat_components(normalizer))


def _caseless(text: str) -> str:
    """Fold case by canonical caseless matching.

    Source: Unicode Standard, section 3.13, definition D145.
    """
    folded = unicodedata.normalize("NFD", text).casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded))


def _kind(character: str) -> np.uint32:
    """Return WORD or UNSPACED for a character of words, and 0 for any other character."""
    if unicodedata.category(character)[0] not in "LNM" and character not in _JOINERS:
        return np.uint32(0)
    code = ord(character)
    return UNSPACED if any(low <= code <= high for low, high in _UNSPACED_RANGES) else WORD
