"""A smaller model that starts from some layers of a larger one."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING

from bmtools.errors import BmtoolsError, setting

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# In these families layers share weights, or weights and settings depend on the number of layers.
_BOUND_FAMILIES = ("albert", "esm", "longformer")
_EXPECTED = "expected even, a number of layers, or rising numbers from 0 such as 0,2,4"


def taken_layers(layers: str, depth: int) -> list[int]:
    """Return the numbers of the layers to take, from 0.

    Args:
        layers: even (every second layer from the first), a count (equal distances, with the first
            and the last layer: DistilBERT's 0, 2, 4, 7, 9 and 11 for 6 of 12), or the layers'
            numbers.
        depth: number of layers of the model.

    Raises:
        BmtoolsError: the value names no layers or layers that do not exist.
    """
    found = f"{setting('take_layers')}: found {layers}"
    if layers == "even":
        return list(range(0, depth, 2))
    if not re.fullmatch(r"\d+(,\d+)*", layers):
        raise BmtoolsError(f"{found}, {_EXPECTED}")
    numbers = [int(number) for number in layers.split(",")]
    if "," not in layers:
        count = numbers[0]
        if not 1 <= count <= depth:
            raise BmtoolsError(f"{found}, expected 1 to {depth}, the number of layers")
        return [round(number * (depth - 1) / max(count - 1, 1)) for number in range(count)]
    if numbers != sorted(set(numbers)):
        raise BmtoolsError(f"{found}, {_EXPECTED}")
    if numbers[-1] >= depth:
        raise BmtoolsError(f"{found}, but the {depth} layers have the numbers 0 to {depth - 1}")
    return numbers


def take_layers(model: PreTrainedModel, layers: str) -> PreTrainedModel:
    """Make a model from some layers of another, with its embeddings and its head.

    Source: Sanh et al. 2020 (DistilBERT), section 2: one layer out of two.

    Args:
        model: an encoder; not changed.
        layers: see `taken_layers`.

    Raises:
        BmtoolsError: as in `taken_layers`, or ModernBERT's first layer is left out, or layers of
            this family cannot be taken.
    """
    from bmtools.models.architectures import build_model
    from bmtools.models.transfer.plan import copied, fill, layer_number, layer_sources

    family = model.config.model_type
    if family in _BOUND_FAMILIES:
        raise BmtoolsError(f"{setting('take_layers')}: found a model of the family {family}, whose "
                           "layers cannot be taken one by one; expected another family")
    numbers = taken_layers(layers, model.config.num_hidden_layers)
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = len(numbers)
    if types := getattr(config, "layer_types", None):
        config.layer_types = [types[number] for number in numbers]
    smaller, sources = build_model(config), model.state_dict()
    names = layer_sources(smaller.state_dict(), numbers)
    # Only the first layer of ModernBERT has no norm before its attention.
    left_out = {name for name in sources.keys() - {*names.values()}
                if layer_number(name) in numbers}
    if left_out:
        raise BmtoolsError(f"{setting('take_layers')}: found {layers}, but a first layer "
                           f"does not have {min(left_out)}, which layer {numbers[0]} has; add "
                           "layer 0")
    fill(smaller.state_dict(), {name: (source, copied) for name, source in names.items()}, sources)
    return smaller.eval()
