"""Step: the command that is running, and what all records of its outputs have in common."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bmtools.installation import versions
from bmtools.io.digests import Digests, taking_digests
from bmtools.io.energy.meter import current
from bmtools.io.provenance.licences import WrittenLicences
from bmtools.io.provenance.pipes import take_record
from bmtools.io.sources import source_name

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "ctranslate2", "lxml")


class Step:
    """Running command.

    Args:
        command: its name, as `import pubmed`.
        settings: its parameters, without its inputs and outputs.
        sources: names of what it may read.
        pipes: numbers of the pipes among them, by name; see `provenance.pipes`.

    Attributes:
        digests: of what it reads and writes.
        upstream: records of the commands that were piped into it, by the names of inputs.
        licences: of the records that it writes.
        directories: hashes of those that it reads, by real path.
    """

    def __init__(self, command: str, settings: Mapping[str, Any], sources: Collection[str],
                 pipes: Mapping[str, str]) -> None:
        self.command, self.settings, self._pipes = command, settings, pipes
        self.digests = Digests(frozenset(sources), self._take_upstream)
        self.upstream: dict[str, dict[str, Any]] = {}
        self.licences = WrittenLicences()
        self.directories: dict[Path, str] = {}
        self._clock = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._clock

    def _take_upstream(self, name: str, digest: str) -> None:
        if name in self._pipes and (record := take_record(self._pipes[name], digest)):
            self.upstream[source_name(name)] = record


_current: Step | None = None


@contextmanager
def running(step: Step) -> Iterator[None]:
    """Make a command the current one, and take its digests, until the block ends."""
    global _current
    outer, _current = _current, step
    try:
        with taking_digests(step.digests):
            yield
    finally:
        _current = outer


def common_keys(seconds: float) -> dict[str, Any]:
    """Return the keys that all records of the current step have.

    Args:
        seconds: since it began, where no command is running.
    """
    step = _current
    started = datetime.now(UTC) - timedelta(seconds=step.seconds if step else seconds)
    keys: dict[str, Any] = {"started": started.isoformat(timespec="seconds")}
    if step is not None and step.upstream:
        keys["upstream"] = step.upstream
    if energy := current():
        keys["energy"] = energy
    return keys


def known_directories() -> dict[Path, str]:
    """Return the hashes of directories that the current step has read, to be added to."""
    return {} if _current is None else _current.directories


def versions_used(*packages: str) -> dict[str, str]:
    """Return the versions of bmtools, Python and packages; of known ones that were imported, where
    none are named."""
    names = packages or [name for name in _PACKAGES if name in sys.modules]
    return {**versions(*names), "python": platform.python_version()}


def noting_licences(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Have the licences of records on their way to a file noted in its record."""
    return lines if _current is None else _current.licences.passing(lines)
