"""A stand-in for Slurm's sbatch, srun and scontrol that runs tasks here, one by one.

It is called by one of these names. `sbatch` reads the script's #SBATCH lines, runs each task of an
array, again as often as the task asks `scontrol requeue` for it, and appends its output to
slurm-JOB.out. In a task's first session, `srun` sends the signal of --signal when the shell command
SIGNAL_WHEN succeeds.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

_KNOWN = {"job-name", "array", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task",
          "gpus-per-task", "gpus-per-node", "time", "signal", "requeue", "open-mode"}


def sbatch(arguments: list[str]) -> int:
    """Run a script as a job, or each task of its array; its last exit code."""
    script = Path(arguments[0]).read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", script, re.M))
    assert len(options) == script.count("#SBATCH") and options.keys() <= _KNOWN, options
    nodes, each = int(options.get("nodes", 1)), options.get("ntasks-per-node", "")
    environment = {
        **os.environ, "SLURM_CPUS_PER_TASK": options["cpus-per-task"],
        "SLURM_NTASKS": str(nodes * int(each or options["ntasks"])), "SLURM_JOB_NODELIST": "node1",
        "SIGNAL": options.get("signal", "").partition("@")[0],
        **({"SLURM_NTASKS_PER_NODE": each} if each else {})}
    first, _, last = options.get("array", "").partition("-")
    tasks: list[str] = [str(number) for number in range(int(first), int(last) + 1)] \
        if first else [""]
    code = 0
    for job, task in enumerate(tasks, start=7001):
        if task:
            environment |= {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": str(len(tasks))}
        code = _run_job(str(job), arguments, environment) or code
    return code


def _run_job(job: str, arguments: list[str], environment: dict[str, str]) -> int:
    restarts = 0
    while True:
        asked = Path(f"requeue-{job}")
        with Path(f"slurm-{job}.out").open("a") as out:
            code = subprocess.run(["bash", *arguments], stdout=out, stderr=out, check=False, env={
                **environment, "SLURM_JOB_ID": job,
                "SLURM_RESTART_COUNT": str(restarts)}).returncode
            out.write(f"session {restarts} exited with {code}\n")
        if not asked.exists():
            return code
        asked.unlink()
        restarts += 1


def srun(arguments: list[str]) -> int:
    """Run a command in all tasks of the job; the largest exit code."""
    while arguments[0].startswith("--"):
        arguments = arguments[1:]
    tasks = [subprocess.Popen(arguments, env={
        **os.environ, "SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)})
        for number in range(int(os.environ["SLURM_NTASKS"]))]
    due = os.environ["SLURM_RESTART_COUNT"] == "0" and os.environ["SIGNAL"] != ""
    while any(task.poll() is None for task in tasks):
        time.sleep(0.02)
        if due and subprocess.call(os.environ["SIGNAL_WHEN"], shell=True) == 0:
            due = False
            for task in tasks:
                task.send_signal(signal.Signals[f"SIG{os.environ['SIGNAL']}"])
    return max(code if code >= 0 else 128 - code for code in (task.wait() for task in tasks))


def scontrol(arguments: list[str]) -> int:
    """Name the hosts of the job, or note that it shall run again."""
    if arguments[:2] == ["show", "hostnames"]:
        print("localhost\nnode2")
    else:
        [action, job] = arguments
        assert action == "requeue"
        Path(f"requeue-{job}").touch()
    return 0


if __name__ == "__main__":
    program = {"sbatch": sbatch, "srun": srun, "scontrol": scontrol}[Path(sys.argv[0]).name]
    sys.exit(program(sys.argv[1:]))
