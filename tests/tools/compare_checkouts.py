"""Run the same commands in two checkouts and compare everything that they write.

    python tests/tools/compare_checkouts.py OLD_CHECKOUT NEW_CHECKOUT [--only NAME] [--work DIR]

The commands are in `scenarios.toml`. Standard output, standard error, exit codes and files must be
equal, apart from times, speeds, energy, the version of bmtools and temporary paths. A hash of a
file that contains such a value is replaced by the hash of the file without it. Exits with 1 if
anything differs, or if a command of the old checkout does not exit as the scenario says.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = Path(__file__).parent
_TIMEOUT = 600  # seconds
_SHORTEST_HASH = 8
_HASH = re.compile(rf"(?<![0-9a-f])[0-9a-f]{{{_SHORTEST_HASH},64}}(?![0-9a-f])")
_SHOWN_LINES = 12
_SHOWN_WIDTH = 200
_NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?"
_DURATION = rf"{_NUMBER} (?:s|min|h|d)(?: \d+ (?:s|min|h))?"
VARYING = tuple((re.compile(found), kept) for found, kept in (
    # JSON: numbers that measure time, speed and memory, and sizes of records that contain them.
    (r'("(?:wall_seconds|seconds|seconds_left|hours|cpu_hours|machine_cpu_hours|tokens_per_second'
     rf'|texts_per_second|peak_megabytes|bmtools\.json)": ?){_NUMBER}', r"\g<1>0"),
    (rf'("tokens_per_second": ?0, ?"median": ?){_NUMBER}', r"\g<1>0"),
    (r'("run": ?)"[0-9a-f]{16}"', r'\1"<run>"'),
    (r'("serialNumber": "urn:uuid:)[-0-9a-f]{36}', r"\1<uuid>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:\+00:00|Z)?", "<time>"),
    # Messages such as "80 records to english.jsonl in 0.1 s".
    (rf"(?<= in ){_DURATION}\b", "<duration>"),
    (rf"(?<= reads ){_NUMBER} tokens per second", "<speed>"),
))
STATUS = re.compile(rf"^(?!bmtools: ).+?: (?:[\d,]+(?: of [\d,]+)? [a-z]+|{_DURATION})"
                    r"(?:, .*)?\n", re.MULTILINE)
"""Lines that commands write to stderr every ten seconds."""


@dataclass(frozen=True)
class Command:
    """A line of bash and the expected exit code of the old checkout."""

    line: str
    code: int = 0


@dataclass(frozen=True)
class Scenario:
    """Commands that run one after the other in a directory.

    Args:
        name: name of the scenario and its directory.
        commands: commands to run.
        needs: scenarios whose files the commands read.
        files: content of files to write first, by name.
    """

    name: str
    commands: tuple[Command, ...]
    needs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def read_scenarios(path: Path) -> dict[str, Scenario]:
    """Read the scenarios of a TOML file, by name."""
    return {name: Scenario(name, tuple(parse_commands(table["commands"])),
                           tuple(table.get("needs", ())), table.get("files", {}))
            for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()}


def parse_commands(text: str) -> Iterator[Command]:
    """Yield the commands of lines such as `!75 bmtools ...`."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            code, rest = re.match(r"(?:!(\d+) )?(.*)", line).groups()  # type: ignore[union-attr]
            yield Command(rest, int(code or 0))


def chosen_scenarios(scenarios: Mapping[str, Scenario], names: Sequence[str]) -> list[Scenario]:
    """Return the named scenarios and those they need, in the order of the file; all without names.

    """
    wanted = set(names or scenarios)
    for name in [*scenarios][::-1]:
        if name in wanted:
            wanted.update(scenarios[name].needs)
    return [scenario for name, scenario in scenarios.items() if name in wanted]


