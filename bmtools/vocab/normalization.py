"""Normalizers of new tokenizers: Unicode form, Greek letters, case and accents."""

from __future__ import annotations

import unicodedata

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer

from bmtools.vocab.settings import VocabularyConfig

_ALPHA, _OMEGA = 0x3B1, 0x3C9  # with the final sigma between them
_VARIANTS = {"\u03d1": "theta", "\u03d5": "phi", "\u03f0": "kappa", "\u03f1": "rho",
             "\u03f5": "epsilon"}


def _greek() -> dict[str, str]:
    names = dict(_VARIANTS)
    for letter in map(chr, range(_ALPHA, _OMEGA + 1)):
        name = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
        names[letter] = name
        names[letter.upper()] = name.capitalize()
    return names


GREEK = _greek()
"""Greek letters and their names; a capital letter has a capital name."""
MICRO = "[\u00b5\u03bc](?=[A-Za-z])"
"""The micro sign, or the letter used for it, before a unit."""
SPACES = r"\s+"
_FORMS = {"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}


def bert_normalizer(config: VocabularyConfig) -> Normalizer:
    """Return BERT's own normalizer, after the steps that it lacks."""
    bert = normalizers.BertNormalizer(
        lowercase=config.uncased, strip_accents=config.strip_accents)
    before = _unicode_steps(config)
    return normalizers.Sequence([*before, bert]) if before else bert


def plain_normalizer(config: VocabularyConfig, collapse_spaces: bool) -> Normalizer | None:
    """Return Unicode form, Greek, case and accents, in this order; None without any of them.

    Accents can only be dropped once they are apart from their letters; what is left of them
    (Korean syllables, say) is joined again.

    Args:
        config: the steps to take.
        collapse_spaces: make one space of each run of white space, and none at the end: for
            tokenizer types that have no tokens for tabs and ends of lines.
    """
    steps = _unicode_steps(config)
    if collapse_spaces:
        steps += [normalizers.Replace(Regex(SPACES), " "),
                  normalizers.Strip(left=False, right=True)]
    if config.uncased:
        steps.append(normalizers.Lowercase())
    if config.strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    return normalizers.Sequence(steps) if steps else None


def _unicode_steps(config: VocabularyConfig) -> list[Normalizer]:
    steps: list[Normalizer] = [_FORMS[config.unicode]()] if config.unicode in _FORMS else []
    if config.spell_greek:
        steps.append(normalizers.Replace(Regex(MICRO), "u"))
        steps += [normalizers.Replace(letter, name) for letter, name in GREEK.items()]
    return steps
