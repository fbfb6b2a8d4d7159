"""Language codes, compared with lists in the standards and in NLLB-200's model card."""

from __future__ import annotations

import pytest

from bmtools.text.languages import nllb_code, three_letters, two_letters

# ISO 639-2 (bibliographic codes) to ISO 639-1, for the languages in PubMed.
PUBMED = """
    afr:af alb:sq ara:ar arm:hy aze:az bos:bs bul:bg cat:ca chi:zh cze:cs dan:da dut:nl eng:en
    epo:eo est:et fin:fi fre:fr geo:ka ger:de gla:gd gre:el heb:he hin:hi hrv:hr hun:hu ice:is
    ind:id ita:it jpn:ja kin:rw kor:ko lat:la lav:lv lit:lt mac:mk mal:ml mao:mi may:ms nor:no
    per:fa pol:pl por:pt pus:ps rum:ro rus:ru san:sa slo:sk slv:sl spa:es srp:sr swe:sv tha:th
    tur:tr ukr:uk urd:ur vie:vi wel:cy mul:mul und:und
"""
# ISO 639-1 to ISO 639-3.
THREE_LETTERS = """
    af:afr an:arg ar:ara bg:bul br:bre ca:cat cs:ces cy:cym da:dan de:deu el:ell en:eng eo:epo
    es:spa et:est eu:eus fi:fin fr:fra ga:gle gl:glg he:heb hi:hin hr:hrv hu:hun is:isl it:ita
    ja:jpn ko:kor lt:lit lv:lvs mk:mkd mt:mlt nb:nob nl:nld nn:nno oc:oci pl:pol pt:por ro:ron
    ru:rus sc:srd sk:slk sl:slv sr:srp sv:swe tr:tur uk:ukr vi:vie zh:zho
"""
OTHER_SCRIPTS = {"ar": "Arab", "bg": "Cyrl", "el": "Grek", "he": "Hebr", "hi": "Deva",
                 "ja": "Jpan", "ko": "Hang", "mk": "Cyrl", "ru": "Cyrl", "sr": "Cyrl",
                 "uk": "Cyrl", "zh": "Hans"}


def pairs(table: str) -> list[list[str]]:
    return [pair.split(":") for pair in table.split()]


@pytest.mark.parametrize(("code", "short"), pairs(PUBMED))
def test_pubmed_codes_become_two_letter_codes(code: str, short: str) -> None:
    assert two_letters(code) == two_letters(f" {code.upper()}") == short


@pytest.mark.parametrize(("short", "code"), pairs(THREE_LETTERS))
def test_two_letter_codes_become_nllb_codes(short: str, code: str) -> None:
    assert three_letters(short) == three_letters(f"{short.upper()}-XY") == code
    expected = "arb" if short == "ar" else code
    assert nllb_code(short) == f"{expected}_{OTHER_SCRIPTS.get(short, 'Latn')}"


@pytest.mark.parametrize(("code", "three", "nllb"), [
    ("it-IT", "ita", "ita_Latn"), ("pt_BR", "por", "por_Latn"), ("cat", "cat", "cat_Latn"),
    ("xx", "xx", "xx_Latn"), ("no language", "no language", "no language_Latn")])
def test_regions_are_ignored_and_unknown_codes_are_kept(code: str, three: str, nllb: str) -> None:
    assert (three_letters(code), nllb_code(code)) == (three, nllb)
