"""Runs of a study: the state of its jobs, and processes for unfinished jobs.

For each job, a hidden directory in the study's directory contains a file with two hashes, one of
the command line and inputs and one of the output, and a log of the command's messages.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGTERM

from bmtools.errors import BmtoolsError, count_of
from bmtools.io.json_files import read_object
from bmtools.io.output import new_file
from bmtools.io.provenance.manifest import walk
from bmtools.io.provenance.record import hash_path
from bmtools.io.system import STOPPED, Ended, interruption, usable_cores
from bmtools.records import JsonObject
from bmtools.study.studies.plan import Job

_STATES = ".study"
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1  # of prctl in Linux
_THREADS = "OMP_NUM_THREADS"


class StoppedError(BmtoolsError):
    """A study that was stopped; the same command continues it."""


class Runner:
    """Runner for the jobs of a study, with the state of their outputs.

    Args:
        folder: directory of the study.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begun: dict[Job, JsonObject] = {}
        self._inputs: dict[str, tuple[list[int], str]] = {}
        self._states: dict[Job, JsonObject] = {}
        self._keys: dict[Job, str] = {}

    def is_done(self, job: Job) -> bool:
        """Return whether a job has run with this command line and these inputs."""
        return self._is_current(job) and (Path(job.output).exists() or not (
            job.step.keep or any(not self.is_done(reader) for reader in job.readers)))

    def line(self, job: Job) -> str:
        """Return the command line for a shell, with options to continue or replace output."""
        return shlex.join(self._words(job)) + f" > {shlex.quote(job.output)}" * job.prints

    def run(self, jobs: Sequence[Job], workers: int) -> Iterator[JsonObject]:
        """Run jobs that are not done, several at a time, and yield a line about each of them.

        Raises:
            BmtoolsError: a job failed, and the other running jobs have ended; or an output exists
                that the study has not written; or a job needs one that is not among the given
                jobs.
            StoppedError: a job was stopped.
        """
        waiting = [job for job in jobs if not self.is_done(job)]
        for job in waiting:
            if Path(job.output).exists() and not self._state(job):
                raise BmtoolsError(f"{job.output} exists, and this study has not written it; move "
                                   "or delete it, or use another --output")
        running: dict[Job, subprocess.Popen[bytes]] = {}
        failures: list[BmtoolsError] = []
        with _ended_with(running):
            while True:
                self._start_next(waiting, running, 0 if failures else workers)
                if not running:
                    break
                for job, code in _ended(running):
                    if code:
                        failures.append(self._failure(job, code))
                    else:
                        yield {**self._finish(job), "waiting": len(waiting)}
        if failures:
            raise failures[0]
        if waiting:
            absent = next(need for need in waiting[0].needs if not self._is_there(need))
            missing = count_of(len(waiting), "jobs")
            raise BmtoolsError(f"outputs of other parts are missing for {missing}, such as "
                               f"{absent.output}; run the same command again once they exist")

    def _start_next(self, waiting: list[Job], running: dict[Job, subprocess.Popen[bytes]],
                    workers: int) -> None:
        """Start jobs whose inputs exist, until the maximum number of jobs is running."""
        while len(running) < workers:
            pending = {*waiting, *running}
            job = next((job for job in waiting if not pending.intersection(job.needs)
                        and all(map(self._is_there, job.needs))), None)
            if job is None:
                return
            waiting.remove(job)
            if not self.is_done(job):  # it is done if its inputs were made again unchanged
                running[job] = self._start(job, workers)

    def _is_there(self, job: Job) -> bool:
        return Path(job.output).exists() and self._is_current(job)

    def _start(self, job: Job, workers: int) -> subprocess.Popen[bytes]:
        words, before = self._words(job), self._state(job)
        self._file(job, ".log").parent.mkdir(parents=True, exist_ok=True)
        Path(job.output).parent.mkdir(parents=True, exist_ok=True)
        self._begun[job] = {"key": self._key(job), "began": time.time()}
        self._write(job, {**self._begun[job], **(
            {"before": before} if "--overwrite" in words else {})})
        environment = {_THREADS: str(max(1, usable_cores() // workers)), **os.environ} \
            if workers > 1 else None
        with self._file(job, ".log").open("ab") as log, \
                Path(job.output if job.prints else os.devnull).open("wb") as printed:
            # In a separate session, a process receives Ctrl-C only once, from this process.
            return subprocess.Popen(
                [sys.executable, "-m", *words], stdin=subprocess.DEVNULL, stderr=log,
                stdout=printed if job.prints else log, env=environment, start_new_session=True,
                preexec_fn=_end_with_parent)

    def _finish(self, job: Job) -> JsonObject:
        """Record that a job is done, and remove outputs that are no longer needed."""
        if not Path(job.output).exists():
            raise BmtoolsError(f"{job.line}: did not write {job.output}")
        begun = self._begun.pop(job)
        seconds = round(time.time() - begun["began"], 1)
        self._write(job, {**begun, "seconds": seconds, "sha256": hash_path(Path(job.output)),
                          "signature": _signature(Path(job.output)),
                          "inputs": {path: self._input(path, job) for path in job.inputs}})
        for need in job.needs:
            if not need.step.keep and all(map(self.is_done, need.readers)):
                path = Path(need.output)
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return {"step": job.step.name, "for": dict(job.where), "output": job.output,
                "seconds": seconds}

    def _failure(self, job: Job, code: int) -> BmtoolsError:
        if job.prints:
            Path(job.output).unlink(missing_ok=True)
        if code not in (STOPPED, -SIGKILL) and (before := self._state(job).get("before")):
            self._write(job, before)  # this command line may have no run to resume
        said = self._file(job, ".log").read_text("utf-8", "replace").strip().splitlines()[-1:]
        kind = StoppedError if code == STOPPED else BmtoolsError
        how = f"ended by signal {-code}" if code < 0 else f"exited with {code}"
        return kind(f"{job.line}: {how}: {''.join(said) or 'no message'} "
                    f"({self._file(job, '.log')})")

    def _words(self, job: Job) -> list[str]:
        state = self._state(job)
        begun = bool(state) and "sha256" not in state and state["key"] == self._key(job)
        resumes = "--resume" in job.usage.flags and (begun or not state)
        replaces = Path(job.output).exists() or (bool(state) and not begun)
        return [*job.words, *["--resume"] * resumes,
                *["--overwrite"] * (replaces and not job.prints
                                    and "--overwrite" in job.usage.flags)]

    def _is_current(self, job: Job) -> bool:
        state = self._state(job)
        return "sha256" in state and state["key"] == self._key(job)

    def _key(self, job: Job) -> str:
        """Hash a command line and its inputs; empty if a job that it needs is not done.

        The directories of the study and of the inputs do not influence the hash.
        """
        if job not in self._keys:
            line = "\0".join(job.words).replace(str(self.folder) + os.sep, "")
            for path in job.inputs:
                line = line.replace(path, Path(path).name)
            digests = [*(self._output_digest(need) for need in job.needs),
                       *(self._input(path, job)[1] for path in job.inputs)]
            self._keys[job] = hashlib.sha256("\0".join([line, *digests]).encode(
                errors="surrogateescape")).hexdigest() if all(digests) else ""
        return self._keys[job]

    def _output_digest(self, job: Job) -> str:
        """Return the hash of a job's output; empty if the job is not done."""
        if not self._is_current(job):
            return ""
        state, path = self._state(job), Path(job.output)
        same = not path.exists() or _signature(path) == state["signature"]
        return str(state["sha256"] if same else hash_path(path))

    def _input(self, path: str, job: Job) -> tuple[list[int], str]:
        """Return signature and hash of an input; hash it again if its signature has changed."""
        if path not in self._inputs:
            signature = _signature(Path(path))
            noted, digest = self._state(job).get("inputs", {}).get(path, ([], ""))
            self._inputs[path] = signature, digest if noted == signature else hash_path(Path(path))
        return self._inputs[path]

    def _state(self, job: Job) -> JsonObject:
        """Read the recorded state of a job; empty if the job has not begun."""
        if job not in self._states:
            path = self._file(job, ".json")
            self._states[job] = read_object(path) if path.is_file() else {}
        return self._states[job]

    def _write(self, job: Job, state: JsonObject) -> None:
        with new_file(self._file(job, ".json")) as stream:
            stream.write(json.dumps(state).encode())
        self._states.clear()  # other parts may have made progress
        self._keys.clear()

    def _file(self, job: Job, ending: str) -> Path:
        path = Path(job.output).relative_to(self.folder)
        return self.folder / _STATES / path.parent / (path.name + ending)


@contextmanager
def _ended_with(running: dict[Job, subprocess.Popen[bytes]]) -> Iterator[None]:
    """Send a signal that ends the study to its processes, and wait for them.

    Raises:
        StoppedError: a signal has ended the study.
    """
    number = int(SIGTERM)
    try:
        yield
    except Ended as ended:
        interruption.clear()
        number = ended.number
        raise StoppedError("stopped; run the same command to continue the study") from ended
    finally:
        for process in running.values():
            process.send_signal(number)
        for process in running.values():
            process.wait()


def _end_with_parent() -> None:
    """Make Linux send SIGTERM to this process when its parent ends, even by kill -9."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(_PR_SET_PDEATHSIG, int(SIGTERM))


def _ended(running: dict[Job, subprocess.Popen[bytes]]) -> list[tuple[Job, int]]:
    """Wait until processes have ended, and remove them from the running jobs."""
    while not (ended := [job for job, process in running.items() if process.poll() is not None]):
        interruption.check()
        time.sleep(_POLL_SECONDS)
    return [(job, running.pop(job).returncode) for job in ended]


def _signature(path: Path) -> list[int]:
    """Return number, bytes and newest time of files, which show that their content has changed."""
    files = [Path(parent, name) for parent, _, names in walk(path) for name in names] \
        if path.is_dir() else [path]
    stats = [file.stat() for file in files if file.exists()]
    return [len(stats), sum(one.st_size for one in stats),
            max((one.st_mtime_ns for one in stats), default=0)]
