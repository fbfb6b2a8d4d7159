"""Shell scripts of the project pass shellcheck."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_shellcheck_reports_no_problem() -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is absent")
    scripts = [ROOT / ".ci/run", *(path for path in (ROOT / "examples").rglob("*.sh")
                                   if "out" not in path.parts)]
    done = subprocess.run([program, *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
