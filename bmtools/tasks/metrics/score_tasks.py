"""Scores of predictions: each model's metrics with intervals, errors, seeds and comparisons."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from os import PathLike
from typing import NoReturn

import msgspec

from bmtools import __version__
from bmtools.errors import BmtoolsError, DataError, RecordError, Reject, refuse, setting, suggestion
from bmtools.io.jsonl import as_records
from bmtools.io.output import write_records
from bmtools.io.sources import source_name, source_stem, split_name
from bmtools.records import (
    JsonObject,
    Record,
    RecordSource,
    check,
    converted,
    distinct,
    readable,
)
from bmtools.settings import split_settings
from bmtools.statistics.lines import (
    Line,
    adjust_p_values,
    content_key,
    data_fields,
    rounded,
)
from bmtools.statistics.ratios import Units, with_unit
from bmtools.statistics.resampling import Interval
from bmtools.statistics.samples import Sample, compare_samples, estimate_metrics
from bmtools.statistics.settings import StatisticsConfig
from bmtools.status import counted, set_status
from bmtools.tasks.metrics.answers import question_of, right_answers
from bmtools.tasks.metrics.errors import detail_lines
from bmtools.tasks.metrics.samples import (
    NO_ENTITIES,
    TASK_METRICS,
    Pairs,
    TaskMetrics,
    number_documents,
    numbered,
)
from bmtools.tasks.metrics.seeds import (
    interval_over_both,
    p_over_seeds,
    seeds_needed,
    summarize_seeds,
)
from bmtools.tasks.settings import TaskScoresConfig, split_names
from bmtools.tasks.tagging import OUTSIDE, SUBTOKEN_F1, SUBTOKENS, TaggedTokens


@dataclass(frozen=True)
class Predictions:
    """Predictions of one model or one seed.

    Args:
        name: name of these predictions.
        source: a file, or records.
        model: name of the model; the same for all its seeds.
    """

    name: str
    source: RecordSource
    model: str


def name_predictions(files: Sequence[str]) -> list[Predictions]:
    """Name the models of files, given as NAME=PATH or as a path, which is named after its file.

    Files with the same NAME are seeds of one model.

    Raises:
        ValueError: if a file is given twice.
    """
    parts = [split_name(file) for file in files]
    paths = [path for _, path in parts]
    if repeated := [path for path, count in Counter(paths).items() if count > 1]:
        raise ValueError(f"found {source_name(repeated[0])} twice; name each file once")
    stems = Counter(map(source_stem, paths))
    named = []
    for name, path in parts:
        own = source_stem(path) if stems[source_stem(path)] == 1 else path
        named.append(Predictions(own, path, name or own))
    seeds = Counter(one.model for one in named)
    return [one if seeds[one.model] > 1 else replace(one, name=one.model) for one in named]


def task_scores(gold: RecordSource, predictions: Sequence[str | Predictions], *,
                details: str | None = None, reject: Reject = refuse,
                **settings: object) -> list[Line]:
    """Score predictions: `task_scores("test.jsonl", ["bio.jsonl", "base.jsonl"])`.

    Keeps gold annotations and all predictions in memory.

    Args:
        gold: annotated records, or a file of them.
        predictions: files that contain the same records with predictions, see
            `name_predictions`; or named records.
        details: file that receives a line for each error or wrong record of each model, see
            `detail_lines`.
        reject: receives bad records.
        settings: fields of `TaskScoresConfig` and `StatisticsConfig`.

    Returns:
        a line for each file, then a line of `summarize_seeds` for each metric and each model with
        several seeds, then a line for each metric and each pair of models. The line of a file has
        the task's metrics, the main one first, with its `interval` and the `intervals` of the
        others, over `units` whose kind is `unit`. It also has counts, errors, and the same `by`
        type or label; `data`, a hash of the gold annotations; and `seed_of`, the model's name, if
        the file is one of several seeds.

    Raises:
        BmtoolsError: if records have no annotations or predictions, or ids do not match.
        ValueError: if a setting is out of range, or a file is given twice.
    """
    config, statistics = split_settings(settings, TaskScoresConfig, StatisticsConfig)
    named = iter(name_predictions([one for one in predictions if isinstance(one, str)]))
    runs = [next(named) if isinstance(one, str) else one for one in predictions]
    stated = config.negative
    task, config, records, matched = _match(gold, runs, config, reject)
    if not all(SUBTOKENS in record for own in matched for record in own):
        matched = [[record.without(SUBTOKENS) for record in own] for own in matched]
    metrics = TASK_METRICS[task]
    kinds = sorted({kind for side in (records, *matched) for record in side
                    for kind in metrics.kinds(record)})
    if stated and (metrics.key != "label" or stated not in kinds):
        known = ", ".join(kinds) if metrics.key == "label" \
            else f"none, as {metrics.key} have no classes"
        raise DataError(f"{setting('negative')}: found {stated!r}, expected {known}")
    if details is not None:
        write_records(({"model": one.name, **line} for one, own in zip(runs, matched, strict=True)
                       for line in detail_lines(records, own, metrics.key)), details)
    drawn, documents = Units(statistics.unit), number_documents(records)
    for record in with_unit(records, statistics.unit, refuse):
        drawn.add(record, record["id"])
    owners = numbered(drawn.keys.tolist())
    if statistics.resamples:
        drawn.warn()
    last_keys = {**data_fields(sum(content_key(
        record["id"], record["text"], msgspec.json.encode(record[metrics.key]).decode())
        for record in records)), "signature": _signature(task, config, drawn.kind)}
    samples: dict[str, list[Sample]] = defaultdict(list)
    seeds = Counter(one.model for one in runs)
    lines = []
    for one, predicted in counted(zip(runs, matched, strict=True), "scoring", len(runs), "files"):
        pairs = Pairs(records, predicted, owners, kinds, config.negative or None, documents)
        sample = metrics.sample(pairs)
        samples[one.model].append(sample)
        broken_down = _by_kind(sample, pairs, metrics, statistics)
        lines.append({"model": one.name, "task": task,
                      **({"seed_of": one.model} if seeds[one.model] > 1 else {}),
                      **_estimates(sample, metrics.compared[0], statistics),
                      **metrics.show_counts(sample.counts.sum(axis=0)[:max(1, len(kinds))]),
                      "documents": int(documents.max()) + 1, "records": len(records),
                      "unit": drawn.kind, "units": sample.documents,
                      **metrics.errors(pairs),
                      **({"by": broken_down} if broken_down else {}), **last_keys})
    extra = [name for name in (SUBTOKEN_F1, "micro_f1") if all(name in line for line in lines)]
    metrics = replace(metrics, compared=tuple(dict.fromkeys([*metrics.compared, *extra])))
    set_status("comparing models")
    lines += [{"model": model, "metric": name, **line, "unit": drawn.kind,
               "units": own[0].documents}
              for model, own in samples.items() if len(own) > 1
              for name, line in summarize_seeds(own, metrics.compared, statistics).items()]
    return [*lines, *_comparisons(samples, metrics, statistics, drawn.kind)]


def _match(gold: RecordSource, runs: Sequence[Predictions], config: TaskScoresConfig,
           reject: Reject) -> tuple[str, TaskScoresConfig, list[Record], list[list[Record]]]:
    """Read gold records and predictions.

    Returns:
        the task, the settings with its definition, gold records, and each run's predictions
        in the order of the gold records.
    """
    name = _source_name(gold)
    expected, *found = _read(gold, runs, config, reject)
    task = config.task or find_task(expected, found[0], config.predicted)
    stated_types = config.types
    config = _with_definitions(config, TASK_METRICS[task].key, runs, found)
    task = config.task or task
    require_annotations(expected, task)
    if TASK_METRICS[task].key == "entities" and not any(
            record["entities"] for record in expected.values()):
        task = NO_ENTITIES
    key = "answers" if task == "factoid" else config.predicted
    matched = [[match_predictions(record, own[one], task, key)
                for one, record in expected.items()] for own in found]
    metrics = TASK_METRICS[task]
    typed = metrics.key in ("entities", "relations")
    known = {kind for record in expected.values() for kind in metrics.kinds(record)} \
        if typed and stated_types else ()
    for kind in sorted({*split_names(stated_types or "")}.difference(known)) \
            if task != NO_ENTITIES else ():
        raise DataError(f"{name}: found no annotation of type {kind!r}, set in {setting('types')}; "
                        f"{suggestion(kind, sorted(known))}")
    chosen, *others = ([choose_annotations(record, metrics.key, config) if typed else record
                        for record in records] for records in (expected.values(), *matched))
    for one, predictions in zip(runs, others if typed else (), strict=False):
        sides = [sorted({kind for record in side for kind in metrics.kinds(record)})
                 for side in (chosen, predictions)]
        if all(sides) and {*sides[0]}.isdisjoint(sides[1]):
            raise DataError(f"{_source_name(one.source, one.name)}: found predictions of the types "
                            f"{', '.join(sides[1])} and gold annotations of {', '.join(sides[0])}, "
                            "expected types in common; "
                            f"set {setting('merge_types')} NAME to score all types as one")
    return task, config, chosen, others


def _read(gold: RecordSource, runs: Sequence[Predictions], config: TaskScoresConfig,
          reject: Reject) -> list[dict[str, Record]]:
    """Read gold records and each model's predictions by id, or by question for factoids.

    Raises:
        DataError: if there are no records, or if ids are missing on one side.
    """
    name, unit = _source_name(gold), "records"
    expected, *found = (
        {record["id"]: record for record in distinct(as_records(one, reject), reject)}
        for one in (gold, *(one.source for one in runs)))
    if not expected or not runs:
        raise DataError(f"{name}: found no {'predictions' if expected else 'records'}, expected "
                        "at least one")
    if config.task == "factoid":
        require_annotations(expected, config.task)
        expected, *found = _by_question(expected, found, config.predicted)
        unit = "questions"
    for one, own in zip(runs, found, strict=True):
        require_same_ids(expected, name, own, _source_name(one.source, one.name), unit)
    return [expected, *found]


def _by_question(gold: Mapping[str, Record], found: Sequence[Mapping[str, Record]],
                 key: str) -> Iterator[dict[str, Record]]:
    """Merge the records of each question into one, whose id and text are the question's id.

    The texts in a test batch differ from the texts in its gold file: abstracts instead of
    snippets. Their ids do not match, so all predictions with the same `meta.question` are merged
    to answer a question.

    Args:
        gold: records by id.
        found: each model's predictions by id.
        key: key of the predictions.

    Yields:
        records by question: first the gold ones, with all correct `answers`, then one set for
        each model, with its answers from all texts.
    """
    places = {one: place for place, one in enumerate(gold)}

    def merged(records: Iterable[Record],
               answers_of: Callable[[Record], Iterable[JsonObject]]) -> dict[str, Record]:
        questions: dict[str, Record] = {}
        for record in records:
            name = question_of(gold.get(record["id"], record))
            meta = {one: value for one, value in record.get("meta", {}).items()
                    if one != "exact_answer"}
            first = questions.setdefault(name, record.replace(id=name, text=name, meta=meta,
                                                              answers=[]))
            first["answers"] += [one for one in answers_of(record) if one not in first["answers"]]
        return questions

    yield merged(gold.values(), lambda record: ({"text": one} for one in right_answers(record)))
    for own in found:
        yield merged(sorted(own.values(), key=lambda record: places.get(record["id"], len(places))),
                     lambda record: ({"text": one["text"], "score": one.get("score", -place)}
                                     for place, one in enumerate(match_predictions(
                                         record, record, "factoid", key)["answers"])))


def _with_definitions(config: TaskScoresConfig, key: str, runs: Sequence[Predictions],
                      found: Sequence[Mapping[str, Record]]) -> TaskScoresConfig:
    """Fill settings that are None from the definitions stored with predictions of a key.

    Raises:
        DataError: if a definition cannot be read, or definitions contradict each other.
    """
    sources: dict[str, str] = {}
    filled = config
    for one, own in zip(runs, found, strict=True):
        first, name = next(iter(own.values())), _source_name(one.source, one.name)
        held = first.get(config.predicted)
        try:
            carried = msgspec.convert(held.get("definition", {}) if isinstance(held, dict) else {},
                                      dict[str, TaskScoresConfig]).get(key)
        except msgspec.ValidationError as error:
            raise RecordError(first.place, f"key '{config.predicted}.definition': "
                              f"{readable(str(error))}; expected a definition as bmtools predict "
                              "writes it", first) from None
        for field in ("task", "negative", "types", "merge_types", "undirected"):
            value = getattr(carried, field, None)
            if value is None or getattr(config, field) is not None:
                continue
            before = getattr(filled, field)
            if before not in (None, value):
                raise DataError(f"{name}: found predictions with {field} {value!r}, and "
                                f"{before!r} in {sources[field]}; set {setting(field)} to score "
                                "both in the same way")
            filled, sources[field] = replace(filled, **{field: value}), name
    return filled


def _source_name(source: RecordSource, other: str = "gold") -> str:
    return source_name(str(source)) if isinstance(source, str | PathLike) else other


def _estimates(sample: Sample, main: str, statistics: StatisticsConfig) -> Line:
    """Return the metrics, the main one first, and their intervals."""
    estimates = estimate_metrics([sample], statistics)
    first = estimates.pop(main)
    shown = {name: _shown(one.interval) for name, one in estimates.items() if one.interval}
    return {main: rounded(first.value),
            **({"interval": _shown(first.interval)} if first.interval else {}),
            **{name: rounded(one.value) for name, one in estimates.items()},
            **({"intervals": shown} if shown else {})}


def _shown(bounds: Interval | None) -> list[float | None] | None:
    return bounds and [rounded(bound) for bound in bounds]


def _by_kind(sample: Sample, pairs: Pairs, metrics: TaskMetrics,
             statistics: StatisticsConfig) -> Line:
    """Score each type or label, except a class that does not count as a finding."""
    if not metrics.by:
        return {}
    found = {}
    for number, kind in enumerate(pairs.kinds):
        counts = sample.counts[:, number:number + 1]
        if kind == pairs.negative or not counts.any():
            continue
        own = Sample(counts, metrics.measure_kind)
        found[kind] = {**_estimates(own, next(iter(own.metrics())), statistics),
                       **metrics.show_counts(counts.sum(axis=0))}
    return {metrics.by: found} if found and (len(found) > 1 or metrics.by != "answerable") else {}


def _signature(task: str, config: TaskScoresConfig, unit: str) -> str:
    fields = {"task": task, "unit": unit, "negative": config.negative or None,
              "types": ",".join(sorted(split_names(config.types or ""))) or None,
              "merge_types": config.merge_types or None,
              "undirected": "yes" if config.undirected else None, "bmtools": __version__}
    return "|".join(f"{name}:{value}" for name, value in fields.items() if value is not None)


def _comparisons(samples: Mapping[str, Sequence[Sample]], metrics: TaskMetrics,
                 statistics: StatisticsConfig, unit: str) -> list[Line]:
    """Compare each pair of models by each metric.

    Returns:
        lines with `compared` (the two models), `metric`, `difference` and `p`. The difference is
        the first model's mean over seeds minus the mean of the second model. Its `interval` is over
        units and seeds, and `p` is from the paired permutation test over units. If a model has
        several seeds, lines also have `p_over_seeds`, `seeds` (the number for each model) and
        `seeds_needed`, see `seeds_needed`. `p_holm` and `p_over_seeds_holm` are adjusted for the
        number of comparisons by one metric (Holm 1979).
    """
    if not statistics.resamples:
        return []
    lines = []
    pairs = [*combinations(samples, 2)]
    for one, other in pairs:
        compared = compare_samples(samples[one], samples[other], statistics, len(pairs))
        values = [[seed.metrics() for seed in samples[model]] for model in (one, other)]
        for name in metrics.compared:
            difference, bounds, error, p_value = compared[name]
            if not math.isfinite(difference):
                continue
            first, second = ([seed[name] for seed in seeds] for seeds in values)
            several, documents = max(len(first), len(second)) > 1, samples[one][0].documents
            if several and error is not None:
                bounds = interval_over_both(difference, error, documents, [first, second],
                                            statistics.confidence, name)
            line: Line = {"compared": [one, other], "metric": name,
                          "difference": rounded(difference), "interval": _shown(bounds),
                          "p": p_value, "unit": unit, "units": documents}
            if several:
                line |= {"p_over_seeds": p_over_seeds(
                            first, second, statistics.for_comparisons(len(pairs))),
                         "seeds": [len(first), len(second)],
                         "seeds_needed": seeds_needed(difference, first, second,
                                                      statistics.confidence)}
            lines.append(line)
    for key in ("p", "p_over_seeds"):
        adjust_p_values(lines, key)
    return lines


_KEYS = {metrics.key: task for task, metrics in reversed(TASK_METRICS.items())}
"""Task by the key of its annotations; with a label, a score is its probability."""
_MOST_NAMED = 3


def require_same_ids(gold: Mapping[str, Record], gold_name: str, predicted: Mapping[str, Record],
                     name: str, unit: str = "records") -> None:
    """Raise an error for gold records without predictions or predictions without gold records.

    Args:
        gold: gold records by id.
        gold_name: name of their source.
        predicted: predictions by id.
        name: name of their source.
        unit: plural name of the items that have ids.

    Raises:
        DataError: names ids that are missing on one side.
    """
    for some, others, what in (
            (gold, predicted, f"no prediction for {{}} of {{}} {unit} of {gold_name}"),
            (predicted, gold, f"{{}} of {{}} {unit} that {gold_name} does not contain")):
        if missing := [one for one in some if one not in others]:
            named = ", ".join(map(repr, missing[:_MOST_NAMED]))
            more = ", ..." if len(missing) > _MOST_NAMED else ""
            asked, answered = ({*map(question_of, side.values())} for side in (gold, predicted))
            hint = f"; set {setting('task')} factoid to match all records of a question" \
                if unit == "records" and asked == answered else ""
            raise DataError(f"{name}: found {what.format(len(missing), len(some))} (ids {named}"
                            f"{more}), expected one prediction for each gold {unit[:-1]}{hint}")


def find_task(gold: Mapping[str, Record], predicted: Mapping[str, Record], key: str) -> str:
    """Return the task whose annotations both sides contain.

    Args:
        gold: gold records by id.
        predicted: predictions by id.
        key: key of the predictions.

    Raises:
        BmtoolsError: if there are no predictions, or if they match no task or several tasks, so
            that the task must be named.
    """
    if key in _KEYS:
        return _KEYS[key]
    first = next(iter(predicted.values()))
    held = first.get(key)
    if not isinstance(held, dict):
        _raise_missing(first, key)
    known = [name for name in _KEYS if name in held and name in gold[first["id"]]]
    if "label" in known and "score" in known:
        known.remove("score")
    if len(known) != 1:
        raise BmtoolsError(f"{first.place}: found {', '.join(held) or 'nothing'} under {key!r}, "
                           f"and {', '.join(known) or 'none of them'} in the gold record, expected "
                           f"one of {', '.join(_KEYS)} in both; set {setting('task')}")
    return _KEYS[known[0]]


def match_predictions(gold: Record, record: Record, task: str, key: str) -> Record:
    """Return a record that contains only the predictions, in place of annotations.

    Args:
        gold: record with the task's annotations.
        record: the same record with predictions.
        task: name of the task.
        key: key of the predictions: of an object that contains them, or the task's own key.

    Raises:
        RecordError: if the predictions are for another text or do not contain the task's key.
    """
    own = TASK_METRICS[task].key
    held = record if key == own else record.get(key)
    if not isinstance(held, dict):
        _raise_missing(record, key)
    if own not in held:
        found = ", ".join(held) or "nothing"
        raise RecordError(record.place, f"key '{key}.{own}' is missing; found {found}; "
                          f"to score another task than {task}, set {setting('task')}", record)
    if record["text"] != gold["text"]:
        raise RecordError(record.place, "found another text than the gold record has at "
                          f"{gold.place}; expected predictions for the same text", record)
    made = Record(id=record["id"], text=record["text"], place=record.place, **{own: held[own]})
    if own == "relations":  # between the prediction's entities, or the entities of the record
        made["entities"] = held.get("entities", record.get("entities", []))
    try:
        check(made)
        if own == "entities" and key != own and SUBTOKENS in held:
            made |= converted({SUBTOKENS: held[SUBTOKENS]}, TaggedTokens, record.place)
    except RecordError as error:
        raise RecordError(record.place, error.reason.replace("key '", f"key '{key}.", 1)
                          if key != own else error.reason, record) from None
    return made


def choose_annotations(record: Record, key: str, config: TaskScoresConfig) -> Record:
    """Keep entities or relations of the scored types, and put undirected relations in one order.

    Args:
        record: gold annotations or predictions.
        key: key of the annotations.
        config: types, direction and the label for no relation; entities with the merged type are
            also kept.
    """
    types, merged = split_names(config.types or ""), config.merge_types
    kept = [one for one in record[key] if not types or one["type"] in (*types, merged)]
    if key == "entities" and merged:
        kept = [*{(one["start"], one["end"]): {**one, "type": merged} for one in kept}.values()]
    if SUBTOKENS in record and (types or merged):
        chosen = (*types, merged) if types else ()
        record = record.replace(**{SUBTOKENS: [
            (start, end, [_choose_tag(tag, chosen, merged) for tag in tags])
            for start, end, tags in record[SUBTOKENS]]})
    if key == "relations":
        kept = [one for one in kept if one["type"] != config.negative]
    if key == "relations" and config.undirected:
        order = {entity["id"]: (entity["start"], entity["end"], entity["type"])
                 for entity in record.get("entities", ()) if "id" in entity}
        kept = [{**one, **dict(zip(("head", "tail"), sorted(
            (one["head"], one["tail"]), key=order.__getitem__), strict=True))} for one in kept]
    return record.replace(**{key: kept})


def _choose_tag(tag: str, types: Collection[str | None], merged: str | None) -> str:
    """Keep a tag if its type is given, or if no types are given; use the merged type if set."""
    prefix, _, kind = tag.partition("-")
    if tag == OUTSIDE or (types and kind not in types):
        return OUTSIDE
    return f"{prefix}-{merged or kind}"


def _raise_missing(record: Record, key: str) -> NoReturn:
    """Raise an error for a record without predictions, and name keys that may contain some."""
    held = [name for name, value in record.items() if name in _KEYS or (
        isinstance(value, dict) and not value.keys().isdisjoint(_KEYS))]
    hint = f"; to read other predictions, set {setting('predicted')} {held[0]}" if held else ""
    raise RecordError(record.place, f"key {key!r} is missing, expected an object of predictions, "
                      f"as bmtools predict writes it{hint}", record)


def require_annotations(gold: Mapping[str, Record], task: str) -> None:
    """Raise an error for gold records without the task's annotations or with malformed answers.

    Raises:
        RecordError: names the first such record.
    """
    key = TASK_METRICS[task].key
    for record in gold.values():
        if key not in record:
            raise RecordError(record.place, f"key {key!r} is missing; expected the gold annotation "
                              f"of {task}; to score another task, set {setting('task')}", record)
        exact = record.get("meta", {}).get("exact_answer", [])
        try:
            msgspec.convert(exact, list[str | list[str]])
        except msgspec.ValidationError:
            raise RecordError(record.place, f"key 'meta.exact_answer': found {exact!r}, expected "
                              "spellings of an answer, or a list of spellings for each item",
                              record) from None
