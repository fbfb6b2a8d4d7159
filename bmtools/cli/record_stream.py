"""Records on their way out, and the line that ends them where their command fails."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

import click

from bmtools.cli.main import message_and_code
from bmtools.cli.streams import Ended
from bmtools.io.incomplete import incomplete_line
from bmtools.io.output import STDOUT, encode_lines, is_regular, open_output

_BLOCK_BYTES = select.PIPE_BUF  # a pipe takes them all or none


def write_line_stream(lines: Iterable[bytes], output: str = STDOUT) -> None:
    """Write lines, of which any number comes at a time.

    Where that fails after the first one, a pipe or another special file gets a last line that says
    so, which every reader of records refuses. A file needs none: it appears when it is whole.
    Before the end it gets blocks that arrive whole or not at all and end within a line, so that a
    reader refuses also what a kill has cut off, which nothing can answer.
    """
    pending, is_begun = bytearray(), False
    is_read = _is_read_meanwhile(output)
    with open_output(output) as stream:
        try:
            for some in lines:
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
                _end_incomplete(stream, pending, error)
            raise


def _is_read_meanwhile(output: str) -> bool:
    """Return whether a program may read what is written; people read the message on stderr."""
    if output == STDOUT:
        return not sys.stdout.isatty()
    return not is_regular(output)


def _end_incomplete(stream: IO[bytes], pending: bytearray, error: BaseException) -> None:
    command = click.get_current_context().command_path
    is_signal = isinstance(error, Ended | KeyboardInterrupt)
    reason = (str(error) or "interrupted") if is_signal else message_and_code(error)[0]
    # A signal may have come in the middle of a long line.
    line = b"\n" * is_signal + encode_lines([incomplete_line(command, reason)])
    with suppress(OSError):
        stream.write(pending + line)
        stream.flush()
