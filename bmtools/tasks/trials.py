"""Trials: combinations of a grid that optuna proposes instead of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bmtools.errors import setting
from bmtools.installation import require_extra
from bmtools.tasks.grid import Range, parse_grid, plan_with
from bmtools.tasks.run_settings import FinetunePlan

if TYPE_CHECKING:
    from optuna.trial import Trial

_TENFOLD = 10
_SIGNIFICANT = 3


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

    def __iter__(self) -> Iterator[tuple[dict[str, Any], FinetunePlan]]:
        """Propose combinations: settings, and the plan with them."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(
            seed=self._plan.optimization.seed))
        scores: dict[tuple[Any, ...], float] = {}
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


def _draw(trial: Trial, name: str, axis: list[Any] | Range) -> Any:
    """Draw a value; floats are rounded to three digits."""
    if not isinstance(axis, Range):
        return trial.suggest_categorical(name, axis)
    logarithmic = axis.high >= _TENFOLD * axis.low > 0
    if isinstance(axis.low, int):
        return trial.suggest_int(name, axis.low, int(axis.high), log=logarithmic)
    drawn = trial.suggest_float(name, *axis, log=logarithmic)
    return float(f"{drawn:.{_SIGNIFICANT}g}")
