"""Fixtures that write source files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return a function that writes a file, objects as JSON; its default name is `NAME`."""
    def write(content: object, name: str = getattr(request.module, "NAME", "in.xml")) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, bytes | str) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write
