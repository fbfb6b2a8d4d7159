"""Round trips: a sample of translations is translated back and compared with its source."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.layers import Layer

_STEPS = 1 << 64


class RoundTripTranslator(Layer):
    """Translator that also measures chrF of sentences against their back translations.

    Whether a sentence is in the sample depends on its words alone.

    Args:
        engine: that translates.
        reverse: that translates back.
        share: of the sentences, 0 to 1.
    """

    def __init__(self, engine: Translator, reverse: Translator, share: float) -> None:
        from sacrebleu.metrics import CHRF

        super().__init__(engine, f"{share} {reverse.fingerprint}")
        self._reverse = reverse
        self._share = share
        self._metric = CHRF()

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, and those of the sample back again."""
        found = self.engine.translate(sentences, attempt)
        sample = [number for number, sentence in enumerate(sentences)
                  if not found[number].fault and _draw(sentence) < self._share]
        if sample:
            back = self._reverse.translate([found[number].text for number in sample])
            for number, one in zip(sample, back, strict=True):
                score = self._metric.sentence_score(one.text, [sentences[number]]).score
                found[number] = replace(found[number], round_trip=round(float(score), 2))
        return found


def _draw(sentence: str) -> float:
    digest = hashlib.blake2b(sentence.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / _STEPS
