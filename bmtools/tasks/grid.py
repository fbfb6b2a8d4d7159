"""Grids of settings: what is tried, and the plans that it makes of one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields, replace

from bmtools.errors import BmtoolsError, did_you_mean, setting
from bmtools.records import JsonObject
from bmtools.tasks.run_settings import PLAN_PARTS, FinetunePlan

# Gu et al. 2021 (BLURB), section 6.2; Pavlova and Makhlouf 2023 (BIOptimus), table 9. Their numbers
# of epochs are what the development set chooses here.
NAMED = {"blurb": "learning_rate=1e-5,3e-5,5e-5 batch_size=16,32",
         "bioptimus": "learning_rate=1e-5,2e-5 batch_size=4,8,16"}

# The task reads the data, and makes the head, by its other settings.
_OF_LOSS = frozenset({"loss", "class_weights", "oversampling"})
_OF_ALL_RUNS = frozenset({"dev_fold", "grid", "mixed_precision", "seed", "seed_list", "seeds",
                          "tf32"})


def grid_plans(plan: FinetunePlan) -> Iterator[tuple[JsonObject, FinetunePlan]]:
    """Yield every combination of a plan's grid: its settings, and the plan with them.

    Without a grid that is the plan itself.

    Raises:
        BmtoolsError: a setting that is not known, or values that cannot be read.
        ValueError: a value out of range.
    """
    known = {field.name: part for part in ("config", *PLAN_PARTS)
             for field in fields(getattr(plan, part))
             if (part != "config" or field.name in _OF_LOSS) and field.name not in _OF_ALL_RUNS}
    axes: dict[str, list[object]] = {}
    for axis in NAMED.get(plan.finetuning.grid, plan.finetuning.grid).split():
        name, equals, values = axis.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in known:
            meant = did_you_mean(name, known) if equals else ""
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected {' or '.join(NAMED)}, "
                               "or a setting and its values, such as learning_rate=1e-5,3e-5"
                               f"{meant and f'; {meant}'}")
        own = getattr(getattr(plan, known[name]), name)
        try:
            axes[name] = [type(own)(value) for value in values.split(",")]
        except ValueError as error:
            raise BmtoolsError(f"{setting('grid')}: found {axis!r}, expected values of {name} such "
                               f"as {own}") from error
    for combination in itertools.product(*axes.values()):
        chosen, changed = dict(zip(axes, combination, strict=True)), plan
        for name, value in chosen.items():
            part = replace(getattr(changed, known[name]), **{name: value})
            changed = replace(changed, **{known[name]: part})
        yield chosen, changed
