"""Building of a vocabulary: sample documents, train or extend a tokenizer, and save it."""

from __future__ import annotations

import hashlib
import heapq
import io
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from bmtools.errors import DataError, setting
from bmtools.io.directories import new_directory, refuse_existing
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import temporary_file
from bmtools.io.provenance.manifest import DirectoryHashes, Manifest
from bmtools.io.step import Step
from bmtools.records import JsonObject, full_text
from bmtools.settings import split_settings
from bmtools.vocab.extension import extend_tokenizer, tokenizer_type_of
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, is_uncased, save_tokenizer
from bmtools.vocab.trainers import TrainedTokenizer, train_backend

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_MEGABYTE = 1_000_000
_KEY_BYTES = 8
_SIZE_BITS = 48  # bits of a document's length, which shares an integer with its key
_HEADER = struct.Struct("<QQ")  # number and length of a document
Progress = Callable[[Iterable[Mapping[str, object]]], Iterable[Mapping[str, object]]]


@dataclass(frozen=True)
class BuiltVocabulary:
    """A vocabulary and facts about it.

    Args:
        made: the trained or extended tokenizer.
        results: values for JSON, such as vocabulary size and sample.
        fingerprint: fingerprint of the tokenizer.
    """

    made: TrainedTokenizer | PreTrainedTokenizerFast
    results: JsonObject
    fingerprint: str

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The tokenizer as an object of transformers."""
        return self.made.loaded() if isinstance(self.made, TrainedTokenizer) else self.made


def build_vocab(records: str | PathLike[str] | Iterable[Mapping[str, object]],
                config: VocabularyConfig = VocabularyConfig(),  # noqa: B008 (frozen)
                output: str | PathLike[str] | None = None, *,
                extend: str | PathLike[str] | None = None,
                overwrite: bool = False, progress: Progress = iter, step: Step | None = None,
                **settings: object) -> BuiltVocabulary:
    """Train a tokenizer, or extend one: `build_vocab("texts.jsonl", output="vocab", size=8000)`.

    Args:
        records: a file or records, read once, including titles; the sample of their texts is kept
            in a temporary file, unless `sample_megabytes` is 0.
        config: settings of the vocabulary.
        output: directory to write, with a manifest; None to write no files.
        extend: tokenizer or checkpoint whose tokens keep their ids; new tokens follow.
        overwrite: replace the contents of the output directory.
        step: the command, if one runs.
        progress: passes records on, to show progress.
        settings: fields of `config`, which override its values.

    Raises:
        DataError: there is no text, or too little.
        CheckpointError: the old tokenizer cannot be extended.
    """
    [config] = split_settings({**asdict(config), **settings}, VocabularyConfig)
    if isinstance(records, str | PathLike):
        records = RecordReader([str(records)])
    if output is not None:
        refuse_existing(Path(output), overwrite)
    started = time.monotonic()
    old = None if extend is None else load_tokenizer(Path(extend))
    megabytes = config.sample_megabytes
    made: TrainedTokenizer | PreTrainedTokenizerFast
    kind: JsonObject
    with temporary_file() as file:
        sample = DocumentSample(round(megabytes * _MEGABYTE) if megabytes else sys.maxsize,
                                config.seed, file)
        texts: Iterable[str] = map(full_text, progress(records))
        texts = sample.add(texts) if megabytes else sample.passed(texts)
        if old is None:
            made = train_backend(texts, config)
            kind = {"tokenizer_type": config.tokenizer_type,
                    "special_tokens": config.special_token_style}
        else:
            kind = {"tokenizer_type": tokenizer_type_of(old.backend_tokenizer, str(extend))}
            made, numbers = extend_tokenizer(old, texts, config, str(extend))
    tokenizer = cast("PreTrainedTokenizerFast", made)
    results = {"vocab_size": len(tokenizer), "requested_size": config.size, **kind,
               "uncased": is_uncased(tokenizer), "sample": sample.summary(),
               **({} if old is None else numbers)}
    built = BuiltVocabulary(made, results, fingerprint(tokenizer))
    if output is not None:
        manifest = Manifest(
            "build-vocab", {**asdict(config), "extend": extend and str(extend)},
            built.fingerprint, seed=config.seed, inputs=getattr(records, "hashes", {}),
            parents=DirectoryHashes({} if extend is None else {"extended": Path(extend)}),
            wall_seconds=time.monotonic() - started, results=results,
            licences={"text": records.licences()} if isinstance(records, RecordReader) else {},
            step=step)
        with new_directory(Path(output), overwrite) as partial:
            save_tokenizer(tokenizer, partial)
            manifest.write(partial)
    return built


@dataclass
class DocumentSample:
    """Sample of a stream's documents, each with the same chance.

    A document's number and the seed determine its random key. The documents with the lowest keys
    that fit into the limit are kept. A document that is larger than the limit is skipped. So the
    sample does not depend on batches, threads or machines.

    Args:
        max_bytes: size limit of the sample, in UTF-8 bytes.
        seed: seed of the sample.
        file: contains the documents, so that memory contains only a number for each.

    Attributes:
        documents: number of documents read so far.
        total_bytes: length of these documents in UTF-8.
        sampled_bytes: length of the sampled documents in UTF-8.
    """

    max_bytes: int
    seed: int
    file: BinaryIO = field(default_factory=io.BytesIO)
    documents: int = 0
    total_bytes: int = 0
    sampled_bytes: int = 0
    _kept: list[int] = field(default_factory=list)  # keys and lengths, the highest key first
    _key_limit: int = 1 << 8 * _KEY_BYTES

    def passed(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass every document on and count it, without keeping it."""
        for text in texts:
            self.documents += 1
            self.total_bytes += len(text.encode("utf-8", "surrogatepass"))
            yield text

    def add(self, texts: Iterable[str]) -> Iterator[str]:
        """Sample more documents, and return all sampled documents in the order of the stream.

        Raises:
            DataError: every document is larger than the limit.
        """
        self.file.seek(0, io.SEEK_END)
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            key = random_key(self.seed, self.documents)
            if key < self._key_limit and len(content) <= self.max_bytes:
                heapq.heappush(self._kept, -(key << _SIZE_BITS | len(content)))
                self.file.write(_HEADER.pack(self.documents, len(content)) + content)
                self.sampled_bytes += len(content)
            self.documents += 1
            self.total_bytes += len(content)
            while self.sampled_bytes > self.max_bytes:
                # Drop the document with the highest key, and all later documents with higher keys.
                self._key_limit, size = divmod(-heapq.heappop(self._kept), 1 << _SIZE_BITS)
                self.sampled_bytes -= size
        if self.documents and not self._kept:
            raise DataError(
                f"{setting('sample_megabytes')}: found {self.max_bytes} bytes, which is less than "
                f"every sampled document (on average {self.total_bytes // self.documents} bytes); "
                "set it higher")
        return self._sampled()

    def _sampled(self) -> Iterator[str]:
        self.file.seek(0)
        while header := self.file.read(_HEADER.size):
            number, size = _HEADER.unpack(header)
            content = self.file.read(size)
            if random_key(self.seed, number) < self._key_limit:
                yield content.decode("utf-8", "surrogatepass")

    def summary(self) -> dict[str, int]:
        """Count the documents and bytes of the sample and of the stream."""
        kept = bool(self._kept)
        return {"documents": len(self._kept) if kept else self.documents,
                "total_documents": self.documents,
                "bytes": self.sampled_bytes if kept else self.total_bytes,
                "total_bytes": self.total_bytes}


def random_key(seed: int, number: int) -> int:
    """Return a document's key: 64 pseudo-random bits, the same on any machine."""
    digest = hashlib.blake2b(str(number).encode(), digest_size=_KEY_BYTES,
                             key=f"sample {seed}".encode())
    return int.from_bytes(digest.digest(), "big")
