"""A running command, as the records of its outputs describe it."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.installation import versions
from bmtools.io.provenance.licences import WrittenLicences

if TYPE_CHECKING:
    from bmtools.io.energy.meter import Meter
    from bmtools.records import JsonObject

_PACKAGES = ("torch", "transformers", "tokenizers", "accelerate", "ctranslate2", "lxml")


class Step:
    """The inputs, outputs and energy of a command.

    A command passes its step to its reader, its writer and the function that works. The step of a
    function called from Python has no command and keeps no records.

    Args:
        command: name of the command, such as `import pubmed`.
        settings: its parameters, without its inputs and outputs.
        meter: measures its energy; None if that is not measured.

    Attributes:
        read: SHA-256 of each completely read source, by name.
        upstream: records of the commands that were piped into this one, by the names of inputs.
        directories: hashes of the directories that it has read, by real path.
        licences: licences of the records that it writes.
    """

    def __init__(self, command: str = "", settings: Mapping[str, object] | None = None,
                 meter: Meter | None = None) -> None:
        self.command, self.settings, self.meter = command, settings or {}, meter
        self.read: dict[str, str] = {}
        self.upstream: dict[str, JsonObject] = {}
        self.directories: dict[Path, str] = {}
        self.licences = WrittenLicences()
        self._pipes: dict[str, str] = {}
        self._clock = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.monotonic() - self._clock

    def source(self, name: str) -> str:
        """Return the name of an input that records the input's digest."""
        from bmtools.io.provenance.pipes import pipe_number
        from bmtools.io.sources import STDIN, SourceName

        if not self.command:
            return name
        if number := pipe_number(0 if name == STDIN else name):
            self._pipes[name] = number
        return SourceName(name, self._note_read)

    def _note_read(self, name: str, digest: str) -> None:
        from bmtools.io.provenance.pipes import take_record
        from bmtools.io.sources import source_name

        self.read[str(name)] = digest
        if name in self._pipes and (record := take_record(self._pipes[name], digest)):
            self.upstream[source_name(name)] = record

    @contextmanager
    def metered(self) -> Iterator[None]:
        """Measure the energy of the block, unless it is already measured.

        Raises:
            ValueError: an environment variable declares an invalid value.
        """
        if self.meter is not None:
            yield
            return
        from bmtools.io.energy.meter import Meter

        try:
            with Meter() as self.meter:
                yield
        finally:
            self.meter = None

    def energy(self) -> JsonObject:
        """Return the energy of the work so far; empty if it is not measured."""
        return self.meter.total() if self.meter else {}

    def gather_energy(self, all_gather: Callable[[list[JsonObject]], list[JsonObject]]) -> None:
        """Add the energy of the launcher's other processes; see `Meter.gather`."""
        if self.meter:
            self.meter.gather(all_gather)

    def resume_energy(self, earlier: JsonObject) -> None:
        """Add the energy of earlier sessions."""
        if self.meter and earlier:
            self.meter.resume(earlier)

    def keys(self, seconds: float = 0.0) -> JsonObject:
        """Return the keys that all records of the step share.

        Args:
            seconds: seconds since the work began; for work without a command.
        """
        began = datetime.now(UTC) - timedelta(seconds=self.seconds if self.command else seconds)
        keys: JsonObject = {"started": began.isoformat(timespec="seconds")}
        if self.upstream:
            keys["upstream"] = self.upstream
        if energy := self.energy():
            keys["energy"] = energy
        return keys


def versions_used(*packages: str) -> dict[str, str]:
    """Return the versions of bmtools, Python and the packages; without arguments, of the imported
    packages among the known ones."""
    names = packages or [name for name in _PACKAGES if name in sys.modules]
    return {**versions(*names), "python": platform.python_version()}
