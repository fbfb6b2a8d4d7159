"""Engine that uses a translation memory, and its combination with another engine."""

from __future__ import annotations

from collections.abc import Sequence

from bmtools.io.provenance.licences import combine
from bmtools.io.provenance.manifest import hash_file
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.engines.engine import NOTHING_NEW, Layer, Translation, Translator
from bmtools.translation.settings import EngineConfig

_FINAL = ".!?:;,…" + "".join(filter(str.isspace, map(chr, range(0x3001))))


class MemoryTranslator(Translator):
    """Translator that looks sentences up in a TMX or TSV file.

    White space does not matter. If the exact sentence is missing, case and final punctuation are
    ignored. If a source sentence occurs twice, its first translation is used.

    Args:
        config: settings that name the file.
    """

    def __init__(self, config: EngineConfig) -> None:
        assert config.memory is not None
        super().__init__(config, memory=config.memory.name)
        languages = config.source_lang, config.target_lang
        self.name = "memory"
        self.fingerprint = f"memory {hash_file(config.memory)} {languages}"
        self._exact: dict[str, str] = {}
        self._loose: dict[str, str] = {}
        for sentence, translation in read_pairs(config.memory, *languages):
            self._exact.setdefault(sentence, translation)
            self._loose.setdefault(sentence.rstrip(_FINAL).casefold(), translation)

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Look sentences up."""
        return list(map(self._find, sentences))

    def _find(self, sentence: str) -> Translation:
        found = self._exact.get(sentence)
        bare = sentence.rstrip(_FINAL)
        if found is None and (loose := self._loose.get(bare.casefold())) is not None:
            # Keep the final punctuation and the initial capital of the sentence.
            found = loose.rstrip(_FINAL) + sentence[len(bare):]
            found = found[:1].upper() + found[1:] if sentence[:1].isupper() else found
        if found is not None:
            return Translation(found, engine=self.name)
        return Translation("", fault=f"not in {self.config.memory}; add it there")


class MemoryFirst(Layer):
    """Translator that uses a memory, and an engine for sentences that the memory does not contain.

    If the first attempt at a sentence used the memory, the second attempt is the engine's first.
    Otherwise the last attempt has no new settings.

    Args:
        memory: translator that returns a fault for sentences that it does not contain.
        engine: translator for those sentences.
    """

    def __init__(self, memory: Translator, engine: Translator) -> None:
        super().__init__(engine, memory.fingerprint)
        self._memory = memory
        self.details = {**engine.details, **memory.details}
        self.licence = combine(engine.licence, memory.licence)
        self.attempts += 1

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences with the memory, and the missing ones with the engine."""
        found = self._memory.translate(sentences)
        is_known = [not one.fault for one in found]
        self.own_counts["memory"] += 0 if attempt else sum(is_known)
        for known in (True, False):
            numbers = [number for number, one in enumerate(is_known) if one is known]
            if attempt == self.engine.attempts and not known:
                others = [NOTHING_NEW] * len(numbers)
            elif numbers and attempt >= known:
                others = self.engine.translate([sentences[one] for one in numbers],
                                               attempt - known)
            else:
                continue
            for number, other in zip(numbers, others, strict=True):
                found[number] = other
        return found
