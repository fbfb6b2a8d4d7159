"""SQLite databases that survive kills and accept several writers on one machine."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.failures import cannot_write

_PATIENCE_SECONDS = 60


class SharedDatabase:
    """A database with an application id, created if it is missing; threads may share it.

    Args:
        path: path of the file; None for a temporary database.
        kind: application id that marks databases of this kind.
        tables: SQL statements that create missing tables.
        content: what the database contains, for messages.
        label: name of the database in messages.

    Raises:
        BmtoolsError: the database cannot be written, or has another application id.
    """

    def __init__(self, path: Path | None, kind: int, tables: str, content: str,
                 label: str = "") -> None:
        self._label, self._content = label or str(path or "the temporary cache"), content
        with self.failures():
            self.connection = sqlite3.connect(path or "", _PATIENCE_SECONDS, isolation_level=None,
                                              check_same_thread=False)
            self._prepare(kind, tables, is_kept=path is not None)

    def _prepare(self, kind: int, tables: str, is_kept: bool) -> None:
        execute = self.connection.execute
        [found], [version] = (execute(f"PRAGMA {name}").fetchone()
                              for name in ("application_id", "schema_version"))
        if version and found != kind:
            raise sqlite3.DatabaseError("it is a database of another program")
        # Complete after a kill of the process; a power failure may lose the last batches.
        execute(f"PRAGMA journal_mode = {'wal' if is_kept else 'memory'}")
        execute(f"PRAGMA synchronous = {'normal' if is_kept else 'off'}")
        execute(f"PRAGMA application_id = {kind}")
        self.connection.executescript(tables)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo the writes of the block if it fails."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self.connection.in_transaction:  # a full disk may have ended it
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn database errors of the block into a one-line error with a fix."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self.explained(error) from error

    def explained(self, error: sqlite3.DatabaseError) -> BmtoolsError:
        """Return an error that names the database, the reason and the fix."""
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith("SQLITE_FULL"):
            return cannot_write(self._label, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if code.startswith(("SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
            return BmtoolsError(f"{self._label}: cannot be written or read ({error}); make room, "
                                "wait for other processes, or name another cache")
        return DataError(f"{self._label}: cannot be used as a cache of {self._content} ({error}); "
                         "remove it, or name another one")
