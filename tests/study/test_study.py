"""The room's public functions: each is called by its name in one line."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
from toy_study import write_study

import bmtools.study
from bmtools.errors import BmtoolsError


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


def test_describe_names_corpora_by_their_files(folder: Path) -> None:
    lines = bmtools.study.describe([folder / "notes.jsonl", folder / "other.jsonl"], total=True)
    assert [(line["corpus"], line["words"]) for line in lines] == [
        ("notes", 2), ("other", 2), ("total", 4)]


def test_describe_takes_the_settings_of_the_command(folder: Path) -> None:
    [line] = bmtools.study.describe({"own name": folder / "notes.jsonl"}, bands="2")
    assert (line["corpus"], line["frequency_bands"]) == ("own name", {"1": 2, "2+": 0})
    with pytest.raises(TypeError, match="band"):
        next(bmtools.study.describe([folder / "notes.jsonl"], band="2"))


def test_report_writes_a_page(folder: Path) -> None:
    made = bmtools.study.report([folder / "out", folder / "mrr.jsonl"], folder / "page.html")
    assert made["bytes"] == (folder / "page.html").stat().st_size


def test_suite_scores_average_lines(folder: Path) -> None:
    (folder / "NCBI-disease.jsonl").write_text(json.dumps({"model": "own", "f1": 0.5}) + "\n")
    line, *_ = bmtools.study.suite_scores("blurb", [str(folder / "NCBI-disease.jsonl")])
    assert line["scores"] == {"NCBI-disease": 50.0}


def test_compare_models_needs_one_that_can_be_loaded(folder: Path) -> None:
    with pytest.raises(BmtoolsError, match="large"):
        bmtools.study.compare_models([folder / "out/large"], folder / "notes.jsonl")
