"""BRAT: a text in a `.txt` file, with its annotations in an `.ann` file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path, PurePath

from bmtools.corpus.formats.sets.mentions import IDENTIFIER, Arc, Mention, annotated
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import DataError, RecordError, Reject, refuse
from bmtools.io.directories import new_directory
from bmtools.io.folders import exists, member_ending, read_raw, set_files
from bmtools.io.sources import placed_lines, source_name, source_stem
from bmtools.records import JsonObject, Record

ANNOTATIONS = "brat"
"""Key in `meta` for unchanged lines that are not entities or relations."""
_TEXT, _ANNOTATION = ".txt", ".ann"
_LONGEST_NAME = 200  # bytes
_SPANS = re.compile(r"\d{1,18} \d{1,18}(?:;\d{1,18} \d{1,18})*")
_ARGUMENT = re.compile(r"([^\s:]+):(\S+)")
_IDENTITY = re.compile(r"[A-Z]\d+")
# A code in an annotator's note: C0023531, 8041/3, J45.
_CODE = re.compile(r"(?=.*\d)[A-Z\d./:_-]{3,}")
_NAMES = ("file", "filename", "name")  # first column of a header
# Replacements for characters that file names cannot contain.
_ESCAPES = {"%": "%25", "/": "%2F", "\0": "%00"}


@reader
def brat_records(names: Iterable[str], tally: Tally,
                 label_files: Iterable[str] = ()) -> Iterator[Record]:
    """Yield a record for every text, with its entities and relations.

    Offsets count code points of the unchanged file, including its line ends. Events, relations
    between them, attributes, normalisations and notes are kept as lines under `meta.brat`, unless
    they refer to a lost annotation. `export brat` writes them again. The codes of normalisations,
    and of notes that contain only codes, are also the entity's `identifier`. A text without
    annotations has no entities. Annotations without a text in their folder belong to a later text
    with the same name in another folder.

    Source: Stenetorp et al. 2012.

    Args:
        names: folders, zip archives, or files of either ending, with their partners in the same
            folder.
        label_files: tables of document and label, separated by tabs, which become `labels`.
        tally: counts annotations at their offset, moved and lost, and relations lost.
            It rejects lines that cannot be read, and lost annotations if `reject` is given.

    Raises:
        DataError: annotations have no text, or two have the same name.
    """
    labels = _labels(label_files)
    listed = {*labels}
    for document in _documents(names, tally):
        record = _record(*document, tally)
        if label_files:
            listed.discard(record["id"])
            record["labels"] = [*labels.get(record["id"], {})]
        yield record
    tally.counts["documents with labels but without text"] += len(listed)


def _documents(names: Iterable[str], tally: Tally) -> Iterator[tuple[str, str, str, str]]:
    """Yield name and content of each text, and of its annotations."""
    # Read files in order: an archive is closed after its last file.
    contents = ((name, read_raw(name)) for name in set_files(
        _with_partners(names), _TEXT, _ANNOTATION, counts=tally.counts))
    waiting: dict[str, tuple[str, str]] = {}
    for stem, group in groupby(contents, key=lambda pair: pair[0][
            :pair[0].rindex(member_ending(pair[0]))]):
        files = {member_ending(name).lower(): (name, content) for name, content in group}
        own = PurePath(stem).name
        if _TEXT in files:
            tally.counts["texts without a file of annotations (.ann)"] += not (
                _ANNOTATION in files or own in waiting)
            yield *files[_TEXT], *(files.get(_ANNOTATION) or waiting.pop(
                own, (f"{stem}{_ANNOTATION}", "")))
        elif own in waiting:
            raise DataError(f"{source_name(files[_ANNOTATION][0])}: found annotations of the name "
                            f"{own!r} again, after {source_name(waiting[own][0])}, both without "
                            f"{_TEXT}; import the parts of the set one by one")
        else:
            waiting[own] = files[_ANNOTATION]
    for name, _ in waiting.values():
        raise DataError(f"{source_name(name)}: found no {_TEXT} with the annotated text in its "
                        "folder; if the texts are in another folder, name that folder after this "
                        "one")


def _labels(names: Iterable[str]) -> dict[str, dict[str, None]]:
    """Read the labels of documents; `<null>` means no label."""
    found: dict[str, dict[str, None]] = {}
    for place, line in chain.from_iterable(map(placed_lines, names)):
        document, *more = map(str.strip, line.split("\t"))
        if not (document and more and more[0]):
            raise DataError(f"{place}: found {line[:40]!r}, expected a document, a tab and its "
                            "label")
        if document.lower() not in _NAMES:
            own = found.setdefault(re.sub(r"\.(?:txt|ann)$", "", document), {})
            own |= {more[0]: None} if more[0] != "<null>" else {}
    return found


def _with_partners(names: Iterable[str]) -> Iterator[str]:
    """Yield distinct names, adding the partners of single files."""
    found: dict[str, None] = {}
    for name in names:
        path = PurePath(name)
        if path.suffix in (_TEXT, _ANNOTATION):
            partners = (str(path.with_suffix(ending)) for ending in (_ANNOTATION, _TEXT))
            found.update(dict.fromkeys(one for one in partners if one == name or exists(one)))
        elif name == "-":
            raise DataError("<stdin>: found one stream, expected folders, zip archives or files in "
                            f"{_TEXT} and {_ANNOTATION}")
        else:
            found[name] = None
    yield from found


def _record(name: str, text: str, annotation_name: str, annotations: str, tally: Tally) -> Record:
    mentions: list[Mention] = []
    arcs: list[Arc] = []
    others: dict[str, str] = {}
    for number, line in enumerate(annotations.split("\n"), 1):
        line = line.removesuffix("\r")
        place = f"{source_name(annotation_name)}:{number}"
        with tally.rejecting():
            arc = _arc(line, place) if line.startswith("R") else None
            if line.startswith("T"):
                mentions.append(_mention(line, place))
            elif arc and arc.head[0] == arc.tail[0] == "T":
                arcs.append(arc)
            elif line.strip():
                others[place] = line
    identity = source_stem(name)
    for character, escape in reversed(_ESCAPES.items()):
        identity = identity.replace(escape, character)
    codes = _codes(others.values())
    mentions = [replace(one, more={IDENTIFIER: codes[one.id]}) if one.id in codes else one
                for one in mentions]
    record = annotated(identity, text, mentions, arcs, tally, source_name(name))
    kept = _complete_lines(others.values(), {one["id"] for one in (
        *record["entities"], *record["relations"])})
    for place, line in others.items():
        if line not in kept:
            tally.lose("further annotations lost", place, f"found {line[:40]!r}, which refers to "
                       "an annotation that is absent or lost", line)
    tally.counts["further annotations kept under meta.brat"] += len(kept)
    return record.replace(meta={ANNOTATIONS: kept}) if kept else record


def _codes(lines: Iterable[str]) -> Mapping[str, str]:
    """Find the codes of each annotation, joined by a bar."""
    found: dict[str, list[str]] = {}
    for line in lines:
        identity, _, rest = line.partition("\t")
        about, _, note = rest.partition("\t")
        words = about.split()
        codes = words[2:3] if identity.startswith("N") else \
            note.replace("+", " ").split() if identity.startswith("#") else []
        if codes and words[1:] and all(
                identity.startswith("N") or _CODE.fullmatch(code) for code in codes):
            found.setdefault(words[1], []).extend(codes)
    return {identity: "|".join(codes) for identity, codes in found.items()}


def _complete_lines(lines: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the annotation lines that refer only to known ids or to other returned lines."""
    kept = list(lines)
    size = len(kept) + 1
    while len(kept) < size:
        size = len(kept)
        ids = {*known, *(line.partition("\t")[0] for line in kept)}
        kept = [line for line in kept if _references(line) <= ids]
    return kept


