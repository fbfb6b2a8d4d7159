"""Numbers and units of sentences, however languages write them."""

from __future__ import annotations

import re
import unicodedata

from bmtools.text.languages import primary_language

_SIGNS = str.maketrans({**{sign: f"^{figure}" for sign, figure in zip(
    "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "01234567890123456789", strict=True)},
    "·": ".", "\u066b": ".", "\u066c": ","})
_NUMBER = re.compile(r"\d+(?:[.,'\u2019]\d+)*|(?<![\w.,])[.,]\d+")
_GAP = re.compile(r"(?<=\d[.,])\s(?=\d)|(?<=\d)\s(?=\d{3}(?!\d))")
_AFTER_NOON = re.compile(r"\d\s?p\.?\s?m\b", re.IGNORECASE)
_ROMAN = [tens + ones for tens in ("", "X", "XX") for ones in (
    "", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")]
# Beginnings of the words of numbers: one to twelve with ordinals and multiples, those up to
# nineteen, tens from twenty on, hundreds.
_WORDS = {language: words.split() for language, words in {
    "en": "one|first|single|once two|second|twice|double|half three|third|thrice|triple "
          "four|quarter five|fifth six seven eight nine ten eleven twel "
          "thirt|fourt|fift|sixt|sevent|eighteen|ninet "
          "twent thirt fort fift sixt sevent eight ninet hundred",
    "it": "un|prim|singol du|second|doppi|met|mezz tre|terz|tripl quattr|quart cinqu|quint "
          "sei|sest sett otto|ottav nove|non diec|decim undic dodic "
          "tredic|quattordic|quindic|sedic|dici vent trent quarant cinquant sessant settant "
          "ottant novant cent",
    "fr": "un|premi|seul deux|second|doubl|demi|moiti trois|trip|tier quatr|quart cinq six|sixi "
          "sept huit neuf dix onz douz treiz|quatorz|quinz|seiz|dix vingt trent quarant "
          "cinquant soixant soixant|septant quatre-vingt|huitant|octant quatre-vingt|nonant cent",
    "es": "un|prim|sol dos|segund|dobl|medi|mitad tres|terc|tripl cuatr|cuart cinc|quint "
          "seis|sext siet|s[eé]pt och|octav nuev|noven diez|d[eé]cim onc doc "
          "trec|catorc|quinc|diec veint|vig treint cuarent cincuent sesent setent ochent "
          "novent cien",
    "pt": "um|prim|só do|dua|segund|dobr|mei|metade tr[eê]s|terc|tripl quatr|quart cinc|quint "
          "seis|sext set|s[eé]tim oit nov|non dez|d[eé]cim onz doz trez|cat|quatorz|quinz|dez "
          "vint trint quarent cinquent sessent setent oitent novent cem|cent",
    "de": "ein|erst zwei|zwo|doppel|halb|hälft dr(?:ei|itt) vier fünf sech sieb acht|ach neun "
          "zehn elf zwölf drei|vier|fünf|sech|sieb|acht|neun \\w*zwanzig \\w*dreißig "
          "\\w*vierzig \\w*fünfzig \\w*sechzig \\w*siebzig \\w*achtzig \\w*neunzig "
          "(?:ein)?hundert",
}.items()}
# Spellings of a unit, the first of which names it; `_` is white space or none.
_UNITS = {spelling: spellings.split()[0] for spellings in (
    "% \u066a per_cent pour_cent per_cento por_ciento por_cento prozent", "‰", "°C °_C º_C",
    "°F °_F º_F", "mg", "kg", "g gr", "µg mcg ug", "ng", "pg", "L", "dL", "mL", "µL ul", "mmol",
    "µmol umol", "nmol", "pmol", "cm", "mm", "µm", "nm", "km", "mmHg mm_Hg", "cmH2O cm_H2O",
    "kPa", "Hz", "kHz", "MHz", "kcal", "kJ", "Gy", "cGy", "mGy", "mSv", "MBq",
    "IU UI I.U. U.I. IE I.E. \u041c\u0415", "mEq", "mOsm", "kDa")
    for spelling in spellings.split()}
_NAME_OF = {re.sub("_", "", spelling).casefold(): name for spelling, name in _UNITS.items()}
_SYMBOL = "(" + "|".join(re.escape(spelling).replace("_", r"\s?") for spelling in sorted(
    _UNITS, key=len, reverse=True)) + r")(?![^\W\d_])"
_QUANTITY = re.compile(rf"(?:\d[\s-]?|/\s?){_SYMBOL}", re.IGNORECASE)
_UNIT = re.compile(rf"(?<![^\W\d_]){_SYMBOL}", re.IGNORECASE)


def lost_numbers(source: str, target: str, language: str) -> list[str]:
    """List the numbers of a sentence that its translation lacks.

    Decimal points and commas count as equal, and so do signs between thousands or in lists. Small
    numbers may be written in Roman figures, or in words of the language where these are known, an
    hour after noon may be counted from midnight.

    Args:
        source: the sentence.
        target: its translation.
        language: of the translation, ISO 639-1.
    """
    source, target = _plain(source), _plain(target)
    readings = _readings(target) | _readings(_joined(target))
    lost = min((_absent(text, readings) for text in (source, _joined(source))), key=len)
    words = _WORDS.get(primary_language(language), [])
    hours = {value - 12 for value in readings} if _AFTER_NOON.search(source) else set()
    return [number for number in lost
            if not _values(number) & hours and not _is_spelt(number, target, words)]


def _absent(text: str, readings: set[float]) -> list[str]:
    """List the numbers without a reading among those found; one with commas may be a list."""
    return [part for number in _NUMBER.findall(text) if not _values(number) & readings
            for part in ([number] if number[0] == "," else number.split(","))
            if not _values(part) & readings]


def numbers_of(text: str) -> list[str]:
    """List the numbers of a text, as it writes them but for their figures."""
    return _NUMBER.findall(_plain(text))


def lost_units(source: str, target: str) -> list[str]:
    """List the units after a number of a sentence that its translation lacks, by their symbols."""
    found = {_unit(symbol) for symbol in _QUANTITY.findall(source)}
    return sorted(found - {_unit(symbol) for symbol in _UNIT.findall(target)}) if found else []


def _unit(symbol: str) -> str:
    return _NAME_OF["".join(symbol.split()).casefold()]


def _plain(text: str) -> str:
    """Write figures of all scripts in ASCII, and those set high or low apart from others."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS))
    return re.sub(r"\d", lambda figure: str(int(figure[0])), text)


def _joined(text: str) -> str:
    """Remove white space within what may be one number."""
    return _GAP.sub("", text)


def _readings(text: str) -> set[float]:
    return {value for number in _NUMBER.findall(text) for value in _values(number)}


def _values(number: str) -> set[float]:
    """List what a number may mean: 1.234 is 1234, too."""
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


def _is_spelt(number: str, text: str, words: list[str]) -> bool:
    """Look for a whole number in Roman figures, or for the first part of its words."""
    value = int(number) if number.isdigit() and len(number) < 4 else 0
    if not value:
        return False
    part = next(index for most, index in ((12, value), (19, 13), (99, 12 + value // 10),
                                          (999, 22)) if value <= most)
    return bool((value < len(_ROMAN) and re.search(rf"\b{_ROMAN[value]}\b", text)) or (
        words and re.search(rf"\b(?:{words[part - 1]})", text, re.IGNORECASE)))
