"""Interface of the translation engines, and of the layers around them."""

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
# Letters and punctuation of these languages, without a space after them.
_UNSPACED_CHARACTER = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\uff01-\uff9f\U00020000-\U0003ffff]")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


@dataclass(frozen=True)
class Translation:
    """Translation of one sentence.

    Args:
        text: the sentence in the other language; nothing where there is a fault.
        unknown: words that the engine knows it left as they were.
        fault: why the sentence could not be translated, with the way out.
        log_probability: nats per token of the translation, its end included; None where the
            engine has no probabilities.
        flags: what is doubtful about it, in words of a key: fuzzy-match, numbers-lost.
        engine: the engine or memory that gave it.
    """

    text: str
    unknown: int = 0
    fault: str = ""
    log_probability: float | None = None
    flags: tuple[str, ...] = ()
    engine: str = ""


NOTHING_NEW = Translation("", fault="there are no other settings to try")
"""Answer to a further attempt at a sentence that would have the settings of an earlier one."""


class Translator:
    """Engine that turns sentences into sentences, one for one and in order.

    Args:
        config: engine, languages and resources.
        details: further facts about the origin of a translation.

    Attributes:
        name: the engine, as the setting `engine` spells it.
        licence: of the model or memory, where it is known; an empty string where it is not.
        fingerprint: text that differs wherever translations might: engine, files, settings.
        marks_unknown: the engine reports words that it does not know.
        batch_sentences: sentences that make a call worth its cost.
        attempts: different settings that can be tried on a sentence; 1 where a second attempt
            would give the same again.
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
        """What the engine did so far, by the keys of `bmtools.translation.counts.COUNTED`."""
        return self.own_counts

    @property
    def ahead(self) -> int:
        """Batches that can be under way, beside the one that is waited for."""
        return 0

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters.

        Args:
            sentences: in the source language.
            attempt: number of the settings, from 0 to below `attempts`.

        Returns:
            a translation of each; `NOTHING_NEW` where an earlier attempt had the same settings.
        """
        raise NotImplementedError

    def submit(self, sentences: Sequence[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        return partial(self.translate, sentences)

    def close(self) -> None:
        """Leave the machines that translate."""


FACTS = tuple(Translator.__annotations__)
"""Attributes that say what a translator is."""


class Layer(Translator):
    """Translator that adds something to another one.

    Args:
        engine: that translates.
        settings: of the layer, for the fingerprint.
    """

    def __init__(self, engine: Translator, settings: str) -> None:
        vars(self).update({name: getattr(engine, name) for name in FACTS})
        self.engine = engine
        self.own_counts = Counter[str]()
        self.fingerprint += f", {type(self).__name__} {settings}"

    @property
    def counts(self) -> Counter[str]:
        """Those of the layer, and of the engine in it."""
        return self.own_counts + self.engine.counts


def plain_line(text: str) -> str:
    """Turn white space and control characters into single spaces, as engines take sentences."""
    return _BLANK.sub(" ", text).strip()


def space_between(text: str, end: int, start: int, language: str) -> str:
    """Return what separates the translations of two stretches of a text.

    It is the white space between them, or a space where the script of the text needs none and the
    language of the translations does, as from Chinese to English.

    Args:
        text: in the source language.
        end: of the first stretch.
        start: of the second one.
        language: of the translations.
    """
    borders = text[end - 1:end] + text[start:start + 1]
    if text[end:start].strip("\u3000") or primary_language(language) in UNSPACED:
        return text[end:start]
    return " " if end < start or _UNSPACED_CHARACTER.search(borders) else ""


def translate_all(translator: Translator, sentences: Iterable[str]) -> dict[str, str]:
    """Translate sentences, each different one once; one with a fault becomes empty."""
    different = list(dict.fromkeys(sentences))
    plain, size = list(map(plain_line, different)), translator.batch_sentences
    found = [one.text for start in range(0, len(plain), size)
             for one in translator.translate(plain[start:start + size])]
    return dict(zip(different, found, strict=True))
