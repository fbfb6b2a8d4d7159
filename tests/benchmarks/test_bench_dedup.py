"""Near duplicates against datasketch: `pytest --benchmark-enable -s tests/benchmarks`.

Both sides read a file of records and write a file of kept records, with runs of 5 words, 128
hashes, one process and one thread. datasketch gets the runs as its documentation recommends:
Python makes them from case-folded words. The text is abstracts with half of their words exchanged.
Every twentieth abstract occurs again with 2 % of words exchanged. Without that option each side
runs once on little input, and only the duplicates found are compared.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from timing import ROUNDS, measured, note, program

_RECORDS = 40_000
_PEER_RECORDS = 5_000  # its time grows with the number of records
_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"

_THEIRS = program("from datasketch import MinHash, MinHashLSH", """
index, known = MinHashLSH(threshold=0.7, num_perm=128), {}
with open(sys.argv[1]) as lines, open(sys.argv[2], "w") as kept:
    for number, line in enumerate(lines):
        words = json.loads(line)["text"].casefold().split()
        own = MinHash(num_perm=128)
        own.update_batch({" ".join(words[start:start + 5]).encode()
                          for start in range(max(1, len(words) - 4))})
        if any(own.jaccard(known[other]) >= 0.7 for other in index.query(own)):
            continue
        index.insert(number, own)
        known[number] = own
        kept.write(line)
""")
_OURS = program("""
import numpy, rensa
from bmtools.corpus.duplicates.dedup import deduplicate
from bmtools.corpus.duplicates.settings import DedupConfig
from bmtools.io.jsonl import RecordReader
from bmtools.io.passes import opened_pass
from bmtools.io.workers import Workers
""", """
with opened_pass(None, {}, Workers(1)) as run, \\
        deduplicate(RecordReader(sys.argv[1:2]), run, DedupConfig()) as found, \\
        open(sys.argv[2], "wb") as kept:
    kept.writelines(found.write(run))
""")


@pytest.mark.data
def test_near_duplicates_against_datasketch(benchmark: Any, data: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasketch")
    records, peer_records = (400, 400) if benchmark.disabled else (_RECORDS, _PEER_RECORDS)
    ours, theirs = (write_input(data, tmp_path / f"{size}.jsonl", size)
                    for size in (records, peer_records))
    runs = [(measured(_THEIRS, theirs, tmp_path / "theirs"),
             measured(_OURS, ours, tmp_path / "ours"))
            for _ in range(1 if benchmark.disabled else ROUNDS)]
    kept, expected = (
        {json.loads(line)["id"] for line in (tmp_path / name).read_text("utf-8").splitlines()}
        for name in ("ours", "theirs"))
    kept = {one for one in kept if int(one) < peer_records}
    assert peer_records > len(expected) >= peer_records * 0.9
    assert len(kept ^ expected) <= 0.01 * peer_records  # both sides estimate
    megabytes = ours.stat().st_size / 1e6
    (their_seconds, _), (seconds, peak) = (min(side) for side in zip(*runs, strict=True))
    note(benchmark, megabytes=round(megabytes), records=records, peak_megabytes=round(peak),
         megabytes_per_second=round(megabytes / seconds, 1),
         times_faster=round(their_seconds * records / peer_records / seconds, 1))


def write_input(data: Path, path: Path, records: int) -> Path:
    """Write abstracts with exchanged words; larger files begin with the records of smaller ones."""
    rng = random.Random(0)
    with gzip.open(data / _ABSTRACTS, "rt", encoding="utf-8") as stream:
        texts = [json.loads(line)["text"].split() for line in stream]
    texts = [words for words in texts if len(words) > 60]
    vocabulary = [word for words in texts[:1000] for word in words]
    words: list[str] = []
    with path.open("w", encoding="utf-8") as stream:
        for number in range(records):
            again = number % 20 == 19
            words = list(words if again else rng.choice(texts))
            for place in rng.sample(range(len(words)), len(words) // (50 if again else 2)):
                words[place] = rng.choice(vocabulary)
            stream.write(json.dumps({"id": str(number), "text": " ".join(words)}) + "\n")
    return path

