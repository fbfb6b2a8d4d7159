"""Repairs of texts, each with handmade cases."""

# ruff: noqa: RUF001

from __future__ import annotations

import random
import re
import time

import pytest

from bmtools.corpus.cleaning.edits import EditedText
from bmtools.corpus.cleaning.repairs import Repairs, truncation_mark
from bmtools.corpus.cleaning.settings import REPAIRS

LONG = "Una riga di almeno dieci parole, che non ritorna per caso."
CASES = {
    "line-ends": [("a\r\nb", "a\nb"), ("a\rb\r\r\nc", "a\nb\nc"),
                  ("a\x0bb\x0cc\u2028d", "a\nb\nc\nd")],
    "control-characters": [("a\x00b\x7f", "ab"), ("\x93Sì\x94 \x96 \x85", "“Sì” \u2013 …"),
                           ("\x81", "")],
    "invisible-characters": [("pa\xadziente\u200b\ufeff", "paziente"), ("\u200ba\u200db", "ab"),
                             ("می\u200cخواهم", None), ("क्\u200dष", None)],
    "white-space": [("  a \t b\xa0c ", "a b c"), ("a \n b\n \n\n c", "a\nb\n\nc"),
                    ("a\u2009mg\u3000b", "a mg b"), ("a\tb\x1fc", "a b c"), (" \n ", "")],
    "truncation-marks": [
        ("Dose 5 mg.(ABSTRACT TRUNCATED AT 250 WORDS)", "Dose 5 mg."),
        ("Dose. (ABSTRACT TRUNCATED)", "Dose."),
        ("A (Abstract truncated at 1,000 words.) B", "A B"),
        ("A [SUMMARY TRUNCATED AT 2000 CHARACTERS]", "A"),
        ("A ABSTRACT TRUNCATED AT 250 WORDS", "A"),
        ("A (TRUNCATED)", "A"), ("A truncated protein (truncated SERCA).", None)],
    "entities": [("p &lt; 0.05 &amp;amp; &#945;", "p < 0.05 & α"), ("A&B; AT&T", None)],
    "unicode": [("perchÃ© non Ã¨ giÃ\xa0 cosÃ¬, lâ€™etÃ\xa0", "perché non è già così, l’età"),
                ("COSÃŒ Ã¨ la cittÃ\xa0", "COSÌ è la città"),
                ("10 Âµg Â± 2 Â°C", "10 µg ± 2 °C"), ("ﬁbrosi e\u0300 ﬂusso", "fibrosi è flusso"),
                ("Ångström, Café, naïve, «Ça va», São, ±5°, Ü", None), ("μmol/l – 5 ‰", None)],
    "copyright": [
        ("It works. Copyright © 2011 Elsevier Ltd. All rights reserved.", "It works."),
        ("It works. (c) 2002 Wiley-Liss, Inc.", "It works."),
        ("It works. (c)2001 Le Jacq.", "It works."),
        ("It works.\n© 2015 The Authors. Allergy published by John Wiley & Sons Ltd.\nMore.",
         "It works.\nMore."),
        ("Copyright 2003 S. Karger AG, Basel\nIt works.", "It works."),
        ("Fine. Tutti i diritti riservati.", "Fine."),
        ("The questionnaire Copyright was used. Files (hyflex© CM) of type (c) 5.", None),
        ("Cases.\n(C) 2010 Patients had no fever, as before.\nCopyright 2010 patients came.", None),
        ("Cases.\n(c) 2004 by the American College of Cardiology\nMore.", "Cases.\nMore."),
        ("Cases of (a) 1980; (b) 1985; (c) 1990 Group. In (c) 1990 we saw 5.", None)],
    "publisher": [
        ("It works. Published by Elsevier Inc.", "It works."),
        ("It works. This article is protected by copyright. All rights reserved.",
         "It works. All rights reserved."),
        ("It works. This is an Open Access article distributed under the terms of the Creative "
         "Commons Attribution License.", "It works."),
        ("It works. For permissions, please email: journals.permissions@oup.com.", "It works."),
        ("It works. Supplementary data are available at Bioinformatics online.", "It works."),
        ("Criteria published by the Heart Association. Data were published by Smith.", None)],
    "navigation": [
        ("Skip to main content\nHome > Salute > Cuore\nIl cuore pompa.\nCondividi su Facebook\n"
         "Leggi tutto »\nQuesto sito usa i cookie. Leggi la privacy policy", "Il cuore pompa."),
        ("Home | News | Sport | Meteo | Contatti\nIl cuore.", "Il cuore."),
        ("Please enable JavaScript.\nThe heart.\nBack to top", "The heart."),
        ("Search\nThe heart.", "The heart."),
        ("WBC | 12.3 | 4-10 | H\nTest | Result | Range | Flag\nIt was written in JavaScript.\n"
         "The privacy policy of the hospitals was approved by the ethics board.", None),
        ("The patient was sent home.\nMenu planning helps.\nSearch for PubMed.\nAge | Sex | Dose",
         None)],
    "repeated-lines": [(f"{LONG}\nAltro.\n{LONG}\nFine.", f"{LONG}\nAltro.\nFine."),
                       ("Dose\n5 mg\nDose\n9 mg", None),
                       (2 * "Da 500 mg due volte al giorno a 750 mg due volte al giorno.\n", None),
                       ("Coltura e ricerca di tossine: negativi.\nAsma.\n"
                        "Coltura e ricerca di tossine: negativi.", None)]}


