"""Settings of weight transfer: rejected values, and a light import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bmtools.models.settings import (
    FocusConfig,
    TransferConfig,
    parse_layers,
)


@pytest.mark.parametrize(("make", "option"), [
    (lambda: TransferConfig("magic"), "method: found magic"),
    (lambda: TransferConfig(layers="1,"), "layers: found '1,'"),
    (lambda: TransferConfig(max_sentences=0), "max_sentences: found 0"),
    (lambda: TransferConfig(batch_tokens=0), "batch_tokens: found 0"),
    (lambda: FocusConfig(focus_dim=1), "focus_dim: found 1"),
    (lambda: FocusConfig(focus_min_count=0), "focus_min_count: found 0"),
    (lambda: FocusConfig(focus_max_tokens=0), "focus_max_tokens: found 0"),
])
def test_rejected_values_name_their_setting(make: Callable[[], Any], option: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value).startswith(option) and ", expected " in str(caught.value)


def test_layers_are_parsed() -> None:
    assert [parse_layers(one) for one in ("last", "all", "0,-1", "2")] == [
        (-1,), None, (0, -1), (2,)]
