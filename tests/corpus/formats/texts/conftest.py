"""Files that readers of texts read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Write a file; `NAME` of the module is its name by default."""
    def write(content: bytes | str, name: str = request.module.NAME) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write
