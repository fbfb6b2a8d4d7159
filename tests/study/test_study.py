"""The public functions of `bmtools.study`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from toy_study import write_study

import bmtools.study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    (folder / "other.jsonl").write_text('{"id": "b", "text": "La febbre."}\n')
    return folder


@pytest.mark.parametrize("module", [
    "cards.card", "corpora.describe", "lineages.lineage", "lineages.verify",
    "reports.compare_models", "reports.report", "suites.score_suite"])
def test_importing_a_module_hides_no_function(module: str) -> None:
    importlib.import_module(f"bmtools.study.{module}")
    assert all(callable(getattr(bmtools.study, name)) for name in (
        "card", "compare_models", "describe", "lineage", "report", "suite_scores", "verify"))


def test_describe_accepts_the_settings_of_the_command(folder: Path) -> None:
    [line] = bmtools.study.describe({"own name": folder / "notes.jsonl"}, bands="2")
    assert (line["corpus"], line["frequency_bands"]) == ("own name", {"1": 2, "2+": 0})
    with pytest.raises(TypeError, match="band"):
        next(bmtools.study.describe([folder / "notes.jsonl"], band="2"))
