"""SQLite databases that survive kills and take many writers of one machine."""

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
    """A database of one kind, made where it is missing; threads may share it.

    Args:
        path: of the file; None for a temporary one.
        kind: number that marks databases of this kind.
        tables: statements that make what is missing.
        content: what it holds, for messages.
        label: its name for messages.

    Raises:
        BmtoolsError: it cannot be written, or is of another kind.
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
        # Whole after a kill of the process; a power cut may cost the last batches.
        execute(f"PRAGMA journal_mode = {'wal' if is_kept else 'memory'}")
        execute(f"PRAGMA synchronous = {'normal' if is_kept else 'off'}")
        execute(f"PRAGMA application_id = {kind}")
        self.connection.executescript(tables)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that the block writes, or nothing."""
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
        """Say what failed in one line, with the way out."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise self.explained(error) from error

    def explained(self, error: sqlite3.DatabaseError) -> BmtoolsError:
        """Return an error that names the database, the reason and the way out."""
        code = getattr(error, "sqlite_errorname", "")
        if code.startswith("SQLITE_FULL"):
            return cannot_write(self._label, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        if code.startswith(("SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
            return BmtoolsError(f"{self._label}: cannot be written or read ({error}); make room, "
                                "wait for other processes, or name another cache")
        return DataError(f"{self._label}: cannot be used as a cache of {self._content} ({error}); "
                         "remove it, or name another one")
