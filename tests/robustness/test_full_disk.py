"""Writes that fail halfway: a file whose size is limited, at several sizes, for every command."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands.test_battery import CASES, Case, Kit, kit_paths  # noqa: F401

from bmtools.io.unfinished import BESIDE
from bmtools.text.languages import load_identifier

Run = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("one_thread")
WRITERS = {**CASES, "import jsonl": Case(())}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Make writes beyond a size fail in every library, as the system does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [600, 30_000])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_cannot_grow_is_named_and_removed(
        name: str, size: int, kit_paths: dict[str, Path], tmp_path: Path,  # noqa: F811
        run: Run, piped: Run, corpus_records: list[dict[str, Any]]) -> None:
    case = WRITERS[name]
    case = case if case.records else replace(case, records=tuple(corpus_records))
    kit = Kit(name, case, tmp_path, kit_paths, run, piped)
    source = kit.good()
    more = () if kit.writes_directory else ("-o", tmp_path / "out")
    load_identifier()  # decompressed once, into a temporary file
    with largest_file(size):
        outcome = kit.on(source, *more)
    if outcome.code == 0:
        assert set(kit.left()) - {"out.bmtools.json"} == {"out"}
        return
    assert outcome.code == 1
    message = outcome.err.splitlines()[-1]
    assert message.startswith("bmtools: ") and "unexpected" not in message, message
    # SQLite does not report the reason.
    assert "(file too large)" in message or "(disk I/O error); make room, " in message
    # A run that can be resumed keeps its finished work.
    assert [one for one in kit.left() if not one.endswith(BESIDE)] == []
