"""A run as asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsError
from bmtools.io.aside import refuse_existing
from bmtools.training.phases import ReplaySettings, Script, resolved
from bmtools.training.regularisation import ForgettingSettings
from bmtools.training.settings import LoopSettings, RunSettings
from bmtools.training.state import runs_directory

REPLAY, EVALUATE, RETAIN = "replay", "evaluate", "retain"
"""Names of texts that are not trained on in the ordinary way."""
_FREE = ("micro_batch", "memory_gib", "activation_checkpointing", "compile")


@dataclass(frozen=True)
class Plan:
    """A run as asked for.

    Args:
        command: name of the command, for the manifest.
        output: checkpoint to write.
        script: the phases.
        loop: how to optimise.
        run: what to report and keep.
        forgetting: what holds the model to its start.
        replay: how often an earlier text comes back.
        extra: further settings that make the run what it is, by name.
        parents: hash of each checkpoint it starts from, by role.
        resume: go on from the newest state, if there is one.
        overwrite: replace the checkpoint or the unfinished run that is there.
    """

    command: str
    output: Path
    script: Script
    loop: LoopSettings
    run: RunSettings
    forgetting: ForgettingSettings = ForgettingSettings()
    replay: ReplaySettings = ReplaySettings()
    extra: Mapping[str, Any] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False

    def settings(self) -> dict[str, Any]:
        """Every resolved setting."""
        return {"phases": resolved(self.script)["phases"], **asdict(self.loop), **asdict(self.run),
                **asdict(self.forgetting), **asdict(self.replay), **self.extra}

    def identity(self, hashes: Mapping[str, str], vocabulary: str) -> dict[str, Any]:
        """What makes two sittings the same run; how often they report or save does not."""
        settings = {name: value for name, value in self.settings().items()
                    if name not in asdict(self.run) and name not in _FREE}
        # Names of files may change between sittings, their content may not.
        return {**settings, "vocabulary": vocabulary, "inputs": sorted(hashes.values()),
                "parents": dict(self.parents)}


def check_targets(plan: Plan) -> None:
    """Refuse, before anything heavy, to write over a checkpoint or an unfinished run."""
    refuse_existing(plan.output, plan.overwrite)
    run = runs_directory(plan.output)
    if run.exists() and not plan.resume and not plan.overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; --resume goes on with it, "
                           "--overwrite starts again")
