"""What is done to characters before words are split."""

from __future__ import annotations

import unicodedata
from typing import Any

from tokenizers import Regex, normalizers

from bmtools.vocab.settings import VocabularyConfig

_FIRST, _LAST = 0x3B1, 0x3C9  # alpha to omega, a sigma at the end of words among them
_VARIANTS = {"\u03d1": "theta", "\u03d5": "phi", "\u03f0": "kappa", "\u03f1": "rho",
             "\u03f5": "epsilon"}


def _greek() -> dict[str, str]:
    names = dict(_VARIANTS)
    for letter in map(chr, range(_FIRST, _LAST + 1)):
        name = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
        names[letter] = name
        names[letter.upper()] = name.capitalize()
    return names


GREEK = _greek()
"""Greek letters and their names; a capital letter has a capital name."""
MICRO = "[\u00b5\u03bc](?=[A-Za-z])"
"""The micro sign, or the letter that stands for it, before a unit."""
SPACES = r"\s+"
_FORMS = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}


def bert_normalizer(settings: VocabularyConfig) -> Any:
    """BERT's own step, behind those that it lacks; alone where none is asked for."""
    own = normalizers.BertNormalizer(
        lowercase=settings.uncased, strip_accents=settings.strip_accents)
    before = _first_steps(settings)
    return normalizers.Sequence([*before, own]) if before else own


def plain_normalizer(settings: VocabularyConfig, join_spaces: bool) -> Any:
    """Unicode form, Greek, case and accents, in this order; None where nothing is asked for.

    Accents can only be dropped once they are apart from their letters; what is left of them
    (Korean syllables, say) is joined again.

    Args:
        settings: what is asked for.
        join_spaces: make one space of each run of white space, and none at the end: for kinds
            that have no tokens for tabs and ends of lines.
    """
    steps = _first_steps(settings)
    if join_spaces:
        steps += [normalizers.Replace(Regex(SPACES), " "),
                  normalizers.Strip(left=False, right=True)]
    if settings.uncased:
        steps.append(normalizers.Lowercase())
    if settings.strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    return normalizers.Sequence(steps) if steps else None


def _first_steps(settings: VocabularyConfig) -> list[Any]:
    steps = [_FORMS[settings.unicode]()] if settings.unicode in _FORMS else []
    if settings.spell_greek:
        steps.append(normalizers.Replace(Regex(MICRO), "u"))
        steps += [normalizers.Replace(letter, name) for letter, name in GREEK.items()]
    return steps
