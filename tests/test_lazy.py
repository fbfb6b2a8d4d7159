"""Public functions that are imported when first used."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from bmtools.lazy import export


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with a public function `json`, like the module of that name."""
    package = ModuleType("room")
    monkeypatch.setitem(sys.modules, "room", package)
    export("room", json="json:dumps", loads="json")
    return package


def test_functions_are_found_by_name(room: ModuleType) -> None:
    assert room.json([1]) == "[1]"
    assert room.loads("[1]") == [1]
    assert {"json", "loads"} <= set(dir(room))


def test_a_module_of_the_same_name_does_not_replace_it(room: ModuleType) -> None:
    room.json = ModuleType("room.json")
    assert room.json([1]) == "[1]"
