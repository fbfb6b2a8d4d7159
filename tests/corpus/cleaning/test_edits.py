"""Edits of a text, and the offsets that move with it."""

from __future__ import annotations

import random
import re

from bmtools.corpus.cleaning.edits import EditedText


def test_borders_before_behind_and_within_edits() -> None:
    edited = EditedText("ab--cd++ef")
    edited.substitute("rule", re.compile(r"--"), "")
    edited.substitute("rule", re.compile(r"\+\+"), "[PLUS]")
    assert edited.text == "abcd[PLUS]ef"
    assert edited.counts == {"rule": 2}
    assert edited.moved(0, 2) == (0, 2, False)
    assert edited.moved(4, 6) == (2, 4, False)
    assert edited.moved(6, 8) == (4, 10, False)
    assert edited.moved(8, 10) == (10, 12, False)
    assert edited.moved(2, 4) == (2, 2, False)
    assert edited.moved(3, 6) == (2, 4, True)
    assert edited.moved(4, 7) == (2, 4, True)


def test_what_stays_alike_at_the_ends_of_a_match_is_no_edit() -> None:
    edited = EditedText("(perche,) e")
    edited.substitute("rule", re.compile(r"\S*e\S*"), lambda found: found[0].replace("e,", "é,"))
    assert edited.text == "(perché,) e"
    assert edited.counts == {"rule": 1}
    assert edited.moved(1, 7) == (1, 7, False)


def test_every_character_that_is_left_keeps_its_place() -> None:
    """A brute-force twin: each character is unique, so it is found where the offsets say."""
    rng = random.Random(0)
    for _ in range(200):
        text = "".join(map(chr, rng.sample(range(0x4e00, 0x9000), 30)))
        edited = EditedText(text)
        for _ in range(rng.randint(1, 4)):
            chosen = rng.sample(edited.text, min(len(edited.text), rng.randint(1, 5)))
            edited.substitute("rule", re.compile("[" + "".join(chosen) + "]+"),
                              rng.choice(["", "x", "yz"]))
        for number, sign in enumerate(text):
            start, end, is_cut = edited.moved(number, number + 1)
            if sign in edited.text:
                assert (edited.text[start:end], is_cut) == (sign, False)
