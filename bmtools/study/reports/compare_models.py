"""Models side by side: size, speed and memory as measured here, scores as other commands wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path

from bmtools.errors import DataError, setting
from bmtools.io.failures import reading
from bmtools.io.jsonl import as_records, read_objects
from bmtools.io.sources import split_name
from bmtools.io.system import usable_cores
from bmtools.models.checkpoint_files import check_for_inference, warn_if_outdated
from bmtools.models.exported.formats import read_exported
from bmtools.models.settings import SpeedConfig
from bmtools.records import JsonMapping, JsonObject, RecordSource
from bmtools.settings import split_settings
from bmtools.study.cards.scores import find_model, metrics_of
from bmtools.study.reports.model_speed import measure

_TEXTS = 64


def compare_models(models: Sequence[str | PathLike[str]], scores: Sequence[str] = (),
                   texts: RecordSource | None = None, **settings: object) -> list[JsonObject]:
    """Measure models, and add their scores: `compare_models(["base", "bio"], ["mrr.jsonl"])`.

    Args:
        models: directories of checkpoints, fine-tuned or exported ones among them.
        scores: files that score-pppl, score-mrr, score-tasks or score-suite wrote; NAME=FILE puts a
            name before each metric, such as that of a set. Their models are known by the path, or
            by its last part.
        texts: records, or a file of them, the first of which are read; random tokens without.
        settings: fields of `SpeedConfig`.

    Returns:
        for each model the keys of `model_speed.measure`; each metric with its interval under
        `intervals`; and under `differences` the first model's score less this one's, with interval
        and p-value, where a file compares them.

    Raises:
        DataError: scores of no model here, or no text.
        BmtoolsError: a model that cannot be loaded.
    """
    config: SpeedConfig
    [config], paths = split_settings(settings, SpeedConfig), [Path(model) for model in models]
    config = replace(config, threads=config.threads or usable_cores())
    for path in paths:
        check_for_inference(path)
        if exported := read_exported(path):
            warn_if_outdated(path, exported)
    found = read_scores(paths, scores)
    read = [] if texts is None else [
        record["text"] for record in islice(as_records(texts), _TEXTS)]
    if texts is not None and not any(read):
        raise DataError(f"{setting('texts')}: found no text, expected records with text")
    return [{**line, "threads": config.threads, "batch_size": config.batch_size,
             "max_length": config.max_length, "texts": len(read), **found[line["model"]]}
            for line in measure(paths, read, config)]


def read_scores(models: Sequence[Path], sources: Sequence[str]) -> dict[str, JsonObject]:
    """Read scores and comparisons with the first model, by model; see `compare_models`."""
    found: dict[str, JsonObject] = {str(path): {} for path in models}
    for source in sources:
        name, path = split_name(source)
        known = False
        for place, line in read_objects(path):
            with reading(place, "no line of scores", "expected one of score-pppl, score-mrr, "
                         "score-tasks or score-suite", DataError):
                known |= _add_line(found, name, line)
        if not known:
            raise DataError(f"{setting('scores')}: found no score of {', '.join(found)} in "
                            f"{path}, expected lines whose key 'model' is one of these, "
                            "or the last part of its path")
    return found


def _add_line(found: Mapping[str, JsonObject], name: str, line: JsonMapping) -> bool:
    """Add what a line says of models; tells whether one of them is known."""
    named = [find_model(str(one), found) for one in
             line.get("compared", [line[key] for key in ("model",) if key in line])]
    prefix = " ".join(filter(None, (name, line.get("set", ""))))
    if "compared" in line:
        _add_difference(found, named, line, prefix)
    elif any(named):
        for metric, value, bounds in metrics_of(line):
            key = f"{prefix} {metric}".strip()
            found[named[0]][key] = value
            if bounds:
                found[named[0]].setdefault("intervals", {})[key] = bounds
    return any(named)


def _add_difference(found: Mapping[str, JsonObject], named: Sequence[str], line: JsonMapping,
                    prefix: str) -> None:
    """Add what a line says of the first model and another, with the first one's score first."""
    first = next(iter(found))
    if first not in named or not all(named) or line.get("difference") is None:
        return
    sign = 1 if named[0] == first else -1
    other = named[1] if sign == 1 else named[0]
    bounds = line.get("interval")
    found[other].setdefault("differences", {})[f"{prefix} {line['metric']}".strip()] = {
        "difference": sign * line["difference"],
        **({"interval": sorted(sign * bound for bound in bounds)} if bounds else {}),
        **{key: line[key] for key in ("p", "p_holm") if line.get(key) is not None}}
