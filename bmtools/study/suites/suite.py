"""Suites: a paper's sets, how it averages them, and its published scores."""

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
"""Published tables: those that compare models, all, or none."""
_FOLDER = Path(__file__).parent
_SUFFIX = ".toml"


@dataclass(frozen=True)
class SuiteSet:
    """A set of a suite.

    Args:
        name: as the paper spells it.
        task: name of its task.
        metrics: by the names that `score-tasks` and `finetune` write, the main one first.
        groups: that the suite's averages name.
        fallback: metric that is taken, and named, where the main one is absent.
        train: instances, or mentions, in the training part; so with dev and test.
        dev: None where the paper does not say.
        test: None where the paper does not say.
        scale: factor of scores; without it 100, for percent of scores from -1 to 1.
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
        """Name a row of scores: the set, with the metric where it has several."""
        return self.name if len(self.metrics) == 1 else f"{self.name} {metric}"

    @property
    def main(self) -> str:
        """Name of the row that averages are made of."""
        return self.row(self.metrics[0])


@dataclass(frozen=True)
class Average:
    """A mean over sets.

    Args:
        name: as the paper spells it.
        groups: whose sets are averaged; all without any.
        over: `sets`, or `groups`: the mean of each group's mean, so that large groups do not weigh
            more.
    """

    name: str
    groups: tuple[str, ...] = ()
    over: Literal["sets", "groups"] = "sets"

    def members(self, sets: Iterable[SuiteSet]) -> list[SuiteSet]:
        """Find the sets that are averaged."""
        return [one for one in sets if not self.groups or set(self.groups) & set(one.groups)]

    def compute(self, sets: Iterable[SuiteSet], scores: Mapping[str, float]) -> float | None:
        """Average scores by row; None where one is missing, or where there is no set."""
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
        table: its number in the paper.
        models: names of the columns.
        scores: a value for each model, by row or by average.
        deviations: over seeds, by row.
        main: whether it compares models; others are of ablations and the like.
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
        title: a few words.
        source: paper and tables.
        sets: in the paper's order.
        averages: in the paper's order.
        published: tables.
        statistic: over seeds.
        baseline: published model to which differences are given.
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
        """List the rows of scores of all sets."""
        return [one.row(metric) for one in self.sets for metric in one.metrics]

    def find_set(self, name: str) -> SuiteSet | None:
        """Find a set by its name, whatever the case and the marks between its parts."""
        return next((one for one in self.sets if _plain(one.name) == _plain(name)), None)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


def suite_names() -> list[str]:
    """List the suites that come with the package."""
    return sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}"))


def load_suite(name: str) -> Suite:
    """Read a suite of the package by its name, or a TOML file of the same form, with its suffix.

    Raises:
        ValueError: there is none.
        DataError: the file is none.
    """
    path = _FOLDER / (name + _SUFFIX) if name in suite_names() else Path(name)
    if path.suffix != _SUFFIX or not path.is_file():
        raise ValueError(f"{setting('suite')}: found {name!r}, {suggestion(name, suite_names())}")
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Suite)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: {readable(str(error))}") from error
