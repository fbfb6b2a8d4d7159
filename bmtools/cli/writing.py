"""Output of records, and the line that marks them as incomplete if their command fails."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import IO

from bmtools.cli.main import message_and_code
from bmtools.cli.step import CommandStep
from bmtools.io.incomplete import incomplete_line
from bmtools.io.output import STDOUT, encode_lines, is_regular, open_output
from bmtools.io.system import Ended, interruption
from bmtools.records import Record, document_of
from bmtools.status import counted

FEWEST_DOCUMENTS = 8
"""Minimum number of documents for `split`: with fewer, a tenth rounds to zero."""
_BLOCK_BYTES = select.PIPE_BUF  # a pipe accepts this number of bytes completely or not at all


def write_stream(step: CommandStep, records: Iterable[Mapping[str, object]], output: str,
                  activity: str = "", unit: str = "records") -> int:
    """Write the records that a command produces, count them on stderr, and return their number.

    Args:
        step: the running command.
        records: records, written as JSON Lines.
        output: file, or stdout for `-`; on a terminal, the lines replace the status.
        activity: a few words for the status; empty if the producer sets the status.
        unit: noun for the records, in the plural.
    """
    count = 0

    def lines() -> Iterator[bytes]:
        nonlocal count
        for record in counted(records, activity, unit=unit) if activity else records:
            yield encode_lines([record])
            count += 1

    write_lines(step, lines(), output)
    return count


def noting_documents(records: Iterable[Record], documents: set[str]) -> Iterator[Record]:
    """Yield records, and collect their documents until there are enough for a split."""
    for record in records:
        if len(documents) < FEWEST_DOCUMENTS:
            documents.add(document_of(record))
        yield record


def open_if_named(path: str | None) -> AbstractContextManager[IO[bytes] | None]:
    """Open a second file as `open_output` does; None if no name is given."""
    return nullcontext() if path is None else open_output(path)


def write_lines(step: CommandStep, lines: Iterable[bytes], output: str) -> None:
    """Write lines of records, any number at a time, and collect their licences.

    If that fails after the first line, a pipe or another special file gets a last line that reports
    the failure, and every reader of records rejects it. A file does not need this, because it
    appears only once it is complete. Until the end a pipe gets blocks that arrive completely or not
    at all and end inside a line, so that a reader also rejects output that a kill has cut off.
    """
    pending, is_begun = bytearray(), False
    is_read, hides_status = _is_read_meanwhile(output), output == STDOUT and sys.stdout.isatty()
    with open_output(output) as stream:
        try:
            for some in lines:
                interruption.check()
                if hides_status:
                    step.hide_status()
                step.licences.note(some)
                if not is_read:
                    stream.write(some)
                    continue
                pending += some
                is_begun = is_begun or bool(some)
                while len(pending) > _BLOCK_BYTES:
                    size = _BLOCK_BYTES - pending.endswith(b"\n", 0, _BLOCK_BYTES)
                    stream.write(pending[:size])
                    stream.flush()
                    del pending[:size]
            stream.write(pending)
        except BrokenPipeError:
            raise
        except BaseException as error:
            if is_begun and is_read:
                _end_incomplete(step, stream, pending, error)
            raise


def _is_read_meanwhile(output: str) -> bool:
    """Return whether a program may read the output; people read the message on stderr."""
    if output == STDOUT:
        return not sys.stdout.isatty()
    return not is_regular(output)


def _end_incomplete(step: CommandStep, stream: IO[bytes], pending: bytearray,
                    error: BaseException) -> None:
    is_signal = isinstance(error, Ended | KeyboardInterrupt)
    reason = (str(error) or "interrupted") if is_signal else message_and_code(error)[0]
    # A signal may have arrived in the middle of a long line.
    line = b"\n" * is_signal + encode_lines([incomplete_line(step.context.command_path, reason)])
    with suppress(OSError):
        stream.write(pending + line)
        stream.flush()