def _references(line: str) -> set[str]:
    """Return the ids that an event, relation, equivalence, attribute or note refers to."""
    identity, _, rest = line.partition("\t")
    words = rest.partition("\t")[0].split()
    if identity[:1] in "ER":
        return {word.rpartition(":")[2] for word in words if ":" in word}
    return set(filter(_IDENTITY.fullmatch, words[1:] if identity == "*" else words[1:2]))


def _mention(line: str, place: str) -> Mention:
    identity, _, rest = line.partition("\t")
    kind_and_spans, tab, text = rest.partition("\t")
    kind, _, spans = kind_and_spans.partition(" ")
    if not (kind and tab and _SPANS.fullmatch(spans)):
        raise RecordError(place, f"found {line[:40]!r}, expected T1, TYPE START END and the "
                                 "mention separated by tabs, and spans by semicolons", line)
    pairs = (span.split() for span in spans.split(";"))
    return Mention(kind, tuple((int(start), int(end)) for start, end in pairs), text, identity,
                   place=place, content=line)


def _arc(line: str, place: str) -> Arc:
    identity, _, rest = line.partition("\t")
    kind, *arguments = rest.split() or [""]
    found = [_ARGUMENT.fullmatch(one) for one in arguments]
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise RecordError(place, f"found {line[:40]!r}, expected R1, a tab and TYPE Arg1:T1 "
                                 "Arg2:T2", line)
    roles = [match[1] for match in found if match]
    more = {"id": identity, **({"roles": roles} if roles != ["Arg1", "Arg2"] else {})}
    return Arc(found[0][2], found[1][2], kind, more, place, line)


