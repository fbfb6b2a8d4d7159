"""Citations of references, left out of a line without traces: brackets, blanks, commas."""

from __future__ import annotations

import re

FIRST, LAST = "\ufffe", "\uffff"
"""Around a citation; no XML has these characters."""
BRACKETS = "[](){}.,;\u2013\u2014\u2010\u2011-\u2012"
"""Characters that may go with citations."""
_CITATION = f"{FIRST}[^{LAST}]*{LAST}"
_BETWEEN = "[ \\t\\r\\n\u00a0,;\u2010-\u2014-]*"
_RUN = f"{_CITATION}(?:{_BETWEEN}{_CITATION})*"
# Brackets around citations alone; then citations in a row, in brackets of their own or raised.
_BRACKETED = re.compile(rf"\s*[\[({{]{_BETWEEN}{_RUN}{_BETWEEN}[\])}}]")
_IN_A_ROW = re.compile(rf"\s*(?P<joined>{_RUN}(?:\s+(?:and|&|or|to)\s+{_RUN})+)|\s*{_RUN}")
_NUMBERS = re.compile(r"[\[(]?\s*[A-Z]?\d+[a-z]?(?:[\s,;\u2010-\u2014-]+\d+[a-z]?)*\s*[\])]?")
_INNER = re.compile(f"{FIRST}([^{LAST}]*){LAST}")
# What would stay around a gap: a comma before or behind a bracket, a second full stop.
_GAP = "\x01"  # neither has XML this one
_DANGLING = re.compile(rf"[\s,;]*{_GAP}[\s,;]*(?=[\])])|(?<=[\[(]){_GAP}[\s,;]+|"
                       rf"(?<=\.){_GAP}\.(?=\s|$)|{_GAP}")


def without_citations(line: str) -> str:
    """Leave out citations in brackets, and numbers of references; names in a sentence stay.

    Args:
        line: with marks around each citation.
    """
    shorter = _IN_A_ROW.sub(_rest, _BRACKETED.sub(_GAP, line))
    # A citation within another one leaves a mark.
    return _DANGLING.sub("", shorter).replace(FIRST, "").replace(LAST, "")


def _rest(run: re.Match[str]) -> str:
    """Return what stays of citations in a row: all where words join them, or they have names."""
    numbers = [_NUMBERS.fullmatch(text.strip()) for text in _INNER.findall(run[0]) if text.strip()]
    if not run["joined"] and all(numbers):
        return _GAP
    return run[0].replace(FIRST, "").replace(LAST, "")
