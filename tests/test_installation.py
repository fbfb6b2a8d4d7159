"""Hints for missing packages: correct for every installation, and consistent with the metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bmtools import __version__, installation
from bmtools.installation import DISTRIBUTION, install_command
from bmtools.models.exported.formats import FORMAT
from bmtools.vocab.segmenters import _SEGMENTERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
CALL = re.compile(r"""(?:install_command|require_extra)\(\s*['"](\w+)['"]"""
                  r"""(?:,[^\n]*, ['"](\w+)['"]\))?""")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imitates an environment in which bmtools is installed.

    Without `checkout` the package is among other packages.
    """

    def imitate(checkout: bool = False, installer: str = "pip") -> Path:
        (tmp_path / "bin").mkdir()
        for name in ("bin/pip", *(["pyproject.toml"] if checkout else [])):
            (tmp_path / name).touch(mode=0o755)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
        monkeypatch.setattr(installation, "__file__", str(tmp_path / "bmtools/installation.py"))
        monkeypatch.setattr(installation, "_installer", lambda: installer)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        return tmp_path

    return imitate


def test_from_a_checkout(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = installed(checkout=True)
    assert install_command("plot") == f"pip install -e '{checkout}[plot]'"
    assert install_command(package="comet-ml") == "pip install comet-ml"
    monkeypatch.chdir(checkout)
    assert install_command("plot") == "pip install -e '.[plot]'"


def test_by_uv(installed: Any) -> None:
    prefix = installed(installer="uv")
    assert install_command("plot") == f"uv pip install --python {prefix} 'bmtools-lm[plot]'"


def test_hints_name_extras_that_the_metadata_has() -> None:
    files = [*(ROOT / "bmtools").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    named = {extra or package for file in files
             for package, extra in CALL.findall(file.read_text(encoding="utf-8"))}
    named.add(FORMAT)
    assert named == {"cleaning", "ctranslate2", "dedup", "documents", "openvino",
                     "parquet", "plot", "ray", "translation"}
    # gunzip has no hint because it is only faster, and energy has none because its values may be
    # missing. web names its packages one by one; gs, http and s3 are for URLs.
    assert named | _SEGMENTERS.keys() | {
        "all", "docs", "energy", "gs", "gunzip", "http", "s3", "test", "web"} == EXTRAS.keys()


def test_one_name_in_the_metadata_and_the_hints() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION
    assert PROJECT["tool"]["setuptools"]["dynamic"] == {"version": {"attr": "bmtools.__version__"}}
    own = [re.fullmatch(r"(bmtools.*)\[(.*)\]", need) for extra in ("all", "test")
           for need in EXTRAS[extra] if need.startswith("bmtools")]
    assert {one[1] for one in own if one} == {DISTRIBUTION}
    assert sorted(",".join(one[2] for one in own if one).split(",")) == \
        sorted(EXTRAS.keys() - {"test"})
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_pinned_versions_meet_the_minimum_versions() -> None:
    pins = {canonicalize_name(name): version for name, version in (
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())}
    for needs in (PROJECT["build-system"]["requires"], PROJECT["project"]["dependencies"],
                  *EXTRAS.values()):
        for need in map(Requirement, needs):
            if need.name != DISTRIBUTION:
                assert str(need.specifier).startswith(">="), need
                assert need.specifier.contains(pins[canonicalize_name(need.name)]), need


@pytest.mark.parametrize(("target", "extras"), [("demo", ""), ("test", "[test]")])
def test_make_installs_what_its_target_needs(tmp_path: Path, target: str, extras: str) -> None:
    shown = subprocess.run(["make", "-n", target, f"VENV={tmp_path}/venv"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout
    assert re.findall(r"--editable '\.(.*)'", shown) == [extras]
