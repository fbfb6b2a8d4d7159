"""Languages, scripts and variants that sentences are written in."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from functools import cache
from importlib import util

from bmtools.text.languages import load_identifier, primary_language

_SCRIPTS = {"LATIN": "Latn", "CYRILLIC": "Cyrl", "GREEK": "Grek", "CJK": "Hani", "HIRAGANA": "Jpan",
            "KATAKANA": "Jpan", "HANGUL": "Kore", "ARABIC": "Arab", "HEBREW": "Hebr",
            "DEVANAGARI": "Deva", "BENGALI": "Beng", "THAI": "Thai", "GEORGIAN": "Geor",
            "ARMENIAN": "Armn", "TAMIL": "Taml", "TELUGU": "Telu", "ETHIOPIC": "Ethi",
            "GUJARATI": "Gujr", "GURMUKHI": "Guru", "KANNADA": "Knda", "MALAYALAM": "Mlym",
            "SINHALA": "Sinh", "MYANMAR": "Mymr", "KHMER": "Khmr", "LAO": "Laoo"}
_WITH = {"Hans": {"Hani"}, "Hant": {"Hani"}, "Jpan": {"Hani", "Jpan"}, "Kore": {"Hani", "Kore"}}
_LETTERS_OF_IDEOGRAPH = 3
_ENOUGH_LETTERS = 40
_UNLIKELY = 0.02
# Brazil writes acadêmico and crônico, Portugal académico and crónico.
_BRAZIL = re.compile(r"\w[êô][mn][aeio]|\b(?:registro|equipe|usuári|fato\b|contato)", re.IGNORECASE)
_PORTUGAL = re.compile(r"\w[éó][mn][aeio]|\b(?:registo|equipa\b|utente|facto\b|contacto)",
                       re.IGNORECASE)


@cache
def script_of(language: str) -> str:
    """Return the script of a language code, ISO 15924: `sr` is `Cyrl`, `zh-TW` is `Hant`."""
    import langcodes

    try:
        return langcodes.Language.get(language).maximize().script or ""
    except langcodes.LanguageTagError:
        return ""


def letters_by_script(text: str) -> Counter[str]:
    """Count letters by their script; those of both Chinese scripts and Japanese are `Hani`."""
    if text.isascii():
        return Counter({"Latn": sum(map(str.isalpha, text))})
    return sum((Counter({_script_of_letter(letter): count}) for letter, count
                in Counter(text).items() if letter.isalpha()), Counter())


@cache
def _script_of_letter(letter: str) -> str:
    return _SCRIPTS.get(unicodedata.name(letter, "").partition(" ")[0], "Zyyy")


def in_other_script(source: str, target: str, language: str) -> bool:
    """Tell whether most letters of a translation are in another script than its language.

    Words that the source has in that script, such as names of genes, do not count. Of Chinese the
    characters are compared that only one of GB 2312 and Big5 has.

    Args:
        source: the sentence.
        target: its translation.
        language: of the translation, with a script or region where it has several.
    """
    script = script_of(language)
    if script not in {*_SCRIPTS.values(), *_WITH}:
        return False
    copied = set(source.split())
    own = " ".join(word for word in target.split() if word not in copied)
    letters = letters_by_script(own)
    letters["Hani"] *= _LETTERS_OF_IDEOGRAPH
    right = sum(letters[one] for one in _WITH.get(script, {script}))
    if 2 * right < letters.total() and letters.total() > 3:
        return True
    if script in ("Hans", "Hant"):
        simplified, traditional = (
            sum(_has(one, codec) and not _has(one, other) for one in own)
            for codec, other in (("gb2312", "big5"), ("big5", "gb2312")))
        wrong, right = (simplified, traditional) if script == "Hant" else (traditional, simplified)
        return wrong > max(1, right)
    return False


def _has(character: str, codec: str) -> bool:
    """Tell whether a national character set has a Chinese character."""
    try:
        return "\u4e00" <= character <= "\u9fff" and bool(character.encode(codec))
    except UnicodeEncodeError:
        return False


def in_other_variant(text: str, language: str) -> bool:
    """Tell Brazil's spelling from Portugal's where the language names one of the two."""
    region = language.replace("_", "-").lower()
    if region not in ("pt-br", "pt-pt"):
        return False
    brazil, portugal = (len(pattern.findall(text)) for pattern in (_BRAZIL, _PORTUGAL))
    return portugal > brazil if region == "pt-br" else brazil > portugal


class LanguageCheck:
    """Check of sentences for another language, by py3langid where it is installed.

    Of 11,847 sentences of 40 letters or more in clinical English, French and Italian, one has a
    probability of its own language below 0.02; in shorter ones Latin names mislead.
    """

    def __init__(self, language: str) -> None:
        self._language = {"nb": "no"}.get(primary_language(language), primary_language(language))
        self._identifier = load_identifier() if util.find_spec("py3langid") else None

    def __call__(self, text: str) -> bool:
        """Tell whether a text is in another language; False where that cannot be known."""
        if self._identifier is None or self._language not in self._identifier.labels \
                or sum(map(str.isalpha, text)) < _ENOUGH_LETTERS:
            return False
        return bool(dict(self._identifier.rank(text))[self._language] < _UNLIKELY)
