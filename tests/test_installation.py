"""Hints for missing packages: right for every installation, and in step with the metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bmtools import __version__, installation
from bmtools.cli.main import message_and_code
from bmtools.installation import DISTRIBUTION, install_command, unmet_requirements
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

    `files` lie in the environment, `recorded` is what the installer left; without `checkout` the
    package is among other packages.
    """

    def imitate(*files: str, checkout: bool = False, active: bool = True, **recorded: str) -> Path:
        (tmp_path / "bin").mkdir()
        for name in ("bin/pip", *files, *(["pyproject.toml"] if checkout else [])):
            (tmp_path / name).touch(mode=0o755)
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
        monkeypatch.setattr(installation, "__file__", str(tmp_path / "bmtools/installation.py"))
        monkeypatch.setattr(installation, "_recorded", lambda name: recorded.get(
            name.partition(".")[0], ""))
        monkeypatch.setenv("PATH", str(tmp_path / "bin") if active else "/nowhere")
        return tmp_path

    return imitate


def test_from_the_package_index_or_a_wheel(installed: Any) -> None:
    installed(INSTALLER="pip", direct_url='{"url": "file:///a/bmtools_lm-0.1.0-py3-none-any.whl"}')
    assert install_command("plot") == "pip install 'bmtools-lm[plot]'"
    assert install_command(package="comet-ml") == "pip install comet-ml"


def test_from_a_checkout(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = installed(checkout=True)
    assert install_command("plot") == f"pip install -e '{checkout}[plot]'"
    assert install_command(package="comet-ml") == "pip install comet-ml"
    monkeypatch.chdir(checkout)
    assert install_command("plot") == "pip install -e '.[plot]'"


def test_in_an_environment_that_is_not_active(installed: Any) -> None:
    prefix = installed(active=False)
    assert install_command("plot") == f"{prefix}/bin/python -m pip install 'bmtools-lm[plot]'"


def test_by_uv(installed: Any) -> None:
    prefix = installed(INSTALLER="uv")
    assert install_command("plot") == f"uv pip install --python {prefix} 'bmtools-lm[plot]'"


def test_as_a_tool_of_pipx(installed: Any) -> None:
    installed("pipx_metadata.json", INSTALLER="uv")
    assert install_command("plot") == "pipx inject bmtools-lm 'bmtools-lm[plot]'"
    assert install_command(package="comet-ml") == "pipx inject bmtools-lm comet-ml"


@pytest.mark.parametrize(("recorded", "source"), [
    ("", ""), ('{"url": "file:///a/b.whl"}', " @ file:///a/b.whl")], ids=["index", "wheel"])
def test_as_a_tool_of_uv(installed: Any, recorded: str, source: str) -> None:
    installed("uv-receipt.toml", direct_url=recorded)
    assert install_command("plot") == f"uv tool install --force 'bmtools-lm[plot]{source}'"
    assert install_command(package="comet-ml") == \
        f"uv tool install --force --with comet-ml 'bmtools-lm{source}'"


def test_what_no_installer_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "DISTRIBUTION", "bmtools-no-such-distribution")
    assert installation._recorded("INSTALLER") == ""
    assert installation._source_url() == ""


def test_hints_name_extras_that_the_metadata_has() -> None:
    files = [*(ROOT / "bmtools").rglob("*.py"), *(ROOT / "examples").rglob("*.py")]
    named = {extra or package for file in files
             for package, extra in CALL.findall(file.read_text(encoding="utf-8"))}
    named.add(FORMAT)
    assert named == {"cleaning", "ctranslate2", "dedup", "documents", "openvino",
                     "parquet", "plot", "ray", "translation"}
    # gunzip does without a hint, as it is only faster, and energy, as figures may be absent; web
    # names its packages one by one.
    assert named | _SEGMENTERS.keys() | {
        "all", "docs", "energy", "gunzip", "test", "web"} == EXTRAS.keys()


def test_the_documents_name_what_each_extra_enables() -> None:
    text = (ROOT / "docs/installation.md").read_text(encoding="utf-8")
    named = {name for line in re.findall(r"^\| (`.*?) \|", text, re.M)
             for name in re.findall(r"`(\w+)`", line)}
    assert named == EXTRAS.keys() - {"all", "docs", "test"}


def test_one_name_in_the_metadata_and_the_hints() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION
    assert PROJECT["tool"]["setuptools"]["dynamic"] == {"version": {"attr": "bmtools.__version__"}}
    own = [re.fullmatch(r"(bmtools.*)\[(.*)\]", need) for extra in ("all", "test")
           for need in EXTRAS[extra] if need.startswith("bmtools")]
    assert {one[1] for one in own if one} == {DISTRIBUTION}
    assert sorted(",".join(one[2] for one in own if one).split(",")) == \
        sorted(EXTRAS.keys() - {"test"})
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_floors_of_all_packages_are_met_by_the_pins() -> None:
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


def test_nothing_suggests_the_package_of_that_name_in_the_index() -> None:
    stranger = re.compile(r"bmtools\[|(?:install|inject|--with)[^\n`]*['\" ]bmtools(?![-\w./])")
    files = [ROOT / name for name in ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")]
    for folder in ("bmtools", "docs", "examples", "tests"):
        files += [path for path in (ROOT / folder).rglob("*.*")
                  if path.suffix in (".py", ".md", ".sh", ".toml", ".html", ".jinja")]
    found = [f"{path}: {hit.group()}" for path in files if path != Path(__file__)
             for hit in stranger.finditer(path.read_text(encoding="utf-8"))]
    assert found == []


def test_packages_that_are_too_old_or_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_requirements", lambda: [
        "click>=99", "torch>=2", "nowhere>=1.5", "backports-zstd>=9; python_version < '3'"])
    assert unmet_requirements() == [
        f"click: found {metadata.version('click')}, expected >=99",
        "nowhere is not installed, expected >=1.5"]
    assert unmet_requirements("torch") == []


def test_this_installation_has_what_it_needs() -> None:
    assert installation._requirements() == PROJECT["project"]["dependencies"]
    assert unmet_requirements() == []


def test_an_unexpected_error_beside_an_old_package_names_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    error = ImportError("cannot import name 'fully_shard'")
    assert "please report it" in message_and_code(error)[0]
    monkeypatch.setattr(installation, "_requirements", lambda: ["torch>=99"])
    message, code = message_and_code(error)
    assert message == (f"torch: found {metadata.version('torch')}, expected >=99 "
                       "(ImportError: cannot import name 'fully_shard')")
    assert code == 1
