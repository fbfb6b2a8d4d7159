"""What stands in place of a masked token."""

from __future__ import annotations

import numpy as np
import pytest

from bmtools.masking.corruption import IGNORED, Corruption, corrupt

MASK_ID = 4
ORDINARY = np.arange(5, 100)


def test_shares_and_labels() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 100, size=(500, 200))
    picked = rng.random(ids.shape) < 0.3
    before = ids.copy()
    masked = corrupt(ids, picked, MASK_ID, ORDINARY, Corruption(), rng)
    assert (ids == before).all()
    assert (masked.inputs[~picked] == ids[~picked]).all()
    assert (masked.labels == np.where(picked, ids, IGNORED)).all()
    hidden = masked.inputs[picked] == MASK_ID
    kept = masked.inputs[picked] == ids[picked]
    assert hidden.mean() == pytest.approx(0.8, abs=0.01)
    # One random token in 95 is the right one by chance.
    assert kept.mean() == pytest.approx(0.1 + 0.1 / 95, abs=0.01)
    assert masked.inputs[picked & (masked.inputs != MASK_ID)].min() >= 5


def test_all_masked() -> None:
    ids = np.full((3, 4), 9)
    masked = corrupt(ids, np.ones((3, 4), dtype=bool), MASK_ID, ORDINARY, Corruption(1.0, 0.0),
                     np.random.default_rng(0))
    assert (masked.inputs == MASK_ID).all()


def test_shares_add_up_to_one_at_most() -> None:
    with pytest.raises(ValueError, match="add up to 1"):
        Corruption(0.9, 0.2)
