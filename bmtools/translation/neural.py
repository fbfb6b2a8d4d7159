"""Neural engines: sentences that fit the model, translations that end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from bmtools.errors import setting
from bmtools.translation.settings import ModelConfig
from bmtools.translation.subwords import Subwords
from bmtools.translation.translator import Translation


class NeuralTranslator(ABC):
    """Translator with a sequence-to-sequence model.

    Nothing is truncated silently: a sentence that is longer than the model takes has a fault,
    and so has a translation that had not ended when it was much longer than its source.
    """

    name: str
    marks_unknown = False
    batch_sentences = 256

    def __init__(self, settings: ModelConfig, source: str, target: str) -> None:
        self.settings = settings
        self.details = {"model": settings.model.resolve().name}
        self.subwords = Subwords(settings, source, target)

    @abstractmethod
    def generate(self, sources: Sequence[list[str]], longest: int) -> list[list[str]]:
        """Translate tokens into at most `longest` tokens."""

    def translate(self, sentences: Sequence[str]) -> list[Translation]:
        """Translate the sentences that fit the model."""
        sources = [self.subwords.encode(sentence) for sentence in sentences]
        limit = self.subwords.max_length
        fitting = [source for source in sources if len(source) <= limit]
        longest = max((longest_translation(len(source)) for source in fitting), default=0)
        # The decoder's start takes room too.
        longest = min(longest, (self.subwords.positions or longest + 2) - 2)
        generated = iter(self.generate(fitting, longest) if fitting else ())
        return [self._translation(next(generated)) if len(source) <= limit else
                Translation("", fault=f"it has {len(source)} tokens, the model takes {limit}")
                for source in sources]

    def _translation(self, tokens: list[str]) -> Translation:
        if not self.subwords.ends(tokens):
            return Translation("", fault="the model does not find an end; try another "
                                         f"{setting('beam_size')}")
        return Translation(self.subwords.decode(tokens))


def longest_translation(source_tokens: int) -> int:
    """Return the tokens after which a translation is a loop; some pairs of languages need twice."""
    return 3 * source_tokens + 20
