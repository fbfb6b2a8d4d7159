"""Comparison of the numbers and units of sentences in different languages."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from bmtools.text.languages import primary_language

_SIGNS = str.maketrans({**{sign: f"^{figure}" for sign, figure in zip(
    "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "01234567890123456789", strict=True)},
    "·": ".", "\u066b": ".", "\u066c": ","})
_NUMBER = re.compile(r"\d+(?:[.,'\u2019]\d+)*|(?<![\w.,])[.,]\d+")
_GAP = re.compile(r"(?<=\d[.,])\s(?=\d)|(?<=\d)\s(?=\d{3}(?!\d))")
_AFTER_NOON = re.compile(r"\d\s?p\.?\s?m\b", re.IGNORECASE)
_ROMAN = [tens + ones for tens in ("", "X", "XX") for ones in (
    "", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")]
# Words for 1 to 12, including ordinals, multiples and other words that mean one or two.
_ONES = {language: words.split() for language, words in {
    "en": "one|first|single|sole|once two|second|twice|double|half|halves|both "
          "three|third|thrice|triple four|fourth|quarter five|fifth six|sixth seven|seventh "
          "eight|eighth nine|ninth ten|tenth eleven|eleventh twelve|twelfth|dozen",
    "it": "un[oa]?|prim[oaie]|singol[oaie]|unic[oaie]|sol[oaie] "
          "due|second[oaie]|doppi[oae]?|met[aà]|mezz[oaie]|entramb[ie] tre|terz[oaie]|tripl[oaie] "
          "quattro|quart[oaie] cinque|quint[oaie] sei|sest[oaie] sette|settim[oaie] "
          "otto|ottav[oaie] nove|non[oaie] dieci|decim[oaie] undici|undicesim[oaie] "
          "dodici|dodicesim[oaie]|dozzin[ae]",
    "fr": "une?|premi(?:er|ère)|seule?|unique deux|seconde?|deuxième|double|demie?|moitié "
          "trois|troisième|tiers|tierce|triple quatre|quatrième|quart cinq|cinquième six|sixième "
          "sept|septième huit|huitième neuf|neuvième dix|dixième onze|onzième "
          "douze|douzième|douzaine",
    "es": "un[oa]?|primer[oa]?|sol[oa]|únic[oa] dos|segund[oa]|doble|medi[oa]|mitad|amb[oa]s "
          "tres|tercer[oa]?|tercio|triple cuatro|cuart[oa] cinco|quint[oa] seis|sext[oa] "
          "siete|s[eé]ptim[oa] ocho|octav[oa] nueve|noven[oa] diez|d[eé]cim[oa] "
          "once|und[eé]cim[oa] doce|duod[eé]cim[oa]|docena",
    "pt": "uma?|primeir[oa]|só|únic[oa] "
          "dois|duas|segund[oa]|dobro|dupl[oa]|mei[oa]|metade|amb[oa]s "
          "três|terceir[oa]|terço|tripl[oa] quatro|quart[oa] cinco|quint[oa] seis|sext[oa] "
          "sete|s[eé]tim[oa] oito|oitav[oa] nove|non[oa] dez|d[eé]cim[oa] onze doze|dúzia",
    "de": "eins|ein(?:e[mnrs]?|mal|fache?|zelne?)?|erste[mnrs]? "
          "zwei(?:te[mnrs]?|mal|fache?)?|zwo|doppelte?|halbe?|hälfte|beide[nrs]? "
          "drei(?:mal|fache?)?|dritte[lmnrs]? vier(?:te[lmnrs]?|mal)? fünf(?:te[lmnrs]?|mal)? "
          "sechs(?:te[lmnrs]?|mal)? sieben(?:mal)?|siebte[lmnrs]? acht(?:e[lmnrs]?|mal)? "
          "neun(?:te[lmnrs]?|mal)? zehn(?:te[lmnrs]?|mal)? elf(?:te[mnrs]?)? "
          "zwölf(?:te[mnrs]?)?|dutzend",
}.items()}
# Words for 13 to 19, stems for 20 to 90, words for 100, endings, and joints of tens and ones.
_MORE = {language: [part.split() for part in parts.split("/")] for language, parts in {
    "en": "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
          "/twent thirt fort fift sixt sevent eight ninet/(?:one.)?hundred/y|ieth/y.?",
    "it": "tredici quattordici quindici sedici diciassette diciotto diciannove"
          "/vent trent quarant cinquant sessant settant ottant novant/cento/[ia]|esim[oaie]/[ia]?",
    "fr": "treize quatorze quinze seize dix.sept dix.huit dix.neuf"
          "/vingt trent quarant cinquant soixant septant (?:quatre.vingt|huitant|octant) nonant"
          "/cents?/e?|ième/e?.(?:et.)?",
    "es": "trece catorce quince diecis[eé]is diecisiete dieciocho diecinueve"
          "/veint treint cuarent cincuent sesent setent ochent novent/cien(?:to)?"
          "/[ea]|[eé]sim[oa]/(?:i|a.y.)",
    "pt": "treze catorze|quatorze quinze dezasseis|dezesseis dezassete|dezessete dezoito "
          "dezanove|dezenove/vint trint quarent cinquent sessent setent oitent novent/cem|cento"
          "/[ea]|[eé]sim[oa]/[ea].e.",
    "de": "dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
          "/zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig/(?:ein)?hundert"
          "/(?:ste.?)?/und",
}.items()}
# Spellings of each unit, first its name; `_` is optional white space.
_UNITS = {spelling: spellings.split()[0] for spellings in (
    "% \u066a per_cent pour_cent per_cento por_ciento por_cento prozent", "‰", "°C °_C º_C",
    "°F °_F º_F", "mg", "kg", "g gr", "µg mcg ug", "ng", "pg", "L", "dL", "mL", "µL ul", "mmol",
    "µmol umol", "nmol", "pmol", "cm", "mm", "µm", "nm", "km", "mmHg mm_Hg", "cmH2O cm_H2O",
    "kPa", "Hz", "kHz", "MHz", "kcal", "kJ", "Gy", "cGy", "mGy", "mSv", "MBq",
    "IU UI I.U. U.I. IE I.E. \u041c\u0415", "mEq", "mOsm", "kDa")
    for spelling in spellings.split()}
_UNITS_OF_TIME = ("seconds", "minutes", "hours", "days", "weeks", "months", "years")
_TIMES = {
    "en": ("seconds?|s", "minutes?|min", "hours?|hrs?|h", "days?|daily", "weeks?|wks?|weekly",
           "months?|monthly", "years?|yrs?|yearly"),
    "it": ("second[oi]|s", "minut[oi]|min", "or[ae]|h", r"giorn\w+|die|gg", r"settiman\w+",
           r"mes[ei]|mensil\w+", r"ann[oi]|annual\w*|[^\W\d_]*enn[ei]"),
    "fr": ("secondes?|s", "minutes?|min", "heures?|h", r"jours?|j|journali\w+|quotidien\w*",
           r"semaines?|hebdo\w*", r"mois|mensuel\w*", r"ans?|années?|annuel\w*"),
    "es": ("segundos?|s", "minutos?|min", "horas?|h", r"días?|diari\w+", r"semana\w*",
           r"mes(?:es)?|mensual\w*", r"años?|anual\w*"),
}
_SENSES = {**dict.fromkeys("<≤⩽", "<"), **dict.fromkeys(">≥⩾", ">")}
_COMPARISON = re.compile(r"([<>≤≥⩽⩾])(?:\s?(?:or|o|ou|/)?\s?=)?\s*(?:[-+\u2212]\s?)?"
                         r"(\d+(?:[.,]\s?\d+)*|[.,]\s?\d+)")
_NAME_OF = {re.sub("_", "", spelling).casefold(): name for spelling, name in _UNITS.items()}
_SYMBOL = "(" + "|".join(re.escape(spelling).replace("_", r"\s?") for spelling in sorted(
    _UNITS, key=len, reverse=True)) + r")(?![^\W\d_])"
_QUANTITY = re.compile(rf"(?:\d[\s-]?|/\s?){_SYMBOL}", re.IGNORECASE)
_UNIT = re.compile(rf"(?<![^\W\d_]){_SYMBOL}", re.IGNORECASE)


def lost_numbers(source: str, target: str, language: str) -> list[str]:
    """List the numbers of a sentence that are missing from its translation.

    Decimal points and commas count as equal, and so do separators of thousands or lists. The
    translation may write small numbers as Roman numerals, or as words if the words of its language
    are known. Hours after noon may be on a 12-hour or a 24-hour clock.

    Args:
        source: the sentence.
        target: its translation.
        language: language of the translation, ISO 639-1.
    """
    source, target = _plain(source), _plain(target)
    readings = _readings(target) | _readings(_joined(target))
    lost = min((_absent(text, readings) for text in (source, _joined(source))), key=len)
    hours = {value + turn for text, turn in ((source, -12), (target, 12))
             if _AFTER_NOON.search(text) for value in readings}
    return [number for number in lost if not _values(number) & {*hours, 0.0}
            and not _is_spelt(number, target, primary_language(language))]


def are_reordered(source: str, target: str) -> bool:
    """Return whether numbers that occur once in both sentences have a different order."""
    before, after = ([frozenset(_values(number)) for number in
                      _NUMBER.findall(_joined(_plain(one)))] for one in (source, target))
    once = {one for one in before if before.count(one) == 1 == after.count(one)}
    return [one for one in before if one in once] != [one for one in after if one in once]


def has_turned_comparisons(source: str, target: str) -> bool:
    """Return whether a number has a sign for "above" in one sentence and "below" in the other."""
    return _contradict(*([(_SENSES[sign[0]], _values("".join(number.split())))
                          for sign, number in _COMPARISON.findall(_plain(text))]
                         for text in (source, target)))


def have_other_times(source: str, target: str, source_language: str, target_language: str) -> bool:
    """Return whether a number has another unit of time in the translation; False if unknown.

    Args:
        source: the sentence.
        target: its translation.
        source_language: language of the sentence, ISO 639-1.
        target_language: language of the translation.
    """
    return _contradict(_times(source, source_language), _times(target, target_language))


def _times(text: str, language: str) -> list[tuple[str, set[float]]]:
    """List the numbers before a unit of time, with the unit."""
    words = _TIMES.get(primary_language(language), ())
    return [(_UNITS_OF_TIME[found.lastindex - 2], _values(found[1])) for found in
            _after_number("|".join(f"({word})" for word in words)).finditer(_plain(text))
            if found.lastindex] if words else []


@cache
def _after_number(words: str) -> re.Pattern[str]:
    # Always match all digits of a number: shorter matches would take quadratic time.
    return re.compile(rf"(?<!\d)((?>{_NUMBER.pattern}))[\s-]?(?:{words})(?![^\W_])", re.IGNORECASE)


def _contradict(before: list[tuple[str, set[float]]],
                after: list[tuple[str, set[float]]]) -> bool:
    """Return whether a number's unit or sign in one sentence never occurs with it in the other."""
    for first, second in ((before, after), (after, before)):
        for own, number in second:
            others = {other for other, value in first if value & number}
            if others and own not in others:
                return True
    return False


