"""The names that translators give to languages."""

from __future__ import annotations

import re

_THREE_LETTERS = {
    "af": "afr", "an": "arg", "ar": "ara", "bg": "bul", "br": "bre", "ca": "cat", "cs": "ces",
    "cy": "cym", "da": "dan", "de": "deu", "el": "ell", "en": "eng", "eo": "epo", "es": "spa",
    "et": "est", "eu": "eus", "fi": "fin", "fr": "fra", "ga": "gle", "gl": "glg", "he": "heb",
    "hi": "hin", "hr": "hrv", "hu": "hun", "is": "isl", "it": "ita", "ja": "jpn", "ko": "kor",
    "lt": "lit", "lv": "lvs", "mk": "mkd", "mt": "mlt", "nb": "nob", "nl": "nld", "nn": "nno",
    "oc": "oci", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sc": "srd", "sk": "slk",
    "sl": "slv", "sr": "srp", "sv": "swe", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "zho",
}
# Latin script is the rule.
_SCRIPTS = {
    "ar": "Arab", "bg": "Cyrl", "el": "Grek", "he": "Hebr", "hi": "Deva", "ja": "Jpan",
    "ko": "Hang", "mk": "Cyrl", "ru": "Cyrl", "sr": "Cyrl", "uk": "Cyrl", "zh": "Hans",
}


def base(language: str) -> str:
    """Leave region and script aside: `it-IT` is `it`."""
    return re.split(r"[-_]", language.lower(), maxsplit=1)[0]


def three_letters(language: str) -> str:
    """Give the ISO 639-3 code of an ISO 639-1 code; any other code stays as it is."""
    return _THREE_LETTERS.get(base(language), base(language))


def with_script(language: str) -> str:
    """Give the code that NLLB uses: `it` is `ita_Latn`."""
    known = {"ar": "arb"}.get(base(language), three_letters(language))
    return f"{known}_{_SCRIPTS.get(base(language), 'Latn')}"
