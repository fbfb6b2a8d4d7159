"""Filters, named after their settings: conditions that a record must meet to stay in a corpus.

The suggested minimum length is from PubMedBERT's corpus (Gu et al. 2021, section 6.1).
"""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from functools import cache, lru_cache, partial

from bmtools.corpus.cleaning.repairs import truncation_mark
from bmtools.corpus.cleaning.settings import COMMERCIAL, DECLARED, FilterConfig, date_limit
from bmtools.errors import BmtoolsError, BmtoolsWarning, setting
from bmtools.installation import require_extra
from bmtools.io.provenance.licence_names import licence_parts, normal_name
from bmtools.io.provenance.licences import TERMS, obligations
from bmtools.records import Record
from bmtools.text.languages import found_language, load_identifier, primary_language, two_letters
from bmtools.vocab.words import ChunkWords

Filter = Callable[[Record], object]
"""Function that returns the fault of a record; None if it has no fault."""
_COMMERCIAL = ("cc0", "cc-by", "cc-by-sa", "cc-by-nd", "cc-pdm", "public-domain", "pddl",
               "odc-by", "odbl", "apache", "mit", "bsd")
_VERSION = re.compile(r"(?<![- ])[- ]+(?:v(?:ersion)?[- ]?)?\d+(?:\.\d+)*\b.*|[- ]licen[cs]e")


def warn_of_unnamed_licences(config: FilterConfig) -> None:
    """Warn of licences to keep whose names are unknown and may be misspelt."""
    for one in filter(None, map(str.strip, config.licences.split(","))):
        if one != COMMERCIAL and TERMS in obligations(one):
            warnings.warn(BmtoolsWarning(
                f"{setting('licences')}: '{one}' is not a known licence; only records that state "
                "it in these words are kept, so check the spelling"), stacklevel=2)


def source_filters(config: FilterConfig) -> dict[str, Filter]:
    """Return the active filters of the unchanged record, by name."""
    known = {licence_kind(one) for one in config.licences.split(",") if one.strip()}
    allowed = known | set(_COMMERCIAL) if COMMERCIAL in known else known
    filters: dict[str, tuple[object, Filter]] = {
        "from-year": (config.from_year, partial(
            _other_date, operator.ge, date_limit(config.from_year), 0)),
        "to-year": (config.to_year, partial(
            _other_date, operator.le, date_limit(config.to_year), 13)),
        "licences": (allowed, lambda record: None if allowed.issuperset(map(
            licence_kind, licence_parts(record.get("licence", "")) or [""])) else record.get(
                "licence", "no licence")),
        "drop-truncated": (config.drop_truncated, lambda record: truncation_mark(
            record["text"]) or None)}
    return {name: find for name, (is_on, find) in filters.items() if is_on}


def text_filters(config: FilterConfig) -> dict[str, Filter]:
    """Return the active filters of the repaired text by name, the slow ones last."""
    filters: dict[str, Filter] = {"empty": lambda record: None if record["text"] else "no text"}
    limits: dict[str, tuple[int, Callable[[str], int], Callable[[int, int], bool]]] = {
        "min-characters": (config.min_characters, len, operator.ge),
        "min-words": (config.min_words, word_count, operator.ge),
        "max-words": (config.max_words, word_count, operator.le)}
    for name, (limit, measure, is_right) in limits.items():
        if limit:
            filters[name] = partial(_measured, measure, is_right, limit)
    if config.languages:
        require_extra("py3langid", setting("languages"), "cleaning")
        languages = {one.strip() for one in config.languages.split(",") if one.strip()}
        for one in languages - {DECLARED}:
            if one not in load_identifier().labels:
                raise BmtoolsError(f"{setting('languages')}: found {one!r}, which py3langid does "
                                   f"not support; use codes such as en, or {DECLARED}")
        filters["languages"] = partial(_other_language, languages)
    return filters


@lru_cache(1)  # two filters read the same text in turn
def word_count(text: str) -> int:
    """Count words in the same way as all commands."""
    return _words().number(text)


@cache
def _words() -> ChunkWords:
    return ChunkWords()


def licence_kind(licence: str) -> str:
    """Return the kind of a licence: `CC BY 4.0` and its address are both cc-by."""
    plain = normal_name(licence).lower().strip().replace("_", "-")
    return "-".join(_VERSION.sub("", plain).split()).strip("-")


def _measured(measure: Callable[[str], int], is_right: Callable[[int, int], bool],
              limit: int, record: Record) -> int | None:
    found = measure(record["text"])
    return None if is_right(found, limit) else found


def _other_date(is_right: Callable[[list[int], list[int]], bool], limit: list[int],
                no_month: int, record: Record) -> object:
    """Compare the date of a record with a limit.

    Args:
        is_right: comparison of years, or of years and months.
        limit: year, or year and month.
        no_month: replaces an unknown month, so that the record is left out.
        record: record with `year` and `month` in its `meta`.
    """
    meta = record.get("meta", {})
    year, month = meta.get("year"), meta.get("month") if limit[1:] else None
    try:
        date = [int(year), int(month or no_month)]
    except (TypeError, ValueError):
        return "no year" if year is None else f"{year}-{month}" if month else year
    if is_right(date[:len(limit)], limit):
        return None
    if date[0] != limit[0] or not limit[1:]:
        return year
    return f"{year}-{date[1]:02}" if month else f"{year}, no month"


def _other_language(languages: set[str], record: Record) -> str | None:
    text = record["text"]
    found = found_language(text)
    if DECLARED in languages:
        declared = two_letters(primary_language(record.get("lang", "")))
        languages = languages | ({declared} if declared in load_identifier().labels else {found})
    # Names and tables at the beginning mislead, so two later positions are also checked.
    if not found or found in languages or all(
            found_language(text[len(text) * part // 3:]) in languages for part in (1, 2)):
        return None
    return found
