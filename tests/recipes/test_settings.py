"""Settings of training runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from bmtools.recipes.settings import (
    LearningRateConfig,
    ObjectiveConfig,
    PretrainingConfig,
    RegularizationConfig,
)


@pytest.mark.parametrize(("kind", "field", "value"), [
    (RegularizationConfig, "layer_decay", 0.0), (RegularizationConfig, "layer_decay", 1.1),
    (RegularizationConfig, "mixout", 1.0), (RegularizationConfig, "mixout", -0.1),
    (RegularizationConfig, "l2_sp", -1.0),
    (PretrainingConfig, "adversarial", -1.0), (PretrainingConfig, "adversarial_noise", 0.0),
    (PretrainingConfig, "adversarial_step", 0.0), (PretrainingConfig, "positions", "fixed")])
def test_a_wrong_value_names_its_option(kind: Any, field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{field}: found {value}, expected"):
        kind(**{field: value})


@pytest.mark.parametrize(("options", "message"), [
    ({"mask_rate": 1.5}, "mask_rate: found 1.5, expected above 0, at most 1"),
    ({"mask_rate": float("nan")}, "mask_rate: found nan, expected above 0, at most 1"),
    ({"mask_rate_end": -1.0}, "mask_rate_end: found -1.0, expected 0 to 1"),
    ({"mask_rate_end": 0.3, "mask_rate_steps": 1},
     "mask_rate_steps: found 1, expected 2 or more, or 0")])
def test_wrong_mask_rates(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        ObjectiveConfig(**options)
    assert str(error.value) == message


def test_a_wsd_schedule_has_room_for_warmup_and_decay() -> None:
    with pytest.raises(ValueError, match=r"^warmup_ratio and decay_ratio: found 0\.5 and 1, "
                                         r"expected shares that add up to 1 at most in a wsd "):
        LearningRateConfig(schedule="wsd", warmup_ratio=0.5, decay_ratio=1.0)
    for decay in (0.9, 0.2):  # 0.1 + 0.9, with the default warm-up
        LearningRateConfig(schedule="wsd", decay_ratio=decay)
    LearningRateConfig(warmup_ratio=0.5, decay_ratio=1.0)  # linear


@pytest.mark.parametrize("shares", [(0.9, 0.2), (-0.1, 0.5), (0.5, -0.1), (float("nan"), 0.1)])
def test_shares_add_up_to_one_at_most(shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError,
                       match=r"mask_replace_prob and random_replace_prob: .* add up to 1"
                             r"|(mask|random)_replace_prob: found .*, expected 0 or more"):
        ObjectiveConfig(mask_replace_prob=shares[0], random_replace_prob=shares[1])


@pytest.mark.parametrize(("modules", "heavy"), [
    ("bmtools.recipes.settings", "numpy, torch, tokenizers, transformers"),
    ("bmtools.study.reports.compare_models", "torch, transformers"),  # it measures in processes
    ("bmtools.data.masking.strategies, bmtools.data.masking.corruption, bmtools.vocab.segmenters",
     "torch, tokenizers, transformers")])
def test_no_heavy_module_is_imported(modules: str, heavy: str) -> None:
    code = f"import sys, {modules}; print([m for m in '{heavy}'.split(', ') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
