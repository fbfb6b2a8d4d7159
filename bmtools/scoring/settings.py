"""Settings of scores; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

PRECISIONS = ("no", "bf16", "fp16")
MULTI_TOKEN = ("miss", "skip")


@dataclass(frozen=True)
class PassSettings:
    """How masked copies meet a checkpoint; none of it moves a score beyond rounding.

    Args:
        batch_tokens: tokens per pass through a model.
        device: where checkpoints run: auto (a GPU if there is one), cpu, cuda or cuda:N.
        precision: what matrices are multiplied in: no (float32), bf16 or fp16.
    """

    batch_tokens: int = 4096
    device: str = "auto"
    precision: str = "no"

    def __post_init__(self) -> None:
        if self.batch_tokens < 1:
            raise ValueError(f"--batch-tokens: found {self.batch_tokens}, expected 1 or more")
        if self.precision not in PRECISIONS:
            raise ValueError(f"--precision: found {self.precision}, "
                             f"expected {' or '.join(PRECISIONS)}")


@dataclass(frozen=True)
class MrrSettings:
    """What counts as found (Buonocore et al. 2023, equation 2).

    Args:
        top: proposals looked at; a word ranked lower counts 0.
        multi_token: what a target in several tokens is: a miss (counts 0, for the model cannot
            propose it) or one to skip (left out of the mean).
        ignore_case: whether a proposal counts that is the target but for case.
    """

    top: int = 5
    multi_token: str = "miss"
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError(f"--top: found {self.top}, expected 1 or more")
        if self.multi_token not in MULTI_TOKEN:
            raise ValueError(f"--multi-token: found {self.multi_token}, "
                             f"expected {' or '.join(MULTI_TOKEN)}")

