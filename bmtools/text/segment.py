"""Sentence borders: results of sentencex, corrected for biomedical text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sentencex

from bmtools.text.abbreviations import Abbreviations, known_abbreviations

Span = tuple[int, int]

_WORD = re.compile(r"\S+")
_UNITS = frozenset(_WORD.findall("""
    kg g mg ug µg μg mcg microg ng pg l ml dl cc mm cm m km s sec h hr hrs min d wk wks mo yr yrs
    mol mmol nmol pmol hg mmhg gg sett aa ore fa gr grs mgr hs
"""))
# A capitalised word of this list begins a sentence even after a short word or a letter
# (`hepatitis C. The`).
_STARTERS = frozenset(_WORD.findall("""
    A After All Although Among An As At Both By During For From He Her His However If In It Its
    No Of On One Our She Since Some The There These They This Those Thus To Two Under Until We
    When While With
    Ai Al All Alla Alle Anche Con Dagli Dai Dall Dalla Dell Dopo Durante E È Gli I Il In L Le La
    Lo Ma Nei Nel Nell Nella Nelle Negli Non Per Poi Presenta Quando Questa Questo Si Sono Un Una
    Uno
    Ante Aunque Cuando Desde El Ella En Esta Este Fue Los Las Para Por Se Según Sin Su Sus Tras
    À Au Aucun Aucune Aux Après Avant Ce Ces Cette Chez Dans Depuis Des Devant Du Elle Les Lors Nous
    Par Pas Pour Sa Ses Son Sur Une
    Ab Am Auch Auf Aufgrund Aus Bei Beide Beim Daher Danach Das Dem Den Der Des Die Diese Durch Ein
    Eine Er Es Für Hierbei Hierunter Im Jetzt Kein Keine Mit Nach Ohne Seit Sie Unter Vor Wir Zum
    Zur Zunächst
"""))
_PARTICLES = frozenset({"La", "Le", "Lo"})  # in surnames, after an initial
_SPECIES = frozenset(_WORD.findall("""
    albicans aeruginosa aureus baumannii cerevisiae coli difficile epidermidis faecalis faecium
    hominis influenzae meningitidis mirabilis pneumoniae pylori pyogenes typhi tuberculosis
"""))

# A letter after one of these words, or after a sign, begins a name. After a noun, the letter
# usually belongs to the noun (`linfociti T.`).
_FUNCTION_WORDS = frozenset(_WORD.findall("""
    a ad agli ai al all alla alle allo and as at by come con da dagli dai dal dall dalla dalle de
    degli dei del dell della delle dello di dottor dottoressa e ed for fra from gli i il in istituto
    la le lo negli nei nel nell nella nelle o of on or ospedale per policlinico professor signor
    signora su sul sulla sulle the to tra un una uno van von vs with
    doctor doctora el en los las para señor señora y
    au aux avec chez des docteur du et les madame monsieur ou par pour professeur sur une
    am an bei dem den der des die durch frau für herr herrn im mit oder professor und vom zum
