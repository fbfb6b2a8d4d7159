"""Random sample of documents from a stream of any length."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_KEY_BYTES = 8
_KEYS = 1 << 8 * _KEY_BYTES


@dataclass
class DocumentSample:
    """Sample of a stream's documents, each with the same chance.

    A document's number and the seed decide its random key, and the documents with the lowest keys
    that fit into the bound are kept. So the sample does not depend on batches, threads or
    machines.

    Args:
        max_bytes: bound of the sample, in bytes of UTF-8.
        seed: of the sample.

    Attributes:
        documents: read so far.
        total_bytes: their length in UTF-8.
        sampled_bytes: length of those kept.
    """

    max_bytes: int
    seed: int
    documents: int = 0
    total_bytes: int = 0
    sampled_bytes: int = 0
    _kept: list[tuple[int, int, bytes]] = field(default_factory=list)
    _key_limit: int = _KEYS

    def passed(self, texts: Iterable[str]) -> Iterator[str]:
        """Pass every document on, keeping none, and count."""
        for text in texts:
            self.documents += 1
            self.total_bytes += len(text.encode("utf-8", "surrogatepass"))
            yield text

    def add(self, texts: Iterable[str]) -> None:
        """Sample more documents."""
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            key = random_key(self.seed, "sample", self.documents)
            if key < self._key_limit:
                heapq.heappush(self._kept, (-key, self.documents, content))
                self.sampled_bytes += len(content)
            self.documents += 1
            self.total_bytes += len(content)
            while self.sampled_bytes > self.max_bytes:
                # Drop the highest key, and with it all that would come after.
                key, _, content = heapq.heappop(self._kept)
                self._key_limit = -key
                self.sampled_bytes -= len(content)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the sampled documents with their numbers, in the order of the stream."""
        for _, number, content in sorted(self._kept, key=lambda kept: kept[1]):
            yield number, content.decode("utf-8", "surrogatepass")

    def summary(self) -> dict[str, int]:
        """Count documents and bytes of the sample and of the stream."""
        kept = bool(self._kept)
        return {"documents": len(self) if kept else self.documents,
                "total_documents": self.documents,
                "bytes": self.sampled_bytes if kept else self.total_bytes,
                "total_bytes": self.total_bytes}


def is_held_out(seed: int, number: int, ratio: float) -> bool:
    """Return whether a document belongs to the share that nothing is trained on."""
    return random_key(seed, "held out", number) < ratio * _KEYS


def random_key(seed: int, purpose: str, number: int) -> int:
    """Return a document's key: 64 bits that look random, the same on any machine.

    Args:
        seed: of the sample.
        purpose: keeps samples for different ends independent.
        number: the document's.
    """
    digest = hashlib.blake2b(str(number).encode(), digest_size=_KEY_BYTES,
                             key=f"{purpose} {seed}".encode())
    return int.from_bytes(digest.digest(), "big")
