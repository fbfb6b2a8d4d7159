"""A study: models and scores that commands wrote. The keys of a line show what kind it is."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path

from bmtools.errors import DataError
from bmtools.io.json_files import NAME, read_manifest, read_object
from bmtools.io.jsonl import read_objects
from bmtools.io.output import RECORD
from bmtools.io.provenance.fields import StepRecord
from bmtools.io.provenance.record import read_record
from bmtools.io.sources import source_stem
from bmtools.io.unfinished import RUN
from bmtools.records import JsonMapping, JsonObject, converted
from bmtools.study.cards.scores import KEYS, LINE, MEAN, find_model, predictions_of
from bmtools.study.lineages.graph import Lineage
from bmtools.study.lineages.lineage import kept_by, trace
from bmtools.study.reports.charts import Chart
from bmtools.study.reports.labels import names_of

# Types of objects under keys that `KEYS` does not contain.
_FURTHER: dict[str, object] = {"finetuned": MEAN, "corpora": dict[str, float]}
_REQUIRED = {"masking": "mask_rate corruption", "speed": "cpu", "corpora": "words_per_record",
             "vocabularies": "pieces_per_word"}
# The kind of a line is the first kind whose keys it contains.
_KINDS = {
    "epochs": "seed epoch", "seeds": "seed best_epoch", "training": "step of", "held-out":
    "step evaluate", "retained": "step retain",
    "scored": "step tokens_seen signature", "finetuned": "checkpoint best_seed",
    "trained": "checkpoint steps", "masking": "model masking perplexity", "pppl": "model pppl",
    "ranks": "model rank reciprocal_rank", "mrr": "model mrr maskings", "space":
    "model average_cosine", "suite": "model suite", "tasks": "model task", "seeds of tasks":
    "model metric mean", "speed": "model parameters", "compared": "compared metric",
    "vocabularies": "vocabulary scope", "corpora": "corpus records", "parts": "split records",
    "words": "word maskings", "stopped": "stopped", "records": "id text"}
_READ_BY = ("pretrain, distill, finetune, score-pppl, score-mrr, score-tasks, score-suite, "
            "score-masking, score-space, compare-vocab, compare-models or describe")
_BASES = ("model", "base", "teacher", "student", "published")
_TRAINING = ("training", "held-out", "retained", "scored")
_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", RECORD)
_METRICS, _SEEDS, _STATE = "metrics.jsonl", "seeds.jsonl", "state.json"


@dataclass(frozen=True)
class StudyDirectory:
    """A directory that a command wrote, or an unfinished run.

    Args:
        name: short name, unique in the study.
        path: path of the directory.
        record: contents of its `bmtools.json`.
        run: name of the run that wrote it, at its end or as a kept checkpoint.
        is_whole: whether the run has ended.
    """

    name: str
    path: Path
    record: JsonMapping
    run: str
    is_whole: bool = True

    @property
    def bases(self) -> dict[str, str]:
        """Checkpoints that its step started from or learned from, by role."""
        settings = self.record.get("settings", {})
        return {role: str(settings[role]) for role in _BASES if settings.get(role)}

    @property
    def corpus_tokens(self) -> int:
        """Size of the corpus that its step read, in tokens of the model's vocabulary."""
        found = self.record.get("results", {}).get("corpora", {})
        return sum(one.get("tokens", 0) for one in found.values())


