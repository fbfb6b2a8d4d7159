"""Wheel and source archive: their contents, and use of the wheel without the checkout."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from bmtools import __version__

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    """Return the files of the checkout that git tracks or would add."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tracked: set[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as `make dist` does, from a copy of the checkout; returns the folder of archives."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("checkout")
    for name in tracked:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    (copy / "bmtools" / "__pycache__").mkdir()
    (copy / "bmtools" / "__pycache__" / "stale.cpython-311.pyc").touch()
    (copy / "examples" / "quickstart" / "out").mkdir()
    (copy / "examples" / "quickstart" / "out" / "corpus.jsonl").touch()
    done = subprocess.run([sys.executable, "-m", "build", "--no-isolation"], cwd=copy,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "dist"


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def test_the_wheel_has_only_the_package_with_its_data(installed: Path, tracked: set[str]) -> None:
    found = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {name for name in found if name.startswith("bmtools/")} == \
        {name for name in tracked if name.startswith("bmtools/")}
    assert "bmtools/py.typed" in found
    others = {name.partition("/")[2] for name in found if not name.startswith("bmtools/")}
    pages = {name for name in others if name.endswith(".1")}
    assert others - pages == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt",
                              "licenses/LICENSE"}


def test_the_source_archive_has_files_for_tests_and_examples(built: Path,
                                                             tracked: set[str]) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    expected = {name for name in tracked
                if name.startswith(("bmtools/", "docs/", "examples/", "tests/"))}
    expected |= {"CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md", "SECURITY.md",
                 "constraints.txt", "pyproject.toml"}
    assert expected <= found
    assert not [name for name in found if "__pycache__" in name or "/out/" in name]


def test_metadata_agrees_with_the_installed_files(installed: Path) -> None:
    [path] = installed.glob("*.dist-info/METADATA")
    metadata = email.message_from_string(path.read_text(encoding="utf-8"))
    assert (metadata["Name"], metadata["License-Expression"]) == ("bmtools-lm", "Apache-2.0")
    assert metadata["Author"] == "The bmtools contributors"
    assert metadata.get_all("Project-URL") is None and metadata["Author-email"] is None
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {"all", "plot", "test"} <= set(metadata.get_all("Provides-Extra", []))
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_first_steps_run_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    quickstart = ROOT / "examples" / "quickstart"
    # Without the site's paths of editable installations, the checkout is out of reach.
    program = f"import sys; sys.path.insert(0, {str(installed)!r}); " \
        "from bmtools.cli.main import run; run()"

    def bmtools(*arguments: object) -> str:
        return subprocess.run([sys.executable, "-P", "-c", program, *map(str, arguments)],
                              cwd=tmp_path, capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": ""}).stdout

    bmtools("import", "pubmed", quickstart / "abstracts.xml", "-o", "english.jsonl")
    bmtools("build-vocab", "english.jsonl", "--uncased", "--size", 500, "-o", "vocabulary")
    assert len((tmp_path / "vocabulary" / "vocab.txt").read_text().splitlines()) == 500
    assert "medbit" in bmtools("recipe", "list")


def test_the_citation_has_the_version_and_no_person() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (__version__, "Apache-2.0")
    assert citation["authors"] == [{"name": "The bmtools contributors"}]
    assert citation.keys() <= {"cff-version", "type", "title", "message", "authors", "version",
                               "license", "keywords"}
