"""Names for records whose source gives them none."""

from __future__ import annotations

from pathlib import Path

from bmtools.io.jsonl import STDIN

_COMPRESSED = (".gz", ".zst", ".zstd")


def stem(name: str) -> str:
    """Name a source without directory and endings: `ner/test.tsv.gz` is `test`."""
    if name == STDIN:
        return "stdin"
    path = Path(name)
    return Path(path.stem if path.suffix in _COMPRESSED else path.name).stem
