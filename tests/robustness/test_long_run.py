"""A long run that is killed repeatedly ends like an uninterrupted run, without more memory.

`make long STEPS=20000` trains this number of steps, and kills a second run of them 50 times. The
default is a few steps.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from training.test_run_processes import PHASES, Job, common, data, phased, same_run  # noqa: F401

STEPS = int(os.environ.get("BMTOOLS_STEPS", "90"))
KILLS = min(50, STEPS // 30)
SETTLED_STEP = min(500, STEPS // 2)
EVERY = max(STEPS // 1000, 2)
# Later phases need more memory than the first one, reports are kept, and libraries keep a limited
# number of compiled products, each for one shape.
TOLERANCE_MB = 24
PATIENCE_SECONDS = 240 + STEPS / 5


@pytest.fixture
def arguments(data: Path, tmp_path: Path) -> list[Any]:  # noqa: F811
    """Arguments of a run of STEPS steps in three phases."""
    phases = tmp_path / "phases.toml"
    phases.write_text(re.sub(r"(?m)^steps = (\d+)",
                             lambda found: f"steps = {int(found[1]) * STEPS // 18}", PHASES))
    return [*common(data), *phased(data), "--phases", phases, "--save-steps", max(STEPS // 200, 5),
            "--set", f"logging_steps={EVERY}"]


def last_step(job: Job) -> int:
    """Return the last step that was reported."""
    lines = [line for line in job.out.splitlines(keepends=True)[-2:] if line.endswith("\n")]
    return json.loads(lines[-1]).get("step", 0) if lines else 0


def resident_mb(job: Job) -> float:
    """Return the resident memory of a job's first process, in MB."""
    pages = int(Path(f"/proc/{job.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_a_long_run_ends_the_same_after_many_kills(tmp_path: Path, arguments: list[Any]) -> None:
    whole = Job(tmp_path, [*arguments, "-o", tmp_path / "whole"])
    whole.until(lambda: last_step(whole) >= SETTLED_STEP)
    settled = resident_mb(whole)
    whole.until(lambda: last_step(whole) >= STEPS - 2 * EVERY - 18)
    grown = resident_mb(whole) - settled
    whole.succeed(PATIENCE_SECONDS)
    assert grown < TOLERANCE_MB

    rng = Random(STEPS)
    for step in sorted(rng.randrange(STEPS) for _ in range(KILLS)):
        job = Job(tmp_path, [*arguments, "-o", tmp_path / "out", "--resume"])
        job.until(lambda: last_step(job) >= step)  # noqa: B023
        time.sleep(rng.uniform(0, 0.05))
        assert job.send(signal.SIGKILL).wait() == [-signal.SIGKILL]
    Job(tmp_path, [*arguments, "-o", tmp_path / "out", "--resume"]).succeed(PATIENCE_SECONDS)
    same_run(tmp_path / "out", tmp_path / "whole")
    print(f"{STEPS} steps, {KILLS} kills: {settled:.0f} MB at step {SETTLED_STEP}, "
          f"{grown:+.1f} MB at the end")
