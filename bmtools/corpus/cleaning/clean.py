"""Cleaning of records: filters on the input, repairs of texts, and filters on the result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bmtools.corpus.cleaning.edits import EditedText
from bmtools.corpus.cleaning.filters import source_filters, text_filters
from bmtools.corpus.cleaning.personal_data import PersonalData
from bmtools.corpus.cleaning.repairs import Repairs
from bmtools.corpus.cleaning.settings import KINDS, FilterConfig, PersonalDataConfig, RepairConfig
from bmtools.errors import RecordError, Reject, refuse
from bmtools.io.jsonl import as_records
from bmtools.io.workers import Outcome
from bmtools.records import JsonObject, Record, RecordSource
from bmtools.settings import split_settings
from bmtools.text.sentences import sections_of

_TEXTS = ("text", "title", "text_pair", "question")
_WITH_OFFSETS = ("entities", "answers", "predicted")


@dataclass(frozen=True)
class Cleaned:
    """Result of the rules for a record.

    Args:
        record: the repaired record, even if it is dropped.
        changes: number of changed or flagged places, by rule.
        rule: rule that drops the record; empty if it is kept.
        found: value that this rule found.
    """

    record: Record
    changes: Counter[str]
    rule: str = ""
    found: object = None

    @property
    def dropped(self) -> Record:
        """The record with the rule and the value that it found in `meta.dropped`."""
        meta = {**self.record.get("meta", {}), "dropped": {"rule": self.rule, "found": self.found}}
        return self.record.replace(meta=meta)


class Cleaner:
    """Cleaner of single records, whose results do not depend on other records.

    The order is fixed: filters of years, licences and truncation on the input; repairs, until the
    text does not change; filters on the repaired text; personal data. Cleaning a kept record again
    does not change it.

    Args:
        repairs: repairs to make.
        filters: conditions for keeping a record.
        personal_data: handling of personal data.
        unwanted: patterns of other text to remove.

    Raises:
        BmtoolsError: a package is not installed.
    """

    def __init__(self, repairs: RepairConfig, filters: FilterConfig,
                 personal_data: PersonalDataConfig,
                 unwanted: Sequence[re.Pattern[str]] = ()) -> None:
        self._repair = Repairs(repairs.names, unwanted)
        self._source_filters = source_filters(filters)
        self._text_filters = text_filters(filters)
        self._action = personal_data.personal_data
        self._personal_data = PersonalData(personal_data.kinds)

    def __call__(self, records: Iterable[Record], outcome: Outcome) -> Iterator[Record]:
        """Yield the records to keep.

        Args:
            records: any number of records.
            outcome: counts records as `dropped RULE`, `changed RULE` and, for personal data,
                `found KIND`, and the places in them as `places RULE`. It receives the records left
                out, with the reason in `meta.dropped`, and records that cannot be cleaned.
        """
        counts = outcome.counts
        for record in records:
            try:
                cleaned = self.clean(record)
            except RecordError as error:
                outcome.reject(error)
                continue
            if cleaned.rule:
                counts[f"dropped {cleaned.rule}"] += 1
                outcome.set_aside(cleaned.dropped)
                continue
            for rule, places in cleaned.changes.items():
                counts[f"{'found' if rule in KINDS else 'changed'} {rule}"] += 1
                counts[f"places {rule}"] += places
            yield cleaned.record

    def clean(self, record: Record) -> Cleaned:
        """Clean a record.

        Raises:
            RecordError: an annotation has a border inside replaced text, or repairs do not end.
        """
        for rule, find in self._source_filters.items():
            if (found := find(record)) is not None:
                return Cleaned(record, Counter(), rule, found)
        edited = _edited(record, self._repair)
        changes = sum((one.counts for one in edited.values()), Counter[str]())
        record = moved_record(record, edited) if edited else record
        for rule, find in self._text_filters.items():
            if (found := find(record)) is not None:
                return Cleaned(record, changes, rule, found)
        if self._action == "keep":
            return Cleaned(record, changes)
        edited = _edited(record, self._personal_data.mask)
        personal = sum((one.counts for one in edited.values()), Counter[str]())
        changes += personal
        if not personal:
            return Cleaned(record, changes)
        if self._action == "drop":
            return Cleaned(record, changes, "personal-data", dict(personal))
        if self._action == "flag":
            meta = {**record.get("meta", {}), "personal": dict(personal)}
            return Cleaned(record.replace(meta=meta), changes)
        return Cleaned(moved_record(record, edited), changes)


def _edited(record: Record, change: Callable[[EditedText], object]) -> dict[str, EditedText]:
    """Return the texts of a record that a function changes, by key."""
    meta = record.get("meta", {})
    tracks = any(key in record for key in _WITH_OFFSETS) or "sections" in meta \
        or "translation" in meta
    found = {key: EditedText(record[key], tracks) for key in _TEXTS if record.get(key)}
    for key, edited in found.items():
        if change(edited) is False:
            raise RecordError(record.place, f"key '{key}': found text that cannot be repaired, "
                                            "because each repair requires another", record)
    return {key: edited for key, edited in found.items() if edited.counts}


def moved_record(record: Record, edited: Mapping[str, EditedText]) -> Record:
    """Replace texts of a record, and move the offsets of its annotations.

    Sections that lose all their text are left out.

    Args:
        record: the record before the edits.
        edited: edited texts by key.

    Raises:
        RecordError: an entity or answer was removed, or has a border inside replaced text.
    """
    keys: JsonObject = {key: one.text for key, one in edited.items()}
    if "text" in edited:
        move = partial(_moved, record, edited["text"])
        for key in ("entities", "answers"):
            if key in record:
                keys[key] = move(record[key], key)
        if "entities" in record.get("predicted", {}):
            keys["predicted"] = {**record["predicted"], "entities": move(
                record["predicted"]["entities"], "predicted.entities")}
        if sections := sections_of(record):
            moved = [(one, *edited["text"].moved(one["start"], one["end"])[:2]) for one in sections]
            keys["meta"] = {**record["meta"], "sections": [
                {**one, "start": start, "end": end} for one, start, end in moved if start < end]}
    meta = keys.get("meta", record.get("meta", {}))
    if isinstance(meta.get("translation"), dict):
        keys["meta"] = {**meta, "translation": _moved_translation(meta["translation"], edited)}
    return record.replace(**keys)


def _moved(record: Record, edited: EditedText, found: Iterable[JsonObject],
           key: str) -> list[JsonObject]:
    """Move entities or answers, which may have several parts, only a start, or no offsets."""
    def span(number: int, start: int, end: int) -> tuple[int, int]:
        first, last, is_cut = edited.moved(start, end)
        if is_cut or (first == last and start < end):
            raise RecordError(
                record.place, f"key '{key}[{number}]': {record['text'][start:end][:40]!r} is "
                f"partly or completely removed or replaced by {', '.join(edited.counts)}, so it "
                "has no position in the cleaned text; omit that rule or the annotation", record)
        return first, last

    moved = []
    for number, one in enumerate(found):
        if one.get("start") is not None:
            start, end = span(number, one["start"],
                              one.get("end", one["start"] + len(one.get("text", ""))))
            one = {**one, "start": start, **({"end": end} if "end" in one else {})}
            if one.get("spans"):
                one["spans"] = [list(span(number, *part)) for part in one["spans"]]
            elif "text" in one:
                one["text"] = edited.text[start:end]
        moved.append(one)
    return moved


def _moved_translation(translation: JsonObject, edited: Mapping[str, EditedText]) -> JsonObject:
    """Move the offsets of sentences and flags in the metadata of `translate`."""
    moved = dict(translation)
    if "sentence_spans" in moved:
        moved["sentence_spans"] = {
            key: [list(edited[key].moved(*span)[:2]) for span in spans] if key in edited else spans
            for key, spans in moved["sentence_spans"].items()}
    if "flags" in moved:
        moved["flags"] = [
            {**flag, **dict(zip(("start", "end"), edited[flag["key"]].moved(
                flag["start"], flag["end"]), strict=False))} if flag["key"] in edited else flag
            for flag in moved["flags"]]
    return moved


def clean(records: RecordSource, *, remove: Sequence[str] = (), reject: Reject = refuse,
          on_drop: Callable[[Record], object] | None = None, **settings: object,
          ) -> Iterator[Record]:
    """Yield the records to keep: `clean("corpus.jsonl", min_words=5, repairs="all")`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`.
        remove: regular expressions of text to remove; `^` and `$` match at line starts and ends.
        reject: receives records that cannot be read or cleaned.
        on_drop: receives each record that is left out, with the reason in `meta.dropped`.
        settings: fields of `RepairConfig`, `FilterConfig` and `PersonalDataConfig`.

    Raises:
        BmtoolsError: a package is not installed.
        ValueError: a setting is out of range.
    """
    repairs, filters, personal_data = split_settings(
        settings, RepairConfig, FilterConfig, PersonalDataConfig)
    unwanted = [re.compile(pattern, re.MULTILINE) for pattern in remove]
    cleaner = Cleaner(repairs, filters, personal_data, unwanted)
    for record in as_records(records, reject):
        try:
            cleaned = cleaner.clean(record)
        except RecordError as error:
            reject(error)
            continue
        if not cleaned.rule:
            yield cleaned.record
        elif on_drop:
            on_drop(cleaned.dropped)
