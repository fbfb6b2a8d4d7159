"""Language codes: ISO 639-1, -2 and -3, and with the usual script as NLLB writes them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PREFIX = 400  # characters; more of a text hardly changes what is found and takes longer
_ENOUGH_LETTERS = 40  # in fewer, names and headings mislead
# Codes of the individual languages that NLLB and Apertium mean by Latvian and Arabic.
_ALPHA3 = {"lv": "lvs"}
_NLLB_ALPHA3 = {"ar": "arb"}
_NLLB_SCRIPTS = {"ko": "Hang"}


def primary_language(code: str) -> str:
    """Return a code without region and script: `it-IT` is `it`."""
    return re.split(r"[-_]", code.lower(), maxsplit=1)[0]


@cache
def two_letters(code: str) -> str:
    """Shorten a code where ISO 639-1 has a shorter one: `ENG` and `eng` are `en`."""
    import langcodes

    code = code.strip().lower()
    try:
        return langcodes.Language.get(code).language or code
    except langcodes.LanguageTagError:
        return code


@cache
def three_letters(code: str) -> str:
    """Return the ISO 639-3 code of a language; an unknown one stays as it is."""
    import langcodes

    language = primary_language(code)
    try:
        return _ALPHA3.get(language) or langcodes.Language.get(language).to_alpha3()
    except (langcodes.LanguageTagError, LookupError):
        return language


@cache
def nllb_code(code: str) -> str:
    """Return the code that NLLB uses, with the script: `it` is `ita_Latn`."""
    import langcodes

    language = primary_language(code)
    try:
        script = langcodes.Language.get(language).maximize().script
    except langcodes.LanguageTagError:
        script = None
    return (f"{_NLLB_ALPHA3.get(language) or three_letters(language)}_"
            f"{_NLLB_SCRIPTS.get(language) or script or 'Latn'}")


@cache
def load_identifier() -> LanguageIdentifier:
    """Load py3langid's model, which is not pickled."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def found_language(text: str) -> str:
    """Return the language of a text by its beginning; empty where it is too short to tell."""
    beginning = text[:_PREFIX]
    if sum(map(str.isalpha, beginning)) < _ENOUGH_LETTERS:
        return ""
    return str(load_identifier().classify(beginning)[0])
