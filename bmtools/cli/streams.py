"""Standard streams and signals of the command line.

If the reader of stdout goes away, the command ends quietly, unless stdout only reports on output
that is written elsewhere. A reader of stderr that goes away has no effect.
"""

from __future__ import annotations

import hashlib
import io
import os
import select
import signal
import stat
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

import click

from bmtools.distributed import is_main_process
from bmtools.errors import BmtoolsError, BmtoolsWarning
from bmtools.io.failures import NamedFile, cannot_write, with_urls
from bmtools.io.system import Ended, handling_signals, interruption

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_forgiven = {_STDERR}


def say(message: str) -> None:
    """Print a line about the command on stderr, with URLs in place of their local copies."""
    # With err=True, click would write past the proxy that prints above the status block.
    click.echo(with_urls(f"bmtools: {message}"), file=sys.stderr)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `Ended` in the block after Ctrl-C, SIGTERM or SIGHUP, unless the caller handles them.

    The handler only sets the flag of `io.system.interruption`. If a library turns a signal into an
    error, for example a failed import after Ctrl-C, the error becomes that signal again.
    """
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
               if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)]
    try:
        with handling_signals(numbers, interruption.receive):
            yield
    except Exception as error:
        if interruption.number:
            raise Ended(interruption.number) from error
        raise
    finally:
        interruption.clear()


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show each bmtools warning once on stderr, like other messages, in the main process only."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **kept: Any) -> None:
        if not issubclass(category, BmtoolsWarning):
            show_others(message, category, *place, **kept)
        elif is_main_process() and str(message) not in shown:
            shown.add(str(message))
            say(str(message))

    with warnings.catch_warnings():
        show_others = warnings.showwarning
        warnings.simplefilter("always", BmtoolsWarning)
        warnings.showwarning = show
        yield


def guard_standard_streams() -> None:
    """Make stdout and stderr name their failures, and ignore failures of stderr."""
    for number in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(number)
        except OSError:
            # Opened for reading only: writing fails, instead of reaching the next file opened.
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = os.fdopen(_STDIN, closefd=False)
    sys.stdout = _guarded(sys.stdout, _STDOUT)
    sys.stderr = _guarded(sys.stderr, _STDERR)


def keep_going_without_stdout() -> None:
    """Ignore a reader of stdout that goes away; for commands whose output is elsewhere."""
    _forgiven.add(_STDOUT)


def reader_has_left() -> bool:
    """Return whether stdout is a pipe without a reader."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return bool(poll.poll(0))
    except (OSError, ValueError):
        return False


def finish_stdout() -> None:
    """Flush stdout; if that fails, discard the rest, so that Python does not retry at exit."""
    try:
        sys.stdout.flush()
    except (BmtoolsError, OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass
class StdoutDigest:
    """Digest of the content written to stdout.

    Args:
        sha256: hash of the content.
        size: size in bytes, without bytes lost because a pipe had no reader.
    """

    sha256: Any = field(default_factory=hashlib.sha256)
    size: int = 0


@contextmanager
def hash_stdout() -> Iterator[StdoutDigest]:
    """Compute the digest of the content written to stdout, if stdout is a file or a pipe."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    digest = StdoutDigest()
    if not isinstance(raw, _Standard) or stat.S_ISCHR(os.fstat(_STDOUT).st_mode):
        yield digest
        return
    raw.digest = digest
    try:
        yield digest
    finally:
        raw.digest = None


class _Standard(NamedFile):
    digest: StdoutDigest | None = None

    def write(self, content: Any) -> int:
        try:
            size = io.FileIO.write(self, content)
            if self.digest:
                self.digest.sha256.update(memoryview(content)[:size])
                self.digest.size += size
            return size
        except BrokenPipeError:
            if self.fileno() not in _forgiven:
                raise
        except OSError as error:
            if self.fileno() != _STDERR:
                raise cannot_write(self.label, error) from error
        return memoryview(content).nbytes


def _guarded(stream: TextIO | None, number: int) -> TextIO:
    """Wrap a standard stream, unless another program has replaced it."""
    if stream is not None:
        try:
            if not isinstance(stream, io.TextIOWrapper) or stream.fileno() != number:
                return stream
        except (OSError, ValueError):
            return stream
        with suppress(OSError):
            stream.flush()
    raw = _Standard(number, "w", "<stdout>", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw, 1 << 16), encoding=getattr(stream, "encoding", "utf-8"),
        errors=getattr(stream, "errors", "backslashreplace"),
        line_buffering=number == _STDERR or raw.isatty())
