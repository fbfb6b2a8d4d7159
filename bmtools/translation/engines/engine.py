"""Interface of the translation engines, and of the layers around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from bmtools.translation.settings import EngineConfig

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


class Translator(Protocol):
    """Engine that turns sentences into sentences, one for one and in order.

    Attributes:
        name: the engine, as the setting `engine` spells it.
        details: further facts about the origin of a translation.
        licence: of the model or memory, where it is known; an empty string where it is not.
        fingerprint: text that differs wherever translations might: engine, files, settings.
        marks_unknown: the engine reports words that it does not know.
        batch_sentences: sentences that make a call worth its cost.
        attempts: different settings that can be tried on a sentence; 1 where a second attempt
            would give the same again.
        counts: what the engine did so far, by the keys of `bmtools.translation.counts.COUNTED`.
    """

    name: str
    details: dict[str, str]
    licence: str
    fingerprint: str
    marks_unknown: bool
    batch_sentences: int
    attempts: int

    @property
    def counts(self) -> Counter[str]: ...

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, each without line breaks or control characters.

        Args:
            sentences: in the source language.
            attempt: number of the settings, from 0 to below `attempts`.

        Returns:
            a translation of each; `NOTHING_NEW` where an earlier attempt had the same settings.
        """
        ...


@runtime_checkable
class BatchTranslator(Translator, Protocol):
    """Translator that works on several batches at a time.

    Attributes:
        ahead: batches that can be under way, beside the one that is waited for.
    """

    @property
    def ahead(self) -> int: ...

    def submit(self, sentences: Sequence[str]) -> Callable[[], list[Translation]]:
        """Begin a batch, and return a function that waits for its translations."""
        ...

    def close(self) -> None:
        """Leave the machines that translate."""
        ...


def plain_line(text: str) -> str:
    """Turn white space and control characters into single spaces, as engines take sentences."""
    return _BLANK.sub(" ", text).strip()


def translate_all(translator: Translator, sentences: Iterable[str]) -> dict[str, str]:
    """Translate sentences, each different one once; one with a fault becomes empty."""
    different = list(dict.fromkeys(sentences))
    plain, size = list(map(plain_line, different)), translator.batch_sentences
    found = [one.text for start in range(0, len(plain), size)
             for one in translator.translate(plain[start:start + size])]
    return dict(zip(different, found, strict=True))


class PlainTranslator:
    """Base of engines: the facts that most of them have in common.

    Args:
        config: engine, languages and resources.
        details: further facts about the origin of a translation.
    """

    marks_unknown = False
    batch_sentences = 2000
    attempts = 1
    licence = ""

    def __init__(self, config: EngineConfig, **details: str) -> None:
        self.config = config
        self.name: str = config.engine
        self.details = details
        self.counts: Counter[str] = Counter()


class Layer:
    """Translator that adds something to another one; this much adds nothing.

    Args:
        engine: that translates.
        settings: of the layer, for the fingerprint.
    """

    def __init__(self, engine: Translator, settings: str) -> None:
        self.engine = engine
        self.own_counts: Counter[str] = Counter()
        self.name = engine.name
        self.details = engine.details
        self.licence = engine.licence
        self.fingerprint = f"{engine.fingerprint}, {type(self).__name__} {settings}"
        self.marks_unknown = engine.marks_unknown
        self.batch_sentences = engine.batch_sentences
        self.attempts = engine.attempts

    @property
    def counts(self) -> Counter[str]:
        return self.own_counts + self.engine.counts

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences; see `Translator`."""
        return self.engine.translate(sentences, attempt)