def _absent(text: str, readings: set[float]) -> list[str]:
    """List the numbers of a text that are not among the readings; commas may separate a list."""
    return [part for number in _NUMBER.findall(text) if not _values(number) & readings
            for part in ([number] if number[0] == "," else number.split(","))
            if not _values(part) & readings]


def numbers_of(text: str) -> list[str]:
    """List the numbers of a text as they are written, but with ASCII digits."""
    return _NUMBER.findall(_plain(text))


def lost_units(source: str, target: str, source_language: str = "",
               target_language: str = "") -> list[str]:
    """List the units after numbers of a sentence that are missing from its translation.

    Units of time count if their words in both languages are known.

    Args:
        source: the sentence.
        target: its translation.
        source_language: language of the sentence, ISO 639-1.
        target_language: language of the translation.

    Returns:
        symbols of units, and names of time units.
    """
    found = {_unit(symbol) for symbol in _QUANTITY.findall(source)}
    lost = sorted(found - {_unit(symbol) for symbol in _UNIT.findall(target)}) if found else []
    words = _TIMES.get(primary_language(target_language), ())
    times = {name for name, _ in _times(source, source_language)} if words else ()
    return lost + [name for name, word in zip(_UNITS_OF_TIME, words, strict=False)
                   if name in times and not re.search(rf"(?<![^\W\d_])(?:{word})(?![^\W_])",
                                                      target, re.IGNORECASE)]


