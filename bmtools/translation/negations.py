"""Search for negations that a translation has lost."""

from __future__ import annotations

import re

from bmtools.text.languages import primary_language


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_-])(?:{words})(?![^\W_])", re.IGNORECASE)


# For each language: words that negate a clause, and words that a translator may use instead.
_WORDS = {
    "en": (r"(?<!whether or )(?<!\bor )(?<!\bif )not(?! only)|no(?!\.)|never|neither|none|nobody"
           r"|nothing|without|cannot|\w+n['\u2019]t|non(?!e)-?\w+",
           r"nor|unable|fail\w*|lack\w*|absen\w+|free|un\w+|non\w*|hardly|rare\w*|few|little|less"),
    "it": (r"non(?! solo)|no|senza|né(?= .*\bné\b)|(?<!\bnon )(?<!\bè )(?<!\bha )mai"
           r"|(?<!\bdi )(?:niente|nulla)|(?<!\bin )(?<!\bcon )(?<!\bdi )(?<!\ba )(?<!\bper )"
           r"(?<!\bdei )(?<!\bda )nessun[oa]?",
           r"neanche|neppure|nemmeno|null[oaie]|assen[tz]\w*|priv[oaie]"
           r"|mancanza|sconsigli\w+|o meno|poco|rar[oaie]|raramente|scarsamente|anziché|piuttosto"),
    "fr": (r"ne|n(?=['\u2019])|non(?! seulement)|sans",
           r"absen\w+|faute|peu|rare\w*|plutôt|moins|nul\w*"),
    "es": (r"no(?! sólo)(?! solo)|sin|(?<!\bno )(?:nunca|jamás)"
           r"|(?<!\ben )(?<!\bcon )(?<!\bde )(?<!\ba )(?<!\bpor )ning[uú]n[oa]?",
           r"tampoco|ausen\w+|falta|carec\w+|libre|nul[oa]s?|poco"
           r"|rar[oa]s?|raramente|apenas|menos"),
}
_CLAUSES = {language: _pattern(firm) for language, (firm, _) in _WORDS.items()}
_ANY = {language: _pattern(f"{firm}|{other}") for language, (firm, other) in _WORDS.items()}


def lacks_negation(source: str, target: str, source_language: str, target_language: str) -> bool:
    """Return whether a sentence has more negations than its translation; False if unknown.

    Args:
        source: the sentence.
        target: its translation.
        source_language: language of the sentence, ISO 639-1.
        target_language: language of the translation.
    """
    clauses = _CLAUSES.get(primary_language(source_language))
    found = _ANY.get(primary_language(target_language))
    return bool(clauses and found
                and len(clauses.findall(source)) > len(found.findall(target)))
