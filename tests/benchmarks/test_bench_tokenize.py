"""Tokenizing a corpus against datasets: `pytest --benchmark-enable -s tests/benchmarks`.

`datasets.map` reads text that is already in memory-mapped Arrow and writes ids. `tokenize` reads
JSON Lines, checks every record and writes ids, word starts and borders. Both use one process and
one thread. Without that option each side runs once on little input, and only the ids are compared.
"""

from __future__ import annotations

import gzip
import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from timing import ROUNDS, measured, note, program, write
from toy_tokenizers import train_tokenizer

from bmtools.data.shards import Corpus
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import save_tokenizer

_FILES = ("en/corpus/pubmed-drug-reviews.jsonl.gz", "en/corpus/pubmed-case-reports.jsonl.gz",
          "it/corpus/native-clinical.jsonl", "it/corpus/native-leaflets.jsonl.gz")

_OURS = program("""
from bmtools.io.jsonl import RecordReader
from bmtools.data.tokenize import tokenize
from bmtools.vocab.loading import load_tokenizer
tokenizer = load_tokenizer(Path(sys.argv[1]))
""", "tokenize(RecordReader([sys.argv[2]]), tokenizer, Path(sys.argv[3]))")
_THEIRS = program("""
import datasets
from bmtools.vocab.loading import load_tokenizer
datasets.disable_progress_bars()
tokenizer = load_tokenizer(Path(sys.argv[1]))
text = datasets.load_dataset("json", data_files=sys.argv[2], split="train",
                             cache_dir=sys.argv[3] + ".cache").select_columns(["text"])
""", """
found = text.map(lambda batch: tokenizer(batch["text"], add_special_tokens=False,
                                        return_attention_mask=False, return_token_type_ids=False),
                 batched=True, remove_columns=["text"])
""", "found.save_to_disk(sys.argv[3])")


@pytest.mark.data
def test_tokenize_against_datasets(benchmark: Any, data: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    documents = list(itertools.islice(texts(data), 300 if benchmark.disabled else None))
    source = write(tmp_path / "text.jsonl", [{"id": str(number), "text": text}
                                             for number, text in enumerate(documents)])
    size = 1_000 if benchmark.disabled else 30_000
    save_tokenizer(train_tokenizer(documents, VocabularyConfig(size=size, allow_fewer=True)),
                   tmp_path / "tokenizer")
    runs = [[measured(code, tmp_path / "tokenizer", source, tmp_path / f"{name}{number}")
             for name, code in (("ours", _OURS), ("theirs", _THEIRS))]
            for number in range(1 if benchmark.disabled else ROUNDS)]
    expected = datasets.load_from_disk(str(tmp_path / "theirs0")).with_format("numpy")["input_ids"]
    corpus = Corpus.open(tmp_path / "ours0")
    everything = np.arange(len(corpus))
    ids, _ = corpus.gather(everything, np.zeros_like(everything), corpus.lengths)
    assert (ids == np.concatenate(list(expected))).all()
    (seconds, peak), (their_seconds, their_peak) = (
        map(statistics.median, zip(*side, strict=True)) for side in zip(*runs, strict=True))
    note(benchmark, megabytes=round(source.stat().st_size / 1e6, 1), seconds=round(seconds, 2),
         times_faster=round(their_seconds / seconds, 2), memory=round(peak / their_peak, 2))


def texts(data: Path) -> Iterator[str]:
    """Read about 21 megabytes: abstracts, case reports, clinical cases and leaflets."""
    for name in _FILES:
        opening = gzip.open if name.endswith(".gz") else open
        with opening(data / name, "rt", encoding="utf-8") as stream:  # type: ignore[operator]
            for record in map(json.loads, stream):
                yield f"{record['title']}\n{record['text']}" if "title" in record \
                    else record["text"]

