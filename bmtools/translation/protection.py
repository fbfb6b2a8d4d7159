"""Protection of terms: placeholders go through the engine in their place, and are put back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.layers import Layer
from bmtools.translation.terms import Term, TermFinder, is_kept

# Apertium keeps both; the first is a footnote to it, the second an unknown word.
PLACEHOLDERS = ("[{}]", "XQ{}X")
LOST = "terms"


class ProtectedTranslator(Layer):
    """Translator that enforces terms where the engine alone does not write them.

    A placeholder has no grammar, so a sentence is translated without first. Where a term is missing
    from that, it is translated with placeholders for such terms, of one form after the other. Where
    that fails, too, the first translation is kept and flagged.

    Args:
        engine: that translates.
        finder: of terms.
        target: language of the translations.
    """

    def __init__(self, engine: Translator, finder: TermFinder, target: str) -> None:
        digest = hashlib.sha256(finder.fingerprint.encode()).hexdigest()
        super().__init__(engine, digest)
        self._finder = finder
        self._target = target

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, those without a term again."""
        found = self.engine.translate(sentences, attempt)
        terms = self._finder.find(sentences)
        self.own_counts["terms"] += sum(map(len, terms))
        missing = {number: lost for number, one in enumerate(terms)
                   if not found[number].fault and (lost := self._lost(one, found[number].text))}
        self.own_counts["terms_enforced"] += len(missing)
        for form in PLACEHOLDERS:
            if not missing:
                break
            masked = [_masked(sentences[number], lost, form) for number, lost in missing.items()]
            tried = self.engine.translate(masked, attempt)
            for (number, lost), other in zip(list(missing.items()), tried, strict=True):
                text = _restored(other.text, lost, form)
                if text and not self._lost(terms[number], text):
                    found[number] = replace(other, text=text)
                    del missing[number]
        self.own_counts["terms_lost"] += sum(map(len, missing.values()))
        for number in missing:
            found[number] = replace(found[number], flags=(*found[number].flags, LOST))
        return found

    def _lost(self, terms: Sequence[Term], text: str) -> list[Term]:
        return [term for term in terms if not is_kept(term, text, self._target)]


def _masked(sentence: str, terms: Sequence[Term], form: str) -> str:
    """Put placeholders in the places of terms."""
    parts, end = [], 0
    for number, term in enumerate(terms):
        parts += [sentence[end:term.start], form.format(number)]
        end = term.end
    return "".join([*parts, sentence[end:]])


def _restored(text: str, terms: Sequence[Term], form: str) -> str:
    """Put terms in the places of their placeholders; nothing where one is lost or comes again."""
    for number, term in reversed(list(enumerate(terms))):
        placeholder = form.format(number)
        if text.lower().count(placeholder.lower()) != 1:
            return ""
        start = text.lower().index(placeholder.lower())
        text = text[:start] + term.target + text[start + len(placeholder):]
    return text
