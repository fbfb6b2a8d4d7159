"""Scores of a model, from its own step record and from files of scores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from types import GenericAlias

import msgspec

from bmtools.errors import DataError, setting
from bmtools.io.failures import reading
from bmtools.io.json_files import read_object
from bmtools.io.jsonl import read_objects
from bmtools.io.provenance.fields import StepRecord
from bmtools.io.provenance.manifest import hash_directory
from bmtools.io.provenance.record import read_record, record_path
from bmtools.io.sources import source_stem, split_name
from bmtools.records import JsonMapping, JsonObject, converted
from bmtools.study.cards.facts import ModelFacts

_SPLITS = ("dev", "test")
_NO_SCORES = frozenset({"mask_rate", "p", "p_holm"})


def _object(types: Mapping[object, str], required: bool = True) -> object:
    """Define an object by the names of its keys for each type; further keys are allowed."""
    ends = () if required else (msgspec.UNSET,)
    return msgspec.defstruct("Line", [
        (name, kind, *ends) for kind, names in types.items() for name in names.split()])


_NUMBER, _NUMBERS = float | None, dict[str, float | None]
_INTERVAL, _INTERVALS = tuple[float, float] | None, dict[str, tuple[float, float] | None]
MEAN = _object({float: "mean", _NUMBER: "deviation median", _INTERVAL: "interval"}, required=False)
_GROUP = _object({_NUMBER: "mrr pppl bits_per_character", _INTERVAL: "interval", int: "maskings"},
                 required=False)
_GROUPS = GenericAlias(dict, (str, GenericAlias(dict, (str, _GROUP))))
_BAND = _object({int: "min_count max_count", _NUMBER: "average_cosine own_band_neighbours"})
_BIN = _object({int: "predictions", float: "score precision"})
_CALIBRATION = _object({float: "error score precision kept", _NUMBER: "threshold",
                        GenericAlias(list, _BIN): "bins"})
_TERM = _object({str: "term", int: "count", list[str]: "pieces"})
# Keys that pages and cards use, by the types of their values.
_KEYS = {
    str: "model checkpoint vocabulary corpus scope task suite data phase metric masking corruption "
         "signature target", str | None: "set", str | int | None: "id",
    list[str]: "compared proposals", int: "step tokens_seen", int | None: "rank",
    float: "loss mask_rate", _NUMBER: "mlm mean perplexity difference p p_holm average_cosine "
                                      "pieces_per_word reciprocal_rank",
    list[float]: "probabilities", _INTERVAL: "interval", _INTERVALS: "intervals",
    _NUMBERS: "scores averages cpu words_per_record", JsonObject: "label_bias",
    _object({float: "loss"}, required=False): "evaluate", _GROUPS: "by",
    _CALIBRATION: "calibration", GenericAlias(list, _BAND): "bands",
    GenericAlias(list, _TERM): "costliest"}
LINE, KEYS = _object(_KEYS, required=False), frozenset(" ".join(_KEYS.values()).split())
"""Types of the values of a line, for checking lines of any program, and the keys of a line."""


@dataclass(frozen=True)
class Score:
    """A metric on a set.

    Args:
        metric: name of the metric.
        value: measured value.
        of: name of the set.
        interval: bounds of the 95 % interval; None if it was not measured.
        how: number of seeds, and their standard deviation.
        signature: signature of the settings.
    """

    metric: str
    value: float
    of: str
    interval: tuple[float, float] | None = None
    how: str = ""
    signature: str = ""


def recorded_scores(facts: ModelFacts) -> Iterator[Score]:
    """Yield the scores that fine-tuning measured: means over seeds, with intervals."""
    for name, value in facts.results.items():
        split, _, metric = name.partition("_")
        if split in _SPLITS and isinstance(value, Mapping) and "mean" in value:
            deviation = value.get("deviation")
            how = f"{facts.results.get('seeds')} seed" + (
                "" if deviation is None else f"s, standard deviation {deviation:.4g}")
            yield Score(metric, value["mean"], str(facts.settings.get(split) or split),
                        _interval(value.get("interval")), how)


def read_scores(facts: ModelFacts, sources: Sequence[str]) -> list[Score]:
    """Read a model's scores from files that score commands wrote.

    Args:
        facts: facts of the model. Lines name the model by its path, or by the only path with the
            same end.
        sources: files of scores; NAME=FILE names the set.

    Raises:
        DataError: a file has no score of the model, or has scores of another model with this name.
    """
    found: list[Score] = []
    for source in sources:
        name, path = split_name(source)
        _require_same_model(facts, path)
        before, lines = len(found), list(read_objects(path))
        own = {name for name, step in predictions_of(Path(path)).items()
               if step.get("parents", {}).get("model") == hash_directory(facts.path)}
        own |= {*filter(None, [find_model(str(facts.path), {
            str(line.get("model", "")) for _, line in lines})])}
        for place, line in lines:
            with reading(place, "found no scores", "expected a line of score-pppl, score-mrr, "
                         "score-tasks or score-suite", DataError):
                # A line of finetune names the checkpoint that was fine-tuned.
                if "compared" in line or "checkpoint" in line or line.get("model") not in own:
                    continue
                converted(line, LINE, place)
                of = " ".join(filter(None, (name, line.get("set", "")))) or Path(path).stem
                found += [Score(metric, value, of, _interval(bounds),
                                signature=line.get("signature", ""))
                          for metric, value, bounds in metrics_of(line)]
        if len(found) == before:
            raise DataError(f"{setting('scores')}: found no score of {facts.path} in {path}, "
                            "expected lines whose key 'model' is its path, or the only path with "
                            "the same end")
    return found


def predictions_of(path: Path, steps: Mapping[str, JsonMapping] | None = None,
                   ) -> dict[str, JsonMapping]:
    """Find the predictions that a file of scores evaluates, by the record of score-tasks.

    Args:
        path: path of the scores.
        steps: further records by the hash of their output, in addition to the records next to the
            scores.

    Returns:
        the records of predict, by the names of the predictions in the scores.
    """
    record, found = read_record(path), dict[str, JsonMapping]()
    for name, digest in record.get("inputs", {}).items():
        step = record.get("upstream", {}).get(name) or (steps or {}).get(digest) \
            or read_record(path.parent / name)
        if record.get("command") == "score-tasks" and step.get("command") == "predict" \
                and step.get("sha256") == digest:
            found[source_stem(name).strip("<>")] = step
    return found


def _interval(bounds: Sequence[float] | None) -> tuple[float, float] | None:
    return (bounds[0], bounds[1]) if bounds else None


def _require_same_model(facts: ModelFacts, path: str) -> None:
    """Raise an error for scores whose step record names only other models."""
    record = record_path(Path(path))
    parents = read_object(record, StepRecord).get("parents", {}) if record.is_file() else {}
    if parents and hash_directory(facts.path) not in parents.values():
        raise DataError(f"{path}: found scores of other weights, expected scores of {facts.path} "
                        f"({record.name} has another hash); score it again")


def find_model(name: str, models: Collection[str]) -> str:
    """Find the path of a model by name: an equal path, or the path whose end agrees in most parts.

    Returns:
        the path; empty if no path or several paths agree.
    """
    same = [path for path in models if Path(path) == Path(name)]
    parts = {path: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(
        reversed(Path(path).parts), reversed(Path(name).parts), strict=False))) for path in models}
    most = max(parts.values(), default=0)
    same = same or [path for path, number in parts.items() if number == most > 0]
    return same[0] if len(same) == 1 else ""


def metrics_of(line: JsonMapping) -> Iterator[tuple[str, float, Sequence[float] | None]]:
    """Yield the metrics of a line: the first number, and all numbers that have intervals."""
    if {"metric", "mean"} <= line.keys():
        yield line["metric"], line["mean"], line.get("interval")
        return
    for group in ("scores", "averages"):
        for metric, value in line.get(group, {}).items():
            yield metric, value, None
    first = next((key for key, value in line.items()
                  if isinstance(value, float) and key not in _NO_SCORES), None)
    if first:
        yield first, line[first], line.get("interval")
    for metric, bounds in line.get("intervals", {}).items():
        if isinstance(line.get(metric), int | float):
            yield metric, line[metric], bounds
