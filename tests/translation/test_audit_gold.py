"""Audit of human translations, and of copies with errors that could harm patients."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.translation.audit import Auditor

DATA = Path(__file__).parents[3] / "shared" / "data" / "parallel"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="needs the parallel sets of shared/data")
_DOSE = re.compile(r"(?<![\w.,])(?<!\d[.,] )(\d+)(?:([.,])(\d+))?(?![.,]\s?\d)"
                   r"(?=\s?(?:mg|ml|g|kg|%|mm\s?Hg|µg|UI|cm)\b)")
_CONCORD = {"it": "", "fr": r"pas|jamais|rien|aucune?|ni|plus"}
_NEGATION = {"it": r"non|senza|nessun[oa]?|mai", "fr": r"sans|ne|n(?=['\u2019])"}
_NEGATED = re.compile(r"\b(?:no|not|never|none|neither|without|cannot)\b|n't\b", re.IGNORECASE)
_TURNED = str.maketrans("<>≤≥", "><≥≤")
_TIMES = {"it": [("ore", "giorni"), ("giorni", "ore"), ("settimane", "giorni"), ("mesi", "anni")],
          "fr": [("heures", "jours"), ("jours", "heures"), ("semaines", "jours"), ("mois", "ans")]}
Damage = Callable[[str, str, random.Random], str | None]


def _sentences(path: Path) -> list[str]:
    """Join the tokens of each sentence in a file with CoNLL columns."""
    blocks = path.read_text(encoding="utf-8").split("\n\n")
    return [" ".join(re.split(r"[ \t]", line)[0] for line in block.splitlines() if line.strip())
            for block in blocks if block.strip()]


def _pairs(name: str) -> tuple[str, list[tuple[str, str]]]:
    if name == "wmt":
        files = sorted((DATA / "wmt-medline-en-fr").glob("*.en"))
        sides = [[line for file in files for line in
                  file.with_suffix(f".{side}").read_text(encoding="utf-8").splitlines()]
                 for side in ("en", "fr")]
        return "fr", list(zip(*sides, strict=True))
    if name == "abstrct":
        files = [(DATA / "abstrct-en-it" / f"{part}.en.tsv",
                  DATA / "abstrct-en-it" / f"{part}.it.tsv")
                 for part in ("glaucoma-test", "neoplasm-dev", "neoplasm-test")]
    else:
        files = [(DATA / "casimedicos-arg" / "EN" / f"{part}.tsv",
                  DATA / "casimedicos-arg" / "IT" / f"{part}.tsv") for part in ("dev", "test")]
    return "it", [pair for both in files for pair in zip(*map(_sentences, both), strict=True)]


def tenfold(text: str, _language: str, choice: random.Random) -> str | None:
    """Multiply a number before a unit by ten."""
    doses = [dose for dose in _DOSE.finditer(text) if dose[0].strip("0.,")]
    if not doses:
        return None
    dose = choice.choice(doses)
    whole, sign, part = dose.groups()
    figures = f"{whole}{part[0]}{sign}{part[1:]}".rstrip(".,") if part else f"{whole}0"
    figures = re.sub(r"^0+(?=\d)", "", figures)
    return text[:dose.start()] + figures + text[dose.end():]


def positive(text: str, language: str, choice: random.Random) -> str | None:
    """Remove a negation; in Italian the first one, on which further negations depend."""
    found = list(re.finditer(rf"(?<!\w)(?:{_NEGATION[language]})(?!\w)", text, re.IGNORECASE))
    if not found:
        return None
    one = found[0] if language == "it" else choice.choice(found)
    rest = text[one.end():].lstrip("'\u2019")
    if one[0].lower() in ("ne", "n"):
        rest = re.sub(rf"\b(?:{_CONCORD[language]})\b\s?", "", rest, count=1)
    return text[:one.start()] + rest


def turned(text: str, _language: str, _choice: random.Random) -> str | None:
    """Exchange above and below at a number."""
    sign = re.search(r"[<>≤≥](?=\s?=?\s?\d)", text)
    return sign and text[:sign.start()] + sign[0].translate(_TURNED) + text[sign.end():]


def exchanged(text: str, _language: str, choice: random.Random) -> str | None:
    """Exchange two different numbers."""
    found = list(re.finditer(r"\d+(?:[.,]\d+)*", text))
    pairs = [(first, second) for first in found for second in found
             if first.start() < second.start() and first[0] != second[0]]
    if not pairs:
        return None
    first, second = choice.choice(pairs)
    return (text[:first.start()] + second[0] + text[first.end():second.start()] + first[0]
            + text[second.end():])


def later(text: str, language: str, _choice: random.Random) -> str | None:
    """Replace a unit of time, such as hours by days."""
    for own, other in _TIMES[language]:
        found = re.search(rf"(?<=\d )\b{own}\b", text)
        if found:
            return text[:found.start()] + other + text[found.end():]
    return None


DAMAGES: dict[Damage, str] = {tenfold: "numbers", positive: "negations", turned: "comparisons",
                              exchanged: "numbers", later: "units"}


def measure(name: str) -> dict[str, tuple[int, int]]:
    """Count flagged translations by check, and flagged damaged translations, with the totals."""
    language, pairs = _pairs(name)
    auditor, choice = Auditor("en", language, tuple({*DAMAGES.values()})), random.Random(0)
    counts = {check: [0, 0] for check in (*auditor.checks, *(one.__name__ for one in DAMAGES))}
    for source, target in pairs:
        before = auditor.faults(source, target)
        for check in auditor.checks:
            counts[check][0] += check in before
            counts[check][1] += 1
        for damage, check in DAMAGES.items():
            text = damage(target, language, choice)
            if damage is positive and not _NEGATED.search(source):
                continue
            if text and check not in before:
                counts[damage.__name__][0] += check in auditor.faults(source, text)
                counts[damage.__name__][1] += 1
    return {key: (found, of) for key, (found, of) in counts.items()}


@pytest.mark.parametrize(("name", "flagged", "negations"), [
    ("abstrct", 0.018, 0.94), ("casimedicos", 0.006, 0.88), ("wmt", 0.02, 0.86)])
def test_harmful_errors_are_found_and_human_translations_pass(name: str, flagged: float,
                                                              negations: float) -> None:
    """Most of the flagged numbers are in fact missing; see docs/translation.md."""
    shares = {key: found / of for key, (found, of) in measure(name).items()}
    assert shares["tenfold"] >= 0.99 and shares["turned"] == 1
    assert shares["positive"] >= negations
    assert shares["exchanged"] >= 0.75 and shares["later"] >= 0.9
    assert shares["numbers"] <= flagged
    assert max(shares[key] for key in ("units", "comparisons", "negations")) <= 0.01


if __name__ == "__main__":
    for name in ("abstrct", "casimedicos", "wmt"):
        print(name, {key: f"{found} of {of}, {found / of:.2%}"
                     for key, (found, of) in measure(name).items()})
