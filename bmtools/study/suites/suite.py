"""Suites: the sets of a paper, its averages and its published scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

import msgspec

from bmtools.errors import DataError, setting, suggestion
from bmtools.records import readable

Shown = Literal["main", "all", "none"]
"""Published tables to show: only tables that compare models, all, or none."""
_FOLDER = Path(__file__).parent
_SUFFIX = ".toml"


@dataclass(frozen=True)
class SuiteSet:
    """A set of a suite.

    Args:
        name: name in the paper.
        task: name of its task.
        metrics: metrics, the main one first, named as by `score-tasks` and `finetune`.
        groups: groups of the set, for averages.
        fallback: metric to use, and to report, if the main metric is missing.
        train: number of instances or mentions in the training part; None if the paper does not
            state it.
        dev: likewise for the development part.
        test: likewise for the test part.
        scale: factor for scores. Default: 100, for scores from -1 to 1 in percent.
    """

    name: str
    task: str
    metrics: tuple[str, ...]
    groups: tuple[str, ...] = ()
    fallback: str = ""
    train: int | None = None
    dev: int | None = None
    test: int | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        if not self.metrics or not all((self.name, *self.metrics)):
            raise ValueError(f"set {self.name!r}: found metrics {[*self.metrics]}, expected names")

    def row(self, metric: str) -> str:
        """Return the name of a score's row: the set, and the metric if the set has several."""
        return self.name if len(self.metrics) == 1 else f"{self.name} {metric}"

    @property
    def main(self) -> str:
        """Name of the row that averages use."""
        return self.row(self.metrics[0])


@dataclass(frozen=True)
class Average:
    """A mean over sets.

    Args:
        name: name in the paper.
        groups: groups whose sets are averaged; all sets if empty.
        over: `sets`, or `groups` for the mean of the groups' means, which gives equal weight to
            groups.
    """

    name: str
    groups: tuple[str, ...] = ()
    over: Literal["sets", "groups"] = "sets"

    def members(self, sets: Iterable[SuiteSet]) -> list[SuiteSet]:
        """Return the sets that are averaged."""
        return [one for one in sets if not self.groups or set(self.groups) & set(one.groups)]

    def compute(self, sets: Iterable[SuiteSet], scores: Mapping[str, float]) -> float | None:
        """Average scores by row; None if a score is missing, or if there is no set."""
        by_group: dict[str, list[float]] = {}
        for one in self.members(sets):
            if one.main not in scores:
                return None
            group = one.groups[0] if self.over == "groups" else ""
            by_group.setdefault(group, []).append(scores[one.main])
        return fmean(map(fmean, by_group.values())) if by_group else None


@dataclass(frozen=True)
class PublishedTable:
    """Scores as a paper prints them: in percent, unless the set has a scale.

    Args:
        table: number of the table in the paper.
        models: names of the columns.
        scores: a value for each model, by row or by average.
        deviations: deviations over seeds, by row.
        main: whether the table compares models, and does not show ablations, for example.
    """

    table: str
    models: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]
    deviations: dict[str, tuple[float, ...]] = field(default_factory=dict)
    main: bool = False


@dataclass(frozen=True)
class Suite:
    """A paper's sets and tables.

    Args:
        title: title of a few words.
        source: paper and tables.
        sets: sets in the paper's order.
        averages: averages in the paper's order.
        published: published tables.
        statistic: statistic over seeds.
        baseline: published model to compute differences from.
        digits: decimals that the paper prints.
    """

    title: str
    source: str
    sets: tuple[SuiteSet, ...]
    averages: tuple[Average, ...] = ()
    published: tuple[PublishedTable, ...] = ()
    statistic: Literal["mean", "median"] = "mean"
    baseline: str = ""
    digits: int = 2

    def __post_init__(self) -> None:
        groups = sorted({group for one in self.sets for group in one.groups})
        known = [*self.rows(), *(one.name for one in self.averages)]
        for place, names, allowed in (
                *((f"groups of average {one.name!r}", one.groups, groups) for one in self.averages),
                *((one.table, [*one.scores, *one.deviations], known) for one in self.published)):
            for name in names:
                if name not in allowed:
                    raise ValueError(f"{place}: found {name!r}, {suggestion(name, allowed)}")
        for table in self.published:
            if any(len(values) != len(table.models) for values in (
                    *table.scores.values(), *table.deviations.values())):
                raise ValueError(f"{table.table}: expected a value for each of "
                                 f"{len(table.models)} models in each row")

    def rows(self) -> list[str]:
        """List the score rows of all sets."""
        return [one.row(metric) for one in self.sets for metric in one.metrics]

    def find_set(self, name: str) -> SuiteSet | None:
        """Find a set by name, ignoring case and punctuation."""
        return next((one for one in self.sets if _plain(one.name) == _plain(name)), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def suite_names() -> list[str]:
    """List the suites in bmtools."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def load_suite(name: str) -> Suite:
    """Read a suite of bmtools by its name, or a file of the same format whose name ends in .toml.

    Raises:
        ValueError: there is no such suite.
        DataError: the file is not a suite.
    """
    path = _FOLDER / (name + _SUFFIX) if name in suite_names() else Path(name)
    if path.suffix != _SUFFIX or not path.is_file():
        raise ValueError(f"{setting('suite')}: found {name!r}, {suggestion(name, suite_names())}")
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Suite)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: {readable(str(error))}") from error
