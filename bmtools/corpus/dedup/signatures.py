"""MinHash signatures of the records of a block of lines."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import msgspec
import numpy as np

from bmtools.corpus.dedup.folding import END, batches, fold_texts
from bmtools.corpus.dedup.lines import read_texts
from bmtools.corpus.dedup.settings import DedupConfig
from bmtools.corpus.dedup.words import Words
from bmtools.io.jsonl import Block
from bmtools.io.workers import Outcome

DIGEST_BYTES = 16
DIGEST = np.dtype(f"V{DIGEST_BYTES}")
_SIZE_BYTES = 8
_decode = msgspec.msgpack.Decoder(
    tuple[list[str], bytes, bytes, bytes, bytes, str, int]).decode


@dataclass(frozen=True, eq=False)
class Sketches:
    """Sketches of the records of a block, by which they are compared; sent as bytes.

    Args:
        ids: of the records.
        lines: (records,) numbers of their lines within the block.
        digests: (records,) 16 bytes of SHA-256 of each text, folded or as it is.
        lengths: (records,) uint32 words, or bytes where none are looked for.
        signatures: (records, permutations) uint32, or (records, 0) for exact duplicates.
        source: name of the file.
        line_count: lines of the block.
    """

    ids: list[str]
    lines: np.ndarray
    digests: np.ndarray
    lengths: np.ndarray
    signatures: np.ndarray
    source: str
    line_count: int

    def encode(self) -> bytes:
        """Encode them, their size first."""
        content = msgspec.msgpack.encode([
            self.ids, self.lines.tobytes(), self.digests.tobytes(), self.lengths.tobytes(),
            self.signatures.tobytes(), self.source, self.line_count])
        return len(content).to_bytes(_SIZE_BYTES) + content

    @classmethod
    def read(cls, stream: IO[bytes]) -> Iterator[Sketches]:
        """Read those of many blocks."""
        while size := stream.read(_SIZE_BYTES):
            ids, *arrays, source, count = _decode(stream.read(int.from_bytes(size)))
            kinds: tuple[Any, ...] = (np.int64, DIGEST, np.uint32, np.uint32)
            lines, digests, lengths, rows = (np.frombuffer(content, kind) for content, kind in zip(
                arrays, kinds, strict=True))
            yield cls(ids, lines, digests, lengths, rows.reshape(len(ids), -1) if ids else
                      rows.reshape(0, 0), source, count)


class Sketcher:
    """Maker of sketches, in a worker process.

    Args:
        config: settings.
    """

    def __init__(self, config: DedupConfig) -> None:
        self._config = config

    def __call__(self, block: Block) -> Iterator[Outcome]:
        """Yield the sketches of a block, as the lines of an outcome."""
        outcome = Outcome()
        ids, texts, lines = read_texts(block, outcome.reject)
        if self._config.duplicates == "bytes":
            contents = [text.encode() for text in texts]
            digests, lengths = _digests(contents), np.array([*map(len, contents)], np.uint32)
            signatures = np.empty((len(texts), 0), np.uint32)
        else:
            parts = [self._sketch(texts[first:end]) for first, end in batches(texts)]
            digests, lengths, signatures = (np.concatenate(each) for each in zip(
                *(parts or [self._sketch([])]), strict=True))
        outcome.lines = Sketches(ids, lines, digests, lengths, signatures, block.name,
                                 block.line_count).encode()
        yield outcome

    def _sketch(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        content = fold_texts(texts)
        digests = _digests(content.split(END)[:-1])
        words = Words.of(content)
        lengths = np.diff(words.offsets).astype(np.uint32)
        if self._config.duplicates != "near":
            return digests, lengths, np.empty((len(texts), 0), np.uint32)
        return digests, lengths, signatures(
            *words.ngrams(self._config.ngram_words), self._config)


def signatures(shingles: np.ndarray, offsets: np.ndarray, config: DedupConfig) -> np.ndarray:
    """Compute signatures, (texts, permutations) uint32, from the hashes of runs of words."""
    from rensa import RMinHash

    rows = RMinHash.digest_matrix_from_flat_token_hashes(
        shingles, offsets.astype(np.uint64), config.permutations, config.seed).to_rows()
    found = array("I")
    for row in rows:
        found.fromlist(row)  # twice as fast as np.array
    return np.frombuffer(found, np.uint32).reshape(-1, config.permutations)


def _digests(contents: Sequence[bytes]) -> np.ndarray:
    content = b"".join([hashlib.sha256(one).digest()[:DIGEST_BYTES] for one in contents])
    return np.frombuffer(content, DIGEST)
