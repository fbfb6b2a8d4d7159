"""Translation into a file, which can be resumed."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

import msgspec

from bmtools.errors import RecordError, Reject
from bmtools.io.directories import discard_run
from bmtools.io.output import encode_lines, open_output
from bmtools.io.passes import COMMIT_SECONDS, RECORDS, ResumableRun, Stage
from bmtools.io.step import Step
from bmtools.records import Record


class TranslationRun(ResumableRun):
    """Run that translates into a file.

    The run's directory contains the finished records, uncompressed, the rejected records, the
    position in the input and, unless another cache was named, the translated sentences.

    Args:
        output: path of a regular file, or of a new one.
        step: the command.

    Attributes:
        counts: counts of the finished records, including records before an interruption.
        finish: converts all records before they are written to the output; None to write them
            unchanged.
    """

    def __init__(self, output: str, step: Step | None = None) -> None:
        super().__init__(output, step)
        self._hashes: deque[str] = deque()  # of all inputs up to each input that is not committed
        self._stage: Stage
        self.counts: Counter[str] = Counter()
        self.finish: Callable[[Iterable[Record]], Iterable[Record]] | None = None

    def begin_translating(self, settings: Mapping[str, object],
                          items: Iterable[Record | RecordError], reject: Reject,
                          ) -> tuple[str, Iterator[Record | RecordError], Reject]:
        """Make the directory, or read its progress; see `ResumableRun`.

        Returns:
            the name of the run, the items that are not done, and a function that records rejected
            items after the ones from before an interruption.
        """
        name = self.begin(settings)
        self._stage = self.stage()
        self.counts.update(self._stage.progress.counts)
        return name, self._stage.rest(self._hashed(items)), self._stage.rejecting(reject)

    def _hashed(self, items: Iterable[Record | RecordError],
                ) -> Iterator[tuple[Record | RecordError, str]]:
        digest, done = blake2b(digest_size=16), self._stage.progress.inputs
        for number, item in enumerate(items, 1):
            digest.update(encode_lines([item.content if isinstance(item, RecordError) else item]))
            if number > done:
                self._hashes.append(digest.hexdigest())
            yield item, digest.hexdigest()

    def write(self, records: Iterable[Record]) -> None:
        """Write records to the run's directory, then all of them to the output file."""
        written = self._stage.file(RECORDS)
        committed = time.monotonic()
        for record in records:
            written.write(encode_lines([record]))
            if time.monotonic() - committed > COMMIT_SECONDS:
                self._commit()
                committed = time.monotonic()
        if self.finish and self.counts["inputs"] > self._stage.progress.inputs:
            self._commit()
        written.seek(0)
        lines: Iterable[bytes] = written if self.finish is None else (
            encode_lines([record]) for record
            in self.finish(map(Record, map(msgspec.json.decode, written))))
        with open_output(self.output) as stream:
            for line in lines:
                self.step.licences.note(line)
                stream.write(line)
        discard_run(self.directory)

    def _commit(self) -> None:
        for _ in range(self.counts["inputs"] - self._stage.progress.inputs):
            input_hash = self._hashes.popleft()
        self._stage.commit(self.counts["inputs"], input_hash, self.counts)
