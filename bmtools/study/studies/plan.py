"""Plan of a study: the command lines that the steps of a TOML file expand to."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from itertools import product
from pathlib import Path, PurePath

import msgspec

from bmtools.errors import DataError, listed, suggestion
from bmtools.io.folders import archive_of
from bmtools.records import readable
from bmtools.study.reports.labels import short_names

Value = str | int | float
Where = Mapping[str, str]
"""The entry of each axis of a job."""
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_UNPACKED = re.compile(r"\{\*([^{}]*)\}")
_OUTPUT, _HERE, _ENVIRONMENT = "output", "here", "env"
_MOST_NESTED, _SHOWN = 20, 5


class StudyStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command line that is run once, or for all combinations of entries from some axes.

    Args:
        name: name that other steps use for the output.
        run: command line with placeholders.
        output: path in the study's directory, with placeholders.
        each: axes over which the step is repeated.
        gather: axes over which a word of the command line is repeated.
        when: AXIS.VARIABLE; the step is left out for entries without this variable.
        keep: keep the output after all steps that read it are done.
    """

    name: str
    run: str
    output: str
    each: tuple[str, ...] = ()
    gather: tuple[str, ...] = ()
    when: str = ""
    keep: bool = True


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A study as its file states it.

    Args:
        steps: steps in the order in which they run.
        title: title of a few words.
        source: the paper.
        values: values by name.
        axes: entries by axis, and the variables of each entry; or a pattern of paths, such as
            `model.kept/step-*`, whose entries have the variable `path`.
    """

    steps: tuple[StudyStep, ...]
    title: str = ""
    source: str = ""
    values: dict[str, Value] = {}
    axes: dict[str, tuple[Value, ...] | dict[str, dict[str, Value]] | str] = {}


@dataclass(frozen=True)
class Usage:
    """Paths and options of a command line.

    Args:
        inputs: paths that the command reads.
        outputs: paths that it writes.
        flags: names of all options of the command.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    flags: frozenset[str]


@dataclass(eq=False)
class Job:
    """A command line of a step, for one combination of entries.

    Args:
        step: step of the job.
        number: number among the jobs of the step, from 0.
        where: entries of the job.
        output: path of its output.
        words: words of the command line, starting with `bmtools`.
        usage: paths and options of the command line.
        needs: jobs whose outputs it names.
        inputs: paths that it reads and that no job writes.
        readers: jobs that name its output.
    """

    step: StudyStep
    number: int
    where: Where
    output: str
    words: Sequence[str] = ()
    usage: Usage = Usage((), (), frozenset())
    needs: list[Job] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    readers: list[Job] = field(default_factory=list)

    @property
    def prints(self) -> bool:
        """Whether the command prints its output."""
        return not any(path == self.output for path in self.usage.outputs)

    @property
    def line(self) -> str:
        """The command line for a shell."""
        return shlex.join(self.words)


