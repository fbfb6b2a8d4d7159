"""All tests and benchmarks that need a GPU, in at most twenty minutes and offline: `make
gpu-check`.

Runs the tests marked gpu and the benchmarks on a GPU, part by part, each with a time limit. If a
part fails or runs out of time, the others still run. Then it writes `gpu-check.json` and
`gpu-check.md`: the machine, the goals and the measurements. It uses real abstracts if BMTOOLS_DATA
or `../shared/data` contains them, and otherwise made-up texts.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata, util
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from gpu_report import markdown

from bmtools.errors import BmtoolsError
from bmtools.installation import require_versions
from bmtools.models.device import missing_for_cuda

BUDGET_SECONDS = 20 * 60
_TESTS = Path(__file__).parents[1]
_BENCHMARKS = Path(__file__).parent.relative_to(_TESTS.parent)
_PRETRAIN = _BENCHMARKS / "test_bench_pretrain_gpu.py"
_TIMED = ("--benchmark-enable", "-s")
# Time for a part that ran out of time to write its results.
_GRACE_SECONDS = 10
_LEAST_SECONDS = 30
_SHOWN_LINES = 200  # at the end of a failed part's output
_NEEDED = ("pytest", "pytest_benchmark")
_PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "numpy", "triton", "minicons")


@dataclass(frozen=True)
class Part:
    """Part of the check: a run of pytest.

    Args:
        name: name for people.
        arguments: arguments of pytest.
        limit_seconds: time limit.
    """

    name: str
    arguments: tuple[str, ...]
    limit_seconds: float


@dataclass(frozen=True)
class Outcome:
    """Result of a part.

    Args:
        name: name of the part.
        status: passed, failed, out of time, or skipped (if all its tests were skipped).
        seconds: time that it took.
        limit_seconds: its time limit.
        detail: reason if it did not pass, otherwise empty.
        tests: status of each test, by name.
        benchmarks: entries of pytest-benchmark's file.
        machine: description of the machine in that file.
    """

    name: str
    status: str
    seconds: float
    limit_seconds: float
    detail: str = ""
    tests: Mapping[str, str] = field(default_factory=dict)
    benchmarks: Sequence[Mapping[str, Any]] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)


def parts() -> tuple[Part, ...]:
    """Return the parts; their limits leave half a minute of the time budget."""
    marked = [str(path.relative_to(_TESTS.parent)) for path in sorted(_TESTS.rglob("test_*.py"))
              if "mark.gpu" in path.read_text(encoding="utf-8")
              and path.parent != Path(__file__).parent]
    sizes = ("bert-base-128", "bert-base-512", "modernbert-base-1024")
    return (
        Part("tests", ("-m", "gpu", *marked), 240),
        *(Part(f"pretrain, {size}", (f"{_PRETRAIN}::test_pretrain_on_a_gpu[{size}]", *_TIMED), 95)
          for size in sizes),
        Part("busy", (f"{_PRETRAIN}::test_the_gpu_is_busy", *_TIMED), 60),
        Part("preflight", (f"{_BENCHMARKS / 'test_bench_preflight_gpu.py'}", *_TIMED), 110),
        Part("scoring", (f"{_BENCHMARKS / 'test_bench_scoring.py'}::test_pppl_on_a_gpu", *_TIMED),
             125),
        *(Part(f"pretrain compiled, {size}",
               (f"{_PRETRAIN}::test_compiled_pretraining_on_a_gpu[{size}]", *_TIMED), 115)
          for size in sizes))


def run_parts(chosen: Sequence[Part], budget_seconds: float = BUDGET_SECONDS,
              program: Sequence[str] = (sys.executable, "-m", "pytest")) -> Iterator[Outcome]:
    """Run parts one after the other, and yield their results.

    Args:
        chosen: parts to run.
        budget_seconds: budget for all parts; a part that has too little time left does not start.
        program: program that accepts the arguments of a part.
    """
    began = time.monotonic()
    for part in chosen:
        left = budget_seconds - (time.monotonic() - began)
        seconds = min(part.limit_seconds, left)
        if seconds < min(_LEAST_SECONDS, part.limit_seconds):
            yield Outcome(part.name, "out of time", 0.0, part.limit_seconds,
                          "the time for all parts was over")
            continue
        yield _run(part, seconds, program)


def _run(part: Part, seconds: float, program: Sequence[str]) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as log:
        directory = Path(name)
        files = {"--junitxml": directory / "tests.xml",
                 "--benchmark-json": directory / "benchmarks.json"}
        with subprocess.Popen(
                [*program, *part.arguments, "-W", "default", "-p", "no:cacheprovider", "-q",
                 *(f"{option}={path}" for option, path in files.items())],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True, cwd=_TESTS.parent,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
                ) as process:
            code = _wait(process, seconds)
        log.seek(0)
        words = [line for line in log.read().splitlines() if line.strip()]
        tests = dict(_read_tests(files["--junitxml"]))
        timed = _read_object(files["--benchmark-json"])
    failed = [f"{test}: {status}" for test, status in tests.items()
              if status not in ("passed", "skipped")]
    if code is None:
        status, detail = "out of time", f"it was ended after {seconds:.0f} seconds"
    elif code == 0 and any(status == "passed" for status in tests.values()):
        status, detail = "passed", ""
    elif code in (0, 5):
        status, detail = "skipped", "; ".join(sorted({*_reasons(words)})) or "no test ran"
    else:
        status, detail = "failed", "; ".join(failed) or (words[-1] if words else f"exit {code}")
        print(*words[-_SHOWN_LINES:], sep="\n", file=sys.stderr)
    return Outcome(part.name, status, round(time.monotonic() - began, 1), part.limit_seconds,
                   detail, tests, timed.get("benchmarks", ()), timed.get("machine_info", {}))


def _wait(process: subprocess.Popen[Any], seconds: float) -> int | None:
    """Wait for a process; after a time limit, end it and its children, and return None."""
    for left, number in ((max(seconds - _GRACE_SECONDS, seconds / 2), signal.SIGINT),
                         (min(_GRACE_SECONDS, seconds / 2), signal.SIGKILL)):
        try:
            code = process.wait(left)
            return code if number == signal.SIGINT else None
        except subprocess.TimeoutExpired:
            # After SIGINT pytest writes its files for the finished tests.
            os.killpg(process.pid, number)
    return None


def _read_tests(path: Path) -> Iterator[tuple[str, str]]:
    """Read the status of each test: passed, skipped, or the first line of its error."""
    if not path.exists():
        return
    for case in ElementTree.parse(path).iter("testcase"):
        faults = [*case.iter("failure"), *case.iter("error")]
        status = "skipped" if case.find("skipped") is not None else "passed"
        if faults:
            status = (faults[0].get("message") or "failed").splitlines()[0][:300]
        yield case.get("name", ""), status


def _reasons(lines: Sequence[str]) -> Iterator[str]:
    """Return the reasons of skipped tests from pytest's summary."""
    for line in lines:
        if found := re.match(r"SKIPPED \[\d+\] \S+: (.+)", line):
            yield found[1]


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content


