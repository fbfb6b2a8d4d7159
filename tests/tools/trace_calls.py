"""Count the functions and files of bmtools that a command runs.

    python tests/tools/trace_calls.py [--checkout DIR] [--work DIR] [NAME ...]
    python tests/tools/trace_calls.py --list table     # the functions by file

Counted are functions and methods below `bmtools` that are entered in any thread of the command's
process, and the files that contain them. Modules, class bodies, lambdas, comprehensions and
generator expressions do not count. Tests can call `trace`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

Function = tuple[str, str]
"""A file, relative to the checkout, and the qualified name of a function in it."""
_FIRST_STEP = 3
"""Optimizer step after which the step that is traced begins."""
_ANONYMOUS = re.compile(r"<(?:lambda|listcomp|setcomp|dictcomp|genexpr)>$")


@dataclass(frozen=True)
class Run:
    """A command to trace.

    Args:
        arguments: of bmtools.
        goal: greatest number of functions, and of files.
        part: part of the run to trace: all, step (between two optimizer steps) or stop (from a
            SIGTERM to the exit).
        code: expected exit code.
    """

    arguments: str
    goal: tuple[int, int] | None = None
    part: str = "all"
    code: int = 0


PRETRAIN = ("pretrain corpus.jsonl --architecture bert-1x64 --tokenizer vocabulary --steps 6 "
            "--max-length 64 --batch-size 4 --mixed-precision no ")
# Files that the runs below read.
PREPARATION = (
    "import pubmed examples/abstracts.xml -o english.jsonl",
    "translate english.jsonl --engine memory --memory examples/memory.tsv --source-lang en "
    "--target-lang it -o corpus.jsonl",
    "build-vocab corpus.jsonl --uncased --size 500 -o vocabulary",
    f"{PRETRAIN} -o model",
    "import curated examples/curated.json --lang it -o curated.jsonl",
    *(f"import conll examples/entities-{part}.tsv --lang it -o {part}.jsonl"
      for part in ("train", "dev", "test")),
    "score-mrr curated.jsonl --model model --baseline corpus.jsonl -o mrr.jsonl",
)
RUNS = {
    "import pubmed": Run("import pubmed examples/abstracts.xml -o out.jsonl", (110, 22)),
    "score-mrr": Run("score-mrr curated.jsonl --model model --baseline corpus.jsonl -o out.jsonl",
                     (200, 40)),
    "score-pppl": Run("score-pppl dev.jsonl --model model --baseline corpus.jsonl -o out.jsonl",
                      (200, 40)),
    "build-vocab": Run("build-vocab corpus.jsonl --uncased --size 500 -o out", (120, 24)),
    "finetune ner": Run(
        "finetune ner --model model --train train.jsonl --dev dev.jsonl --test test.jsonl "
        "--seeds 1 --epochs 1 --max-length 64 --mixed-precision no -o out", (300, 55)),
    "pretrain": Run(f"{PRETRAIN} -o out", (430, 70)),
    "one pretraining step": Run(f"{PRETRAIN} -o out", (66, 16), "step"),
    "dedup": Run("dedup corpus.jsonl -o out.jsonl", (137, 27)),
    "table": Run("table mrr.jsonl --columns mrr,hits_at_5", (46, 17)),
    "project": Run("project dev.jsonl --translations dev.jsonl -o out.jsonl", (157, 32)),
    "report": Run("report model mrr.jsonl -o out.html", (137, 27)),
    "pretrain, SIGTERM": Run(f"{PRETRAIN} -o out", None, "stop", 75),
}
COMPARED = ("import pubmed", "score-mrr", "score-pppl", "build-vocab", "finetune ner", "pretrain",
            "dedup", "project")
"""Commands whose common functions are counted; all of them process records."""


def trace(arguments: Sequence[str], cwd: Path, checkout: Path, *, part: str = "all",
          code: int = 0) -> set[Function]:
    """Run a command in a new process, and return the functions that it entered.

    Args:
        arguments: of bmtools.
        cwd: directory to run in.
        checkout: directory that contains the package `bmtools`.
        part: part of the run to trace: all, step or stop.
        code: expected exit code.

    Raises:
        RuntimeError: the command exited with another code.
    """
    return traced_run(arguments, cwd, checkout, part, code)[0]


def traced_run(arguments: Sequence[str], cwd: Path, checkout: Path, part: str,
               code: int) -> tuple[set[Function], int]:
    """Return the functions that a command entered, and how many modules of bmtools it loaded."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        environment = {**os.environ, "PYTHONPATH": str(checkout.absolute()), "OMP_NUM_THREADS": "1",
                       "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(
            [sys.executable, __file__, "--traced", str(result), part, *arguments], cwd=cwd,
            env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != code or not result.exists():
            raise RuntimeError(f"bmtools {' '.join(arguments)}: exit {done.returncode}, expected "
                               f"{code}\n{done.stderr[-2000:]}")
        content = json.loads(result.read_text())
    return {(file, name) for file, name in content["functions"]}, content["modules"]


