"""Real abstracts for benchmarks of pretraining: a directory of shards, and their tokenizer's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from transformers import BertTokenizer

from bmtools.data.tokenize import tokenize
from bmtools.io.jsonl import RecordReader
from bmtools.search.segment import sentence_spans
from bmtools.vocab.tokenizer import save_tokenizer

_ABSTRACTS = "en/corpus/pubmed-drug-reviews.jsonl.gz"
_VOCABULARY = "vocab/bert-base-uncased.txt"


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
