"""Rows of Parquet files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from bmtools.corpus.formats.settings import read_columns
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.documents import MOST_RECORDS, whole_file
from bmtools.corpus.formats.texts.json_lines import LAYOUTS, agreed_records
from bmtools.errors import DataError, RecordError, setting, suggestion
from bmtools.installation import require_extra
from bmtools.io.failures import reading
from bmtools.io.folders import corpus_files
from bmtools.io.record_size import most_bytes
from bmtools.io.sources import STDIN, MemberName, source_name, source_stem
from bmtools.records import JsonObject, Record, RecordFields

if TYPE_CHECKING:
    from pyarrow import DataType, Schema
    from pyarrow.parquet import FileMetaData

_ROWS = 1000
Row = tuple[str, str, JsonObject]


@reader
def parquet_records(names: Iterable[str], tally: Tally,
                    columns: str = "id=id,text=text") -> Iterator[Record]:
    """Yield the rows of Parquet files under the keys of records.

    Columns are used like the keys in `jsonl_records`. Dates and decimals become text. Classes of
    Hugging Face's `ClassLabel` become their names, also in lists. A text that is a list of tokens
    is joined by spaces, and `ner_tags` become its entities. If the text column is missing, `tokens`
    is used. Bytes under keys of records are UTF-8. Other columns of bytes, such as images, are left
    out.

    Args:
        names: files, or folders or archives of files; `-` for stdin. A file in an archive or from
            stdin is kept in memory.
        columns: columns of the source by record key, see `read_columns`.
        tally: counts the ids that were assigned, and columns and numbers that are left out.
            It rejects a row without text, or with wrong bytes or tags.

    Raises:
        DataError: a file is damaged, or has no text column.
    """
    require_extra("pyarrow", "import parquet", "parquet")
    by_key = read_columns(columns)
    for name in names:
        for file in corpus_files(name, ".parquet", counts=tally.counts):
            rows = _rows(file, by_key, tally)
            yield from agreed_records(rows, by_key, tally)


def _rows(name: str, by_key: Mapping[str, str], tally: Tally) -> Iterator[Row]:
    """Yield the rows of a file."""
    import pyarrow as pa
    from pyarrow import parquet

    stem, source = source_stem(name), source_name(name)
    with reading(source, "this file cannot be read", "copy or download it again", DataError):
        in_memory = name == STDIN or isinstance(name, MemberName)
        file = parquet.ParquetFile(
            pa.BufferReader(whole_file(name, MOST_RECORDS)) if in_memory
            else pa.memory_map(os.fsencode(name)))
        schema, number = file.schema_arrow, 0
        text_key = by_key.get("text", "text")
        taken = {text_key, *by_key.values(), "id", *RecordFields.__annotations__}
        columns = [field.name for field in schema if not _has_bytes(field.type)
                   or (field.name in taken and not field.type.num_fields)]
        if not {text_key, *LAYOUTS} & {*columns}:
            raise DataError(f"{source}: found no column {text_key!r}, "
                            f"{suggestion(text_key, columns)}; name it with {setting('columns')}")
        tally.counts["columns of bytes left out"] += len(schema) - len(columns)
        classes = _classes(schema)
        for batch in file.iter_batches(_batch_rows(file.metadata), columns=columns):
            batch.validate(full=True)
            for row in batch.to_pylist():
                number += 1
                with tally.rejecting():
                    place = f"{source}:{number}"
                    yield f"{stem}:{number}", place, _content(row, classes, place, tally.counts)


def _content(row: Mapping[str, object], classes: Mapping[str, list[str]], place: str,
             counts: Counter[str]) -> JsonObject:
    """Return a row as JSON.

    NaN and infinite numbers become None, because pandas writes missing values in this way. The
    class -1, which marks texts without a label on the Hugging Face Hub, also becomes None.

    Raises:
        RecordError: bytes under an agreed key are not UTF-8.
    """
    def left_out(_number: str) -> None:
        counts["NaN or infinite numbers left out"] += 1

    try:
        content: JsonObject = json.loads(json.dumps(row, default=_as_text), parse_constant=left_out)
    except UnicodeDecodeError as error:
        raise RecordError(place, f"found bytes that are not UTF-8 ({error.reason}), expected text"
                          ) from error
    for key in classes.keys() & content.keys():
        if content[key] == -1:
            content[key] = None
            counts["classes -1 (unlabelled) left out"] += 1
        content[key] = _named(content[key], classes[key])
    return content


def _as_text(value: object) -> str:
    """Return bytes, a date or a decimal as text."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _named(value: object, names: Sequence[str]) -> object:
    """Return the name of a class by its number, or the names for a list of numbers."""
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def _batch_rows(metadata: FileMetaData) -> int:
    """Choose a number of rows that needs less memory than the largest allowed record."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups),
                    default=0)
    return max(1, min(_ROWS, most_bytes() // max(row_bytes, 1)))


def _has_bytes(kind: DataType) -> bool:
    """Return whether a type or one of its fields contains bytes."""
    import pyarrow as pa

    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    return any(_has_bytes(kind.field(number).type) for number in range(kind.num_fields))


def _classes(schema: Schema) -> dict[str, list[str]]:
    """Read the names of classes in Hugging Face's metadata, by column."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        return {key: names for key, names in zip(features, map(_class_names, features.values()),
                                                 strict=True) if names}
    except (ValueError, AttributeError, KeyError):
        return {}


def _class_names(feature: object) -> list[str]:
    """Return the names of a `ClassLabel`, also of one in a list; empty for other features."""
    if isinstance(feature, list):  # old form of a list in datasets
        feature = {"feature": feature[0]} if feature else None
    if not isinstance(feature, dict):
        return []
    names: list[str] = feature["names"] if feature.get("_type") == "ClassLabel" else \
        _class_names(feature.get("feature"))
    return names
