"""Neural engines, which translate long sentences clause by clause."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bmtools.errors import setting
from bmtools.io.provenance.licences import combine
from bmtools.io.provenance.manifest import card_licence
from bmtools.text.languages import primary_language
from bmtools.translation.engines.engine import UNSPACED, Translation, Translator, space_between
from bmtools.translation.engines.model_files import Subwords, hash_model
from bmtools.translation.function_words import words_of_all_languages
from bmtools.translation.settings import EngineConfig

_OPENINGS = "|".join(words_of_all_languages("conjunctions", "clauses"))
# Positions for a cut, best first: an end of sentence that the splitter missed, a semicolon, a
# colon, a comma before a conjunction, any comma, white space, anywhere.
_BOUNDARIES = tuple(map(re.compile, (
    r"[.!?]\s+(?=[^\W\d_])|[\u3002\uff01\uff1f]", r"[;\uff1b]\s*", r":\s+|\uff1a",
    rf",\s+(?=(?:{_OPENINGS})\b)", r"[,\uff0c\u3001]\s*(?!\d)", r"\s+", "")))
TYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""Names of data types in torch and CTranslate2, if they differ from the setting's."""
# Settings that change translations, except the directories, whose files are hashed.
_CHOSEN = ("engine", "source_lang", "target_lang", "precision", "beam_size",
           "max_source_tokens")


class Search(NamedTuple):
    """Search for a translation; see `EngineConfig`."""

    beam_size: int
    repetition_penalty: float
    no_repeat_ngram_size: int


class Generated(NamedTuple):
    """Tokens of a translation, and the log-probability per token in nats, if it is known."""

    tokens: list[str]
    log_probability: float | None = None


class NeuralTranslator(Translator):
    """Translator with a sequence-to-sequence model.

    Nothing is truncated silently. A sentence longer than the model accepts has a fault, and so has
    a translation that is much longer than its source and has not ended. Further attempts discourage
    repetition. They also search without sampling, so a sentence's translation does not depend on
    its neighbours.
    """

    batch_sentences = 512
    attempts = 3

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, model=config.directory.resolve().name)
        self.licence = combine(card_licence(config.directory) or card_licence(
            config.tokenizer or config.directory))
        self.subwords = Subwords(config)
        self.files = hash_model(config.directory, config.tokenizer)
        self.fingerprint = " ".join(str(getattr(config, name)) for name in _CHOSEN) + self.files

    def generate(self, sources: Sequence[list[str]], longest: int,
                 search: Search) -> list[Generated]:
        """Translate tokens to at most `longest` tokens."""
        raise NotImplementedError

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences; split sentences that are too long for the model into clauses."""
        clauses = [split_clauses(sentence, self._fits) for sentence in sentences]
        self.counts["split"] += sum(len(parts) > 1 for parts in clauses)
        found = iter(self._translate([part for parts in clauses for part in parts], attempt))
        return [join_clauses(sentence, parts, [next(found) for _ in parts],
                             self.config.target_lang)
                for sentence, parts in zip(sentences, clauses, strict=True)]

    def _fits(self, sentence: str) -> bool:
        limit = self.subwords.max_length
        # A sentence has at most one token per byte, plus a few special tokens.
        return len(sentence.encode()) + 4 <= limit or len(self.subwords.encode(sentence)) <= limit

    def _translate(self, sentences: Sequence[str], attempt: int) -> list[Translation]:
        """Translate the sentences that fit the model."""
        sources = [self.subwords.encode(sentence) for sentence in sentences]
        limit = self.subwords.max_length
        fitting = [source for source in sources if len(source) <= limit]
        # A longer translation is a loop; some language pairs need twice the length of the source.
        longest = 3 * max(map(len, fitting), default=0) + 20
        # The decoder's start token also needs a position.
        longest = min(longest, (self.subwords.positions or longest + 2) - 2)
        generated = iter(self.generate(fitting, longest, self._search(attempt)) if fitting else ())
        translations = []
        for source in sources:
            if len(source) > limit:
                fault = f"it has {len(source)} tokens, the model accepts {limit}"
            elif self.subwords.tokenizer.eos_token in (found := next(generated)).tokens:
                translations.append(Translation(
                    self.subwords.decode(found.tokens), engine=self.name,
                    log_probability=found.log_probability))
                continue
            else:
                fault = f"its translation does not end; try another {setting('beam_size')}"
            translations.append(Translation("", fault=fault))
        return translations

    def _search(self, attempt: int) -> Search:
        """Return the search of an attempt: the user's search, then two that discourage repetition.
        """
        beam_size = self.config.beam_size
        return (Search(beam_size, 1.0, 0), Search(max(beam_size, 5), 1.1, 4),
                Search(1 if beam_size > 1 else 3, 1.2, 3))[attempt]


def split_clauses(sentence: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a sentence until its parts fit, at the best boundary in the middle half of each.

    Args:
        sentence: a sentence of any length.
        fits: returns whether a part is short enough.

    Returns:
        the parts, without the white space between them.
    """
    if len(sentence) < 2 or fits(sentence):
        return [sentence]
    middle = len(sentence) / 2
    for boundary in _BOUNDARIES:
        ends = [found.end() for found in boundary.finditer(
            sentence, len(sentence) // 4, -(-3 * len(sentence) // 4))
            if 0 < found.end() < len(sentence)]
        if ends:
            cut = min(ends, key=lambda end: abs(end - middle))
            return [*split_clauses(sentence[:cut].rstrip(), fits),
                    *split_clauses(sentence[cut:].lstrip(), fits)]
    return [sentence]


def join_clauses(sentence: str, clauses: Sequence[str], translations: Sequence[Translation],
                 language: str) -> Translation:
    """Join the translations of a sentence's parts.

    An engine translates a part like a sentence; the full stop and the capital that it adds are
    removed.

    Args:
        sentence: the complete sentence.
        clauses: its parts, in order.
        translations: translations of the parts; the sentence gets their first fault.
        language: language of the translations, ISO 639-1.
    """
    if len(clauses) == 1:
        return translations[0]
    code = primary_language(language)
    texts = [_as_part(clause, one.text, keeps_capital=not number or code == "de")
             for number, (clause, one) in enumerate(zip(clauses, translations, strict=True))]
    fault = next((one.fault for one in translations if one.fault), "")
    scores = [one.log_probability for one in translations if one.log_probability is not None]
    joined, end = texts[0], len(clauses[0])
    for clause, text in zip(clauses[1:], texts[1:], strict=True):
        start = sentence.index(clause, end)
        joined += ("" if code in UNSPACED else space_between(sentence, end, start, code)) + text
        end = start + len(clause)
    return Translation(
        "" if fault else joined,
        sum(one.unknown for one in translations), fault,
        round(sum(scores) / len(scores), 4) if scores else None, engine=translations[0].engine)


def _as_part(clause: str, text: str, keeps_capital: bool) -> str:
    if text.endswith(".") and clause[-1:] not in ".!?…\u3002\uff01\uff1f":
        text = text[:-1]
    is_plain = clause[:1].islower() and not text[1:2].isupper() and not re.match(r"I\b", text)
    return text if keeps_capital or not is_plain else text[:1].lower() + text[1:]