def brat_files(record: Record, counts: Counter[str]) -> tuple[str, str, str]:
    """Make a record's files: the name without ending, the text, the annotations.

    Entity ids that are not `T1`, `T2` and so on are replaced. Lines under `meta.brat` that refer to
    missing annotations are left out and counted.
    """
    stem = record["id"].translate(str.maketrans(_ESCAPES))
    found = record.get("entities", [])
    names = brat_ids(found)
    lines = []
    for entity, name in zip(found, names, strict=True):
        spans = entity.get("spans") or [(entity["start"], entity["end"])]
        mention = re.sub(r"[\t\r\n]", " ", " ".join(record["text"][start:end]
                                                    for start, end in spans))
        offsets = ";".join(f"{start} {end}" for start, end in spans)
        lines.append(f"{name}\t{_word(entity['type'])} {offsets}\t{mention}")
    by_id = {entity.get("id"): name for entity, name in zip(found, names, strict=True)}
    for number, arc in enumerate(record.get("relations", ()), 1):
        first, second = arc.get("roles", ("Arg1", "Arg2"))
        lines.append(f"{arc.get('id', f'R{number}')}\t{_word(arc['type'])} "
                     f"{first}:{by_id[arc['head']]} {second}:{by_id[arc['tail']]}")
    others = [str(line) for line in record.get("meta", {}).get(ANNOTATIONS, ())]
    kept = _complete_lines(others, {
        *(given for given, name in by_id.items() if given == name),
        *(arc.get("id") for arc in record.get("relations", ()))})
    counts["further annotations left out that refer to missing ones"] += len(others) - len(kept)
    lines += kept
    return stem, record["text"], "".join(f"{line}\n" for line in lines)


def brat_ids(entities: Iterable[JsonObject]) -> list[str]:
    """Return BRAT ids for entities; the given ids are kept if all of them are valid."""
    ids = [str(entity.get("id", "")) for entity in entities]
    fits = len(set(ids)) == len(ids) and all(re.fullmatch(r"T\d+", one) for one in ids)
    return ids if fits else [f"T{number}" for number in range(1, len(ids) + 1)]


def _word(kind: str) -> str:
    return "_".join(kind.split())


def write_brat(records: Iterable[Record], directory: Path, overwrite: bool = False,
               counts: Counter[str] | None = None, reject: Reject = refuse) -> None:
    """Write a folder of texts and annotations.

    Args:
        records: each becomes two files, named after its id.
        directory: directory to write, which appears once it is complete.
        overwrite: whether to replace an existing directory.
        counts: counts entities whose ids are replaced, and lines left out.
        reject: receives a record whose id is repeated or is not a valid file name.
    """
    counts = Counter() if counts is None else counts
    seen: set[str] = set()
    with new_directory(directory, overwrite) as partial:
        for record in records:
            stem, text, annotations = brat_files(record, counts)
            if stem.casefold() in seen or not 0 < len(stem.encode()) <= _LONGEST_NAME or (
                    stem.startswith(".")):
                reject(RecordError(record.place, f"found the id {record['id']!r}, expected a "
                                   "file name that no other record has, even in lower case",
                                   record))
                continue
            seen.add(stem.casefold())
            counts["entities with new ids"] += sum(
                entity.get("id") not in ("", None, name) for entity, name in zip(
                    record.get("entities", ()), brat_ids(record.get("entities", ())), strict=True))
            (partial / f"{stem}{_TEXT}").write_bytes(text.encode())
            (partial / f"{stem}{_ANNOTATION}").write_bytes(annotations.encode())
