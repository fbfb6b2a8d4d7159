"""Interface of the translation engines and of the layers around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bmtools.text.languages import primary_language
from bmtools.translation.settings import EngineConfig

UNSPACED = frozenset(("zh", "ja", "th", "lo", "my", "km"))
"""Languages without spaces between words."""
# Letters and punctuation of these languages, which no space follows.
_UNSPACED_CHARACTER = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\uff01-\uff9f\U00020000-\U0003ffff]")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Translation:
    """Translation of one sentence.

    Args:
        text: the sentence in the other language; empty if there is a fault.
        unknown: number of words that the engine reports as unknown and left untranslated.
        fault: why the sentence could not be translated, and the fix.
        log_probability: nats per token of the translation, including its end; None if the engine
            has no probabilities.
        flags: names of the doubts about the translation, such as numbers.
        engine: name of the engine or memory that made the translation.
    """

    text: str
    unknown: int = 0
    fault: str = ""
    log_probability: float | None = None
    flags: tuple[str, ...] = ()
    engine: str = ""


NOTHING_NEW = Translation("", fault="there are no other settings to try")
"""Result of an attempt at a sentence that would repeat the settings of an earlier attempt."""


class Translator:
    """Engine that translates sentences one to one and keeps their order.

    Args:
        config: engine, languages and resources.
        details: further facts about the origin of a translation.

    Attributes:
        name: name of the engine, as in the setting `engine`.
        licence: licence of the model or memory; empty if it is not known.
        fingerprint: text that differs whenever translations might: engine, files and settings.
        marks_unknown: whether the engine reports unknown words.
        batch_sentences: number of sentences that makes a call efficient.
        attempts: number of different settings to try on a sentence; 1 if a second attempt would
            return the same translation.
    """

    name: str
    details: dict[str, str]
    licence: str = ""
    fingerprint: str
    marks_unknown: bool = False
    batch_sentences: int = 2000
    attempts: int = 1

    def __init__(self, config: EngineConfig, **details: str) -> None:
        self.config = config
        self.name, self.details = config.engine, details
        self.own_counts = Counter[str]()

    @property
    def counts(self) -> Counter[str]:
        """Counts so far, with the keys of `bmtools.translation.counts.COUNTED`."""
        return self.own_counts

    @property
    def ahead(self) -> int:
        """Number of batches that can be translated in addition to the one that is waited for."""
        return 0

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters.

        Args:
            sentences: in the source language.
            attempt: number of the settings, from 0 to `attempts` - 1.

        Returns:
            a translation of each sentence; `NOTHING_NEW` if an earlier attempt had the same
            settings.
        """
        raise NotImplementedError

    def submit(self, sentences: Sequence[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        return partial(self.translate, sentences)

    def close(self) -> None:
        """Leave the cluster, if the engine uses one."""


FACTS = tuple(Translator.__annotations__)
"""Attributes that describe a translator."""


class Layer(Translator):
    """Translator that adds a function to another translator.

    Args:
        engine: translator inside this layer.
        settings: settings of the layer, for the fingerprint.
    """

    def __init__(self, engine: Translator, settings: str) -> None:
        vars(self).update({name: getattr(engine, name) for name in FACTS})
        self.engine = engine
        self.own_counts = Counter[str]()
        self.fingerprint += f", {type(self).__name__} {settings}"

    @property
    def counts(self) -> Counter[str]:
        """Counts of the layer and of the engine inside it."""
        return self.own_counts + self.engine.counts


def plain_line(text: str) -> str:
    """Replace white space and control characters by single spaces, as engines require."""
    return _BLANK.sub(" ", text).strip()


def space_between(text: str, end: int, start: int, language: str) -> str:
    """Return the separator between the translations of two parts in a text.

    The separator is the white space between the parts. A space is added if only the language of the
    translations uses spaces, as from Chinese to English.

    Args:
        text: text in the source language.
        end: end of the first part.
        start: start of the second part.
        language: language of the translations.
    """
    borders = text[end - 1:end] + text[start:start + 1]
    if text[end:start].strip("\u3000") or primary_language(language) in UNSPACED:
        return text[end:start]
    return " " if end < start or _UNSPACED_CHARACTER.search(borders) else ""


def translate_all(translator: Translator, sentences: Iterable[str]) -> dict[str, str]:
    """Translate each different sentence once; a sentence with a fault becomes empty."""
    different = list(dict.fromkeys(sentences))
    plain, size = list(map(plain_line, different)), translator.batch_sentences
    found = [one.text for start in range(0, len(plain), size)
             for one in translator.translate(plain[start:start + size])]
    return dict(zip(different, found, strict=True))
