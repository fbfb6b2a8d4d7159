"""Corpora of any size, made by changing words of real texts.

    python perturbed.py ABSTRACTS.jsonl.gz MEGABYTES > corpus.jsonl
    python perturbed.py --xml MEDLINE.xml.gz MEGABYTES > medline.xml
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

_SHARE = 0.15  # of words that change
_MEGABYTE = 1_000_000
_PMID = re.compile(rb"(<PMID Version=\"1\">)(\d+)(</PMID>)")


def perturbed_records(path: Path, megabytes: int, seed: int = 0) -> Iterator[str]:
    """Yield records, as lines, until they have this number of megabytes; all ids differ."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        records: list[dict[str, Any]] = [json.loads(line) for line in stream]
    rng = random.Random(seed)
    words = [word for record in records[:500] for word in record["text"].split(" ")]
    size = 0
    for copy in count():
        for record in records:
            text = record["text"].split(" ")
            for _ in range(int(len(text) * _SHARE)):
                text[rng.randrange(len(text))] = words[rng.randrange(len(words))]
            line = json.dumps({**record, "id": f"{record['id']}-{copy}", "text": " ".join(text)},
                              ensure_ascii=False) + "\n"
            size += len(line.encode())
            if size > megabytes * _MEGABYTE:
                return
            yield line


def repeated_citations(path: Path, megabytes: int) -> Iterator[bytes]:
    """Yield a MEDLINE file with this number of megabytes; all PMIDs differ."""
    content = gzip.decompress(path.read_bytes())
    first, last = content.index(b"<MedlineCitation "), content.rindex(b"</MedlineCitation>")
    end = last + len(b"</MedlineCitation>")
    numbers = count(1)
    yield content[:first]
    for _ in range(megabytes * _MEGABYTE // (end - first)):
        yield _PMID.sub(lambda found: b"%b%d%b" % (found[1], next(numbers), found[3]),
                        content[first:end]) + b"\n"
    yield content[end:]


if __name__ == "__main__":
    if sys.argv[1] == "--xml":
        sys.stdout.buffer.writelines(repeated_citations(Path(sys.argv[2]), int(sys.argv[3])))
    else:
        sys.stdout.writelines(perturbed_records(Path(sys.argv[1]), int(sys.argv[2])))