def describe_machine() -> dict[str, Any]:
    """Describe the card, its driver and the software."""
    import torch
    from torch.utils.collect_env import get_nvidia_driver_version, run

    gpu = torch.cuda.get_device_properties(0)
    installed = {one.name: one.version for one in metadata.distributions()}
    return {"card": gpu.name, "cards": torch.cuda.device_count(),
            "memory_gib": round(gpu.total_memory / 2**30, 1),
            "compute_capability": f"{gpu.major}.{gpu.minor}",
            "driver": get_nvidia_driver_version(run),
            "cuda": torch.version.cuda, "python": platform.python_version(),
            "versions": {name: installed[name] for name in _PACKAGES if name in installed}}


def reason_not_to_run() -> str:
    """Return which packages are missing, or that there is no GPU; empty if the check can run."""
    missing = [f"{name} is not installed" for name in _NEEDED if util.find_spec(name) is None]
    if missing:
        return "; ".join(missing)
    try:
        require_versions()
    except BmtoolsError as error:
        return str(error)
    if reason := missing_for_cuda():
        return f"no GPU: {reason}"
    import torch

    return "" if torch.cuda.is_available() else \
        f"no GPU: torch {torch.__version__} finds none; nvidia-smi may say why"


def main(directory: Path, names: Sequence[str] = ()) -> int:
    """Run the check, and return its exit code: 1 if it cannot run or a part did not pass.

    The report is written after each part, so it is kept if the machine is taken away.

    Args:
        directory: directory for the report.
        names: names of the parts to run, or their beginnings; by default all parts.
    """
    chosen = [part for part in parts() if not names or part.name.startswith(tuple(names))]
    reason = reason_not_to_run() if chosen else (
        f"no part is called {' or '.join(names)}, expected one of "
        f"{'; '.join(part.name for part in parts())}")
    if reason:
        print(f"gpu-check: {reason}", file=sys.stderr)
        return 1
    record: dict[str, Any] = {"machine": describe_machine(), "date": time.strftime("%Y-%m-%d"),
                              "parts": []}
    for outcome in run_parts(chosen):
        record["parts"].append(asdict(outcome))
        print(f"gpu-check: {outcome.name}: {outcome.status} in {outcome.seconds:.0f} s"
              + (f" ({outcome.detail})" if outcome.detail else ""), file=sys.stderr, flush=True)
        write_report(record, directory)
    print(f"gpu-check: {directory / 'gpu-check.md'} and .json", file=sys.stderr)
    return int(any(one["status"] in ("failed", "out of time") for one in record["parts"]))


def write_report(record: Mapping[str, Any], directory: Path) -> None:
    """Write the record as JSON, and as Markdown with the goals."""
    directory.mkdir(parents=True, exist_ok=True)
    text = markdown(record)
    (directory / "gpu-check.json").write_text(json.dumps(record, indent=1) + "\n",
                                              encoding="utf-8")
    (directory / "gpu-check.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"), sys.argv[2:]))