"""))

_WINDOW = 16384  # characters
_LOOK_BACK = 2000  # characters searched for an open bracket
_LOOK_AHEAD = 1000  # and for the closing bracket
# sentencex 1.0.32 panics after an initial if white space takes more than one byte.
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_PARAGRAPH = re.compile(r"\n\s*\n")
_LAST_WORD = re.compile(r"(?:^|[^\w.])([\w.]*\w)\.$")
_NUMBER_BEFORE = re.compile(r"(?:\d|/)\s*$")
_CONTINUATION = re.compile(r"[(\[]?(?:[^\W\d_A-ZÀ-Þ]|\d)")
_NEXT_WORD = re.compile(r"([A-ZÀ-Þ]\w*)(?!\w|\.)")
_CAPITALISED = re.compile(r"[A-ZÀ-Þ]\w*")
_INITIAL = re.compile(r"[A-ZÀ-Þ][.,:]")
# The number of a list item, at the beginning of a line.
_ITEM_LENGTH = 8
_ITEM = re.compile(r"(?:^|\n)[^\S\n]*\d{1,2}\.$")
_ORDINAL = re.compile(r"(?:^|[^\w.,:])\d{1,2}\.$")  # in German
_WORD_BEFORE = re.compile(r"[^\W\d_]*$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_CUT_SHORT = re.compile(r"[a-z]{1,6}[b-df-hj-np-tv-z]")  # Italian words end in a vowel
# A letter after one of these words is a name (`vitamin K.`), not an initial.
_LETTERED = re.compile(r"\b(?:hepatitis|vitamin|influenza|group|type|stage|class|epatite|vitamina|"
                       r"vit\.|gruppo|tipo|stadio|classe|gripe|grupo|estad[ií]o|clase|hépatite|"
                       r"vitamine|grippe|groupe|stade|(?:blut)?gruppe|typ|stadium|klasse)"
                       r"\s+[A-Z]\.$", re.IGNORECASE)
_POINT = re.compile(r"(?<=[\w%°)\]])\.\s+(?=[A-ZÀ-Þ])")

# A plain word, a bracket or a per cent sign, then a point, white space and a capitalised word. The
# pattern begins with the point, for speed.
_SURE = re.compile(r"\. (?:(?<=[a-z]{5}\. )(?<!pprox\. )(?<!suppl\. )(?<!profs\. )|(?<=[%)\]]\. ))"
                   r"(?=[A-Z]\w*[ ,])")
# Paired signs, and the number that each adds to the count of open signs; `"` opens and closes.
_PAIRED = re.compile(r'[()\[\]“”«»"]')
_OPENS = {"(": 1, ")": -1, "[": 1 << 10, "]": -1 << 10, "“": 1 << 20, "”": -1 << 20,
          "«": 1 << 30, "»": -1 << 30}
# Text without a sign that could end a sentence, except for the last one and points in numbers.
_ONE_SENTENCE = re.compile(r"[^.!?\n]*+(?:(?<=\d)\.(?=\d)[^.!?\n]*+)*+[.!?]?\s*")
_PLAIN_LANGUAGES = frozenset({"en", "it", "de", "fr", "es", "pt", "nl"})


def sentence_spans(text: str, lang: str, abbreviations: Abbreviations | None = None) -> list[Span]:
    """Find the sentences of a text.

    A blank line always ends a sentence. A single line break does not.

    Args:
        text: one document.
        lang: ISO 639-1 code; a region or script after it is ignored (`it`, `it-IT`).
        abbreviations: added to the abbreviations known for the language.

    Returns:
        (start, end) of every sentence in code points, end exclusive, in order and without
        surrounding white space. Two spans are separated only by white space.
    """
    language = re.split(r"[-_]", lang.lower(), maxsplit=1)[0]
    splitter = _Splitter(text, language, known_abbreviations(language, abbreviations))
    spans: list[Span] = []
    for start, end in splitter.split(_pieces(text, language)):
        end = start + len(text[start:end].rstrip())
        start = end - len(text[start:end].lstrip())
        if start >= end:
            continue
        if spans and splitter.belong_together(spans[-1][1], start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _pieces(text: str, language: str) -> Iterator[Span]:
    """Split the text at blank lines and where sentencex does; pieces have no gaps between them.

    sentencex takes quadratic time, so a long text is split in windows. Each window begins at the
    last border found in the previous one. A window without a border ends at its last white space.
    """
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


class _Splitter:
    """Corrections of the sentence borders of a text."""

    def __init__(self, text: str, language: str, abbreviations: Abbreviations) -> None:
        self._text = text
        self._language = language
        self._abbreviations = abbreviations

    def split(self, pieces: Iterable[Span]) -> Iterator[Span]:
        """Split where sentencex mistook a unit, an acronym or a letter for an abbreviation."""
        for start, end in pieces:
            for point in _POINT.finditer(self._text, start, end):
                border = point.start() + 1
                if self._can_end(border, point.end()) \
                        and self._is_balanced(max(start, border - _LOOK_BACK), border):
                    yield start, point.end()
                    start = point.end()
            yield start, end

    def belong_together(self, end: int, following: int) -> bool:
        """Return whether the point before `end` only abbreviates a word."""
        if _PARAGRAPH.search(self._text, end, following):
            return False
        if self._text[following] in ",;":
            return True
        written, after_number = self._last_word(end)
        if self._announces(written, after_number, end, following):
            return True
        word = written.lower()
        if not word or _CONTINUATION.match(self._text, following) is None:
            return False
        is_listed = word in self._abbreviations.others
        if is_listed and not after_number:
            return True
        is_short = is_listed or len(word) == 1 or "." in word or word in _UNITS \
            or (self._language == "it" and _CUT_SHORT.fullmatch(written) is not None)
        return is_short and self._text[following].islower()

    def _can_end(self, end: int, following: int) -> bool:
        """Return whether the point before `end` may end a sentence."""
        if self._text[end - 2] in "%°)]":
            return True
        word, after_number = self._last_word(end)
        next_word = _NEXT_WORD.match(self._text, following)
        if next_word is None or self._announces(word, after_number, end, following):
            return False
        is_plain = word.islower() and len(word) > 4 and "." not in word
        is_acronym = len(word) > 1 and word[-1].isupper() and word.isalnum()
        is_unit = after_number and word.lower() in _UNITS
        return is_plain or is_acronym or is_unit or self._is_lettered(end) \
            or next_word[1] in _STARTERS

    def _is_lettered(self, end: int) -> bool:
        return _LETTERED.search(self._text, max(0, end - 40), end) is not None

    def _announces(self, word: str, after_number: bool, end: int, following: int) -> bool:
        """Return whether a word with a point cannot end a sentence before the following text."""
        if _ITEM.search(self._text, max(0, end - _ITEM_LENGTH), end):
            return True
        if after_number:
            return False
        if word.lower() in self._abbreviations.leading:
            return True
        found = _CAPITALISED.match(self._text, following)
        next_word = found[0] if found else ""
        if self._language == "de" and _ORDINAL.search(self._text, max(0, end - 5), end):
            return bool(next_word) and next_word not in _STARTERS
        if len(word) == 1 and word.isupper() and not self._is_lettered(end):
            follows = _INITIAL.match(self._text, following) and self._text[end - 3:end - 2] != "-"
            if follows or next_word.lower() in _SPECIES:
                return True
            return bool(next_word) and next_word not in _STARTERS - _PARTICLES \
                and self._begins_name(end - 2)
        # True for `dell'U.O. Medicina` and `S.p.A. Milano`, but not for `S.p.A. Ricetta:`.
        return self._language == "it" and _DOTTED.fullmatch(word) is not None \
            and not word.islower() and found is not None and next_word not in _STARTERS \
            and self._text[found.end():found.end() + 1] != ":"

    def _begins_name(self, start: int) -> bool:
        """Return whether a letter at `start` may be a person's first name or a genus."""
        before = self._text[max(0, start - 20):start].rstrip(" ")
        if not before or before[-1] in "\n.,;:(['\u2013\u2019":
            return True
        found = _WORD_BEFORE.search(before)
        return found is not None and found[0].lower() in _FUNCTION_WORDS

    def _is_balanced(self, start: int, end: int) -> bool:
        """Return whether all brackets and double quotation marks are closed.

        If a bracket of the same kind opens again before one closes, the closing bracket was
        forgotten, so the open bracket is not counted.
        """
        sentence, after = self._text[start:end], self._text[end:end + _LOOK_AHEAD]
        if sentence.count('"') % 2:
            return False
        for opening, closing in ("()", "[]", "“”", "«»"):
            if sentence.count(opening) > sentence.count(closing) \
                    and closing in after.partition(opening)[0]:
                return False
        return True

    def _last_word(self, end: int) -> tuple[str, bool]:
        """Return the word before the point, and whether a number or `/` precedes it."""
        tail = self._text[max(0, end - 40):end]
        found = _LAST_WORD.search(tail)
        if found is None:
            return "", False
        return found[1], _NUMBER_BEFORE.search(tail, 0, found.start(1)) is not None


def stretches(text: str) -> list[Span]:
    """Split a text only at certain sentence ends, so that few stretches need the slow splitter.

    This takes a tenth of the slow splitter's time. The slow splitter then finds the same
    sentences in the stretches as in the complete text, except for a few in a thousand that depend
    on distant text before them, such as a bracket that is never closed.

    Returns:
        (start, end) of each stretch; stretches have no gaps between them.
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
    """Find the same sentences of a stretch as `sentence_spans`, but faster."""
    if lang[:2] in _PLAIN_LANGUAGES and text.isascii() and _ONE_SENTENCE.fullmatch(text):
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        return [(start, end)] if start < end else []
    return sentence_spans(text, lang)
