"""Settings of masking; importing this costs nothing."""

from __future__ import annotations

from typing import Literal

Masking = Literal["tokens", "words", "spans", "terms"]
MaskRateCurve = Literal["fixed", "steps", "linear", "cosine"]
