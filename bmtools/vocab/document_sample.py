"""Drawing documents at random from a stream of any length."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_KEY_BYTES = 8
MEGABYTE = 1_000_000


@dataclass
class DocumentSample:
    """Documents drawn from a stream, each with the same chance.

    A document's number and the seed decide its place in the draw, and the first places that fit
    into the bound are taken. So what is drawn does not depend on batches, threads or machines.

    Args:
        most_bytes: bound of what is held, in bytes of UTF-8.
        seed: of the draw.

    Attributes:
        documents: read so far.
        total_bytes: their length in UTF-8.
        drawn_bytes: length of those held.
    """

    most_bytes: int
    seed: int
    documents: int = 0
    total_bytes: int = 0
    drawn_bytes: int = 0
    _held: list[tuple[int, int, bytes]] = field(default_factory=list)
    _limit: int = 1 << 8 * _KEY_BYTES

    def passed(self, texts: Iterable[str]) -> Iterator[str]:
        """Draw every document, holding none: pass them on and keep the figures."""
        for text in texts:
            self.documents += 1
            self.total_bytes += len(text.encode("utf-8", "surrogatepass"))
            yield text

    def add(self, texts: Iterable[str]) -> None:
        """Read documents."""
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            place = draw(self.seed, "sample", self.documents)
            if place < self._limit:
                heapq.heappush(self._held, (-place, self.documents, content))
                self.drawn_bytes += len(content)
            self.documents += 1
            self.total_bytes += len(content)
            while self.drawn_bytes > self.most_bytes:
                self._give_up_last()

    def _give_up_last(self) -> None:
        """Let the last place go, and all that would come after it."""
        place, _, content = heapq.heappop(self._held)
        self._limit = -place
        self.drawn_bytes -= len(content)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """The documents drawn, with their numbers, in the order that they came in."""
        for _, number, content in sorted(self._held, key=lambda held: held[1]):
            yield number, content.decode("utf-8", "surrogatepass")

    def figures(self) -> dict[str, int]:
        """What was drawn, of what."""
        held = bool(self._held)
        return {"documents": len(self) if held else self.documents,
                "of_documents": self.documents,
                "bytes": self.drawn_bytes if held else self.total_bytes,
                "of_bytes": self.total_bytes}


def draw(seed: int, purpose: str, number: int) -> int:
    """Give a document's place in a draw: 64 bits that look random, the same on any machine.

    Args:
        seed: of the draw.
        purpose: keeps draws for different ends independent.
        number: the document's.
    """
    digest = hashlib.blake2b(str(number).encode(), digest_size=_KEY_BYTES,
                             key=f"{purpose} {seed}".encode())
    return int.from_bytes(digest.digest(), "big")


def is_held_out(seed: int, number: int, share: float) -> bool:
    """Whether a document belongs to the share that nothing is learned from."""
    return draw(seed, "held out", number) < share * (1 << 8 * _KEY_BYTES)
