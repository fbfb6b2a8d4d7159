"""Sentence borders: sentencex, corrected for biomedical writing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sentencex

Span = tuple[int, int]

_WORD = re.compile(r"\S+")
# Before a point, these announce something: never the end of a sentence.
_LEADING = frozenset(_WORD.findall("""
    fig figs figg tab eq eqs ref refs vol vols ed eds suppl sect
    e.g i.e eg ie cf viz vs approx ca c.a
    mr mrs ms dr drs prof profs st
    sig sigg sig.ra sig.na sig.ri dott dott.ssa dr.ssa prof.ssa avv
    es ad.es p.es per.es pag pagg cap capp
"""))
# These may end a sentence, unless a small letter, a figure or a bracket follows.
_OPEN = frozenset(_WORD.findall("""
    al sp spp ssp subsp var cv i.v i.m s.c p.o i.p i.d i.n e.v b.i.d t.i.d q.i.d
    wt min max temp conc diam est resp incl excl avg no nos nr n nn num pt pts pz paz dept
    sin dx sx aa v.n v ecc etc cosid cfr art artt insuff fem tot sup inf ant post lat med
"""))
_UNITS = frozenset(_WORD.findall("""
    kg g mg ug µg μg mcg microg ng pg l ml dl cc mm cm m km s sec h hr hrs min d wk wks mo yr yrs
    mol mmol nmol pmol hg mmhg gg sett aa ore fa
"""))
# Capitalised, these begin a sentence even after a short word or a letter (`hepatitis C. The`).
_STARTERS = frozenset(_WORD.findall("""
    A After All Although Among An As At Both By During For From He Her His However If In It Its
    No Of On One Our She Since Some The There These They This Those Thus To Two Under Until We
    When While With
    Ai Al All Alla Alle Anche Con Dagli Dai Dall Dalla Dell Dopo Durante E È Gli I Il In L Le La
    Lo Ma Nei Nel Nell Nella Nelle Negli Non Per Poi Presenta Quando Questa Questo Si Sono Un Una
    Uno
