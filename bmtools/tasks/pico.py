"""PICO: the words of a trial's abstract that name participants, interventions and outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from bmtools.records import JsonObject
from bmtools.tasks.metrics.spans import Typed, find_words, score_words, words_in
from bmtools.tasks.ner import NerTask, TaggedText
from bmtools.tasks.settings import PicoConfig


class PicoTask(NerTask):
    """Tagging of elements of evidence whose scores are those of words.

    Source: Nye et al. 2018 (EBM-NLP); Gu et al. 2021, section 4.2 (BLURB).
    """

    config: PicoConfig
    config_class = PicoConfig
    metrics: tuple[str, ...] = ("macro_f1",)

    def score_entities(self, examples: Sequence[TaggedText], predicted: Sequence[Sequence[Typed]],
                       ) -> tuple[JsonObject, JsonObject]:
        """Score the words between white space that entities touch, each as often as its types."""
        gold, found = set(), set()
        for number, (example, spans) in enumerate(zip(examples, predicted, strict=True)):
            words = find_words(example.text)
            gold |= {(number, *word) for word in words_in(words, example.gold)}
            found |= {(number, *word) for word in words_in(words, spans)}
        scores, by_type = score_words(gold, found)
        return scores, {"by_type": by_type}
