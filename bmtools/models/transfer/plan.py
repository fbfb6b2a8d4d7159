"""Plans of weights: which weight of a new model comes from which weight of an old one, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

Change = Callable[[Tensor, Tensor], Tensor]
"""Makes a weight from the old one and the one that the new model was built with."""
Plan = Mapping[str, tuple[str, Change]]
"""By the name of a new weight: the name of the old one, and the change."""
_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")


def copied(source: Tensor, _target: Tensor) -> Tensor:
    """Take a weight as it is."""
    return source


@torch.no_grad()
def fill(targets: Mapping[str, Tensor], plan: Plan, sources: Mapping[str, Tensor]) -> None:
    """Fill weights by a plan, in its order and in place; weights that it leaves out stay."""
    for name, (source, change) in plan.items():
        targets[name].copy_(change(sources[source], targets[name]))


def layer_number(name: str) -> int | None:
    """Return the number of the layer that a weight is in, by its name; None outside of layers."""
    found = _LAYER.search(name)
    return found and int(found[0])


def layer_sources(names: Iterable[str], layers: Sequence[int]) -> dict[str, str]:
    """Name the weight that each weight of a model comes from.

    Args:
        names: of the model's weights.
        layers: for each of its layers, the number of the layer that it comes from.
    """
    return {name: _LAYER.sub(lambda found: str(layers[int(found[0])]), name, count=1)
            for name in names}
