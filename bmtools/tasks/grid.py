"""Grids of settings: what is tried, and the plans that it makes of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from bmtools.errors import BmtoolsError, did_you_mean, setting
from bmtools.installation import require_extra
from bmtools.records import JsonObject
from bmtools.tasks.run_settings import PLAN_PARTS, FinetunePlan

if TYPE_CHECKING:
    from optuna.trial import Trial

_TENFOLD = 10
_SIGNIFICANT = 3

# Gu et al. 2021 (BLURB), section 6.2; Pavlova and Makhlouf 2023 (BIOptimus), table 9. Their numbers
# of epochs are what the development set chooses here.
NAMED = {"blurb": "learning_rate=1e-5,3e-5,5e-5 batch_size=16,32",
         "bioptimus": "learning_rate=1e-5,2e-5 batch_size=4,8,16"}

# The task reads the data, and makes the head, by its other settings.
_OF_LOSS = frozenset({"loss", "class_weights", "oversampling"})
_OF_ALL_RUNS = frozenset({"dev_fold", "folds", "grid", "mixed_precision", "reinitialize_head",
                          "seed", "seed_list", "seeds", "tf32", "trials"})


class Range(NamedTuple):
    """Ends of the values of a number."""

    low: float
    high: float


Axis = list[object] | Range
"""Values of a setting, or the ends of their range."""


def grid_plans(plan: FinetunePlan) -> Iterator[tuple[JsonObject, FinetunePlan]]:
    """Yield every combination of a plan's grid: its settings, and the plan with them.

    Without a grid that is the plan itself.

    Raises:
        BmtoolsError: a setting that is not known, values that cannot be read, or out of range.
    """
    axes = parse_grid(plan.finetuning.grid, plan)
    for name, axis in axes.items():
        if isinstance(axis, Range):
            raise BmtoolsError(f"{setting('grid')}: found a range of {name}, expected values "
                               f"separated by commas, or {setting('trials')}, the number of those "
                               "to draw")
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        yield chosen, plan_with(plan, chosen)


def plan_with(plan: FinetunePlan, values: Mapping[str, object]) -> FinetunePlan:
    """Change settings of a plan.

    Raises:
        ValueError: one is out of range.
    """
    parts: JsonObject = {}
    for part in ("config", *PLAN_PARTS):
        settings = getattr(plan, part)
        names = {field.name for field in fields(settings)}
        parts[part] = replace(settings, **{name: value for name, value in values.items()
                                           if name in names})
    return replace(plan, **parts)


def parse_grid(text: str, plan: FinetunePlan) -> dict[str, Axis]:
    """Read the values of each setting, in the type that it has, or their range.

    Raises:
        BmtoolsError: see `grid_plans`.
    """
    known = {field.name: getattr(getattr(plan, part), field.name)
             for part in ("config", *PLAN_PARTS) for field in fields(getattr(plan, part))
             if (part != "config" or field.name in _OF_LOSS) and field.name not in _OF_ALL_RUNS}
    axes: dict[str, Axis] = {}
    for axis in NAMED.get(text, text).split():
        name, equals, values = axis.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in known:
            meant = did_you_mean(name, known) if equals else ""
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected {' or '.join(NAMED)}, "
                               "or a setting and its values, such as learning_rate=1e-5,3e-5"
                               f"{meant and f'; {meant}'}")
        try:
            axes[name] = _parse_axis(values, type(known[name]))
        except ValueError as error:
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected values of {name} such "
                               f"as {known[name]}") from error
    return axes


def _parse_axis(text: str, kind: type) -> Axis:
    """Read values separated by commas, or the ends of a range of numbers; others raise."""
    if kind not in (int, float) or ".." not in text:
        return [kind(value) for value in text.split(",")]
    ends = Range(*(kind(value) for value in text.split("..", 1)))
    if not ends.low < ends.high:
        raise ValueError(text)
    return ends


class Trials:
    """Combinations of settings, each proposed after the scores of those before.

    Iterating proposes the next one; `tell` gives its score. A combination that is proposed again
    keeps its score and is not yielded. The same seed and scores give the same proposals.

    Source: Akiba et al. 2019 (Optuna); Bergstra et al. 2011, tree-structured Parzen estimator.

    Args:
        plan: with a grid, the number of trials, and the seed.

    Raises:
        BmtoolsError: optuna is not installed, or a grid that cannot be read.
        ValueError: a value or an end of a range that is out of range.
    """

    def __init__(self, plan: FinetunePlan) -> None:
        require_extra("optuna", setting("trials"))
        self._plan, self._axes = plan, parse_grid(plan.finetuning.grid, plan)
        self._score = 0.0
        for name, values in self._axes.items():
            for value in values:
                plan_with(plan, {name: value})

    def __iter__(self) -> Iterator[tuple[JsonObject, FinetunePlan]]:
        """Propose combinations: settings, and the plan with them."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(
            seed=self._plan.optimization.seed))
        scores: dict[tuple[object, ...], float] = {}
        for _ in range(self._plan.finetuning.trials):
            trial = study.ask()
            values = {name: _draw(trial, name, axis) for name, axis in self._axes.items()}
            key = tuple(values.values())
            if key not in scores:
                yield values, plan_with(self._plan, values)
                scores[key] = self._score
            study.tell(trial, scores[key])

    def tell(self, score: float) -> None:
        """Give the score of the last proposal, higher is better."""
        self._score = score


def _draw(trial: Trial, name: str, axis: Axis) -> object:
    """Draw a value; floats are rounded to three digits."""
    if not isinstance(axis, Range):
        return trial.suggest_categorical(name, axis)
    logarithmic = axis.high >= _TENFOLD * axis.low > 0
    if isinstance(axis.low, int):
        return trial.suggest_int(name, axis.low, int(axis.high), log=logarithmic)
    drawn = trial.suggest_float(name, *axis, log=logarithmic)
    return float(f"{drawn:.{_SIGNIFICANT}g}")
