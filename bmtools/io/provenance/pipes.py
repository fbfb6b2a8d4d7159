"""Step records that accompany a pipe, from the writing command to the reading command.

Both ends of a pipe have the same number in the system. The writer stores its record in a private
directory under this number. The reader removes the record and uses it only if the hash of the
written bytes equals the hash of the bytes read. If any of this fails, there is no record.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISFIFO

from bmtools.records import JsonObject

_STALE_SECONDS = 3600  # readers remove records when they reach the end of the pipe


def pipe_number(file: int | str) -> str:
    """Return the number of a pipe, from its descriptor or path; empty for other files."""
    with suppress(OSError):
        found = os.stat(file)  # noqa: PTH116, a descriptor as well
        if S_ISFIFO(found.st_mode):
            return f"{found.st_dev}-{found.st_ino}"
    return ""


def leave_record(number: str, record: JsonObject) -> None:
    """Store a record for the reader of a pipe, before the last byte is sent."""
    with suppress(OSError, ValueError):
        directory = _directory()
        for stale in directory.iterdir():
            if time.time() - stale.lstat().st_mtime > _STALE_SECONDS:
                stale.unlink(missing_ok=True)
        path = directory / number
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(record, stream, ensure_ascii=False, default=str)


def take_record(number: str, sha256: str) -> JsonObject:
    """Remove and return the record of a pipe's writer.

    Args:
        number: number of the pipe.
        sha256: hash of all content read from it.

    Returns:
        the record; empty if no command stored one, or if the hashes differ.
    """
    with suppress(OSError, ValueError):
        path = _directory() / number
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as stream:
            record = json.load(stream)
        path.unlink()
        if isinstance(record, dict) and record.get("sha256") == sha256:
            return record
    return {}


def _directory() -> Path:
    """Create the directory of records, which only this user may read or write.

    Raises:
        OSError: it cannot be created, or belongs to another user.
    """
    from tempfile import gettempdir

    directory = Path(gettempdir()) / f"bmtools-{os.getuid()}"
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    found = directory.lstat()
    if not S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(f"{directory} is not private")
    return directory
