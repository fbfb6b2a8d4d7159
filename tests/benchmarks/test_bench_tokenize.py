"""Tokenizing a corpus against datasets: `pytest --benchmark-enable -s tests/benchmarks`.

`datasets.map` gets text that is already in memory-mapped Arrow and writes ids; `tokenize` starts
from JSON Lines, checks every record and writes ids, word starts and borders. One process and one
thread each. Without that option each runs once on little input, and only the ids are compared.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.data.shards import Corpus
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import save_tokenizer
from bmtools.vocab.trainers import train_tokenizer

_ROUNDS = 3
_FILES = ("en/corpus/pubmed-drug-reviews.jsonl.gz", "en/corpus/pubmed-case-reports.jsonl.gz",
          "it/corpus/native-clinical.jsonl", "it/corpus/native-leaflets.jsonl.gz")

# Each prints the seconds of its work, imports and opening left out, and its peak in megabytes, as
# the kernel counts it: what getrusage says includes the process that forked this one.
_MEASURED = """
import re, sys, time
from pathlib import Path

def peak():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1024

{before}
opened = peak()
started = time.perf_counter()
{work}
print(time.perf_counter() - started, peak() - opened, peak())
"""
_OURS = _MEASURED.format(before="""
from bmtools.io.jsonl import RecordReader
from bmtools.data.tokenize import tokenize
from bmtools.vocab.loading import load_tokenizer
tokenizer = load_tokenizer(Path(sys.argv[1]))
""", work="tokenize(RecordReader([sys.argv[2]]), tokenizer, Path(sys.argv[3]))")
_THEIRS = _MEASURED.format(before="""
import datasets
from bmtools.vocab.loading import load_tokenizer
datasets.disable_progress_bars()
tokenizer = load_tokenizer(Path(sys.argv[1]))
text = datasets.load_dataset("json", data_files=sys.argv[2], split="train",
                             cache_dir=sys.argv[3] + ".cache").select_columns(["text"])
""", work="""
found = text.map(lambda batch: tokenizer(batch["text"], add_special_tokens=False,
                                        return_attention_mask=False, return_token_type_ids=False),
                 batched=True, remove_columns=["text"])
""") + "found.save_to_disk(sys.argv[3])\n"


@pytest.mark.data
def test_tokenize_against_datasets(benchmark: Any, data: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    documents = list(itertools.islice(texts(data), 300 if benchmark.disabled else None))
    source = tmp_path / "text.jsonl"
    source.write_text("".join(json.dumps({"id": str(n), "text": text}, ensure_ascii=False) + "\n"
                              for n, text in enumerate(documents)), encoding="utf-8")
    size = 1_000 if benchmark.disabled else 30_000
    save_tokenizer(train_tokenizer(documents, VocabularyConfig(size=size, allow_fewer=True)),
                   tmp_path / "tokenizer")
    places = (tmp_path / f"out{number}" for number in itertools.count())
    ours: list[tuple[float, float, float]] = []

    def run() -> None:
        ours.append(measured(_OURS, tmp_path / "tokenizer", source, next(places)))

    theirs = [measured(_THEIRS, tmp_path / "tokenizer", source, tmp_path / "theirs")]
    benchmark.pedantic(run, rounds=_ROUNDS)
    expected = datasets.load_from_disk(str(tmp_path / "theirs")).with_format("numpy")["input_ids"]
    corpus = Corpus.open(tmp_path / "out0")
    everything = np.arange(len(corpus))
    ids, _ = corpus.gather(everything, np.zeros_like(everything), corpus.lengths)
    assert (ids == np.concatenate(list(expected))).all()
    if benchmark.disabled:
        return
    theirs += [measured(_THEIRS, tmp_path / "tokenizer", source, tmp_path / f"theirs{number}")
               for number in range(1, _ROUNDS)]
    report(benchmark, source, ours, theirs)


def texts(data: Path) -> Iterator[str]:
    """Read about 21 megabytes: abstracts, case reports, clinical cases and leaflets."""
    for name in _FILES:
        opening = gzip.open if name.endswith(".gz") else open
        with opening(data / name, "rt", encoding="utf-8") as stream:  # type: ignore[operator]
            for record in map(json.loads, stream):
                yield f"{record['title']}\n{record['text']}" if "title" in record \
                    else record["text"]


def measured(code: str, *arguments: Path) -> tuple[float, float, float]:
    """Return seconds, growth and peak in megabytes of a process of its own, with one thread."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, check=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1",
             "HF_DATASETS_OFFLINE": "1"})
    seconds, growth, peak = map(float, done.stdout.split()[-3:])
    return seconds, growth, peak


def report(benchmark: Any, source: Path, ours: list[tuple[float, float, float]],
           theirs: list[tuple[float, float, float]]) -> None:
    (seconds, growth, peak), (their_seconds, their_growth, their_peak) = (
        map(statistics.median, zip(*runs, strict=True)) for runs in (ours, theirs))
    ratio = their_seconds / seconds
    size = source.stat().st_size / 1e6
    benchmark.extra_info.update(
        megabytes=round(size, 1), seconds=round(seconds, 2), times_faster=round(ratio, 2),
        datasets_seconds=round(their_seconds, 2), peak_megabytes=round(peak),
        datasets_peak_megabytes=round(their_peak))
    print(f"\n{size:.1f} MB: {ratio:.1f} times faster than datasets.map ({seconds:.1f} s and "
          f"{their_seconds:.1f} s); memory grew by {growth:.0f} and {their_growth:.0f} MB, to "
          f"{peak:.0f} and {their_peak:.0f}")
