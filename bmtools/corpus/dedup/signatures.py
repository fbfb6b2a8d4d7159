"""MinHash signatures of the records of a block of lines."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from bmtools.corpus.dedup.folding import END, batches, fold_texts
from bmtools.corpus.dedup.settings import DedupConfig
from bmtools.corpus.dedup.words import Words
from bmtools.errors import RecordError
from bmtools.io.jsonl import parse_records
from bmtools.io.parallel import Block

DIGEST_BYTES = 16


class _Fields(msgspec.Struct):
    id: str
    text: str


_decoder = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, eq=False)
class Sketches:
    """What is kept of the records of a block to compare them.

    Args:
        ids: of the records.
        lines: (records,) numbers of their lines within the block.
        digests: (records,) 16 bytes of SHA-256 of each text, folded or as it is.
        lengths: (records,) uint32 words, or bytes where none are looked for.
        signatures: (records, permutations) uint32, or (records, 0) for exact duplicates.
        rejects: place, reason and content of each bad record.
        source: name of the file.
        line_count: lines of the block.
    """

    ids: list[str]
    lines: np.ndarray
    digests: np.ndarray
    lengths: np.ndarray
    signatures: np.ndarray
    rejects: list[tuple[str, str, Any]]
    source: str
    line_count: int


class Sketcher:
    """Maker of sketches, in a worker process.

    Args:
        config: settings.
    """

    def __init__(self, config: DedupConfig) -> None:
        self._config = config

    def __call__(self, block: Block) -> Sketches:
        rejects: list[tuple[str, str, Any]] = []
        ids, texts, lines = read_texts(block, rejects)
        if self._config.duplicates == "bytes":
            contents = [text.encode() for text in texts]
            digests, lengths = _digests(contents), np.array([*map(len, contents)], np.uint32)
            signatures = np.empty((len(texts), 0), np.uint32)
        else:
            parts = [self._sketch(texts[first:end]) for first, end in batches(texts)]
            digests, lengths, signatures = (np.concatenate(each) for each in zip(
                *(parts or [self._sketch([])]), strict=True))
        return Sketches(ids, lines, digests, lengths, signatures, rejects, block.name,
                        block.lines.count(b"\n") + (not block.lines.endswith(b"\n")))

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
    content = b"".join([array("I", row).tobytes() for row in rows])  # twice as fast as np.array
    return np.frombuffer(content, np.uint32).reshape(-1, config.permutations)


def read_texts(block: Block, rejects: list[tuple[str, str, Any]]
               ) -> tuple[list[str], list[str], np.ndarray]:
    """Read the ids and texts of a block, and the numbers of their lines.

    Other keys are neither looked at nor checked where every line is a record, for speed.

    Args:
        block: of lines.
        rejects: gets place, reason and content of each bad record.
    """
    count = block.lines.count(b"\n") + (not block.lines.endswith(b"\n"))
    try:
        records: Sequence[Any] = _decoder.decode_lines(block.lines)
        if len(records) == count:
            return [one.id for one in records], [one.text for one in records], np.arange(count)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass

    def reject(error: RecordError) -> None:
        rejects.append((error.place, error.reason, error.content))

    found = list(parse_records(block.lines.splitlines(keepends=True), block.name, reject,
                               block.first_line - 1))
    lines = [int(one.place.rpartition(":")[2]) - block.first_line for one in found]
    return [one["id"] for one in found], [one["text"] for one in found], np.array(lines, np.int64)


def _digests(contents: Sequence[bytes]) -> np.ndarray:
    content = b"".join([hashlib.sha256(one).digest()[:DIGEST_BYTES] for one in contents])
    return np.frombuffer(content, f"V{DIGEST_BYTES}")
