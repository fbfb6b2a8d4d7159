"""Errors and the spelling of settings in them."""

from __future__ import annotations

import pytest

from bmtools.errors import require, setting, settings_spelled


def test_settings_are_spelled_as_their_user_writes_them() -> None:
    assert setting("max_length") == "max_length"
    with settings_spelled(lambda name: f"--{name.replace('_', '-')}"), \
            pytest.raises(ValueError, match=r"^--max-length: found 3, expected 8 or more$"):
        require(False, "max_length", 3, "8 or more")
    assert setting("max_length") == "max_length"
