"""Grids of settings: what is tried, and the plans that it makes of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from bmtools.errors import BmtoolsError, did_you_mean, setting
from bmtools.tasks.run_settings import PLAN_PARTS, FinetunePlan

# Gu et al. 2021 (BLURB), section 6.2; Pavlova and Makhlouf 2023 (BIOptimus), table 9. Their numbers
# of epochs are what the development set chooses here.
NAMED = {"blurb": "learning_rate=1e-5,3e-5,5e-5 batch_size=16,32",
         "bioptimus": "learning_rate=1e-5,2e-5 batch_size=4,8,16"}

# The task reads the data, and makes the head, by its other settings.
_OF_LOSS = frozenset({"loss", "class_weights", "oversampling"})
_OF_ALL_RUNS = frozenset({"grid", "mixed_precision", "reinitialize_head", "seed", "seed_list",
                          "seeds", "tf32"})


def grid_plans(plan: FinetunePlan) -> Iterator[tuple[dict[str, Any], FinetunePlan]]:
    """Yield every combination of a plan's grid: its settings, and the plan with them.

    Without a grid that is the plan itself.

    Raises:
        BmtoolsError: a setting that is not known, values that cannot be read, or out of range.
    """
    axes = parse_grid(plan.finetuning.grid, plan)
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        parts: dict[str, Any] = {}
        for part in ("config", *PLAN_PARTS):
            settings = getattr(plan, part)
            names = {field.name for field in fields(settings)}
            parts[part] = replace(settings, **{name: value for name, value in chosen.items()
                                               if name in names})
        yield chosen, replace(plan, **parts)


def parse_grid(text: str, plan: FinetunePlan) -> Mapping[str, list[Any]]:
    """Read the values of each setting, in the type that it has.

    Raises:
        BmtoolsError: see `grid_plans`.
    """
    known = {field.name: getattr(getattr(plan, part), field.name)
             for part in ("config", *PLAN_PARTS) for field in fields(getattr(plan, part))
             if (part != "config" or field.name in _OF_LOSS) and field.name not in _OF_ALL_RUNS}
    axes: dict[str, list[Any]] = {}
    for axis in NAMED.get(text, text).split():
        name, equals, values = axis.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in known:
            meant = did_you_mean(name, known) if equals else ""
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected {' or '.join(NAMED)}, "
                               "or a setting and its values, such as learning_rate=1e-5,3e-5"
                               f"{meant and f'; {meant}'}")
        kind = type(known[name])
        try:
            axes[name] = [kind(value) for value in values.split(",")]
        except ValueError as error:
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected values of {name} such "
                               f"as {known[name]}") from error
    return axes
