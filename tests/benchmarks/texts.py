"""Real abstracts for pretraining benchmarks: a directory of shards, and a tokenizer directory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from transformers import BertTokenizer

from bmtools.data.tokenize import tokenize
from bmtools.io.jsonl import RecordReader
from bmtools.text.segment import sentence_spans
from bmtools.vocab.tokenizer import save_tokenizer

_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
_VOCABULARY = "vocab/bert-base-uncased.txt"
_WORDS = 25_000
_ABSTRACT_WORDS = 350


def encode_abstracts(data: Path, directory: Path) -> tuple[str, str]:
    """Encode all abstracts, with their titles."""
    return _encode(data, data / _ABSTRACTS, directory)


def encode_sentences(data: Path, directory: Path, abstracts: int = 3_000) -> tuple[str, str]:
    """Encode the sentences of some abstracts, each as a document."""
    source = directory / "sentences.jsonl"
    with source.open("w", encoding="utf-8") as stream:
        for number, sentence in enumerate(_sentences(data / _ABSTRACTS, abstracts)):
            stream.write(json.dumps({"id": str(number), "text": sentence}) + "\n")
    return _encode(data, source, directory)


def made_up_texts(count: int, words: int, seed: int = 0) -> list[str]:
    """Make texts with a number of words whose frequencies are as in real text: t0, t1 ..."""
    rng = np.random.default_rng(seed)
    ranks = np.exp(rng.random((count, words)) * np.log(_WORDS)).astype(int)
    return [" ".join(f"t{rank}" for rank in row) for row in ranks]


def write_made_up_texts(path: Path, count: int) -> Path:
    """Write made-up texts with the length of real abstracts, as records."""
    with path.open("w", encoding="utf-8") as stream:
        for number, text in enumerate(made_up_texts(count, _ABSTRACT_WORDS)):
            stream.write(json.dumps({"id": str(number), "text": text}) + "\n")
    return path


def _sentences(path: Path, abstracts: int) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        for _, line in zip(range(abstracts), stream, strict=False):
            text = json.loads(line)["text"]
            yield from (text[start:end] for start, end in sentence_spans(text, "en"))


def _encode(data: Path, source: Path, directory: Path) -> tuple[str, str]:
    lines = (data / _VOCABULARY).read_text(encoding="utf-8").splitlines()
    tokenizer = BertTokenizer(vocab={token: number for number, token in enumerate(lines)},
                              do_lower_case=True)
    save_tokenizer(tokenizer, directory / "tokenizer")
    tokenize(RecordReader([str(source)]), tokenizer, directory / "shards")
    return str(directory / "shards"), str(directory / "tokenizer")
