"""Workflows of GitHub Actions: permissions, pinned versions, and steps that users would copy."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_actions_are_pinned_and_may_only_read(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60 and "permissions" not in job
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
            # Text from others, such as titles of pull requests, must not become part of a script.
            assert "${{" not in step.get("run", "")


def test_the_workflow_runs_the_tests_of_make() -> None:
    [job] = read(ROOT / ".github/workflows/test.yml")["jobs"].values()
    run = "\n".join(step.get("run", "") for step in job["steps"])
    targets = re.findall(r"^make ([\w-]+)$", run, re.M)
    assert targets == ["test-all", "dist"]
    subprocess.run(["make", "-n", *targets], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.slow
def test_a_worse_model_fails_its_job(tmp_path: Path, warm_bmtools: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is absent")
    shutil.copytree(ROOT / "examples/quickstart", tmp_path / "examples/quickstart",
                    ignore=shutil.ignore_patterns("out"))
    phases = tmp_path / "examples/quickstart/phases.toml"
    phases.write_text(re.sub(r"steps = \d+", "steps = 2", phases.read_text()))
    stored = tmp_path / "examples/quickstart/score.json"
    [job] = read(ROOT / ".github/workflows/model.yml")["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if "name" in step}
    assert job["defaults"]["run"]["shell"] == "bash"

    def run(name: str) -> int:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps[name]], cwd=tmp_path,
            check=False, env={**os.environ, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
                              "PATH": f"{warm_bmtools}{os.pathsep}{os.environ['PATH']}"}).returncode

    assert run("Train") == 0
    assert run("Score") == 3
    assert run("Report") == 0
    assert re.search(r"^\| model +\|", (tmp_path / "summary.md").read_text(), re.M)
    stored.write_text('{"pppl": 100000}')
    for name in ("held-out.jsonl", "pppl.jsonl"):
        (tmp_path / name).unlink()
    assert run("Score") == 0