@dataclass
class Study:
    """Models, runs and scores of some files and directories.

    Args:
        directories: directories that record how they were made, sorted by path.
        runs: lines of training, by name of the run.
        lines: all other lines by kind, without repetitions.
        spaces: charts of embedding spaces.
        files: records of how files were made, by path of the file.
        golds: name and digest of the gold records, by path of the scores.
    """

    directories: list[StudyDirectory] = field(default_factory=list)
    runs: dict[str, list[JsonObject]] = field(default_factory=dict)
    lines: defaultdict[str, list[JsonObject]] = field(default_factory=lambda: defaultdict(list))
    spaces: list[Chart] = field(default_factory=list)
    files: dict[Path, JsonObject] = field(default_factory=dict)
    golds: dict[Path, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def lineage(self) -> Lineage:
        """Lineage of all directories and files with records, back to the original files."""
        return trace([*(one.path for one in self.directories if one.is_whole),
                      *filter(Path.exists, self.files)])

    def directory_of(self, model: str) -> StudyDirectory | None:
        """Find the directory of a model by its path, or by the last part of its path."""
        by_path = {str(one.path): one for one in self.directories}
        return by_path.get(find_model(model, by_path))

    def name_of(self, model: str) -> str:
        """Return the name of a model's directory if its path matches `model`, or `model` itself."""
        found, own = self.directory_of(model), Path(model).parts
        other = found.path.parts if found else ()
        least = min(len(own), len(other))
        return found.name if found and own[-least:] == other[-least:] else model

    def trained_tokens(self, directory: StudyDirectory) -> int:
        """Return the number of tokens that a model and its base models were trained on."""
        return sum(one.record.get("tokens_seen") or 0 for one in self._beginnings(directory))

    def read_tokens(self, directory: StudyDirectory) -> int:
        """Return the total size of the texts that a model and its base models read, each once."""
        return sum({str(sorted(one.record.get("inputs", {}).values())): one.corpus_tokens
                    for one in self._beginnings(directory)}.values())

    def _beginnings(self, directory: StudyDirectory) -> Iterable[StudyDirectory]:
        """Return a model, its base model, the base model of that model, and so on."""
        seen: dict[str, StudyDirectory] = {}
        found: StudyDirectory | None = directory
        while found is not None and found.name not in seen:
            seen[found.name] = found
            found = next((self.directory_of(base) for role, base in found.bases.items()
                          if role != "teacher"), None)
        return seen.values()


def kind_of(line: JsonMapping) -> str:
    """Return the kind of a line, or an empty string if its keys match no kind."""
    return next((kind for kind, keys in _KINDS.items() if line.keys() >= {*keys.split()}), "")


def _check(place: str, line: JsonMapping, kind: str) -> None:
    """Raise an error if a value has the wrong type or a required key is missing."""
    converted(line, LINE, place)
    for key, value in line.items():
        if isinstance(value, dict) and key not in KEYS:
            converted(value, _FURTHER.get(kind, JsonObject), f"{place}: key {key!r}")
    if missing := [key for key in _REQUIRED.get(kind, "").split() if key not in line]:
        raise DataError(f"{place}: key {missing[0]!r} is missing")


def read_study(paths: Sequence[str | PathLike[str]]) -> Study:
    """Read files, and directories with their contents.

    Args:
        paths: checkpoints, unfinished runs, files of scores or training, or directories that
            contain these. Other files in such directories are skipped.

    Raises:
        DataError: a file in `paths` has an unknown kind, or no path contains a model or a score.
    """
    study, found = Study(), list(dict.fromkeys(chain.from_iterable(map(_walk, map(Path, paths)))))
    directories = [path.parent for path, _ in found if path.name in (NAME, _STATE)]
    runs = {*directories, *(path.parent.with_suffix("") for path in directories
                            if path.parent.suffix == RUN)}
    # If the output of a run is missing, the last checkpoint that it kept represents the run.
    last = {path.parent: path for path in sorted(directories) if kept_by(path) != path}
    kept = {path for path in directories if kept_by(path) in runs - {path}
            or last.get(path.parent, path) != path}
    names = names_of(map(str, [*directories, *map(kept_by, directories)]))
    study.golds.update((path, _gold_of(path)) for path, _ in found)
    seen: set[str] = set()
    # Directories are read first, because a log in a checkpoint must not be read again. Records are
    # read next, because they name the models of scores.
    for path, is_named in sorted(found, key=lambda one: (
            one[0].name not in (NAME, _STATE), not one[0].name.endswith(RECORD))):
        if path.name in (NAME, _STATE):
            _add_directory(study, path.parent, names, path.parent in kept)
        elif path.name.endswith(RECORD):
            study.files[path.with_name(path.name.removesuffix(RECORD))] = read_object(
                path, StepRecord)
        elif not (str(path.parent) in names and path.name in (_METRICS, _SEEDS)):
            _add_lines(study, path, is_named, seen)
    if not (study.directories or study.runs or study.files
            or any(map(study.lines.get, {*_KINDS} - {"parts", "words", "stopped"}))):
        raise nothing_found(paths)
    return study


def nothing_found(paths: Sequence[str | PathLike[str]]) -> DataError:
    """Return the error for paths that contain neither models nor scores."""
    return DataError(f"{', '.join(map(str, paths))}: found neither models nor scores, expected "
                     f"checkpoints, or output of {_READ_BY}")


def _walk(path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files of a path, and whether a file of an unknown kind is an error."""
    if not path.is_dir():
        yield path, True
        return
    states = sorted(path.glob(f"step-*/{_STATE}"))
    if states or path.name.endswith(RUN):
        yield from ((state, True) for state in states[-1:])
        return
    children = sorted(path.iterdir())
    if path / NAME in children:
        yield path / NAME, True
    for child in children:
        if child.is_dir() and not child.is_symlink():
            yield from _walk(child)
        elif child.is_file() and child.name.endswith(_ENDINGS) and child.name != NAME:
            yield child, False


def _add_directory(study: Study, path: Path, names: Mapping[str, str], is_kept: bool) -> None:
    """Add a checkpoint or another directory, or the last state of an unfinished run.

    A checkpoint that a run kept contains a part of that run's lines. They are not added again.
    """
    if (path / _STATE).is_file():
        state = read_object(path / _STATE, StepRecord)
        run = path.parent.name.strip(".").removesuffix(RUN) + " (unfinished)"
        metrics: list[JsonObject] = converted(
            state.get("metrics", []), list[JsonObject], str(path / _STATE))
        study.runs[run] = _training((str(path / _STATE), line) for line in metrics)
        record = {"command": "unfinished run", "tokens_seen": state.get("tokens_seen", 0),
                  "wall_seconds": state.get("wall_seconds", 0.0),
                  "energy": state.get("energy", {})}
        study.directories.append(StudyDirectory(run, path, record, run, is_whole=False))
        return
    run = names[str(kept_by(path))]
    study.directories.append(StudyDirectory(names[str(path)], path, read_manifest(path), run))
    if (path / _METRICS).is_file() and not is_kept:
        study.runs[run] = _training(read_objects(str(path / _METRICS)))


def _training(lines: Iterable[tuple[str, JsonObject]]) -> list[JsonObject]:
    """Return the lines of a training log; raise an error if it contains other lines."""
    found = []
    for place, line in lines:
        if kind_of(line) not in _TRAINING:
            raise DataError(f"{place}: found another line, expected one of training")
        _check(place, line, "training")
        found.append(line)
    return found


def _add_lines(study: Study, path: Path, is_named: bool, seen: set[str]) -> None:
    """Add the lines of a file. The last line of a training log names the run."""
    training: list[JsonObject] = []
    lines, (models, data) = read_objects(str(path)), _scored(study, path)
    try:
        first = next(lines)
    except DataError:
        if is_named:
            raise
        return
    for place, line in chain([first], lines):
        kind = kind_of(line)
        if kind in ("", "records"):
            if not is_named:
                return
            keys = ", ".join(list(line)[:6]) or "no key"
            found = "a record" if kind else f"the keys {keys}"
            raise DataError(f"{place}: found {found}, expected a line of {_READ_BY}")
        _check(place, line, kind)
        if kind in _TRAINING:
            training.append(line)
        elif kind == "trained":
            _add_run(study, Path(line["checkpoint"]).name, training)
            training = []
            continue
        line |= {key: models.get(line[key], line[key]) for key in ("model",) if key in line}
        line |= {key: [models.get(one, one) for one in line[key]]
                 for key in ("compared",) if key in line}
        # Means over seeds do not contain the name of their set, but the file name does.
        data = data or (source_stem(str(path)) if kind in ("seeds of tasks", "finetuned") else "")
        line |= {"set": data} if data and "set" not in line else {}
        if (key := json.dumps(line, sort_keys=True)) not in seen:
            seen.add(key)
            study.lines[kind].append(line)
    _add_run(study, source_stem(str(path)), training)


def _scored(study: Study, path: Path) -> tuple[dict[str, str], str]:
    """Find the models and the test set of scores in the record of score-tasks.

    Returns:
        models by the names of their predictions, without models that have several predictions,
        and the name of the gold records. If several sets have the same name, it is
        the name of the scores instead.
    """
    steps = {step.get("sha256", ""): step for step in study.files.values()}
    known = {one.record.get("sha256"): str(one.path) for one in study.directories}
    models = {name: known.get(step.get("parents", {}).get("model"),
                              str(step.get("settings", {}).get("model")))
              for name, step in predictions_of(path, steps).items()}
    counts = Counter(models.values())
    gold, _ = study.golds[path]
    if len({digest for name, digest in study.golds.values() if name == gold}) > 1:
        gold = source_stem(str(path))
    return {name: one for name, one in models.items() if counts[one] == 1}, gold


def _gold_of(path: Path) -> tuple[str, str]:
    """Return name and digest of the gold records that scores belong to; empty if unknown."""
    record = read_record(path)
    name, digest = next(iter(record["inputs"].items())) \
        if record.get("command") == "score-tasks" else ("", "")
    return source_stem(name) if name else "", digest


def _add_run(study: Study, name: str, lines: list[JsonObject]) -> None:
    """Add the run of a log, unless the study already has it from its checkpoint."""
    steps = [line for line in lines if "loss" in line]
    if lines and not any(steps == [line for line in run if "loss" in line and "of" in line]
                         for run in study.runs.values()):
        study.runs[name if name not in study.runs else f"{name} (log)"] = lines
