"""Packages that are not installed are named before any work is done."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.export.export import export_model
from bmtools.installation import install_command


@pytest.mark.parametrize(("form", "package", "extra"), [
    ("html", "trafilatura", "web"), ("warc", "fastwarc", "web"), ("pdf", "pypdf", "documents"),
    ("parquet", "pyarrow", "parquet")])
def test_documents_need_packages(run: Callable[..., Any], tmp_path: Path, form: str, package: str,
                                 extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: None if name == package else find(name))
    (tmp_path / "file").touch()
    outcome = run("import", form, tmp_path / "file")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: import {form} needs the package {package}: "
                           f"{install_command(extra)}\n")


def test_a_plot_needs_matplotlib(run: Callable[..., Any], corpus: Path, tiny_checkpoint: Path,
                                 tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 no_matplotlib: None) -> None:
    monkeypatch.setitem(sys.modules, "bmtools.scoring.mrr", None)
    outcome = run("score-mrr", corpus, "--model", tiny_checkpoint, "--plot", tmp_path / "plot.svg")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == ("bmtools: charts need the package matplotlib: "
                           f"{install_command('plot')}\n")


def test_near_duplicates_need_rensa(run: Callable[..., Any], corpus: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.installation.util.find_spec", lambda name: None)
    outcome = run("dedup", corpus, "--workers", "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == ("bmtools: --duplicates near needs the package rensa: "
                           f"{install_command('dedup')}\n")
    assert run("dedup", corpus, "--workers", "1", "--duplicates", "exact").code == 0


def test_engines_are_packages(run: Callable[..., Any], corpus: Path, tiny_checkpoint: Path,
                              tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export_model(tiny_checkpoint, tmp_path / "exported")
    find = importlib.util.find_spec
    for package in ("nncf", "openvino"):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, missing=package:
                            None if name == missing else find(name))
        done = run("export", "model", tiny_checkpoint, "--int8", "-o", tmp_path / "out")
        assert (done.code, done.out) == (1, "")
        assert done.err == (f"bmtools: export model needs the package {package}: "
                            f"{install_command('openvino')}\n")
    done = run("score-pppl", corpus, "--model", tmp_path / "exported")
    assert done.err == (f"bmtools: {tmp_path / 'exported'} (openvino) needs the package "
                        f"openvino: {install_command('openvino')}\n")
