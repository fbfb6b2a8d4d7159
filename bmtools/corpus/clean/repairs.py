"""Repairs of texts: characters, white space, marks, boilerplate and lines that come again.

Each rule is a regular expression behind a cheap test, so that text without damage costs little. The
expressions begin with a set of characters: Python skips to these, ten times as fast as to others.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from unicodedata import normalize

from bmtools.corpus.clean import boilerplate
from bmtools.corpus.clean.edits import EditedText
from bmtools.corpus.clean.lines import is_long, line_hash
from bmtools.errors import setting
from bmtools.installation import require_extra

_MOST_ROUNDS = 20
_SPACES = "\x1c-\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"  # but blank, tab and line break
_CONTROLS = "\x00-\x08\x0e-\x1b\x7f-\x9f\ufff9-\ufffb\ufffe\uffff"
_LINE_ENDS = "\r\x0b\x0c\u2028\u2029"
# Soft hyphen, zero-width space, marks of direction, word joiner, BOM. Joiners (200C, 200D) are
# letters of Arabic and Indic writing, and damage elsewhere.
_INVISIBLE = "\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_UNUSUAL = re.compile(f"[\t{_SPACES}{_CONTROLS}{_LINE_ENDS}{_INVISIBLE}\u200c\u200d]")
_LINE_END = re.compile(f"\r+\n|[{_LINE_ENDS}]")
_CONTROL = re.compile(f"[{_CONTROLS}]")
_INVISIBLES = re.compile(f"(?:[{_INVISIBLE}]|(?:(?<=[\0-\u058f\u2000-\u206f])|^)[\u200c\u200d])+")
_WHITE = re.compile(
    rf"[ \t\n{_SPACES}](?:(?<! )|(?=[ \t\n{_SPACES}]|\Z)|(?<=\A ))[ \t\n{_SPACES}]*")
_TRUNCATION = re.compile(
    r"(?<!\s)\s*[(\[]\s*(?:(?:ABSTRACT|SUMMARY|TEXT|ARTICLE)\s+)?TRUNCATED"
    r"(?:\s+AT\s+[\d.,]+\s+(?:WORDS|CHARACTERS))?\s*\.?\s*[)\]]", re.IGNORECASE)
_BARE_TRUNCATION = re.compile(
    r"(?<!\s)\s*(?<![(\[])\b(?:ABSTRACT|SUMMARY) TRUNCATED(?: AT [\d.,]+ WORDS)?\b\.?")
# UTF-8 read as another encoding is a letter with a mark, or a sign of Windows-1252, before another.
_MOJIBAKE = re.compile(
    "[\xc2-\xf4\u0102\u0139\u0192\u02c6\u02dc\u2020\u2021\u2030\u2026\u20ac]"
    "[\x80-\xbf\u0152-\u0192\u02c6-\u02dd\u2013-\u203a\u20ac\u2122]")
_MOJIBAKE_WORD = re.compile(f"(?<![^ \t\n])[^ \t\n]*{_MOJIBAKE.pattern}[^ \t\n]*")
_COMPOSED = re.compile("[\u0300-\u036f\ufb00-\ufb06]")
_LIGATURES = re.compile("[\ufb00-\ufb06]")
_DECOMPOSED = re.compile("[^\\W\\d_][\u0300-\u036f]+")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_LINE = re.compile(r"[^\n]+\n?")

Repair = Callable[[EditedText], None]
Rule = tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]]


class Repairs:
    """Repairs of a text, in an order that does not depend on how they are named.

    Args:
        names: of the repairs, from `settings.REPAIRS`.
        unwanted: what is removed beside that, counted under `remove`.
        copied_lines: hashes of lines that stand in too many records, counted under
            `max-line-copies`.
    """

    def __init__(self, names: Collection[str], unwanted: Sequence[re.Pattern[str]] = (),
                 copied_lines: Collection[int] = ()) -> None:
        if "unicode" in names:
            require_extra("ftfy", f"{setting('repairs')} unicode", "cleaning")
        unusual = [(name, *_UNUSUAL_RULES[name]) for name in _UNUSUAL_RULES if name in names]
        known: dict[str, Repair] = {"entities": _unescape, "unicode": _repair_unicode}
        removals: dict[str, Repair] = {
            "truncation-marks": _remove_truncation_marks,
            **{name: boilerplate.remover(name) for name in boilerplate.NAMES},
            "repeated-lines": _remove_repeated_lines}
        self._repairs = [repair for name, repair in known.items() if name in names]
        self._repairs.append(partial(_repair_unusual, rules=unusual))
        self._repairs += [remove for name, remove in removals.items() if name in names]
        self._repairs += map(_pattern_remover, unwanted)
        if copied_lines:
            self._repairs.append(_copied_line_remover(copied_lines))

    def __call__(self, edited: EditedText) -> bool:
        """Repair a text until nothing is left to repair; return whether that came to an end."""
        for _ in range(_MOST_ROUNDS):
            before = edited.text
            for repair in self._repairs:
                repair(edited)
            # What was removed may leave blanks, or parts of another mark, side by side.
            if edited.text == before:
                return True
        return False


def truncation_mark(text: str) -> str:
    """Return the mark of a text that was cut off, empty where there is none."""
    if "RUNCATED" in text or "runcated" in text:
        found = _TRUNCATION.search(text) or _BARE_TRUNCATION.search(text)
        return found[0].strip() if found else ""
    return ""


def _remove_truncation_marks(edited: EditedText) -> None:
    if truncation_mark(edited.text):
        edited.substitute("truncation-marks", _TRUNCATION, "")
        edited.substitute("truncation-marks", _BARE_TRUNCATION, "")


def _repair_unusual(edited: EditedText, rules: Sequence[Rule]) -> None:
    """Repair line ends, controls, invisible characters and white space, where there may be any."""
    text = edited.text
    if _UNUSUAL.search(text) or "  " in text or text[:1].isspace() or text[-1:].isspace() or (
            "\n" in text and ("\n " in text or " \n" in text or "\n\n\n" in text)):
        for rule in rules:
            edited.substitute(*rule)


def _control(found: re.Match[str]) -> str:
    """Remove a control, or return what Windows-1252 has in its place, as browsers do."""
    sign = found[0]
    return sign.encode("latin-1").decode("cp1252", "ignore") if "\x80" <= sign <= "\x9f" else ""


def _white_space(found: re.Match[str]) -> str:
    """Leave single blanks, one line break, or two where lines were blank."""
    if found.start() == 0 or found.end() == len(found.string):
        return ""
    return "\n" * min(found[0].count("\n"), 2) or " "


_UNUSUAL_RULES: dict[str, tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = {
    "line-ends": (_LINE_END, "\n"), "control-characters": (_CONTROL, _control),
    "invisible-characters": (_INVISIBLES, ""), "white-space": (_WHITE, _white_space)}


def _unescape(edited: EditedText) -> None:
    if "&" in edited.text and ";" in edited.text:
        edited.substitute("entities", _ENTITY, lambda found: html.unescape(found[0]))


def _repair_unicode(edited: EditedText) -> None:
    """Undo UTF-8 read as another encoding, ligatures of fonts, and marks apart from their letters.

    Words that look damaged go to ftfy (Speer 2019), which decides whether they are: side by side,
    for clear cases settle doubtful ones, then one by one.
    """
    if edited.text.isascii():
        return
    if _MOJIBAKE.search(edited.text):
        from ftfy import fix_encoding

        words = _MOJIBAKE_WORD.findall(edited.text)
        together = fix_encoding(" ".join(words)).split(" ")
        fixed = dict(zip(words, together, strict=True)) if len(together) == len(words) else {}
        edited.substitute("unicode", _MOJIBAKE_WORD,
                          lambda found: fix_encoding(fixed.get(found[0], found[0])))
    if _COMPOSED.search(edited.text):
        edited.substitute("unicode", _LIGATURES, lambda found: normalize("NFKC", found[0]))
        edited.substitute("unicode", _DECOMPOSED, lambda found: normalize("NFC", found[0]))


def _remove_repeated_lines(edited: EditedText) -> None:
    if "\n" not in edited.text:
        return
    lines = [line for line in edited.text.split("\n") if is_long(line)]
    if len(set(map(str.strip, lines))) < len(lines):
        seen: set[str] = set()

        def keep_first(found: re.Match[str]) -> str:
            line = found[0].strip()
            if line in seen and is_long(line):
                return ""
            seen.add(line)
            return found[0]

        edited.substitute("repeated-lines", _LINE, keep_first)


def _pattern_remover(pattern: re.Pattern[str]) -> Repair:
    return lambda edited: edited.substitute("remove", pattern, "")


def _copied_line_remover(hashes: Collection[int]) -> Repair:
    def remove(edited: EditedText) -> None:
        edited.substitute("max-line-copies", _LINE,
                          lambda found: "" if is_long(found[0]) and line_hash(found[0]) in hashes
                          else found[0])

    return remove
