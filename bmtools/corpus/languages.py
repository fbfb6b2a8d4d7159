"""Language codes of three letters, as PubMed writes them, and their two-letter twins."""

from __future__ import annotations

# ISO 639-2 (bibliographic form) to ISO 639-1, for the languages that PubMed names.
_CODES = """
    afr:af alb:sq ara:ar arm:hy aze:az bos:bs bul:bg cat:ca chi:zh cze:cs dan:da dut:nl eng:en
    epo:eo est:et fin:fi fre:fr geo:ka ger:de gla:gd gre:el heb:he hin:hi hrv:hr hun:hu ice:is
    ind:id ita:it jpn:ja kin:rw kor:ko lat:la lav:lv lit:lt mac:mk mal:ml mao:mi may:ms nor:no
    per:fa pol:pl por:pt pus:ps rum:ro rus:ru san:sa slo:sk slv:sl spa:es srp:sr swe:sv tha:th
    tur:tr ukr:uk urd:ur vie:vi wel:cy
"""
_TWO_LETTERS = dict(pair.split(":") for pair in _CODES.split())


def two_letters(code: str) -> str:
    """Shorten a language code where ISO 639-1 has a shorter one: `ENG` and `eng` to `en`."""
    code = code.strip().lower()
    return _TWO_LETTERS.get(code, code)
