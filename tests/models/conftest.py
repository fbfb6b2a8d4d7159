"""Tiny models of each family, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from toy_models import FAMILIES, tiny_config
from transformers import AutoModelForMaskedLM


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Any:
    """A masked language model of each family."""
    torch.manual_seed(0)
    return AutoModelForMaskedLM.from_config(tiny_config(request.param)).eval()


@pytest.fixture
def build() -> Callable[[Any], Any]:
    """Make a model of a configuration, with weights large enough for every part to matter."""
    return lambda config: _with_large_weights(AutoModelForMaskedLM.from_config(config).eval())


@pytest.fixture
def large_weights() -> Callable[[Any], Any]:
    """Give a model weights large enough for every part to matter."""
    return _with_large_weights


@pytest.fixture
def random_model(model: Any) -> Any:
    """A model of each family, with weights large enough for every part to matter."""
    return _with_large_weights(model)


@torch.no_grad()
def _with_large_weights(model: Any) -> Any:
    rng = torch.Generator().manual_seed(3)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=rng)
        if "norm" in name.lower() or name.endswith((".ln.weight", ".bias")):
            weight.add_(0.3 * noise)
        else:
            weight.copy_(noise / weight.shape[-1]**0.5)
    return model
