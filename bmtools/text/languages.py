"""Language codes: ISO 639-1, -2 and -3, and NLLB's codes with a script."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PREFIX = 400  # characters; more text hardly changes the result and takes longer
_ENOUGH_LETTERS = 40  # shorter texts are often names and headings, which mislead
# In most texts of a language, these words are an eighth of the first words. They are rare in other
# languages. A text with this share of them does not need py3langid.
_FREQUENT = {
    "en": "the of and with was were for by that from this is are which has have been",
    "it": "il della di che nel per sono alla dei delle gli è degli con una dal non del",
    "es": "los las una con por para el y se del que en como al fue",
    "fr": "les des est une dans et du par avec le pour sur été aux au sont",
    "de": "der die und mit bei wurde das eine von den im nicht ist zur einer"}
_LANGUAGES = {word: [code for code, words in _FREQUENT.items() if word in words.split()]
              for words in _FREQUENT.values() for word in words.split()}
_FREQUENT_SHARE, _OTHER_SHARE, _FEWEST_WORDS = 0.12, 0.06, 30
# Individual languages that Apertium and NLLB use for Latvian and Arabic.
_ALPHA3 = {"lv": "lvs"}
_NLLB_ALPHA3 = {"ar": "arb"}
_NLLB_SCRIPTS = {"ko": "Hang"}


def primary_language(code: str) -> str:
    """Return a code without region and script: `it-IT` is `it`."""
    return re.split(r"[-_]", code.lower(), maxsplit=1)[0]


@cache
def two_letters(code: str) -> str:
    """Shorten a code if ISO 639-1 has a two-letter code: `ENG` and `eng` become `en`."""
    import langcodes

    code = code.strip().lower()
    try:
        return langcodes.Language.get(code).language or code
    except langcodes.LanguageTagError:
        return code


@cache
def three_letters(code: str) -> str:
    """Return the ISO 639-3 code of a language, or an unknown code unchanged."""
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
        script = langcodes.Language.get(code).maximize().script
    except langcodes.LanguageTagError:
        script = None
    return (f"{_NLLB_ALPHA3.get(language) or three_letters(language)}_"
            f"{_NLLB_SCRIPTS.get(language) or script or 'Latn'}")


@cache
def load_identifier() -> LanguageIdentifier:
    """Load py3langid's model, which is not a pickle."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def found_language(text: str) -> str:
    """Return the language of a text's beginning, or "" if the text is too short."""
    beginning = text[:_PREFIX]
    if found := _by_frequent_words(beginning.lower().split()):
        return found
    if sum(map(str.isalpha, beginning)) < _ENOUGH_LETTERS:
        return ""
    return str(load_identifier().classify(beginning)[0])


def _by_frequent_words(words: Sequence[str]) -> str:
    """Return the language that the frequent words show clearly, or "" if they do not."""
    hits = Counter([code for word in words for code in _LANGUAGES.get(word, ())])
    (best, most), (_, next_most) = [*hits.most_common(2), ("", 0), ("", 0)][:2]
    is_sure = len(words) >= _FEWEST_WORDS and most >= _FREQUENT_SHARE * len(words) \
        and next_most <= _OTHER_SHARE * len(words)
    return best if is_sure else ""