def study_names() -> list[str]:
    """List the studies in bmtools."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


def load_study(name: str) -> tuple[Study, Path]:
    """Read a study of bmtools by its name, or a TOML file; return the study and its path.

    Raises:
        DataError: there is no such file, or it is not a study.
    """
    path = Path(__file__).with_name(f"{name}.toml") if name in study_names() else Path(name)
    if not path.is_file():
        raise DataError(f"{name}: found no such file or study, {suggestion(name, study_names())}")
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Study), path
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {readable(str(error))}") from error


def make_plan(name: str, output: Path, defined: Mapping[str, str],
              parse: Callable[[Sequence[str]], Usage], steps: Sequence[str] = ()) -> list[Job]:
    """Expand a study to its jobs, each after the jobs that it needs.

    Args:
        name: name of a study in bmtools, or of a file.
        output: directory of the study.
        defined: values that replace values of the file; entries of an axis, separated by commas.
        parse: parses a command line without its first word; raises ValueError if it is wrong.
        steps: steps to which the plan is limited, with the steps that they need; all if empty.

    Raises:
        DataError: the file is wrong.
    """
    study, path = load_study(name)
    try:
        jobs = _Expansion(study, defined, path.parent, output, parse).jobs()
        for step in steps:
            _require("step", step, [one.name for one in study.steps])
    except ValueError as error:
        raise DataError(f"{path.name}: {error}") from error
    chosen = {job for job in jobs if not steps or job.step.name in steps}
    for job in reversed(jobs):
        chosen.update(job.needs if job in chosen else ())
    return [job for job in jobs if job in chosen]


def _require(place: str, found: str, known: Iterable[str]) -> str:
    if found not in known:
        raise ValueError(f"{place}: found {found!r}, {suggestion(found, known)}")
    return found


def _split(text: str) -> list[str]:
    """Split a text into words as a shell does, but not at spaces inside placeholders."""
    whole = _PLACEHOLDER.sub(lambda found: found[0].replace(" ", "\0"), text)
    return [word.replace("\0", " ") for word in shlex.split(whole)]


class _LeftOutError(ValueError):
    """A reference to a job that `when` leaves out."""


class _Expansion:
    """Expansion of a study: fills placeholders and links jobs.

    Args:
        study: study as read from its file.
        defined: see `make_plan`.
        here: directory of its file.
        output: directory of the study.
        parse: see `make_plan`.
    """

    def __init__(self, study: Study, defined: Mapping[str, str], here: Path, output: Path,
                 parse: Callable[[Sequence[str]], Usage]) -> None:
        self.study, self.here, self.output, self.parse = study, here, output, parse
        self.values = dict(study.values)
        patterns = {axis: one for axis, one in study.axes.items() if isinstance(one, str)}
        self.axes: dict[str, Mapping[str, Mapping[str, Value]]] = {
            axis: entries if isinstance(entries, dict) else {str(one): {} for one in entries}
            for axis, entries in study.axes.items()}
        for name, value in defined.items():
            _require("--define", name, [*self.values, *self.axes])
            if name in self.values:
                self.values[name] = value
            elif name in patterns:
                patterns[name] = value
            else:
                entries = self.axes[name]
                self.axes[name] = {
                    one: entries[_require(f"axis {name!r}", one, entries)]
                    if isinstance(study.axes[name], dict) else {} for one in value.split(",")}
        self.axes |= {axis: self._matching(axis, text) for axis, text in patterns.items()}
        self.made: dict[str, dict[tuple[str, ...], Job]] = {}
        self.steps: dict[str, StudyStep] = {}

    def _matching(self, axis: str, patterns: str) -> dict[str, dict[str, Value]]:
        """Return the paths that patterns match, by names with as few parts as possible.

        Raises:
            ValueError: no path matches.
        """
        filled = _PLACEHOLDER.sub(lambda found: self._raw(found[1], {}) or found[0], patterns)
        paths = sorted(path for one in filled.split(",")
                       for path in glob(one))  # noqa: PTH207, which may be absolute
        if not paths:
            raise ValueError(f"axis {axis!r}: found no path that matches {filled!r}, expected "
                             f"files or directories; name others with --define {axis}=PATTERN")
        # The added paths make all names have two parts, as checkpoints of several runs need.
        names = short_names([*paths, *(f"/{Path(path).name}" for path in paths)])
        return {name: {"path": path} for name, path in zip(names, paths, strict=False)}

    def jobs(self) -> list[Job]:
        """Make all jobs.

        Raises:
            ValueError: a step is wrong; the message names the step and its entries.
        """
        absent = dict[str, str]()
        for step in self.study.steps:
            place = f"step {step.name!r}"
            try:
                self._check_step(step)
                self.made[step.name] = self._reserve(step)
                for job in self.made[step.name].values():
                    place = ", ".join([f"step {step.name!r}", *(
                        f"{axis} {entry!r}" for axis, entry in job.where.items())])
                    absent |= dict.fromkeys(self._fill_job(job), place)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            self.steps[step.name] = step
        if absent:
            shown = listed([f"{path} ({place})" for path, place in absent.items()], _SHOWN)
            raise ValueError(f"found no {shown}, expected files or outputs of earlier steps; name "
                             "others with --define NAME=VALUE, or leave entries out with "
                             "--define AXIS=ENTRY,...")
        jobs = [job for made in self.made.values() for job in made.values()]
        by_output = {PurePath(job.output): job for job in reversed(jobs)}
        for job in jobs:
            for path in (PurePath(job.output), *PurePath(job.output).parents):
                if (other := by_output.get(path, job)) is not job:
                    raise ValueError(f"steps {job.step.name!r} and {other.step.name!r} both write "
                                     f"{path}; expected different outputs; include the name of "
                                     "each axis of 'each' in braces")
        return jobs

    def _check_step(self, step: StudyStep) -> None:
        taken = {*self.values, *self.axes, *self.steps, _OUTPUT, _HERE}
        if step.name in taken or not re.fullmatch(r"[\w-]+", step.name):
            raise ValueError("expected a name of letters, digits and hyphens that is different "
                             "from all values, axes and other steps")
        for axis in (*step.each, *step.gather):
            _require("axis", axis, self.axes)
        if step.when:
            _require("when", step.when, [f"{axis}.{name}" for axis in step.each
                                         for name in self._variables(axis)])

    def _variables(self, axis: str) -> set[str]:
        """Return the variables of all entries in an axis, including entries that are not chosen."""
        entries = self.study.axes[axis]
        return {key for entry in entries.values() for key in entry} if isinstance(entries, dict) \
            else {"path"} if isinstance(entries, str) else set()

    def _reserve(self, step: StudyStep) -> dict[tuple[str, ...], Job]:
        """Make the jobs of a step, so far only with their outputs."""
        made: dict[tuple[str, ...], Job] = {}
        axis, _, variable = step.when.partition(".")
        for key in product(*(self.axes[axis] for axis in step.each)):
            where = dict(zip(step.each, key, strict=True))
            if not step.when or variable in self.axes[axis][where[axis]]:
                job = Job(step, len(made), where, "")
                path = PurePath(self._fill(step.output, job, where))
                if path.is_absolute() or ".." in path.parts or not path.parts:
                    raise ValueError(f"output: found {str(path)!r}, expected a path in the study's "
                                     "directory")
                job.output = str(self.output / path)
                made[key] = job
        return made

    def _fill_job(self, job: Job) -> list[str]:
        """Fill the command line of a job, find its inputs, and return those that do not exist."""
        job.words = [word for template in _split(job.step.run)
                     for word in self._gathered(template, job)]
        if job.words[:1] != ["bmtools"]:
            raise ValueError(f"run: found {' '.join(job.words[:1])!r}, expected a command line of "
                             "bmtools")
        job.usage = self.parse(job.words[1:])
        for need in job.needs:
            need.readers.append(job)
        outputs = [need.output for need in job.needs]
        below = tuple(output + end for output in outputs for end in "/.")  # such as OUTPUT.rest
        absent = list[str]()
        for path in job.usage.inputs:
            if path not in outputs and not path.startswith(below):
                found = path if Path(path).exists() else archive_of(path)
                (job.inputs if found else absent).append(str(found or path))
        return absent

    def _gathered(self, template: str, job: Job) -> list[str]:
        """Fill a word of a command line, once for each combination of gathered entries."""
        found = dict[tuple[str, ...], None]()
        for key in product(*(self.axes[axis] for axis in job.step.gather)):
            where = {**job.where, **dict(zip(job.step.gather, key, strict=True))}
            try:
                found[tuple(self._words(template, job, where))] = None
            except _LeftOutError:
                if not job.step.gather:
                    raise
        return [word for words in found for word in words]

    def _words(self, template: str, job: Job, where: Where) -> list[str]:
        """Fill a word; `{*name}` becomes the words of a value, which may be empty."""
        unpacked = _UNPACKED.fullmatch(template)
        if not unpacked:
            return [self._fill(template, job, where)]
        if (text := self._raw(unpacked[1], where, may_lack=True)) is None:
            raise ValueError(f"found {template}, expected a value or a variable of an axis")
        return [word for one in _split(text) for word in self._words(one, job, where)]

    def _fill(self, template: str, job: Job, where: Where, depth: int = 0) -> str:
        """Fill the placeholders in a text and in their values."""
        if depth > _MOST_NESTED:
            raise ValueError(f"found values that refer to each other in {template!r}")

        def fill(found: re.Match[str]) -> str:
            name = found[1]
            if (raw := self._raw(name, where)) is not None:
                return self._fill(raw, job, where, depth + 1)
            known = {_OUTPUT: job.output, _HERE: str(self.here)}
            return known.get(name) or self._reference(name, job, where).output
        return _PLACEHOLDER.sub(fill, template)

    def _raw(self, name: str, where: Where, may_lack: bool = False) -> str | None:
        """Return a value, entry or variable as written in the file; None for other names."""
        axis, dot, variable = name.partition(".")
        if axis == _ENVIRONMENT:
            if variable not in os.environ:
                raise ValueError(f"{{{name}}}: found no such variable in the environment; set it, "
                                 "or set the value that uses it with --define NAME=VALUE")
            return os.environ[variable]
        if axis not in self.axes:
            return str(self.values[name]) if name in self.values else None
        if axis not in where:
            raise ValueError(f"{{{name}}}: expected {axis!r} in 'each', or in 'gather' to repeat "
                             "the word for each entry")
        if not dot:
            return where[axis]
        entry = self.axes[axis][where[axis]]
        if variable not in entry and not (may_lack and variable in self._variables(axis)):
            raise ValueError(f"{{{name}}}: found no variable {variable!r} of {where[axis]!r}, "
                             f"{suggestion(variable, entry)}; leave entries out with 'when'")
        return str(entry.get(variable, ""))

    def _reference(self, reference: str, job: Job, where: Where) -> Job:
        """Find the job of an earlier step, and note that it is needed.

        `step` refers to the job for the same entries, `step[ENTRY,ENTRY]` to the job for these
        entries.
        """
        name, _, rest = reference.partition("[")
        _require("placeholder", name, [*self.steps, *self.values, *self.axes, _OUTPUT, _HERE])
        each = self.steps[name].each
        if rest:
            where = dict(zip(each, rest.removesuffix("]").split(","), strict=False))
            for axis, entry in where.items():
                _require(f"axis {axis!r}", entry, self.axes[axis])
        if lacking := [axis for axis in each if axis not in where]:
            raise ValueError(f"{{{name}}}: step {name!r} has an output for each {lacking[0]}; "
                             f"expected {lacking[0]!r} in 'each', or in 'gather' for all of them")
        found = self.made[name].get(tuple(where[axis] for axis in each))
        if found is None:
            raise _LeftOutError(f"{{{name}}}: step {name!r} leaves out "
                                f"{', '.join(where[axis] for axis in each)}")
        if found not in job.needs:
            job.needs.append(found)
        return found
