"""Public functions of a room, imported when first used.

`import bmtools.scoring` stays fast, and `bmtools.scoring.mrr(...)` works although the room also
contains a module of this name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from warnings import catch_warnings

_SET_BY_TORCH = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def imports_undone() -> Iterator[None]:
    """Restore settings that imports of libraries change: warning filters and a torch variable."""
    is_set = _SET_BY_TORCH in os.environ
    with catch_warnings():
        try:
            yield
        finally:
            if not is_set:
                os.environ.pop(_SET_BY_TORCH, None)


class _Room(ModuleType):
    """A package whose public functions hide modules of the same name."""

    _functions: dict[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in self._functions and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in self._functions:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, function = self._functions[name].partition(":")
        with imports_undone():
            value = getattr(import_module(module), function or name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._functions})


def export(room: str, **functions: str) -> None:
    """Provide functions as attributes of a package; called in its `__init__.py`.

    Args:
        room: `__name__` of the package.
        functions: `module:function` for each public name.
    """
    package = sys.modules[room]
    package.__dict__["_functions"] = functions
    package.__class__ = _Room
