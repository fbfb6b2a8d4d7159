"""Curves of kept checkpoints, tokens needed for a score, and correlations over models."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.study.reports.charts import Chart, Point, Table
from bmtools.study.reports.over_training import correlate, correlations, over_training, tokens_until
from bmtools.study.reports.report import tables_of
from bmtools.study.reports.study import Study, read_study
from bmtools.study.suites.score_suite import suite_scores

STEPS = (100, 200, 400)
MRR = {"fast": (0.1, 0.4, 0.5), "slow": (0.1, 0.2, 0.4)}
F1 = {"fast": (0.5, 0.7, 0.8), "slow": (0.5, 0.6, 0.65)}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, list[dict[str, Any]]], Path]:
    def write(name: str, lines: list[dict[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


@pytest.fixture
def folder(write: Any, tmp_path: Path) -> Path:
    """Two runs with kept checkpoints, whose scores lie in files, and in the log of `fast`."""
    scores, tasks = [], []
    for run in MRR:
        log = []
        for step, mrr, f1 in zip(STEPS, MRR[run], F1[run], strict=True):
            kept = f"{run}.kept/step-{step:08d}"
            log.append({"step": step, "of": 400, "loss": 1 / step, "tokens_seen": 10 * step})
            write(f"{kept}/metrics.jsonl", log)
            write(f"{kept}/bmtools.json", [{"command": "pretrain", "sha256": kept,
                                            "tokens_seen": 10 * step, "settings": {}}])
            scores.append({"model": kept, "mrr": mrr, "maskings": 5, "data": "d",
                           "interval": [mrr - 0.1, mrr + 0.1], "signature": "mrr"})
            # As score-tasks writes them: seeds, then means of several metrics.
            tasks += [{"model": f"{step}-0", "seed_of": kept, "task": "ner", "f1": f1},
                      *({"model": kept, "metric": metric, "mean": f1 + more, "interval": None}
                        for metric, more in (("f1", 0.0), ("relaxed_f1", 0.1)))]
    log.append({"step": 0, "tokens_seen": 0, "mrr": 0.05, "data": "d", "signature": "mrr"})
    write("slow.kept/step-00000400/metrics.jsonl", log)
    write("mrr.jsonl", scores)
    write("tasks.jsonl", tasks)
    write("base.jsonl", [{"model": "base", "mrr": 0.3, "maskings": 5, "data": "d"}])
    return tmp_path


def parts(found: Any) -> dict[str, list[list[Any]]]:
    tables = [one.table if isinstance(one, Chart) else one for one in found
              if isinstance(one, Chart | Table)]
    return {table.title: [[*table.header], *map(list, table.rows)] for table in tables}


def test_checkpoints_of_a_run_are_one_curve(folder: Path) -> None:
    study = read_study([folder])
    assert {run: len(lines) for run, lines in study.runs.items()} == {"fast": 3, "slow": 4}
    tables = parts(over_training(study))
    assert tables["Mean reciprocal rank over training"][1:] == [
        *(["fast", 10 * step, mrr, mrr - 0.1, mrr + 0.1]
          for step, mrr in zip(STEPS, MRR["fast"], strict=True)),
        ["slow", 0, 0.05, None, None],
        *(["slow", 10 * step, mrr, mrr - 0.1, mrr + 0.1]
          for step, mrr in zip(STEPS, MRR["slow"], strict=True))]
    assert tables["F1 (tasks) over training"][1:] == [
        [run, 10 * step, f1] for run in F1 for step, f1 in zip(STEPS, F1[run], strict=True)]
    assert not any("elaxed" in title for title in tables), "the first metric alone"


def test_tokens_needed_for_the_scores_of_others(folder: Path) -> None:
    """BIOptimus: "pre-training time reduced by at least half"."""
    rows = parts(over_training(read_study([folder])))["Tokens needed: mean reciprocal rank"][1:]
    found = {(row[0], row[2]): row[3:] for row in rows}
    assert found["slow", "fast"] == [2000, 1000, 2000, 0.5]
    assert found["fast", "slow"] == ["not reached, at best 0.400 after 4k", None, None, None]
    assert found["base", "fast"] == [1667, 1000, 2000, None]
    assert found["base", "slow"] == [3000, 2000, 4000, None]


@pytest.mark.parametrize(("values", "score", "below", "expected"), [
    ((0.1, 0.3, 0.2, 0.5), 0.2, False, (150, 100, 200)),  # the first time
    ((0.1, 0.3, 0.2, 0.5), 0.3, False, (200, 100, 200)),
    ((0.1, 0.3), 0.05, False, ("100 or less", None, 100)),
    ((9.0, 5.0, 7.0), 4.0, True, ("not reached, at best 5 after 200", None, None)),
    ((9.0, 5.0, 7.0), 6.0, True, (175, 100, 200))])
def test_tokens_until_a_score(values: tuple[float, ...], score: float, below: bool,
                              expected: tuple[Any, ...]) -> None:
    points = [Point(100 * (number + 1), value) for number, value in enumerate(values)]
    assert tokens_until(points, score, below) == expected


def test_correlation_of_published_scores() -> None:
    """BioBIT's Tables 1 to 5: four models have MRR, PPPL and F1."""
    study = Study()
    study.lines["suite"] = [line for suite in ("biobit", "biobit-mlm")
                            for line in suite_scores(suite, [], published="all")]
    rows = parts(correlations(study))["Correlation over models"][1:]
    assert len(rows) == 2 * 12
    found = {(row[0], row[1]): row[2:] for row in rows}
    mrr, species = (0.343, 0.383, 0.378, 0.3844), (40.50, 61.86, 63.90, 63.02)
    r = np.corrcoef(mrr, species)[0, 1]
    number, shown, low, high, *_, runs = found["MRR", "Species-800"]
    assert (number, runs) == (4, 4) and shown == pytest.approx(r, abs=1e-6)
    ends = [math.tanh(math.atanh(r) + sign * 1.959964 / math.sqrt(4 - 3)) for sign in (-1, 1)]
    assert [low, high] == pytest.approx(ends, abs=1e-5)
    assert found["MRR", "mean of 11 sets"][1] > 0.9 > -0.5 < found["PPPL", "mean of 11 sets"][1]


def test_too_few_or_equal_values_have_no_correlation() -> None:
    assert correlate((1, 2, 3), (1, 2, 3)) == correlate((1, 1, 1, 1), (1, 2, 3, 4)) == []
    ranks = correlate((1.0, 2.0, 3.0, 40.0), (2.0, 1.0, 3.0, 4.0))
    assert ranks[-1] == 0.8 and not tables_of([{"model": "a", "mrr": 0.5, "maskings": 2}])[1:]


def test_fine_tuned_models_count_as_what_they_began_with(folder: Path, write: Any) -> None:
    (folder / "tasks.jsonl").unlink()
    for number, step in enumerate(STEPS):
        write(f"tagger-{step}/bmtools.json", [{
            "command": "finetune ner", "sha256": f"t{step}", "settings": {
                "model": f"fast.kept/step-{step:08d}"}}])
        write(f"tagger-{step}.jsonl", [{"model": f"tagger-{step}", "task": "ner", "data": "t",
                                        "f1": F1["fast"][number], "interval": [0.1, 0.9]}])
    tables = parts(over_training(read_study([folder])))
    assert [row[:3] for row in tables["F1 (ner) over training"][1:]] == [
        ["fast", 10 * step, f1] for step, f1 in zip(STEPS, F1["fast"], strict=True)]