"""))
_PARTICLES = frozenset({"La", "Le", "Lo"})  # in surnames, after an initial

_WINDOW = 16384  # characters
_LOOK_BACK = 2000  # characters searched for an open bracket
# sentencex 1.0.32 panics after an initial where white space takes more than one byte.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_PARAGRAPH = re.compile(r"\n\s*\n")
_LAST_WORD = re.compile(r"(?:^|[^\w.])([\w.]*\w)\.$")
_NUMBER_BEFORE = re.compile(r"(?:\d|/)\s*$")
_GOES_ON = re.compile(r"[(\[]?(?:[^\W\d_A-ZÀ-Þ]|\d)")
_NEXT_WORD = re.compile(r"([A-ZÀ-Þ]\w*)(?!\w|\.)")
# A letter after these is a name (`vitamin K.`), not an initial.
_LETTERED = re.compile(r"\b(?:hepatitis|vitamin|influenza|group|type|stage|class|epatite|vitamina|"
                       r"gruppo|tipo|stadio|classe)\s+[A-Z]\.$", re.IGNORECASE)
_POINT = re.compile(r"(?<=[\w%°)\]])\.\s+(?=[A-ZÀ-Þ])")

# A plain word, or a bracket or per cent, and its point, white space, a capitalised word. The point
# comes first, for speed.
_SURE = re.compile(r"\. (?:(?<=[a-z]{5}\. )(?<!pprox\. )(?<!suppl\. )(?<!profs\. )|(?<=[%)\]]\. ))"
                   r"(?=[A-Z]\w*[ ,])")
# Signs that come in pairs, and what they add to what is open; `"` opens and closes.
_PAIRED = re.compile(r'[()\[\]“”«»"]')
_OPENS = {"(": 1, ")": -1, "[": 1 << 10, "]": -1 << 10, "“": 1 << 20, "”": -1 << 20,
          "«": 1 << 30, "»": -1 << 30}
# No sign that could end a sentence but the last one and points within numbers.
_ONE_SENTENCE = re.compile(r"[^.!?\n]*+(?:(?<=\d)\.(?=\d)[^.!?\n]*+)*+[.!?]?\s*")
_PLAIN_LANGUAGES = frozenset({"en", "it", "de", "fr", "es", "pt", "nl"})


def sentence_spans(text: str, lang: str) -> list[Span]:
    """Find the sentences of a text.

    A blank line always ends a sentence, a single line break does not.

    Args:
        text: one document.
        lang: ISO 639-1 code; a region or script after it is ignored (`it`, `it-IT`).

    Returns:
        (start, end) of every sentence in code points, end exclusive, in order and without
        surrounding white space; between two spans there is only white space.
    """
    spans: list[Span] = []
    for start, end in _split(text, _pieces(text, lang)):
        end = start + len(text[start:end].rstrip())
        start = end - len(text[start:end].lstrip())
        if start >= end:
            continue
        if spans and _belong_together(text, spans[-1][1], start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _pieces(text: str, lang: str) -> Iterator[Span]:
    """Split the text at blank lines and as sentencex does; the pieces touch each other.

    sentencex takes quadratic time, so it sees a long text through a window that moves on to
    the last border found in it. A window without border ends at its last white space.
    """
    language = re.split(r"[-_]", lang.lower(), maxsplit=1)[0]
    plain = _WIDE_SPACE.sub(" ", text)
    start = 0
    for end in [*(blank.end() for blank in _PARAGRAPH.finditer(plain)), len(plain)]:
        while end - start > _WINDOW:
            window = plain[start:start + _WINDOW]
            lengths = _lengths(language, window)[:-1] or [window.rfind(" ") + 1 or _WINDOW]
            for length in lengths:
                yield start, start + length
                start += length
        for length in _lengths(language, plain[start:end]):
            yield start, start + length
            start += length


def _lengths(language: str, text: str) -> list[int]:
    return [len(one["text"]) for one in sentencex.get_sentence_boundaries(language, text)]


def _split(text: str, pieces: Iterable[Span]) -> Iterator[Span]:
    """Split once more where sentencex took a unit, an acronym or a letter for an abbreviation."""
    for start, end in pieces:
        for point in _POINT.finditer(text, start, end):
            end_of_sentence = point.start() + 1
            if (_can_end(text, end_of_sentence, point.end())
                and _is_balanced(text[max(start, end_of_sentence - _LOOK_BACK):end_of_sentence])):
                yield start, point.end()
                start = point.end()
        yield start, end


def _can_end(text: str, end: int, following: int) -> bool:
    """Return whether the point before `end` may close a sentence."""
    if text[end - 2] in "%°)]":
        return True
    word, after_number = _last_word(text, end)
    next_word = _NEXT_WORD.match(text, following)
    if next_word is None or (word.lower() in _LEADING and not after_number):
        return False
    if len(word) == 1 and word.isupper():
        lettered = _LETTERED.search(text, max(0, end - 40), end) is not None
        return lettered or next_word[1] in _STARTERS - _PARTICLES
    is_plain = word.islower() and len(word) > 4 and "." not in word
    is_acronym = word.isupper() and word.isalnum()
    is_unit = after_number and word.lower() in _UNITS
    return is_plain or is_acronym or is_unit or next_word[1] in _STARTERS


def _is_balanced(sentence: str) -> bool:
    """Return whether no bracket and no double quotation mark is left open."""
    pairs = ("()", "[]", "“”", "«»")
    return (sentence.count('"') % 2 == 0
            and all(sentence.count(pair[0]) <= sentence.count(pair[1]) for pair in pairs))


def _last_word(text: str, end: int) -> tuple[str, bool]:
    """Return the word before the point at the end, and whether a number or `/` precedes it."""
    tail = text[max(0, end - 40):end]
    found = _LAST_WORD.search(tail)
    if found is None:
        return "", False
    return found[1], _NUMBER_BEFORE.search(tail, 0, found.start(1)) is not None


def _belong_together(text: str, end: int, following: int) -> bool:
    """Return whether the sentence up to `end` stops at a point that only shortens a word."""
    if _PARAGRAPH.search(text, end, following):
        return False
    word, after_number = _last_word(text, end)
    word = word.lower()
    if word in _LEADING and not after_number:
        return True
    if not word or _GOES_ON.match(text, following) is None:
        return False
    if word in _OPEN and not after_number:
        return True
    is_short = len(word) == 1 or "." in word or word in _UNITS
    return is_short and text[following].islower()


def stretches(text: str) -> list[Span]:
    """Split a text cheaply, where sentences surely end, so that few stretches need more.

    Finding sure ends takes a tenth of the time that splitting takes. Splitting then finds the
    same sentences in the stretches as in the whole text, except for a few in a thousand that
    depend on something far before them, such as a bracket that is never closed.

    Returns:
        (start, end) of each stretch; they touch each other.
    """
    found: list[Span] = []
    start = 0
    paired = _PAIRED.finditer(text)
    sign = next(paired, None)
    opened = quotes = 0
    for border in _SURE.finditer(text):
        end = border.end()
        while sign is not None and sign.start() < end:
            opened += _OPENS.get(sign[0], 0)
            quotes += sign[0] == '"'
            sign = next(paired, None)
        if not opened and quotes % 2 == 0:
            found.append((start, end))
            start = end
    return [*found, (start, len(text))]


def stretch_spans(text: str, lang: str) -> list[Span]:
    """Find the sentences of a stretch, as `sentence_spans` does."""
    if lang[:2] in _PLAIN_LANGUAGES and text.isascii() and _ONE_SENTENCE.fullmatch(text):
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        return [(start, end)] if start < end else []
    return sentence_spans(text, lang)
