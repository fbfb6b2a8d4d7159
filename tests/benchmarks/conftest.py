"""Setup of all benchmarks."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

# The other side's code and programs that benchmarks start are in this directory.
sys.path.insert(0, str(Path(__file__).parent))
_PEERS = ("torch", "transformers", "minicons", "datasets")


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: Any, machine_info: dict[str, Any]) -> None:
    """Record which releases were compared."""
    machine_info["versions"] = {}
    for name in _PEERS:
        try:
            machine_info["versions"][name] = version(name)
        except PackageNotFoundError:
            continue
