"""Terms that files list, their search in sentences and their protection by placeholders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

from bmtools.io.sources import read_list
from bmtools.text.case_folding import CASELESS, Folding
from bmtools.text.languages import primary_language
from bmtools.text.matching import Matcher
from bmtools.text.word_lists import is_word
from bmtools.translation.bilingual import read_pairs
from bmtools.translation.engines.engine import Layer, Translation, Translator
from bmtools.translation.settings import TermConfig

PLACEHOLDER = "[{}]"  # Apertium takes it for a footnote and keeps it
LOST = "terms"
# Groups of endings that distinguish singular from plural, and masculine from feminine.
_NUMBERS = {
    "en": ("- s es", "y ies", "is es", "us i", "um a", "a ae"),
    "it": ("o i", "a e", "e i", "io i", "co ci chi", "go gi ghi", "ca che", "ga ghe"),
    "es": ("- s es", "ón ones", "z ces"), "fr": ("- s x", "al aux"),
    "pt": ("- s es", "ão ões", "m ns", "l is"), "de": ("- e en er es em n s",)}
_GENDERS = {
    "it": ("o a i e", "co ca ci chi che", "go ga gi ghi ghe"), "es": ("o a os as",),
    "pt": ("o a os as",),
    "fr": ("- e s es", "el elle els elles", "eux euse euses", "if ive ifs ives", "er ère ers ères",
           "al ale aux ales", "en enne ens ennes", "gu guë gus guës")}


class Term(NamedTuple):
    """A term in a sentence.

    Args:
        start: start of the term in the sentence.
        end: end of the term, exclusive.
        target: text that the translation must contain; the term itself if it is protected.
        inside: the same text as it is written inside a sentence, without an added capital.
        language: language whose inflected forms of the target also count; empty for a protected
            term.
    """

    start: int
    end: int
    target: str
    inside: str
    language: str


class TermFinder:
    """Case-insensitive search for terms in sentences; of overlapping terms the longest is found.

    Args:
        targets: translations by term; empty for a protected term.
        source: language of the terms; their plurals and genders are also found.
        target: language of the translations.
    """

    def __init__(self, targets: Mapping[str, str], source: str = "", target: str = "") -> None:
        folding = Folding(CASELESS)
        self.fingerprint = f"inflected {sorted(targets.items())}"
        self._language = primary_language(target)
        folded = {folding.string(term): target for term, target in targets.items()
                  if is_word(folding, term)}
        for term, translation in list(targets.items()):
            for form in inflected_phrases(term, source) if translation else ():
                if is_word(folding, form):
                    folded.setdefault(folding.string(form), translation)
        self._targets = list(folded.values())
        self._matcher = Matcher(list(folded), folding) if folded else None

    def find(self, sentences: Sequence[str]) -> list[list[Term]]:
        """Find the terms of each sentence, in order and without overlap."""
        found: list[list[Term]] = [[] for _ in sentences]
        if self._matcher:
            for word, text, start, end in zip(*map(list, self._matcher.find(sentences)),
                                              strict=True):
                own = sentences[text][start:end]
                target = self._targets[word]
                found[text].append(Term(start, end, _cased(target, own), target, self._language)
                                   if target else Term(start, end, own, own, ""))
        return [_apart(terms) for terms in found]


def _cased(target: str, own: str) -> str:
    """Capitalize a translation if its term begins with a capital and continues in lower case."""
    begins = own[:1].isupper() and own[1:].islower()
    return target[:1].upper() + target[1:] if begins else target


def _apart(terms: Sequence[Term]) -> list[Term]:
    """Keep the longest of the terms that overlap."""
    kept: list[Term] = []
    for term in sorted(terms, key=lambda term: (term.start - term.end, term.start)):
        if all(term.end <= other.start or other.end <= term.start for other in kept):
            kept.append(term)
    return sorted(kept)


def inflected(word: str, language: str, least: int = 3) -> list[str]:
    """List a word and its likely forms in the other number and gender.

    Args:
        word: a word of a term.
        language: ISO 639-1; only the word is returned if the endings of the language are unknown.
        least: minimum number of letters before an ending of gender; shorter stems would match
            unrelated words.
    """
    code = primary_language(language)
    endings = [(group.replace("-", "").split(" "), shortest)
               for table, shortest in ((_NUMBERS, 3), (_GENDERS, least))
               for group in table.get(code, ())]
    return list(dict.fromkeys((word, *(
        word[:len(word) - len(ending)] + other for group, shortest in endings for ending in group
        if word.endswith(ending) and len(word) - len(ending) >= shortest for other in group))))


def inflected_phrases(term: str, language: str) -> list[str]:
    """List the forms of a term.

    In English only the last word is inflected. In other languages every word is inflected if the
    term has one or two words.
    """
    *before, last = term.split()
    is_english = primary_language(language) == "en"
    heads = [[word] if is_english else inflected(word, language, 5) for word in before]
    return list(map(" ".join, product(*heads, inflected(last, language, 5)))) \
        if is_english or len(before) < 2 else [term]


def has_term(text: str, target: str, language: str = "") -> bool:
    """Return whether a text contains words in any case and, with a language, in any form."""
    return bool(_word_pattern(target, language).search(text))


@cache
def _word_pattern(target: str, language: str) -> re.Pattern[str]:
    words = r"\s+".join(f"(?:{'|'.join(map(re.escape, inflected(word, language)))})"
                        for word in target.split())
    before, after = (r"(?<![^\W_])" if target[0].isascii() else "",
                     r"(?![^\W_])" if target[-1].isascii() else "")
    return re.compile(before + words + after, re.IGNORECASE)


def load_terms(config: TermConfig, source: str, target: str) -> TermFinder:
    """Read the terms from the files of the settings.

    Raises:
        DataError: a file without terms.
    """
    protected = dict.fromkeys((term for _, term in read_list(str(config.protect))), "") \
        if config.protect else {}
    glossary = dict(read_pairs(config.glossary, source, target)) if config.glossary else {}
    return TermFinder({**protected, **glossary}, source, target)


class ProtectedTranslator(Layer):
    """Translator that enforces terms if the engine does not write them.

    A placeholder has no grammar, so a sentence is first translated without placeholders. If a term
    is missing from the translation, the sentence is translated again with placeholders for the
    missing terms. If that also fails, the first translation is kept and flagged.

    Args:
        engine: engine that translates.
        finder: search for the terms.
    """

    def __init__(self, engine: Translator, finder: TermFinder) -> None:
        super().__init__(engine, hashlib.sha256(finder.fingerprint.encode()).hexdigest())
        self._finder = finder

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, and again sentences whose terms are missing."""
        found = self.engine.translate(sentences, attempt)
        terms = self._finder.find(sentences)
        self.own_counts["terms"] += sum(map(len, terms))
        missing = {number: lost for number, one in enumerate(terms)
                   if not found[number].fault and (lost := self._lost(one, found[number].text))}
        self.own_counts["terms_enforced"] += len(missing)
        masked = [_masked(sentences[number], lost) for number, lost in missing.items()]
        tried = self.engine.translate(masked, attempt) if masked else []
        for (number, lost), other in zip(list(missing.items()), tried, strict=True):
            text = _restored(other.text, lost)
            if text and not self._lost(terms[number], text):
                found[number] = replace(other, text=text)
                del missing[number]
        self.own_counts["terms_lost"] += sum(map(len, missing.values()))
        for number in missing:
            found[number] = replace(found[number], flags=(*found[number].flags, LOST))
        return found

    def _lost(self, terms: Sequence[Term], text: str) -> list[Term]:
        return [term for term in terms if not has_term(text, term.target, term.language)]


def _masked(sentence: str, terms: Sequence[Term]) -> str:
    """Replace terms by placeholders."""
    parts, end = [], 0
    for number, term in enumerate(terms):
        parts += [sentence[end:term.start], PLACEHOLDER.format(number)]
        end = term.end
    return "".join([*parts, sentence[end:]])


def _restored(text: str, terms: Sequence[Term]) -> str:
    """Replace placeholders by terms; return "" if a placeholder is missing or repeated."""
    for number, term in reversed(list(enumerate(terms))):
        placeholder = PLACEHOLDER.format(number)
        if text.lower().count(placeholder.lower()) != 1:
            return ""
        start = text.lower().index(placeholder.lower())
        has_moved = not term.start and any(map(str.isalpha, text[:start]))
        text = text[:start] + (term.inside if has_moved else term.target) \
            + text[start + len(placeholder):]
        if has_moved and term.inside != term.target:
            text = text[:1].upper() + text[1:]
    return text
