"""Splits of a set by document into train, dev and test or folds, with the overlap of the parts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from itertools import accumulate, pairwise
from math import isclose
from pathlib import Path
from time import monotonic
from typing import Literal

from bmtools.corpus.overlap import PARTS, folded, overlaps, text_key
from bmtools.errors import (
    LAST_SEED,
    DataError,
    RecordError,
    Reject,
    count_of,
    refuse,
    require,
    setting,
)
from bmtools.io.directories import new_directory
from bmtools.io.jsonl import RecordReader, as_records
from bmtools.io.output import encode_lines
from bmtools.io.provenance.manifest import Manifest
from bmtools.io.sources import placed_lines, source_name
from bmtools.io.step import Step
from bmtools.records import JsonObject, Record, RecordSource, document_of
from bmtools.settings import Settings, option, split_settings

SPLIT = "split.tsv"
_PART_NAME = re.compile(r"[\w.-]*\w[\w.-]*")


class SplitConfig(Settings, title="A split"):
    """Settings of a split."""

    ratios: str = option("0.8,0.1,0.1", "Shares of documents in train, dev and test; a part of 0 "
                                        "is left out.", metavar="X,X,X")
    counts: str = option("", "Numbers of documents in these parts, in place of `ratios`; one "
                             "number may be -1, for the rest.", metavar="N,N,N")
    folds: int = option(
        0, "Number of folds, in place of train, dev and test; each fold is test and dev once.")
    stratify: str = option("", "Key whose values are equally frequent in each part: label, labels, "
                               "entities (their types), relations, or meta.KEY.", metavar="KEY")
    together: Literal["documents", "texts", "questions"] = option(
        "texts", "Content that must not be in two parts: documents only, or also texts or "
                 "questions, so that documents that share one stay together.")
    seed: int = option(
        0, "Seed of the order of documents; the order of records makes no difference.",
        most=LAST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.folds == 0 or self.folds >= 3, "folds", self.folds, "3 or more")
        require(not (self.folds and self.counts), "counts", self.counts, "none with folds")
        ratios = _numbers(self.ratios)
        require(len(ratios) == len(PARTS) and min(ratios) >= 0 and isclose(sum(ratios), 1),
                "ratios", repr(self.ratios), "three shares that add up to 1, such as 0.8,0.1,0.1")
        counts = _numbers(self.counts) if self.counts else (0.0,) * len(PARTS)
        require(len(counts) == len(PARTS) and counts.count(-1) < 2 and all(
            count == int(count) >= -1 for count in counts), "counts", repr(self.counts),
            "three whole numbers, such as 1295,186,371")

    def sizes(self, documents: int) -> dict[str, int]:
        """Return the number of documents in each part that has documents.

        Raises:
            DataError: there are too few documents, or the counts do not add up to their number.
        """
        names: Sequence[str] = list(map(str, range(self.folds))) or PARTS
        if self.counts:
            found = [int(count) for count in _numbers(self.counts)]
            rest = documents - sum(count for count in found if count > 0)
            found = [rest if count == -1 else count for count in found]
            if sum(found) != documents or min(found) < 0:
                raise DataError(f"found {documents} documents, but the counts {self.counts} add "
                                "up to another number; correct them, or use -1 for one part")
        else:
            shares = [1 / self.folds] * self.folds if self.folds else _numbers(self.ratios)
            borders = [round(documents * share) for share in accumulate(shares, initial=0.0)]
            found = [end - start for start, end in pairwise(borders)]
            if any(share > 0 and not size for share, size in zip(shares, found, strict=True)):
                wanted = [name for name, share in zip(names, shares, strict=True) if share > 0]
                raise DataError(f"found {count_of(documents, 'documents')}, too few for "
                                f"{', '.join(wanted)}; expected at least one for each")
        return {name: size for name, size in zip(names, found, strict=True) if size}


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        return ()


def split(records: RecordSource, *, by: str | None = None, reject: Reject = refuse,
          **settings: object) -> dict[str, list[Record]]:
    """Split records by document and text: `split("set.jsonl", ratios="0.8,0.1,0.1")["train"]`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`; kept in memory.
        by: see `write_split`.
        reject: receives bad records, and records whose document is missing in `by`.
        settings: fields of `SplitConfig`.

    Returns:
        the records of train, dev and test, or with `folds` the records of each fold by its number.

    Raises:
        DataError: there are too few documents.
        ValueError: a setting is out of range.
    """
    [config] = split_settings(settings, SplitConfig)
    kept, parts, _ = _divided(list(as_records(records, reject)), config, by, reject)
    return _in_order(kept, parts)


def _divided(records: Sequence[Record], config: SplitConfig, by: str | None,
             reject: Reject) -> tuple[Sequence[Record], list[str], int]:
    """Return the records to keep, the part of each, and the number of documents kept together."""
    if by is None:
        return records, *_choose_parts(records, config)
    return *_look_up(records, read_split(by), by, reject), 0


def write_split(records: RecordReader, output: Path, config: SplitConfig | None = None,
                by: str | None = None, reject: Reject = refuse,
                overwrite: bool = False, step: Step | None = None) -> JsonObject:
    """Write the parts of a set, so that all records of a document are in the same part.

    `OUTPUT/train.jsonl`, `dev.jsonl` and `test.jsonl` contain the records in their order. With
    folds, the files are `OUTPUT/fold-0/train.jsonl` and so on: fold n is the test part of directory
    n, and the next fold is its dev part. `OUTPUT/split.tsv` lists every document and its part, for
    `by`. All records are kept in memory.

    Args:
        records: records of the set.
        output: directory to write.
        config: settings.
        by: file such as `split.tsv`, with a document or record id, a tab and a part per line. It
            replaces the settings except for `folds`.
        reject: receives records whose document is missing in `by`.
        overwrite: replace a directory that is not empty.
        step: the command, if one runs.

    Returns:
        the report: the number of documents that stay `together` with others because they share
        texts or questions, and the documents, records, values of `stratify` and overlap of the
        parts.
    """
    config, started = config or SplitConfig(), monotonic()
    with new_directory(output, overwrite) as directory:
        kept, parts, together = _divided(list(records), config, by, reject)
        by_part = _in_order(kept, parts)
        _write_parts(directory, by_part, config.folds)
        (directory / SPLIT).write_text("".join(dict.fromkeys(
            f"{document_of(record)}\t{part}\n" for record, part in zip(kept, parts, strict=True))),
            encoding="utf-8")
        report = {**({"together": together} if together else {}), **_report(by_part, config)}
        Manifest("split", {**asdict(config), "by": by}, "", config.seed, records.hashes,
                 wall_seconds=monotonic() - started, results=report,
                 licences={"text": records.licences()}, step=step).write(directory)
    return {"output": str(output), **report}


def _groups(records: Sequence[Record], together: str) -> list[str]:
    """Return the group of each record; documents that share a text or question form a group."""
    if together == "documents":
        return [document_of(record) for record in records]
    leaders: dict[tuple[str, str], tuple[str, str]] = {}

    def leader(one: tuple[str, str]) -> tuple[str, str]:
        while leaders.setdefault(one, one) != one:
            leaders[one] = one = leaders[leaders[one]]
        return one

    for record in records:
        key = text_key(record) if together == "texts" else folded(record.get("question", ""))
        if key:
            first, second = leader(("document", document_of(record))), leader((together, key))
            leaders[max(first, second)] = min(first, second)  # documents lead: d < q and d < t
    return [leader(("document", document_of(record)))[1] for record in records]


def _choose_parts(records: Sequence[Record], config: SplitConfig) -> tuple[list[str], int]:
    """Choose a part for each record, the same part for all records of a group.

    Returns:
        the parts, and the number of documents in groups with several documents.

    Raises:
        DataError: a part would be empty, or the numbers of documents differ from `counts`.
    """
    def drawn(group: str) -> bytes:
        return blake2b(f"{config.seed}\0{group}".encode()).digest()

    groups = _groups(records, config.together)
    documents = Counter(dict(zip(map(document_of, records), groups, strict=True)).values())
    values: dict[str, Counter[str]] = {group: Counter() for group in sorted(documents, key=drawn)}
    sizes = config.sizes(documents.total())
    if config.stratify:
        for record, group in zip(records, groups, strict=True):
            values[group].update(values_of(record, config.stratify))
    part_of = _distributed(values, documents, sizes)
    found = Counter(dict.fromkeys(sizes, 0))
    for group, part in part_of.items():
        found[part] += documents[group]
    if (config.counts and found != sizes) or not all(found.values()):
        raise DataError(f"found documents that share {config.together} and only fit into the "
                        f"parts {_listed(found)}, expected {_listed(sizes)}; set "
                        f"{setting('together')} documents to separate them")
    return [part_of[group] for group in groups], sum(
        size for size in documents.values() if size > 1)


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{part} {size:,}" for part, size in sizes.items())


def _distributed(values: Mapping[str, Counter[str]], documents: Mapping[str, int],
                 sizes: Mapping[str, int]) -> dict[str, str]:
    """Distribute groups so that each part has its share of every value.

    The rarest value is distributed first. Each group with this value goes to the part that needs it
    most. Groups without values are distributed last, to the first part with room.

    Source: Sechidis, Tsoumakas and Vlahavas 2011, iterative stratification. Departure: a part does
    not get more documents than its size, unless a group does not fit into any part.

    Args:
        values: values of each group; empty without stratification.
        documents: number of documents in each group.
        sizes: number of documents in each part.
    """
    totals = sum(values.values(), Counter())
    lacking = {part: {value: total * size / sum(sizes.values()) for value, total in totals.items()}
               for part, size in sizes.items()}
    free = Counter(sizes)
    left = dict(values)
    found: dict[str, str] = {}

    is_stratified = bool(totals)

    def place(group: str, value: str) -> None:
        room = [one for one in sizes if free[one] >= documents[group]] \
            or [max(sizes, key=free.__getitem__)]
        part = max(room, key=lambda one: (lacking[one].get(value, 0.0), free[one] / sizes[one])) \
            if is_stratified else room[0]
        found[group] = part
        free[part] -= documents[group]
        for one, count in left.pop(group).items():
            lacking[part][one] -= count
            totals[one] -= count

    while any(totals.values()):
        rarest = min((value for value, total in totals.items() if total),
                     key=lambda value: (totals[value], value))
        for group in [one for one, own in left.items() if own[rarest]]:
            place(group, rarest)
    for group in list(left):
        place(group, "")
    return found


def values_of(record: Mapping[str, object], key: str) -> list[str]:
    """List the values of a key in a record: a label, labels, or the types of annotations."""
    found: object = record
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    several = found if isinstance(found, list) else [] if found is None else [found]
    return [str(one["type"] if isinstance(one, Mapping) and "type" in one else one)
            for one in several]


def read_split(name: str) -> dict[str, str]:
    """Read an existing split: a line contains an id, a tab and the name of its part.

    Raises:
        DataError: a line has another form, or an id is in two parts.
    """
    found: dict[str, str] = {}
    for place, line in placed_lines(name):
        own, tab, part = line.partition("\t")
        if not (tab and own.strip() and _PART_NAME.fullmatch(part.strip())):
            raise DataError(f"{place}: found {line[:40]!r}, expected an id, a tab and the name "
                            "of its part")
        if found.setdefault(own.strip(), part.strip()) != part.strip():
            raise DataError(f"{place}: found {own.strip()!r} in {part.strip()}, but it is already "
                            f"in {found[own.strip()]}; remove one of the lines")
    return found


def _look_up(records: Sequence[Record], part_of: Mapping[str, str], by: str,
             reject: Reject) -> tuple[list[Record], list[str]]:
    """Find the part of each record by its id or document."""
    kept, parts = [], []
    for record in records:
        part = part_of.get(record["id"], part_of.get(document_of(record)))
        if part is None:
            reject(RecordError(record.place, f"found the document {document_of(record)!r}, which "
                                             f"{source_name(by)} does not list", record))
            continue
        kept.append(record)
        parts.append(part)
    return kept, parts


def _in_order(records: Iterable[Record], parts: Iterable[str]) -> dict[str, list[Record]]:
    """Group records by part; train, dev and test are first, in this order."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record, part in zip(records, parts, strict=True):
        found[part].append(record)
    order = {part: number for number, part in enumerate(PARTS)}
    return {part: found[part] for part in sorted(found, key=lambda one: (
        order.get(one, len(PARTS)), int(one) if one.isdecimal() else 0, one))}


def _write_parts(directory: Path, parts: Mapping[str, Sequence[Record]], folds: int) -> None:
    if folds and list(parts) != list(map(str, range(folds))):
        raise DataError(f"found the parts {', '.join(parts)}, expected folds 0 to {folds - 1}")
    sets = {directory / f"fold-{fold}": own for fold, own in enumerate(_folds(parts))} \
        if folds else {directory: parts}
    for folder, own in sets.items():
        folder.mkdir(exist_ok=True)
        for name, records in own.items():
            with (folder / f"{name}.jsonl").open("wb") as stream:
                stream.writelines(encode_lines([record]) for record in records)


def _folds(parts: Mapping[str, Sequence[Record]]) -> Iterator[dict[str, list[Record]]]:
    """Make each part the test part of a fold, and the dev part of the previous fold."""
    names = list(parts)
    for test, dev in zip(names, [*names[1:], *names[:1]], strict=True):
        train = [one for name, own in parts.items() if name not in (test, dev) for one in own]
        yield {"train": train, "dev": [*parts[dev]], "test": [*parts[test]]}


def _report(parts: Mapping[str, Sequence[Record]], config: SplitConfig) -> JsonObject:
    stratify = config.stratify
    report: JsonObject = {
        "documents": {name: len(set(map(document_of, own))) for name, own in parts.items()},
        "records": {name: len(own) for name, own in parts.items()}}
    if stratify:
        report[stratify] = {
            name: dict(sorted(Counter(value for record in own
                                      for value in values_of(record, stratify)).items()))
            for name, own in parts.items()}
    return {**report, "overlap": list(overlaps(parts, config.folds > 0))}
