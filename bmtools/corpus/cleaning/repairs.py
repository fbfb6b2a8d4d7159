"""Repairs of texts: characters, white space, marks, boilerplate and repeated lines.

Each rule is a fast test followed by a regular expression, so undamaged text takes little time. The
expressions begin with a set of characters, to which Python skips ten times as fast. Only repeated
lines with at least ten words and without a number are removed, because headings, findings, doses
and list items may be repeated on purpose.
"""

from __future__ import annotations

import html
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import partial
from unicodedata import normalize

from bmtools.corpus.cleaning.edits import EditedText
from bmtools.errors import DataError, setting
from bmtools.installation import require_extra
from bmtools.io.sources import read_list, source_name

# A sentence or a line begins after this, including any white space.
_BEGIN = r"(?:(?<=[.!?)\]])\s*|^[ \t]*)"
_COPYRIGHT_SIGN = r"(?:©|\([cC]\)|&copy;)"
_YEARS = r"(?:19|20)\d\d(?:\s*[-\u2013,]\s*(?:19|20)?\d\d)*"
# Only capitalised words, numbers and these words up to a point or line end, so not a sentence.
_NAMES = r"""(?=(?:(?:[A-ZÀ-Þ&(\d]\S*|of|and|the|for|on|by|to|in|y|e|et|und|de|di|del|della|des|du
    |la|le|van|von|der)[ \t]+)*(?:[A-ZÀ-Þ(\d]\S*)?(?<=[.\w)])(?:(?<=\.)\s|[ \t]*$))"""
# To the end of the line if it is near, otherwise of the sentence: company names contain points.
_OWNER = r"(?:[^\n]{0,250}$|[^\n]{0,200}?(?<=[a-z]{4}\.)(?=\s+[A-ZÀ-Þ]))"
_RESERVED = r"""(?:All\ rights\ (?:are\ )?reserved|Tutti\ i\ diritti\ (?:sono\ )?riservati
    |Todos\ los\ derechos\ reservados|Tous\ droits\ réservés|Alle\ Rechte\ vorbehalten)\.?"""
