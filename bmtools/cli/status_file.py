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
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self

import msgspec

from bmtools.cli.main import STOPPED, message_and_code
from bmtools.cli.status_view import StatusView
from bmtools.io.unfinished import this_process
from bmtools.records import JsonObject

_FEWEST_SECONDS, _MOST_SECONDS = 1.0, 5.0
_SHARE = 1 / 100  # of the time that the command has run
_WORTH_KEEPING_SECONDS = 60.0
_SECONDS_TO_WRITE = 2.0  # at the end, on a disk that hangs


def watched_path(path: Path) -> Path:
    """Name the mark of who watches, beside a status."""
    return path.with_suffix(".watched")


class StatusFile:
    """Thread that keeps a command's status in a file until the `with` block ends.

    Args:
        path: of the file.
        view: status of the command.

    Attributes:
        closing: sentence that ends the command.
        code: exit code of a run that was stopped and can be resumed; 0 otherwise.
    """

    closing, code = "", 0

    def __init__(self, path: Path, view: StatusView) -> None:
        self._path, self._view = path, view
        self._partial = path.with_name(path.name + ".new")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        message, code = (self.closing, self.code) if error is None else message_and_code(error)
        self.close(code, message)

    def _run(self) -> None:
        while not self._ended.wait(seconds := self._interval()):
            self._write({"every": seconds})

    def _interval(self) -> float:
        elapsed = time.monotonic() - self._view.began
        return min(max(_FEWEST_SECONDS, elapsed * _SHARE), _MOST_SECONDS)

    def _write(self, more: JsonObject) -> None:
        self._replace({**asdict(self._view.snapshot()), **this_process(), **more})

    def _replace(self, content: JsonObject) -> None:
        try:
            self._partial.write_bytes(msgspec.json.encode(content))
            self._partial.replace(self._path)
        except OSError:
            with suppress(OSError):
                self._partial.unlink()

    def stop(self) -> None:
        """Leave the file to another process of this command; only its end is written here."""
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

