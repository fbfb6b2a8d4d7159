"""CoNLL columns: one token a line, its tag in one of the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bmtools.errors import RecordError, Reject, refuse, setting
from bmtools.io.jsonl import read_lines, source_name, source_stem
from bmtools.records import Record

_TAG = re.compile(r"O|([BIESLU])(?:-(\S.*))?")
_TAGS_EXPECTED = "O or one of B, I, E, S (L, U), alone or before -TYPE"
_DOCUMENT = "-DOCSTART-"
_NO_ID = frozenset({"", "-X-", "_", "O"})
_OPENS, _CLOSES = frozenset("BSU"), frozenset("ESLU")


@dataclass(frozen=True)
class ConllConfig:
    """Layout of the columns.

    Args:
        token_column: column of the token, counted from 1.
        tag_column: column of the tag, counted from 1; 0 for the last one.
        untyped: type of entities whose tags name none.
        documents: join the sentences of a document, which a -DOCSTART- line begins.
    """

    token_column: int = 1
    tag_column: int = 0
    untyped: str = "ENTITY"
    documents: bool = False

    def __post_init__(self) -> None:
        if self.token_column < 1 or self.tag_column < 0:
            raise ValueError("columns are counted from 1")
        if self.token_column == self.tag_column:
            raise ValueError(f"column {self.tag_column} cannot hold both the token and the tag")
        if not self.untyped:
            raise ValueError("the type of untyped entities is empty")


@dataclass(frozen=True)
class _Sentence:
    line: int
    document: str
    tokens: list[str]
    tags: list[str]


def conll_records(names: Iterable[str], settings: ConllConfig | None = None,
                  counts: Counter[str] | None = None, reject: Reject = refuse) -> Iterator[Record]:
    """Yield a record for every sentence, or every document.

    The text is the tokens with one space between them, and a line break between the sentences of
    a document: the spacing before tokenization is not guessed. Tab or spaces separate the
    columns, decided line by line. IO, IOB1, IOB2, IOBES and BILOU are read alike, as by conlleval:
    B, S and U open an entity, and so do the others after O, after a closed entity or where the
    type changes. Ids are `DOCUMENT-sN`, or `STEM-sN` where no line names the document.

    Args:
        names: files, compressed or not; `-` for stdin.
        settings: layout of the columns.
        counts: counts the entities without an opening B.
        reject: receives the sentences with a line that cannot be read.
    """
    settings = settings or ConllConfig()
    counts = Counter() if counts is None else counts
    for name in names:
        sentences = _sentences(name, settings, reject)
        if settings.documents:
            yield from _documents(name, sentences, settings, counts, reject)
            continue
        numbers: Counter[str] = Counter()
        for sentence in sentences:
            document = sentence.document or source_stem(name)
            numbers[document] += 1
            record = Record(id=f"{document}-s{numbers[document]}",
                            text=" ".join(sentence.tokens),
                            entities=_entities(sentence, settings.untyped, counts),
                            place=f"{source_name(name)}:{sentence.line}")
            yield record.replace(meta={"document": document}) if sentence.document else record


def _documents(name: str, sentences: Iterable[_Sentence], settings: ConllConfig,
               counts: Counter[str], reject: Reject) -> Iterator[Record]:
    """Join neighbouring sentences of one document."""
    record: Record | None = None
    for sentence in sentences:
        place = f"{source_name(name)}:{sentence.line}"
        if not sentence.document:
            reject(RecordError(place, f"found a sentence before any {_DOCUMENT} line, expected one "
                                      "at the start of every document; leave out "
                                      f"{setting('documents')}",
                               " ".join(sentence.tokens)))
            continue
        if record is None or record["id"] != sentence.document:
            if record is not None:
                yield record
            record = Record(id=sentence.document, text="", entities=[], place=place)
        start = len(record["text"]) + 1 if record["text"] else 0
        record["entities"] += [{**entity, "start": entity["start"] + start,
                                "end": entity["end"] + start}
                               for entity in _entities(sentence, settings.untyped, counts)]
        record["text"] += "\n" * bool(start) + " ".join(sentence.tokens)
    if record is not None:
        yield record


def _sentences(name: str, settings: ConllConfig, reject: Reject) -> Iterator[_Sentence]:
    """Group the lines between blank ones; a sentence with a bad line goes to `reject`."""
    document, documents = "", 0
    rows: list[tuple[str, str]] = []
    lines: list[str] = []
    fault: RecordError | None = None
    number = 0
    for number, raw in read_lines(name):
        line = raw.removesuffix("\r")
        is_document = line.startswith(_DOCUMENT)
        if not line.strip() or is_document:
            yield from _sentence(number - len(lines), document, rows, lines, fault, reject)
            rows, lines, fault = [], [], None
            if is_document:
                documents += 1
                document = _document_id(line) or f"{source_stem(name)}-d{documents}"
            continue
        lines.append(line)
        try:
            rows.append(_row(line, settings, f"{source_name(name)}:{number}"))
        except RecordError as error:
            fault = fault or error
    yield from _sentence(number + 1 - len(lines), document, rows, lines, fault, reject)


def _sentence(line: int, document: str, rows: list[tuple[str, str]], lines: list[str],
              fault: RecordError | None, reject: Reject) -> Iterator[_Sentence]:
    if fault is not None:
        reject(RecordError(fault.place, fault.reason, "\n".join(lines)))
    elif rows:
        tokens, tags = zip(*rows, strict=True)
        yield _Sentence(line, document, list(tokens), list(tags))


def _columns(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.strip(" ").split()


def _document_id(line: str) -> str:
    """Read the id on a -DOCSTART- line, with or without brackets; empty where there is none."""
    rest = _columns(line.removeprefix(_DOCUMENT).strip())
    found = rest[0].strip("()") if rest else ""
    return "" if found in _NO_ID else found


def _row(line: str, settings: ConllConfig, place: str) -> tuple[str, str]:
    """Read the token and the tag of a line."""
    columns = [column.strip() for column in _columns(line)]
    needed = max(settings.token_column, settings.tag_column, 2)
    if len(columns) < needed:
        raise RecordError(place, f"found {len(columns)} column{'s' * (len(columns) > 1)} in "
                                 f"{line[:40]!r}, expected {needed} or more, by tab or space")
    token = columns[settings.token_column - 1]
    at = settings.tag_column or len(columns)
    tag = columns[at - 1]
    if not token:
        raise RecordError(place, f"found nothing in column {settings.token_column}, expected a "
                                 f"token; {setting('token_column')} names its column")
    if not _TAG.fullmatch(tag):
        other = next((number for number, column in enumerate(columns, 1)
                      if number != settings.token_column and _TAG.fullmatch(column)), None)
        hint = (f"; {setting('tag_column')} {other} would take {columns[other - 1]!r}"
                if other else "")
        raise RecordError(place, f"found the tag {tag!r} in column {at}, expected "
                                 f"{_TAGS_EXPECTED}{hint}")
    return token, tag


def _entities(sentence: _Sentence, untyped: str, counts: Counter[str]) -> list[dict[str, Any]]:
    """Find the entities of a sentence, in code points of its joined tokens."""
    entities: list[dict[str, Any]] = []
    text = " ".join(sentence.tokens)
    open_type: str | None = None
    position = 0
    for token, tag in zip(sentence.tokens, sentence.tags, strict=True):
        end = position + len(token)
        prefix, kind = _parts(tag, untyped)
        if kind is None:
            open_type = None
        else:
            if prefix in _OPENS or open_type != kind:
                counts["entities opened without B, as IO and IOB1 do"] += prefix not in _OPENS
                entities.append({"start": position, "end": end, "type": kind})
            entities[-1]["end"] = end
            open_type = None if prefix in _CLOSES else kind
        position = end + 1
    for entity in entities:
        entity["text"] = text[entity["start"]:entity["end"]]
    return entities


def _parts(tag: str, untyped: str) -> tuple[str, str | None]:
    found = _TAG.fullmatch(tag)
    if found is None or found[1] is None:
        return "", None
    return found[1], found[2] or untyped
