"""CoNLL columns: one token per line, with its tag in one of the columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from bmtools.corpus.formats.settings import ConllConfig, Scheme, Tokenization
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.errors import RecordError, count_of, setting
from bmtools.io.foreign import TOKENS, refuse_foreign
from bmtools.io.record_size import check_record_size
from bmtools.io.sources import read_lines, source_name, source_stem
from bmtools.records import JsonObject, Record

Span = tuple[int, int]
_TOKENS = {"whitespace": re.compile(r"\S+"), "punctuation": re.compile(r"\w+|[^\w\s]")}
# Prefixes of a single token, and of the first, middle and last token of several.
_PREFIXES = {"iob2": "BBII", "iobes": "SBIE", "bilou": "UBIL", "io": "IIII"}
_LINES = re.compile(r"[^\r\n]+")

TAG = re.compile(r"O|_|\*+|([BIESLU])(?:[-_](\S.*))?")  # _ and *** are O in CAS and ESSAI
_DOCUMENT = "-DOCSTART-"
_NO_ID = frozenset({"", "-X-", "_", "O"})
_ROW_BYTES = 300  # in memory, in addition to its text
_OPENS, _CLOSES = frozenset("BSU"), frozenset("ESLU")
Row = tuple[str, str | None, str | None]
"""A token with the prefix and the type of its tag."""


@reader
def conll_records(names: Iterable[str], tally: Tally,
                  config: ConllConfig | None = None) -> Iterator[Record]:
    """Yield a record for every sentence, or every document.

    The text consists of the tokens separated by one space, with a line break between the sentences
    of a document. The original spacing is not restored. Columns are separated by a tab or spaces,
    decided for each line. `_` and `***` are read as O, `B_TYPE` as `B-TYPE`.

    IO, IOB1, IOB2, IOBES and BILOU are read in the same way, as in conlleval: B, S and U open an
    entity. Other prefixes open one after O, after a closed entity or if the type changes. Ids are
    `DOCUMENT-sN`, or `STEM:LINE` if no line names the document.

    Args:
        names: files, compressed or not; `-` for stdin.
        config: layout of the columns.
        tally: counts the entities without an opening B.
            It rejects sentences with a line that cannot be read.
    """
    config = config or ConllConfig()
    for name in names:
        sentences = _sentences(name, config, tally)
        if config.documents:
            yield from _documents(sentences)
            continue
        numbers: Counter[str] = Counter()
        for document, sentence in sentences:
            if document:
                numbers[document] += 1
                yield sentence.replace(id=f"{document}-s{numbers[document]}",
                                       meta={"document": document})
            else:  # not STEM-sN, because the file is not a document
                line = sentence.place.rpartition(":")[2]
                yield sentence.replace(id=f"{source_stem(name)}:{line}")


def _sentences(name: str, config: ConllConfig, tally: Tally) -> Iterator[tuple[str, Record]]:
    """Yield sentences with their document ids, and reject sentences with a bad line."""
    document, documents, place = "", 0, ""
    rows: list[Row] = []
    lines: list[str] = []
    size = 0
    fault: RecordError | None = None
    for number, line in chain(read_lines(name), [(0, "")]):
        if line.strip() and not line.startswith(_DOCUMENT):
            place = place if lines else f"{source_name(name)}:{number}"
            lines.append(line)
            size += len(line) + _ROW_BYTES
            check_record_size(size, place)
            try:
                rows.append(_row(line, config, f"{source_name(name)}:{number}", tally.counts))
            except RecordError as error:
                refuse_foreign(line, error.place, TOKENS)
                fault = fault or error
            continue
        text = " ".join(token for token, *_ in rows)
        if fault is not None:
            tally.reject(RecordError(fault.place, fault.reason, "\n".join(lines)))
        elif rows and config.documents and not document:
            tally.reject(RecordError(place, f"found a sentence before any {_DOCUMENT} line, "
                                     "expected one at the start of every document; add it, or run "
                                     f"without {setting('documents')}", text))
        elif rows:
            entities = tag_entities(rows, text, config.default_type, tally.counts)
            yield document, Record(id="", text=text, entities=entities, place=place)
        rows, lines, size, fault = [], [], 0, None
        if line.startswith(_DOCUMENT):
            documents += 1
            named = line.removeprefix(_DOCUMENT).strip()
            document = named if re.fullmatch(r"\(.*\)", named) else [*_columns(named), ""][0]
            document = document.removeprefix("(").removesuffix(")")
            if document in _NO_ID:
                document = f"{source_stem(name)}-d{documents}"


def _documents(sentences: Iterable[tuple[str, Record]]) -> Iterator[Record]:
    """Join neighbouring sentences of the same document."""
    for document, group in groupby(sentences, key=itemgetter(0)):
        texts: list[str] = []
        entities: list[JsonObject] = []
        size, first = 0, None
        for _, sentence in group:
            first = first or sentence
            entities += [{**entity, "start": entity["start"] + size, "end": entity["end"] + size}
                         for entity in sentence["entities"]]
            texts.append(sentence["text"])
            size += len(sentence["text"]) + 1
            check_record_size(size, first.place)
        if first is not None:
            yield first.replace(id=document, text="\n".join(texts), entities=entities)


def _columns(line: str) -> list[str]:
    return line.split("\t" if "\t" in line else None)


def _row(line: str, config: ConllConfig, place: str, counts: Counter[str]) -> Row:
    """Read the token and the tag of a line."""
    columns = [column.strip() for column in _columns(line)]
    needed = max(config.token_column, config.tag_column, 2)
    if len(columns) < needed:
        raise RecordError(place, f"found {count_of(len(columns), 'columns')} in "
                                 f"{line[:40]!r}, expected {needed} or more, split by tab or space")
    token = columns[config.token_column - 1]
    at = config.tag_column or len(columns)
    if not token:
        raise RecordError(place, f"found no token in column {config.token_column}; set its column "
                                 f"with {setting('token_column')}")
    tag = TAG.fullmatch(columns[at - 1])
    if tag is None:
        raise RecordError(place, f"found the tag {columns[at - 1]!r} in column {at}, expected O or "
                                 "one of B, I, E, S (L, U), with or without -TYPE; set its column "
                                 f"with {setting('tag_column')}")
    counts["tags _ and *** read as O"] += tag[0][0] in "_*"
    return token, tag[1], tag[2]


def tag_entities(rows: Sequence[Row], text: str, default_type: str,
                 counts: Counter[str]) -> list[JsonObject]:
    """Find the entities of a sentence, in code points of its joined tokens."""
    entities: list[JsonObject] = []
    open_type: str | None = None
    position = 0
    for token, prefix, named_type in rows:
        end = position + len(token)
        entity_type = (named_type or default_type) if prefix else None
        if prefix in _OPENS or (prefix and entity_type != open_type):
            counts["entities opened without B, as IO and IOB1 do"] += prefix not in _OPENS
            entities.append({"start": position, "end": end, "type": entity_type})
        if prefix:
            entities[-1]["end"] = end
        open_type = None if prefix in _CLOSES else entity_type
        position = end + 1
    for entity in entities:
        entity["text"] = text[entity["start"]:entity["end"]]
    return entities


def conll_lines(records: Iterable[Record], scheme: Scheme = "iob2",
                tokenization: Tokenization = "whitespace",
                counts: Counter[str] | None = None) -> Iterator[str]:
    """Yield tokens and tags separated by tabs, with a blank line after every sentence.

    A line of a record's text is a sentence. A -DOCSTART- line before a record's first sentence
    names its `meta.document`, or the id of a record with several lines. After such a line, records
    without a document also get a -DOCSTART- line, with their id. A token is divided if an entity
    begins or ends inside it.

    Args:
        records: records whose `entities` become tags.
        scheme: prefixes of the tags.
        tokenization: whether tokens are separated by white space, or also by punctuation.
        counts: counts entities that the format cannot represent.
    """
    counts = Counter() if counts is None else counts
    written = None
    for record in records:
        text = record["text"]
        lines = [match.span() for match in _LINES.finditer(text) if match[0].strip()]
        document = record.get("meta", {}).get("document") or (
            record["id"] if len(lines) > 1 or written is not None else None)
        if document != written and document is not None:
            yield f"-DOCSTART- ({document})\n\n"
        written = document
        entities = _flat(record.get("entities", ()), counts)
        for start, end in lines:
            tokens = list(_tokens(text, start, end, entities, tokenization, counts))
            tags = list(_tags(tokens, entities, _PREFIXES[scheme]))
            if scheme == "io":
                borders = pairwise(_tags(tokens, entities, _PREFIXES["iob2"]))
                counts["entities joined to the previous one, which io cannot separate"] += sum(
                    tag[0] == "B" and tag[1:] == before[1:] for before, tag in borders)
            yield "".join(f"{text[first:last]}\t{tag}\n"
                          for (first, last), tag in zip(tokens, tags, strict=True)) + "\n"
        counts["entities over several lines, tagged line by line"] += sum(
            "\n" in text[entity["start"]:entity["end"]] for entity in entities)


def _flat(entities: Iterable[JsonObject], counts: Counter[str]) -> list[JsonObject]:
    """Leave out entities in parts, and entities that overlap a longer or earlier one."""
    kept: list[JsonObject] = []
    for entity in sorted(entities, key=lambda one: one["start"] - one["end"]):
        if entity.get("spans"):
            counts["entities in parts left out"] += 1
        elif any(entity["start"] < one["end"] and one["start"] < entity["end"] for one in kept):
            counts["entities that overlap another left out"] += 1
        else:
            kept.append(entity)
    return sorted(kept, key=lambda one: one["start"])


def _tokens(text: str, start: int, end: int, entities: Sequence[JsonObject],
            tokenization: Tokenization, counts: Counter[str]) -> Iterator[Span]:
    borders = sorted({entity[key] for entity in entities for key in ("start", "end")
                      if start < entity[key] < end})
    for match in _TOKENS[tokenization].finditer(text, start, end):
        first, last = match.span()
        within = [border for border in borders if first < border < last]
        counts["tokens divided at the border of an entity"] += bool(within)
        yield from zip([first, *within], [*within, last], strict=True)


def _tags(tokens: Sequence[Span], entities: Sequence[JsonObject], prefixes: str) -> Iterator[str]:
    """Yield the tags of a line's tokens."""
    waiting = iter(entities)
    entity = next(waiting, None)
    for number, (first, last) in enumerate(tokens):
        while entity is not None and entity["end"] <= first:
            entity = next(waiting, None)
        if entity is None or entity["start"] >= last:
            yield "O"
            continue
        opens = number == 0 or tokens[number - 1][1] <= entity["start"]
        closes = number + 1 == len(tokens) or tokens[number + 1][0] >= entity["end"]
        at = (0 if closes else 1) if opens else 3 if closes else 2
        yield f"{prefixes[at]}-{'_'.join(entity['type'].split())}"