class Tracer:
    """Profiler of all threads that collects the code objects they enter.

    Args:
        package: directory of the package whose code objects are collected.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._codes: set[Any] = set()
        self.is_counting = False

    def install(self) -> None:
        """Profile this thread and all threads that start later."""
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and self.is_counting:
            self._codes.add(frame.f_code)

    def start(self) -> None:
        """Count from now on."""
        self._codes.clear()
        self.is_counting = True

    def functions(self) -> list[Function]:
        """Return the functions that were entered, without the anonymous ones."""
        return sorted({
            (os.path.relpath(code.co_filename, Path(self._package).parent), code.co_qualname)
            for code in list(self._codes)
            if code.co_filename.startswith(self._package + os.sep)
            and code.co_flags & inspect.CO_OPTIMIZED and not _ANONYMOUS.search(code.co_name)})


def run_traced(result: Path, part: str, arguments: Sequence[str]) -> None:
    """Run bmtools in this process, write what it entered to a file, and exit with its code."""
    from stop_at_step import after_each_step, stop_after  # next to this program

    tracer = Tracer(str(Path(os.environ["PYTHONPATH"]) / "bmtools"))
    process = os.getpid()
    if part == "all":
        tracer.start()
    elif part == "stop":
        stop_after(_FIRST_STEP, tracer.start)
    else:
        def count_one_step(number: int) -> None:
            if number == _FIRST_STEP:
                tracer.start()
            elif number == _FIRST_STEP + 1:
                tracer.is_counting = False

        after_each_step(count_one_step)
    tracer.install()
    from bmtools.cli.main import main

    try:
        main(arguments)
    finally:
        tracer.is_counting = False
        sys.setprofile(None)
        if os.getpid() == process:  # not in a worker process
            modules = sum(name.partition(".")[0] == "bmtools" for name in sys.modules)
            result.write_text(json.dumps({"functions": tracer.functions(), "modules": modules}))


def prepare(work: Path, checkout: Path) -> None:
    """Write the files that the runs read, unless an earlier call did."""
    if (work / "mrr.jsonl").exists():
        return
    work.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (work / "examples").symlink_to(checkout.absolute() / "examples" / "quickstart")
    for line in PREPARATION:
        subprocess.run([sys.executable, "-m", "bmtools", *line.split()], cwd=work, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       env={**os.environ, "PYTHONPATH": str(checkout.absolute()),
                            "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})


@dataclass
class Traces:
    """Functions of each run, and numbers of loaded modules."""

    functions: dict[str, set[Function]] = field(default_factory=dict)
    modules: dict[str, int] = field(default_factory=dict)


def trace_runs(names: Sequence[str], work: Path, checkout: Path) -> Traces:
    """Trace the named runs of `RUNS`, each with a new output."""
    prepare(work, checkout)
    traces = Traces()
    for name in names:
        run = RUNS[name]
        output = tempfile.mkdtemp(dir=work)
        arguments = [re.sub(r"^out(?=\.|$)", f"{Path(output).name}/out", word)
                     for word in run.arguments.split()]
        traces.functions[name], traces.modules[name] = traced_run(
            arguments, work, checkout, run.part, run.code)
    return traces


def table(traces: Traces) -> str:
    """Format numbers of functions and files as a Markdown table, with the common ones below."""
    def size(functions: set[Function]) -> tuple[int, int]:
        return len(functions), len({file for file, _ in functions})

    lines = ["| command | functions | files | goal |", "| --- | ---: | ---: | ---: |"]
    for name, functions in traces.functions.items():
        goal = RUNS[name].goal
        lines.append(f"| {name} | {size(functions)[0]} | {size(functions)[1]} | "
                     f"{f'{goal[0]}/{goal[1]}' if goal else '-'} |")
    if set(COMPARED) <= set(traces.functions):
        common = size(set.intersection(*(traces.functions[name] for name in COMPARED)))
        lines += ["", f"{', '.join(COMPARED)} have {common[0]} functions in {common[1]} files in "
                      "common."]
    if "import pubmed" in traces.modules:
        loaded = traces.modules["import pubmed"]
        lines += ["", f"`import pubmed` loads {loaded} modules of bmtools."]
    return "\n".join(lines)


def listing(functions: set[Function]) -> str:
    """Format functions by file."""
    files: dict[str, list[str]] = {}
    for file, name in sorted(functions):
        files.setdefault(file, []).append(name)
    return "\n".join(f"{file} ({len(names)})\n    {', '.join(names)}"
                     for file, names in files.items())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or the functions of one command."""
    parser = argparse.ArgumentParser(description="Count the functions that commands run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RUNS)}")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--work", type=Path, help="directory for all files; kept and reused")
    parser.add_argument("--list", metavar="NAME", help="print the functions of one command by file")
    options = parser.parse_args(arguments)
    names = [options.list] if options.list else options.names or [*RUNS]
    if unknown := set(names) - set(RUNS):
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(RUNS)}")
    with tempfile.TemporaryDirectory() as temporary:
        traces = trace_runs(names, (options.work or Path(temporary)).absolute(), options.checkout)
    print(listing(traces.functions[options.list]) if options.list else table(traces))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--traced"]:
        run_traced(Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
    else:
        main()