def _unit(symbol: str) -> str:
    return _NAME_OF["".join(symbol.split()).casefold()]


def _plain(text: str) -> str:
    """Convert digits of all scripts to ASCII, with `^` before superscripts and subscripts."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS))
    return re.sub(r"\d", lambda figure: str(int(figure[0])), text)


def _joined(text: str) -> str:
    """Remove white space that may be inside a number."""
    return _GAP.sub("", text)


def _readings(text: str) -> set[float]:
    return {value for number in _NUMBER.findall(text) for value in _values(number)}


def _values(number: str) -> set[float]:
    """List the possible values of a number: 1.234 may also be 1234."""
    signs = re.sub(r"\d", "", number)
    if not signs:
        return {float(number)}
    figures = re.split(r"\D", number)
    whole = float("".join(figures))
    groups_thousands = all(len(one) == 3 for one in figures[1:]) and 1 <= len(figures[0]) <= 3
    values = {whole} if groups_thousands or len(set(signs)) < len(signs) else set()
    if len(signs) == 1 or signs[-1] != signs[-2]:
        values.add(float(f"{''.join(figures[:-1]) or '0'}.{figures[-1]}"))
    return values


def _is_spelt(number: str, text: str, language: str) -> bool:
    """Return whether a text has a whole number below 1,000 as a Roman numeral or in words."""
    value = int(number) if number.isdigit() and len(number) < 4 else 0
    if not value:
        return False
    roman = _ROMAN[value] if value < len(_ROMAN) else ""
    return bool((roman and re.search(rf"\b{roman}\b|\({roman.lower()}\)", text)) or (
        language in _ONES and _spelling(value, language).search(text)))


@cache
def _spelling(value: int, language: str) -> re.Pattern[str]:
    """Return the pattern of a number from 1 to 999 in words."""
    return re.compile(rf"(?<![^\W_])(?:{_words(value, language)})s?(?![^\W_])", re.IGNORECASE)


def _words(value: int, language: str) -> str:
    ones, (teens, tens, [hundred], [ends], [joint]) = _ONES[language], _MORE[language]
    below_20 = [*ones, *teens]
    if value < 20:
        return below_20[value - 1]
    if value >= 100:
        many, rest = divmod(value, 100)
        before = f"(?:(?:{ones[many - 1]})[ -]?){'?' if many == 1 else ''}"
        after = f"[ -]?(?:and |et |und|e |y )?(?:{_words(rest, language)})" if rest else ""
        return f"{before}(?:{hundred}){after}"
    ten, one = divmod(value, 10)
    stem = tens[ten - 2]
    found = f"{stem}(?:{ends})" if not one else \
        f"(?:{ones[one - 1]}){joint}{stem}" if language == "de" else \
        f"{stem}{joint}(?:{ones[one - 1]})"
    if language == "fr" and ten in (7, 9):  # soixante-dix, quatre-vingt-onze
        found += f"|{tens[ten - 3]}{joint}(?:{below_20[one + 9]})"
    return found