class Side:
    """The runs of one checkout in a separate directory.

    Args:
        checkout: the tested checkout.
        root: directory to run in.
        python: Python interpreter.
        examples: directory that scenarios read as `../data`.
    """

    def __init__(self, checkout: Path, root: Path, python: Path, examples: Path) -> None:
        self.checkout, self.root, self.python, self.examples = checkout, root, python, examples
        self._places = {str(root): "<work>", str(checkout): "<checkout>"}
        self._known: dict[str, str] = {}

    def prepare(self) -> None:
        """Write the programs and data that scenarios use."""
        shutil.copytree(self.examples, self.root / "data")
        for name in ("bin", "home", "tmp", "tools"):
            (self.root / name).mkdir()
        for name in ("print_help.py", "stop_at_step.py"):
            shutil.copy(TOOLS / name, self.root / "tools")
        for name, words in (("bmtools", "-m bmtools"), ("python", ""),
                            ("stopped", f'"{self.root}/tools/stop_at_step.py"')):
            program = self.root / "bin" / name
            program.write_text(f'#!/bin/sh\nexec "{self.python}" {words} "$@"\n')
            program.chmod(0o755)

    def run(self, scenario: Scenario) -> list[str]:
        """Run the commands of a scenario, and return complaints about exit codes."""
        folder, logs = self.root / scenario.name, self.root / "logs" / scenario.name
        folder.mkdir()
        logs.mkdir(parents=True)
        for name, content in scenario.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content.removeprefix("\n"), encoding="utf-8")
        complaints = []
        for number, command in enumerate(scenario.commands, 1):
            log = logs / f"{number:02}"
            log.with_suffix(".command").write_text(command.line + "\n")
            with log.with_suffix(".stdout").open("wb") as out, \
                    log.with_suffix(".stderr").open("wb") as err:
                try:
                    code = subprocess.run(
                        ["bash", "-o", "pipefail", "-c", command.line], cwd=folder, check=False,
                        stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                        env=self._environment(), timeout=_TIMEOUT).returncode
                except subprocess.TimeoutExpired:
                    code = -1
            log.with_suffix(".exit").write_text(f"{code}\n")
            if code != command.code:
                last = log.with_suffix(".stderr").read_text(errors="replace").strip()[-300:]
                complaints.append(f"{log}: exit {code}, expected {command.code}\n    {last}")
        return complaints

    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{self.root}/bin:/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": str(self.checkout), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8",
                "TZ": "UTC", "COLUMNS": "80", "HOME": str(self.root / "home"),
                "TMPDIR": str(self.root / "tmp"), "OMP_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}

    def files(self, scenario: str) -> dict[str, Path]:
        """Return the files and logs of a scenario by their names."""
        return {str(path.relative_to(self.root)): path
                for folder in (self.root / scenario, self.root / "logs" / scenario)
                for path in sorted(folder.rglob("*")) if path.is_file()}

    def learn_hashes(self, scenarios: Sequence[Scenario]) -> None:
        """Learn which hashes belong to content that differs only in varying values.

        A record contains hashes of other records, so this repeats until the hashes are stable.
        """
        contents = {hashlib.sha256(content).hexdigest(): content for content in (
            path.read_bytes() for one in scenarios for path in self.files(one.name).values())}
        before: dict[str, str] | None = None
        while before != self._known:
            before = dict(self._known)
            for own, content in contents.items():
                constant = self.constant(content)
                self._known[own[:_SHORTEST_HASH]] = hashlib.sha256(constant).hexdigest()
                if b'"files"' in content:
                    directory, files = hashes_of_directory(content, constant)
                    if directory not in contents:
                        self._known[directory[:_SHORTEST_HASH]] = hashlib.sha256(files).hexdigest()

    def constant(self, content: bytes, is_stderr: bool = False) -> bytes:
        """Replace all values that may differ between runs of the same code."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        if is_stderr:
            text = STATUS.sub("", text)
        for path, name in self._places.items():
            text = text.replace(path, name)
        for varying, kept in VARYING:
            text = varying.sub(kept, text)
        return _HASH.sub(self._constant_hash, text).encode()

    def _constant_hash(self, found: re.Match[str]) -> str:
        own = found[0]
        return self._known.get(own[:_SHORTEST_HASH], own)[:len(own)]


def hashes_of_directory(content: bytes, constant: bytes) -> tuple[str, bytes]:
    """Return the hash of a directory by its record, and the constant hashes of its files."""
    try:
        record, kept = json.loads(content), json.loads(constant)
    except ValueError:
        return "", b""
    if not isinstance(record, dict) or not {"sha256", "files"} <= set(record):
        return "", b""
    return record["sha256"], json.dumps(kept["files"]).encode()


def differences(old: Side, new: Side, scenario: Scenario) -> Iterator[str]:
    """Yield a description of each file and log of a scenario that differs."""
    ours, theirs = old.files(scenario.name), new.files(scenario.name)
    for name in sorted({*ours, *theirs}):
        if name not in ours or name not in theirs:
            yield f"{name}: only in the {'old' if name in ours else 'new'} checkout"
            continue
        before, after = (side.constant(files[name].read_bytes(), name.endswith(".stderr"))
                         for side, files in ((old, ours), (new, theirs)))
        if before != after:
            command = ours[name].with_name(ours[name].name.partition(".")[0] + ".command")
            line = f" {command.read_text().strip()}" if name.startswith("logs/") else ""
            yield f"{name}:{line}\n{describe(before, after)}"


def describe(before: bytes, after: bytes) -> str:
    """Show the first lines or the first byte that differ."""
    try:
        lines = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return f"    {len(before):,} and {len(after):,} bytes differ"
    found = [f"    {line[:_SHOWN_WIDTH]}" for line in
             [*difflib.unified_diff(*lines, n=0, lineterm="")][2:] if not line.startswith("@@")]
    rest = [f"    ... {len(found) - _SHOWN_LINES} more lines"] if len(found) > _SHOWN_LINES else []
    return "\n".join(found[:_SHOWN_LINES] + rest) or "    only the ends of lines differ"


def compare(old: Side, new: Side, scenarios: Sequence[Scenario]) -> bool:
    """Run all scenarios on both sides, print the differences, and return whether all are equal."""
    sides = [old, new]
    for side in sides:
        shutil.rmtree(side.root, ignore_errors=True)
        side.root.mkdir(parents=True)
        side.prepare()
    complaints: dict[str, list[str]] = {}
    with ThreadPoolExecutor(len(sides)) as pool:
        for scenario in scenarios:
            started = time.monotonic()
            found = list(pool.map(lambda side, one=scenario: side.run(one), sides))
            complaints[scenario.name] = found[0]
            print(f"ran {scenario.name} in {time.monotonic() - started:.0f} s", file=sys.stderr)
    for side in sides:
        side.learn_hashes(scenarios)
    is_same = True
    for scenario in scenarios:
        found = [*complaints[scenario.name], *differences(old, new, scenario)]
        print(f"{scenario.name}: {'DIFFERENT' if found else 'same'}")
        print("".join(f"  {one}\n" for one in found), end="", flush=True)
        is_same &= not found
    return is_same


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two checkouts, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare what two checkouts of bmtools write.")
    parser.add_argument("old", type=Path, help="checkout before the change")
    parser.add_argument("new", type=Path, help="checkout after the change")
    parser.add_argument("--python", type=Path, default=Path(sys.executable),
                        help="interpreter with the dependencies of bmtools")
    parser.add_argument("--work", type=Path, help="directory for all files; kept afterwards")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="scenario to run, with those it needs; repeat it for more")
    parser.add_argument("--scenarios", type=Path, default=TOOLS / "scenarios.toml")
    options = parser.parse_args(arguments)
    scenarios = read_scenarios(options.scenarios)
    if unknown := set(options.only) - set(scenarios):
        parser.error(f"found --only {', '.join(unknown)}, expected {', '.join(scenarios)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = (options.work or Path(temporary)).absolute()
        old, new = (Side(checkout.absolute(), work / name, options.python.absolute(),
                         options.old.absolute() / "examples")
                    for checkout, name in ((options.old, "old"), (options.new, "new")))
        is_same = compare(old, new, chosen_scenarios(scenarios, options.only))
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
