"""Rows of Parquet files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bmtools.corpus.formats.settings import read_columns
from bmtools.corpus.formats.tally import Tally, reader
from bmtools.corpus.formats.texts.documents import MOST_RECORDS, whole_file
from bmtools.corpus.formats.texts.json_lines import agreed_records
from bmtools.errors import DataError, setting, suggestion
from bmtools.installation import require_extra
from bmtools.io.failures import reading
from bmtools.io.folders import corpus_files
from bmtools.io.record_size import most_bytes
from bmtools.io.sources import STDIN, MemberName, source_name, source_stem
from bmtools.records import JsonObject, Record

if TYPE_CHECKING:
    from pyarrow import DataType, Schema
    from pyarrow.parquet import FileMetaData

_ROWS = 1000
Row = tuple[str, str, JsonObject]


@reader
def parquet_records(names: Iterable[str], tally: Tally,
                    columns: str = "id=id,text=text") -> Iterator[Record]:
    """Yield the rows of Parquet files under the keys that commands agree on.

    Columns are taken as `jsonl_records` takes keys. Dates and decimals become text; classes of
    Hugging Face's `ClassLabel` become their names; columns of bytes, as images, are left out.

    Args:
        names: files, folders or archives of such; `-` for stdin. In an archive or from stdin, a
            file is held in memory.
        columns: those of the id and the text, see `read_columns`.
        tally: counts the ids that were given, and columns that are left out.
            It rejects a row without text.

    Raises:
        DataError: a damaged file, or one without the column of the text.
    """
    require_extra("pyarrow", "import parquet", "parquet")
    by_key = read_columns(columns)
    for name in names:
        for file in corpus_files(name, ".parquet", counts=tally.counts):
            rows = _rows(file, by_key.get("text", "text"), tally.counts)
            yield from agreed_records(rows, by_key, tally)


def _rows(name: str, text_key: str, counts: Counter[str]) -> Iterator[Row]:
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
        columns = [field.name for field in schema if not _has_bytes(field.type)]
        if text_key not in columns:
            raise DataError(f"{source}: found no column {text_key!r}, "
                            f"{suggestion(text_key, columns)}; {setting('columns')} names it")
        counts["columns of bytes left out"] += len(schema) - len(columns)
        classes = _classes(schema)
        for batch in file.iter_batches(_batch_rows(file.metadata), columns=columns):
            batch.validate(full=True)
            for row in batch.to_pylist():
                number += 1
                content = json.loads(json.dumps(row, default=str))  # dates and decimals
                for key in classes.keys() & content.keys():
                    value, names = content[key], classes[key]
                    if isinstance(value, int) and 0 <= value < len(names):
                        content[key] = names[value]
                yield f"{stem}:{number}", f"{source}:{number}", content


def _batch_rows(metadata: FileMetaData) -> int:
    """Choose a number of rows that takes less memory than a record may."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    row_bytes = max((group.total_byte_size // max(group.num_rows, 1) for group in groups),
                    default=0)
    return max(1, min(_ROWS, most_bytes() // max(row_bytes, 1)))


def _has_bytes(kind: DataType) -> bool:
    """Tell whether a type holds bytes somewhere."""
    import pyarrow as pa

    types = pa.types
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return True
    return any(_has_bytes(kind.field(number).type) for number in range(kind.num_fields))


def _classes(schema: Schema) -> dict[str, list[str]]:
    """Read the names of classes that Hugging Face's metadata has, by column."""
    try:
        described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = described.get("info", {}).get("features", {})
        return {key: feature["names"] for key, feature in features.items()
                if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"}
    except (ValueError, AttributeError, KeyError):
        return {}