_BOILERPLATE = {
    # As in PubMed's CopyrightInformation: "Copyright © 2011 Elsevier Ltd. All rights reserved."
    "copyright": (("opyright", "OPYRIGHT", "©", "(c)", "(C)", "ights reserved", "diritti riservati",
                   "erechos reservados", "roits réservés", "echte vorbehalten"), rf"""
        {_BEGIN}(?:(?:Copyright|COPYRIGHT)\s*(?:{_COPYRIGHT_SIGN}\s*)?(?:by\s+)?{_YEARS}[.,]?\s+(?:by\s+)?{_NAMES}
                  |{_COPYRIGHT_SIGN}\s*(?:Copyright\s*)?{_YEARS}[.,]?\s+(?:by\s+)?{_NAMES}
                  |Copyright\s*{_COPYRIGHT_SIGN}
                  |©\s+(?:The\s+)?Author)
        {_OWNER}
        |{_BEGIN}{_RESERVED}"""),
    "publisher": (("ublished by", "ublished on behalf", "protected by copyright", "or permission",
                   "or reprints", "upplementary", "open access article", "open-access article",
                   "article distributed under", "his article is"), rf"""
        {_BEGIN}(?:Published\ (?:by|on\ behalf\ of)\ [A-Z][^\n.]{{0,80}}
                   (?:Inc|Ltd|LLC|GmbH|B\.?V|S\.?A|Press|Elsevier|Wiley|Springer|Society|Group
                     |Foundation|Kluwer|Karger|Sons|Francis|Publishers?)\b\.?(?=\s|$)
        |This\ article\ is\ protected\ by\ copyright\.?
        |This\ is\ an\ [Oo]pen[\ -][Aa]ccess\ article\ [^\n]{{0,300}}?
            (?:properly\ cited|original\ work\ is\ (?:properly\ )?cited|[Ll]icen[cs]e)[^\n.]{{0,80}}
            (?:\.(?=\s|$)|$)
        |For\ (?:permissions?|reprints)\b[^\n]{{0,40}}?(?:please\ )?(?:e-?mail|contact|visit|see)\b
            [^\n]{{0,100}}?(?:\.(?=\s|$)|$)
        |Supplementary\ (?:data|material|information)\ (?:is|are)\ available
            \ (?:at|online|for\ this)\b[^\n]{{0,120}}?(?:\.(?=\s|$)|$))"""),
}
# Complete lines as in C4 (Raffel et al. 2020, section 2.2: JavaScript, policies), and menus.
# Sentences about these topics do not address a visitor, and tables of results contain no menu
# entries.
_NAVIGATION = re.compile(r"""
    ^[ \t]*+(?:
          (?=[^\n]*\b(?:[Ee]nabled?|[Dd]isabled?|[Tt]urn(?:ed)?\ (?:on|off)|not\ support
             |[Yy]ours?|(?:[Dd]is)?[Aa]bilita\w*|[Aa]ttiva\w*|(?:[Dd]es)?[Hh]abilit\w*
             |(?:[Dd]és)?[Aa]ctiv[ae]\w*|(?:[Dd]e)?[Aa]ktivier\w*)\b)
           [^\n]{0,150}\b[Jj]ava[Ss]cript\b[^\n]{0,150}
          |(?=[^\n]{0,60}$|[^\n]*\b(?:[Oo]ur|[Yy]ou|[Yy]our|[Ss]ite|[Ww]ebsite|[Ss]ito|[Nn]ostr[aeio]
             |[Ss]itio|[Tt]us?|[Vv]otre|[Vv]ous|[Ii]hre?)\b)
           [^\n]{0,100}\b(?:[Pp]rivacy\ [Pp]olicy|[Tt]erms\ of\ (?:[Uu]se|[Ss]ervice)
              |(?:uses?|[Uu]sa|utilizza|utiliza|utilise|verwendet|accept|accetta|[Aa]ceptar?)
               \ (?:(?:all|tutti|i|las?|los|des|les|our|di)\ ){0,2}[Cc]ookies?
              |[Cc]ookie\ (?:policy|settings|preferences)|[Pp]olitica\ (?:dei|sui|de)\ [Cc]ookies?)
              \b[^\n]{0,100}
          |(?:[Ss]kip\ to\ (?:main\ )?(?:content|navigation)|[Vv]ai\ al\ contenuto|[Bb]ack\ to\ top
             |[Tt]orna\ (?:su|all['\u2019]inizio|indietro)|[Ll]eggi\ (?:tutto|di\ più)
             |[Rr]ead\ more|[Cc]lick\ here|[Cc]licca\ qui|[Ll]eer\ más|[Ll]ire\ la\ suite
             |[Ll]og\ ?in|[Ss]ign\ (?:in|up)|[Aa]ccedi
             |[Ss]ubscribe(?:\ (?:now|to\ [^\n]{1,30}))?
             |[Ii]scriviti\ alla\ newsletter|[Mm]enu|[Hh]ome(?:\ ?page)?|[Ss]earch
             |(?:[Ss]tampa|[Pp]rint)(?:\ (?:questa|this)\ (?:pagina|page))?
             |(?:[Ss]hare|[Tt]weet|[Cc]ondividi|[Cc]ompartir|[Pp]artager)
              (?:\ (?:on|this|su|en|sur)\b[^\n]{0,40})?
             |(?:[Nn]ext|[Pp]revious)\ (?:page|article|post))
             [ \t]*[.…»>]{0,3}
          |[Hh]ome\ ?(?:[>»\u203a/|]\ ?[^>»\u203a/|\n]{1,60}){1,8}
          |(?=[^\n]*\b(?:[Hh]ome|[Cc]onta(?:cts?|tti|cto)|[Ll]og\ ?[Ii]n|[Aa]ccedi|[Aa]bout
             |[Cc]hi\ siamo|[Pp]rivacy|[Cc]ookies?|[Ss]itemap|[Nn]ews|FAQ|[Nn]ewsletter|[Mm]enu)\b)
           (?:[^\n|]{1,25}\ \|\ ){3,}[^\n|]{1,25}
    )[ \t]*$""", re.VERBOSE | re.MULTILINE)
