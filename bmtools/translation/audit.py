"""Audit of translations: faults that a comparison with the source shows, without a reference.

The thresholds come from 7,714 sentence pairs: WMT's biomedical test sets (English and French),
CasiMedicos and AbstRCT (English and Italian). Each check flags less than 1 % of the human
translations. Only `numbers` flags up to 1.9 %, and most of these do miss a number.
docs/translation.md shows the values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib import util

from bmtools.text.languages import load_identifier, primary_language
from bmtools.translation.engines.engine import NOTHING_NEW, Layer, Translation, Translator
from bmtools.translation.negations import lacks_negation
from bmtools.translation.quantities import (
    are_reordered,
    has_turned_comparisons,
    have_other_times,
    lost_numbers,
    lost_units,
)
from bmtools.translation.settings import CHECKS

# Median length in characters relative to English in the sets above; for other languages the mean.
_LENGTHS = {"en": 1.0, "fr": 1.18, "it": 1.11}
_OTHER_LENGTH = 1.15
_SLACK = 15  # difference in characters that is normal in a short sentence
_SHORTEST, _LONGEST = 0.64, 1.6
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_LETTERS_OF_IDEOGRAPH = 2.5
# Words; single characters in scripts without spaces between words.
_TOKEN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u4e00-\u9fff]"
                    r"|[^\W\d_]+")
_STUTTER = re.compile(r"([^\W\d_]{1,4}?)\1{5,}")
_LONGEST_LOOP = 5  # tokens
_LEAST_RUNS = 4
_COPIED_SHARE = 0.5
_COPYABLE = re.compile(r"\b[^\W\d_]{4,}\b")
_LEAST_COPYABLE = 4
_ENOUGH_LETTERS = 40
_UNLIKELY = 0.02
_SIGN = re.compile(r"\w")
_FAILED = ("failed",)  # the engine reported a fault


class Auditor:
    """Check that compares translations with their sources.

    Args:
        source: language of the sentences, ISO 639-1.
        target: language of the translations.
        checks: names from `CHECKS`.
    """

    def __init__(self, source: str, target: str, checks: Sequence[str] = tuple(CHECKS)) -> None:
        self.checks = tuple(checks)
        self._languages = source, target
        own, other = (_LENGTHS.get(primary_language(one), _OTHER_LENGTH)
                      for one in (source, target))
        self._expansion = other / own
        self._knows_languages = "language" in checks and bool(util.find_spec("py3langid"))

    def faults(self, sentence: str, text: str) -> tuple[str, ...]:
        """Name the faults of a translation; an empty translation has only the fault "empty"."""
        if "empty" in self.checks and _SIGN.search(sentence) and not _SIGN.search(text):
            return ("empty",)
        (source, target), both = self._languages, (sentence, text)
        ratio = _ratio(sentence, text, self._expansion)
        found = {"short": ratio < _SHORTEST, "long": ratio > _LONGEST,
                 "looping": is_looping(*both), "copied": is_copied(*both),
                 "language": self._knows_languages and is_in_another_language(text, target),
                 "numbers": lost_numbers(*both, target) or lost_numbers(text, sentence, source)
                 or are_reordered(*both),
                 "units": lost_units(*both, source, target)
                 or have_other_times(*both, source, target),
                 "comparisons": has_turned_comparisons(*both),
                 "negations": lacks_negation(*both, source, target)}
        return tuple(name for name, fault in found.items() if fault and name in self.checks)

    def all_faults(self, sentences: Sequence[str],
                   translations: Sequence[Translation]) -> list[tuple[str, ...]]:
        """Name the faults of each translation, in order."""
        return [_FAILED if one.fault else self.faults(sentence, one.text)
                for sentence, one in zip(sentences, translations, strict=True)]


def _ratio(sentence: str, text: str, expansion: float) -> float:
    """Compare lengths: usually near 1, and always near 1 for short sentences."""
    before, after = (len(one) + (_LETTERS_OF_IDEOGRAPH - 1) * len(_IDEOGRAPH.findall(one))
                     for one in (sentence, text))
    return (after + _SLACK) / (before * expansion + _SLACK)


def is_looping(sentence: str, text: str) -> bool:
    """Return whether the translation repeats words and the source does not."""
    if _STUTTER.search(text) and not _STUTTER.search(sentence):
        return True
    before, after = (_TOKEN.findall(one.casefold()) for one in (sentence, text))
    return _runs(after) >= max(_LEAST_RUNS, 2 * _runs(before)) or (
        _has_triple(after) and not _has_triple(before))


def _runs(tokens: list[str]) -> int:
    """Count the most frequent sequence of three tokens."""
    return max(Counter(zip(tokens, tokens[1:], tokens[2:], strict=False)).values(), default=0)


def _has_triple(tokens: list[str]) -> bool:
    """Return whether a sequence of one to five tokens occurs three times in a row."""
    for length in range(1, _LONGEST_LOOP + 1):
        streak = 0
        for first, second in zip(tokens, tokens[length:], strict=False):
            streak = streak + 1 if first == second else 0
            if streak == 2 * length:
                return True
    return False


def is_copied(sentence: str, text: str) -> bool:
    """Return whether the translation contains at least half of the source's words.

    Words with capitals and words of less than four letters do not count, because they may be names.
    """
    words = [word for word in _COPYABLE.findall(sentence) if word.islower()]
    kept = set(_COPYABLE.findall(text))
    return len(words) >= _LEAST_COPYABLE and \
        sum(word in kept for word in words) >= _COPIED_SHARE * len(words)


def is_in_another_language(text: str, language: str) -> bool:
    """Return whether a text is in another language according to py3langid; False if unknown.

    Among 11,847 clinical sentences of at least 40 letters in English, French and Italian, one has a
    probability below 0.02 for its own language. Shorter sentences are not checked, because Latin
    names mislead py3langid.
    """
    language = {"nb": "no"}.get(primary_language(language), primary_language(language))
    identifier = load_identifier()
    return language in identifier.labels and sum(map(str.isalpha, text)) >= _ENOUGH_LETTERS \
        and bool(dict(identifier.rank(text))[language] < _UNLIKELY)


class AuditedTranslator(Layer):
    """Translator that checks translations and tries again if they have faults.

    Of all attempts at a sentence, the attempt with the fewest faults is kept; among equals, the
    attempt with the highest log-probability. Its faults are added to its flags.

    Args:
        engine: engine that translates.
        auditor: checks the translations.
    """

    def __init__(self, engine: Translator, auditor: Auditor) -> None:
        super().__init__(engine, f"{auditor.checks}")
        self._auditor = auditor

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences with the settings of this attempt, then with further settings."""
        best = self.engine.translate(sentences, attempt)
        faults = self._auditor.all_faults(sentences, best)
        for further in range(attempt + 1, self.attempts):
            doubtful = [number for number, found in enumerate(faults) if found]
            if not doubtful:
                break
            asked = [sentences[number] for number in doubtful]
            others = self.engine.translate(asked, further)
            if further == attempt + 1:
                self.own_counts["retried"] += sum(other != NOTHING_NEW for other in others)
            for number, other, found in zip(
                    doubtful, others, self._auditor.all_faults(asked, others), strict=True):
                if _rank(other, found) < _rank(best[number], faults[number]):
                    best[number], faults[number] = other, found
            self.own_counts["mended"] += sum(not faults[number] for number in doubtful)
        self.own_counts.update(f"flagged_{name}" for found in faults for name in found
                               if found != _FAILED)
        return [_flagged(*pair) for pair in zip(best, faults, strict=True)]


def _rank(translation: Translation, faults: tuple[str, ...]) -> tuple[bool, int, float]:
    return faults == _FAILED, len(faults), -(translation.log_probability or 0)


def _flagged(translation: Translation, faults: tuple[str, ...]) -> Translation:
    """Add faults to a translation's flags; an empty translation counts as untranslated."""
    if not faults or faults == _FAILED:
        return translation
    fault = "the engine wrote nothing" if "empty" in faults else ""
    return replace(translation, fault=fault, flags=(*translation.flags, *faults))
