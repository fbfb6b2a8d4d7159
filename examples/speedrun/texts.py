"""Print the texts of task files, one JSON line each: documents, SQuAD or BioASQ.

    python texts.py documents|squad|bioasq FILE... > texts.jsonl

Answers and labels are left out. A question is a separate text.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read(name: str) -> Any:
    """Read JSON, compressed or not."""
    content = Path(name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


def documents(name: str) -> Iterator[dict[str, Any]]:
    """Yield the documents under `data`, or the only document of the file."""
    content = read(name)
    yield from content.get("data", [content])


def squad(name: str) -> Iterator[dict[str, Any]]:
    """Yield paragraphs and questions of SQuAD 1.1."""
    for article in read(name)["data"]:
        for paragraph in article["paragraphs"]:
            yield from _texts("squad", [paragraph["context"],
                                        *(entry["question"] for entry in paragraph["qas"])])


def bioasq(name: str) -> Iterator[dict[str, Any]]:
    """Yield passages and questions of all splits."""
    for entries in read(name).values():
        for entry in entries:
            yield from _texts("bioasq", [entry["context"], entry["question"]])


_seen: set[str] = set()


def _texts(kind: str, texts: list[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        if text.strip() and text not in _seen:
            _seen.add(text)
            yield {"id": f"{kind}-{len(_seen)}", "text": text}


def main() -> None:
    """Read each file in the format from the first argument."""
    kind, *names = sys.argv[1:]
    for name in names:
        for record in {"documents": documents, "squad": squad, "bioasq": bioasq}[kind](name):
            print(json.dumps(record, ensure_ascii=False))


if __name__ == "__main__":
    main()