_LONGEST_LINE = 200  # characters in a navigation line
_FEWEST_WORDS = 10  # in a line that is hardly repeated by chance
_MOST_ROUNDS = 20
_SPACES = "\x1c-\x1f\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"  # without " \t\n"
_CONTROLS = "\x00-\x08\x0e-\x1b\x7f-\x9f\ufff9-\ufffb\ufffe\uffff"
_LINE_ENDS = "\r\x0b\x0c\u2028\u2029"
# Soft hyphen, zero-width space, direction marks, word joiner, BOM. Joiners (200C, 200D) are valid
# in Arabic and Indic scripts, and damage elsewhere.
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
# UTF-8 read as another encoding becomes pairs of accented letters or signs of Windows-1252.
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
    """Repairs of a text, in a fixed order.

    Args:
        names: names of the repairs, from `settings.REPAIRS`.
        unwanted: patterns of other text to remove, counted under `remove`.
    """

    def __init__(self, names: Collection[str], unwanted: Sequence[re.Pattern[str]] = ()) -> None:
        if "unicode" in names:
            require_extra("ftfy", f"{setting('repairs')} unicode", "cleaning")
        unusual = [(name, *_UNUSUAL_RULES[name]) for name in _UNUSUAL_RULES if name in names]
        known: dict[str, Repair] = {"entities": _unescape, "unicode": _repair_unicode}
        boilerplate = {name: partial(_remove_boilerplate, name, *found)
                       for name, found in _BOILERPLATE.items()}
        removals: dict[str, Repair] = {
            "truncation-marks": _remove_truncation_marks, **boilerplate,
            "navigation": _remove_navigation, "repeated-lines": _remove_repeated_lines}
        self._repairs = [repair for name, repair in known.items() if name in names]
        self._repairs.append(partial(_repair_unusual, rules=unusual))
        self._repairs += [remove for name, remove in removals.items() if name in names]
        self._repairs += [partial(EditedText.substitute, rule="remove", pattern=pattern, replace="")
                          for pattern in unwanted]

    def __call__(self, edited: EditedText) -> bool:
        """Repair a text until it does not change; return whether that happened."""
        for _ in range(_MOST_ROUNDS):
            before = edited.text
            for repair in self._repairs:
                repair(edited)
            # After a removal, spaces or parts of another mark may be next to each other.
            if edited.text == before:
                return True
        return False


def truncation_mark(text: str) -> str:
    """Return the truncation mark of a text, or "" if it has none."""
    if "RUNCATED" in text or "runcated" in text:
        found = _TRUNCATION.search(text) or _BARE_TRUNCATION.search(text)
        return found[0].strip() if found else ""
    return ""


def _remove_truncation_marks(edited: EditedText) -> None:
    if truncation_mark(edited.text):
        edited.substitute("truncation-marks", _TRUNCATION, "")
        edited.substitute("truncation-marks", _BARE_TRUNCATION, "")


def _repair_unusual(edited: EditedText, rules: Sequence[Rule]) -> None:
    """Repair line ends, controls, invisible characters and white space, if there may be any."""
    text = edited.text
    if _UNUSUAL.search(text) or "  " in text or text[:1].isspace() or text[-1:].isspace() or (
            "\n" in text and ("\n " in text or " \n" in text or "\n\n\n" in text)):
        for rule in rules:
            edited.substitute(*rule)


def _control(found: re.Match[str]) -> str:
    """Remove a control character, or return the Windows-1252 character, as browsers do."""
    sign = found[0]
    return sign.encode("latin-1").decode("cp1252", "ignore") if "\x80" <= sign <= "\x9f" else ""


def _white_space(found: re.Match[str]) -> str:
    """Return a single space, one line break, or two line breaks for blank lines."""
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
    """Repair UTF-8 read as another encoding, ligatures, and separate combining marks.

    Words that look damaged are passed to ftfy (Speer 2019), which decides whether they are. ftfy
    gets all words together, because clear cases help with doubtful ones, and then each word.
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


def _remove_boilerplate(name: str, words: Sequence[str], pattern: str, edited: EditedText) -> None:
    if any(map(edited.text.__contains__, words)):
        edited.substitute(name, re.compile(pattern, re.VERBOSE | re.MULTILINE), "")


def _remove_navigation(edited: EditedText) -> None:
    if "\n" in edited.text and any(len(line) <= _LONGEST_LINE and _NAVIGATION.match(line)
                                   for line in edited.text.split("\n")):
        edited.substitute("navigation", _NAVIGATION, "")


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


def is_long(line: str) -> bool:
    """Return whether a line has no number and enough words not to be repeated by chance."""
    return len(line.split(None, _FEWEST_WORDS - 1)) >= _FEWEST_WORDS \
        and not any(map(str.isdecimal, line))


def read_patterns(name: str) -> list[re.Pattern[str]]:
    """Read regular expressions, one per line; `^` and `$` match at line starts and ends.

    Raises:
        DataError: a line is not a regular expression, or matches the empty text.
    """
    patterns = []
    for number, line in read_list(name, "regular expressions"):
        try:
            with warnings.catch_warnings(action="error"):
                pattern = re.compile(line, re.MULTILINE)
        except (re.error, FutureWarning, OverflowError, RecursionError) as error:
            raise DataError(f"{source_name(name)}:{number}: found {line[:40]!r} ({error}), "
                            "expected a Python regular expression") from error
        if pattern.match(""):
            raise DataError(f"{source_name(name)}:{number}: found {line[:40]!r}, which matches the "
                            "empty text; write an expression for the text to remove")
        patterns.append(pattern)
    return patterns
