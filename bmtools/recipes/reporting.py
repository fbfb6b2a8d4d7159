"""Settings of a run's reports, checkpoints and forecast; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require, require_above_0, require_at_least


@dataclass(frozen=True)
class ReportingConfig:
    """Reports and checkpoints of a run, and its time budget.

    Args:
        logging_steps: steps between lines of metrics.
        save_steps: steps between saved states to resume from; 0 for none.
        save_total_limit: states to keep; older ones are deleted.
        keep_steps: steps between checkpoints kept permanently beside the output; 0 for none.
        eval_steps: steps between evaluations on held-out text; 0: at the end of each phase.
        budget: wall time after which a session saves a state and ends, such as 90m or 24h.
        trackers: further services for the metrics, such as tensorboard or wandb, separated by
            commas.
    """

    logging_steps: int = 50
    save_steps: int = 500
    save_total_limit: int = 1
    keep_steps: int = 0
    eval_steps: int = 0
    budget: str = ""
    trackers: str = ""

    def __post_init__(self) -> None:
        require_at_least(self, logging_steps=1, save_total_limit=1, save_steps=0, keep_steps=0,
                         eval_steps=0)
        require(self.budget_seconds() is not None, "budget", self.budget,
                "a number and s, m, h or d, such as 90m")

    def budget_seconds(self) -> float | None:
        """Parse the budget: seconds, infinite without a budget, None if malformed."""
        if not self.budget:
            return float("inf")
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(self.budget[-1])
        try:
            seconds = float(self.budget[:-1]) * (unit or 0)
        except ValueError:
            return None
        return seconds if seconds > 0 else None


@dataclass(frozen=True)
class PreflightConfig:
    """Preflight measurement.

    Args:
        probe_seconds: seconds of timed steps for each phase.
    """

    probe_seconds: float = 10.0

    def __post_init__(self) -> None:
        require_above_0(self, "probe_seconds")
