"""Clauses of sentences that are longer than a model takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bmtools.text.languages import primary_language
from bmtools.translation.engines.engine import Translation
from bmtools.translation.function_words import words_of_all_languages

_OPENINGS = "|".join(words_of_all_languages("conjunctions", "clauses"))
# Where to cut, best first: an end that was not seen, a semicolon, a colon, a comma before a
# conjunction, any comma, white space, anywhere.
_BOUNDARIES = tuple(map(re.compile, (
    r"[.!?]\s+(?=[^\W\d_])|[\u3002\uff01\uff1f]", r"[;\uff1b]\s*", r":\s+|\uff1a",
    rf",\s+(?=(?:{_OPENINGS})\b)", r"[,\uff0c\u3001]\s*(?!\d)", r"\s+", "")))
_UNSPACED = frozenset(("zh", "ja", "th", "lo", "my", "km"))


def split_clauses(sentence: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a sentence until its parts fit, each at the best boundary in its middle half.

    Args:
        sentence: of any length.
        fits: tells whether a part is short enough.

    Returns:
        parts, which hold all of the sentence but the white space between them.
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


def join_clauses(clauses: Sequence[str], translations: Sequence[Translation],
                 language: str) -> Translation:
    """Join the translations of a sentence's parts.

    What an engine adds to a part as if it were a sentence goes: a final full stop, a capital.

    Args:
        clauses: parts of a sentence.
        translations: of them; the first fault is that of the sentence.
        language: of the translations, ISO 639-1.
    """
    if len(clauses) == 1:
        return translations[0]
    code = primary_language(language)
    texts = [_as_part(clause, one.text, keeps_capital=not number or code == "de")
             for number, (clause, one) in enumerate(zip(clauses, translations, strict=True))]
    fault = next((one.fault for one in translations if one.fault), "")
    scores = [one.log_probability for one in translations if one.log_probability is not None]
    return Translation(
        "" if fault else ("" if code in _UNSPACED else " ").join(texts),
        sum(one.unknown for one in translations), fault,
        round(sum(scores) / len(scores), 4) if scores else None, engine=translations[0].engine)


def _as_part(clause: str, text: str, keeps_capital: bool) -> str:
    if text.endswith(".") and clause[-1:] not in ".!?…":
        text = text[:-1]
    is_plain = clause[:1].islower() and not text[1:2].isupper() and not re.match(r"I\b", text)
    return text if keeps_capital or not is_plain else text[:1].lower() + text[1:]
