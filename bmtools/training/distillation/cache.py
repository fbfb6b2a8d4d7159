"""Outputs of a teacher kept on disk, found by the content of masked documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from bmtools.errors import CheckpointError, setting
from bmtools.io.failures import naming
from bmtools.io.shared_database import SharedDatabase

DATABASE = "teacher.sqlite"
_KIND = 0x424D5444  # marks a database of this kind
_TABLES = """
CREATE TABLE IF NOT EXISTS documents (key BLOB PRIMARY KEY, predictions BLOB, states BLOB);
CREATE TABLE IF NOT EXISTS identity (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_KEY_BYTES = 16


class TeacherCache:
    """A directory of a teacher's outputs, which several processes read and add to.

    Documents are found by their masked tokens, so that neither batches nor processes matter. What
    a process adds is there as a whole or not at all.

    Args:
        directory: made where it is missing.
        identity: what must be the same in every run, by name; True: the run needs outputs that
            the first one kept, or keeps now.

    Raises:
        BmtoolsError: the directory is that of another teacher, text or masking, lacks outputs, or
            cannot be used.
    """

    def __init__(self, directory: Path, identity: Mapping[str, Any]) -> None:
        with naming(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._shared = SharedDatabase(directory / DATABASE, _KIND, _TABLES, "a teacher's outputs")
        self._database = self._shared.connection
        with self._shared.failures(), self._shared.transaction():
            if not self._database.execute("SELECT 1 FROM identity").fetchone():
                self._database.executemany("INSERT INTO identity VALUES (?, ?)", (
                    (name, json.dumps(value)) for name, value in identity.items()))
            self.identity: dict[str, Any] = {
                name: json.loads(value)
                for name, value in self._database.execute("SELECT name, value FROM identity")}
        for name in sorted({*identity, *self.identity}):
            old, new = self.identity.get(name), json.loads(json.dumps(identity.get(name)))
            if old != new and (old, new) != (True, False):
                raise CheckpointError(
                    f"{directory}: the teacher's outputs have {name} {old}, found {new}; give the "
                    f"same, or another {setting('teacher_cache')}")

    def read(self, keys: Sequence[bytes]) -> tuple[bytes, bytes] | None:
        """Read predictions and states of documents, end to end; None where a document is missing.
        """
        with self._shared.failures():
            rows = [self._database.execute(
                "SELECT predictions, states FROM documents WHERE key = ?", (key,)).fetchone()
                for key in keys]
        if None in rows:
            return None
        predictions, states = (b"".join(parts) for parts in zip(*rows, strict=True))
        return predictions, states

    def add(self, keys: Iterable[bytes], predictions: Iterable[bytes],
            states: Iterable[bytes]) -> None:
        """Keep predictions and states of each document."""
        with self._shared.failures(), self._shared.transaction():
            self._database.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?, ?)",
                                       zip(keys, predictions, states, strict=True))


def document_keys(input_ids: Iterable[np.ndarray], compared: Iterable[np.ndarray]) -> list[bytes]:
    """Hash each document's masked tokens, and where predictions are compared.

    Args:
        input_ids: (tokens,) of each document.
        compared: (tokens,) bool of each document.
    """
    return [blake2b(ids.tobytes() + flags.tobytes(), digest_size=_KEY_BYTES).digest()
            for ids, flags in zip(input_ids, compared, strict=True)]