def repaired(text: str, *names: str, **settings: object) -> EditedText:
    edited = EditedText(text)
    assert Repairs(names, **settings)(edited)
    return edited


@pytest.mark.parametrize(("name", "text", "expected"), [
    (name, *case) for name, cases in CASES.items() for case in cases])
def test_each_rule_repairs_its_cases(name: str, text: str, expected: str | None) -> None:
    """White space is also repaired, because removals leave white space."""
    edited = repaired(text, name, "white-space") if expected else repaired(text, name)
    assert edited.text == (text if expected is None else expected)
    assert (name in edited.counts) == (expected is not None)


def test_repaired_text_does_not_change_again() -> None:
    """Parts of all cases in random order, which often form new cases when joined."""
    scraps = [text for cases in CASES.values() for text, _ in cases]
    scraps += [*" \t\n\r\0\xa0\xad\u200b\u200d\x85\x1f", "(", ")", "TRUNCATED", "ABSTRACT ", "Ã",
               "©", "&am", "p;", "&", "lt;", "Copyright ", "2001 ", "\u0300", "Home", " | a"]
    rng = random.Random(0)
    changed = 0
    for _ in range(300):
        text = "".join(rng.choice(scraps) for _ in range(rng.randint(1, 8)))
        cut = rng.randrange(len(text) + 1)
        text = text[cut:] + text[:cut]
        names = REPAIRS if rng.random() < 0.5 else rng.sample(REPAIRS, rng.randint(1, 8))
        once = repaired(text, *names)
        changed += once.text != text
        again = repaired(once.text, *reversed(names))
        assert (again.text, again.counts) == (once.text, {}), (text, names)
    assert changed > 200


def test_text_that_a_removal_joins_is_also_removed() -> None:
    edited = repaired("A (ABSTRACT (ABSTRACT TRUNCATED) TRUNCATED)", "truncation-marks")
    assert (edited.text, edited.counts["truncation-marks"]) == ("A", 2)


def test_endless_repairs_are_stopped() -> None:
    deep = "(TRUNCATED" * 50 + ")" * 50
    assert not Repairs(["truncation-marks"])(EditedText("A " + deep))


def test_long_runs_are_repaired_fast() -> None:
    run, gap = "一" * 400_000, " " * 400_000
    edited = EditedText(f"perchÃ© {run}")
    assert Repairs(["unicode"])(edited)
    assert edited.text == f"perché {run}"
    assert truncation_mark(f"TRUNCATED{gap}") == ""


def test_user_patterns_are_removed() -> None:
    edited = repaired("Pag. 3 di 9\nIl cuore.", "white-space",
                      unwanted=[re.compile(r"^Pag\. \d+ di \d+$", re.MULTILINE)])
    assert (edited.text, edited.counts["remove"]) == ("Il cuore.", 1)


def test_a_line_of_spaces_takes_linear_time() -> None:
    started = time.monotonic()
    repaired("Asma.\nHome\n" + 20_000 * " ", "navigation")
    assert time.monotonic() - started < 5
