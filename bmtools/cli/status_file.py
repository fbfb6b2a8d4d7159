"""Status of a running command in a small file beside its output, for `bmtools watch`.

The file is replaced every second, of long runs every few, by a thread of its own. What goes wrong
there, on a full disk or a directory that is gone, is no matter of the command's. It is removed when
the command ends well, and stays with the reason where it ran for a while and failed, or was stopped
and can be resumed. Who watches leaves a mark beside it, for which it stays with the last words, and
removes both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from bmtools.cli.main import STOPPED, message_and_code
from bmtools.cli.status_view import StatusView
from bmtools.io.unfinished import this_process

_FEWEST_SECONDS, _MOST_SECONDS = 1.0, 5.0
_SHARE = 1 / 100  # of the time that the command has run
_WORTH_KEEPING_SECONDS = 60.0
_SECONDS_TO_WRITE = 2.0  # at the end, on a disk that hangs


@contextmanager
def keeping_status(path: Path, view: StatusView) -> Iterator[None]:
    """Keep a command's status in a file until it ends, and how it ended if not well.

    Args:
        path: of the file.
        view: its status.
    """
    file = _StatusFile(path, view)
    global _file
    before, _file = _file, file
    try:
        yield
    except BaseException as error:
        message, code = message_and_code(error)
        file.close(code, message)
        raise
    else:
        file.close(file.code, file.closing)
    finally:
        _file = before


def hand_over_status() -> None:
    """Leave the file to another process of this command; only its end is noted here."""
    if _file is not None:
        _file.stop()


def note_closing(sentence: str) -> None:
    """Note the sentence that ends this command, for who watches."""
    if _file is not None:
        _file.closing = sentence


def note_stop() -> None:
    """Note that this run was stopped and can be resumed, with whatever code its process ends."""
    if _file is not None:
        _file.code = STOPPED


def watched_path(path: Path) -> Path:
    """Name the mark of who watches, beside a status."""
    return path.with_suffix(".watched")


class _StatusFile:
    """Thread that writes the file."""

    closing, code = "", 0

    def __init__(self, path: Path, view: StatusView) -> None:
        self._path, self._view = path, view
        self._partial = path.with_name(path.name + ".new")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(seconds := self._interval()):
            self._write({"every": seconds})

    def _interval(self) -> float:
        elapsed = time.monotonic() - self._view.began
        return min(max(_FEWEST_SECONDS, elapsed * _SHARE), _MOST_SECONDS)

    def _write(self, more: dict[str, Any]) -> None:
        self._replace({**asdict(self._view.snapshot()), **this_process(), **more})

    def _replace(self, content: dict[str, Any]) -> None:
        try:
            self._partial.write_bytes(msgspec.json.encode(content))
            self._partial.replace(self._path)
        except OSError:
            with suppress(OSError):
                self._partial.unlink()

    def stop(self) -> None:
        """Write no more by and by."""
        self._ended.set()
        self._thread.join(_SECONDS_TO_WRITE)

    def close(self, code: int, message: str) -> None:
        """Write the end for who watches, of a run that was stopped, or of a failure after a while;
        else remove the file."""
        handed_over = self._ended.is_set()
        self.stop()
        if self._thread.is_alive():  # the disk hangs
            return
        ending = {"ending": {"code": code, "message": message}}
        with suppress(OSError):  # a run that was killed may have left it
            self._partial.unlink()
        with suppress(OSError, msgspec.DecodeError):
            if handed_over:  # the other process may have been killed
                last = msgspec.json.decode(self._path.read_bytes())
                if "ending" not in last:
                    self._replace({**last, **ending})
            elif watched_path(self._path).exists() or code == STOPPED or (
                    code and time.monotonic() - self._view.began > _WORTH_KEEPING_SECONDS):
                self._write(ending)
            else:
                self._path.unlink()


_file: _StatusFile | None = None
