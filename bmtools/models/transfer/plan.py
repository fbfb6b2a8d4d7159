"""Plans that map each weight of a new model to a weight of an old model and a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

Change = Callable[[Tensor, Tensor], Tensor]
"""Makes a weight from the old model's weight and the new model's initial weight."""
Plan = Mapping[str, tuple[str, Change]]
"""The name of the old weight and the change, by the name of the new weight."""
_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


def copied(source: Tensor, _target: Tensor) -> Tensor:
    """Return the old weight unchanged."""
    return source


@torch.no_grad()
def fill(targets: Mapping[str, Tensor], plan: Plan, sources: Mapping[str, Tensor]) -> None:
    """Fill weights by a plan, in its order and in place; other weights stay unchanged."""
    for name, (source, change) in plan.items():
        targets[name].copy_(change(sources[source], targets[name]))


def layer_number(name: str) -> int | None:
    """Return the number of a weight's layer, by its name; None for weights outside layers."""
    found = _LAYER.search(name)
    return found and int(found[0])


def layer_sources(names: Iterable[str], layers: Sequence[int]) -> dict[str, str]:
    """Return the name of the source of each weight of a model.

    Args:
        names: names of the model's weights.
        layers: number of the source layer for each layer.
    """
    return {name: _LAYER.sub(lambda found: str(layers[int(found[0])]), name, count=1)
            for name in names}
