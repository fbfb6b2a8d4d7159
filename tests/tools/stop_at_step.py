"""Run bmtools and send it SIGTERM after a number of optimizer steps.

    python stop_at_step.py STEPS pretrain corpus.jsonl --model model -o adapted

A stop at a step, unlike a stop after a time, leaves the same files each time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any


def after_each_step(call: Callable[[int], None]) -> None:
    """Call a function after each step of any optimizer, with the number of the step, from 1."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    numbers = count(1)

    def count_step(*arguments: Any) -> None:
        call(next(numbers))

    register_optimizer_step_post_hook(count_step)


def stop_after(steps: int, before: Callable[[], None] | None = None) -> None:
    """Send this process SIGTERM after a number of optimizer steps.

    Args:
        steps: number of steps before the signal.
        before: called immediately before the signal.
    """
    def stop(number: int) -> None:
        if number == steps:
            if before:
                before()
            os.kill(os.getpid(), signal.SIGTERM)

    after_each_step(stop)


if __name__ == "__main__":
    stop_after(int(sys.argv[1]))
    from bmtools.cli.main import main

    main(sys.argv[2:])
