"""JSON files of directories: their content, and errors that name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.errors import CheckpointError
from bmtools.io.json_files import read_manifest


def test_a_directory_of_another_program_has_no_manifest(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) == {}


@pytest.mark.parametrize(("content", "message"), [
    (b"{", "not JSON"), (b"", "not JSON"), (b"\xff", "not JSON"),
    (b"[1]", "found list, expected a JSON object"), (b"null", "found NoneType"),
])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "bmtools.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message) as raised:
        read_manifest(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / 'bmtools.json'}: ")
