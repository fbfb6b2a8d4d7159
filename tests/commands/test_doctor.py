"""doctor: what is missing is named with the command that installs it."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.models import doctor

ROOT = Path(__file__).parents[2]


def test_missing_parts_have_a_command_that_installs_them(
        run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package != "rensa")
    monkeypatch.setattr(shutil, "which", lambda program: None)
    outcome = run("doctor", "--json")
    assert outcome.code == 0, outcome.err
    parts = {line["part"]: line for line in map(json.loads, outcome.out.splitlines())}
    assert parts["extra dedup"]["found"] == "missing: rensa"
    assert parts["extra dedup"]["fix"].endswith("[dedup]'")
    assert parts["extra plot"]["fix"] == ""
    assert parts["apertium"]["fix"] == "apt install apertium"
    assert "2 optional parts are missing" in outcome.err


def test_a_terminal_of_any_width_shows_the_fix(run: Callable[..., Any],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_installed", lambda package: package != "rensa")
    shown = run("doctor", "--table").out.splitlines()
    at = shown.index("extra dedup        missing: rensa (for dedup: near duplicates)")
    assert shown[at + 1].lstrip() == doctor.install_command("dedup")


def test_every_extra_is_named_with_its_commands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert doctor._extras().keys() == extras.keys() - {"all", "docs", "test"}


def test_an_extra_contains_its_own_packages_for_this_machine(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [
        'own>=1; python_version < "9"', 'rensa>=0.5; extra == "dedup"',
        'other; sys_platform == "none" and extra == "dedup"', 'ray[data]; extra == "ray"'])
    found = doctor._extras()
    assert (found["dedup"], found["ray"], found["plot"]) == (["rensa"], ["ray"], [])


def test_old_library_has_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.LEAST_VERSIONS, "torch", "99.0")
    [line] = [line for line in doctor.diagnose() if line["part"] == "torch"]
    assert str(line["fix"]).endswith("'torch>=99.0'")
