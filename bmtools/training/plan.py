"""A run as asked for.

Importing this costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bmtools.errors import BmtoolsError
from bmtools.io.atomic import refuse_existing
from bmtools.recipes.phases import (
    RunConfig,
    check_corpora,
    resolved,
    run_settings,
)
from bmtools.recipes.settings import (
    AdversarialConfig,
    OptimizationConfig,
    RegularizationConfig,
    ReplayConfig,
    ReportingConfig,
)
from bmtools.training.run_directories import runs_directory

REPLAY, EVALUATE, RETAIN = "replay", "evaluate", "retain"
"""Names of texts that are not trained on in the ordinary way."""
SHARD = "BMTOOLS_SHARD"
"""Variable of the environment that asks for weights to be shared out."""
# What may change between sittings without changing the run: how the work is cut up, and names of
# files whose content is compared instead.
_FREE = ("micro_batch_size", "memory_gib", "activation_checkpointing", "compile",
         "model", "tokenizer", "teacher", "student", "terms")


@dataclass(frozen=True)
class TrainingPlan:
    """A run as asked for.

    Args:
        command: name of the command, for the manifest.
        output: checkpoint to write.
        config: the phases.
        optimization: how to optimise.
        reporting: what to report and keep.
        regularization: what holds the model to its start.
        replay: how often an earlier text comes back.
        adversarial: how embeddings are attacked, if at all.
        extra: further settings that make the run what it is, by name.
        parents: hash of each checkpoint it starts from, by role.
        resume: go on from the newest state, if there is one.
        overwrite: replace the checkpoint or the unfinished run that is there.
        began: when this sitting began, on the monotonic clock, in seconds.
    """

    command: str
    output: Path
    config: RunConfig
    optimization: OptimizationConfig
    reporting: ReportingConfig
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    adversarial: AdversarialConfig = field(default_factory=AdversarialConfig)
    extra: Mapping[str, Any] = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False
    began: float = field(default_factory=time.monotonic)

    def settings(self) -> dict[str, Any]:
        """Every resolved setting."""
        return {"phases": resolved(self.config)["phases"], **self._shared(),
                **asdict(self.reporting)}

    def _shared(self) -> dict[str, Any]:
        """Settings of all phases that make the run what it is."""
        return {**asdict(self.optimization), **asdict(self.regularization), **asdict(self.replay),
                **asdict(self.adversarial), **self.extra}

    def identity(self, contents: Mapping[str, Iterable[str]], vocabulary: str) -> dict[str, Any]:
        """What makes two sittings the same run; how often they report or save does not.

        Args:
            contents: hashes of what each text was read from, by the text's name.
            vocabulary: fingerprint of the tokenizer.
        """
        phases = resolved(self.config)["phases"]
        names = [phase.pop("name") for phase in phases]
        # One phase needs no name: `learning_rate`, but `decay: learning_rate`.
        settings = {name if len(phases) == 1 else f"{phase_name}: {name}": value
                    for phase_name, phase in zip(names, phases, strict=True)
                    for name, value in phase.items()}
        settings |= {name: value for name, value in self._shared().items() if name not in _FREE}
        inputs = {name: sorted(hashes) for name, hashes in contents.items()}
        return {"phases": names, **settings, "vocabulary": vocabulary,
                **{f"inputs of {name}": hashes for name, hashes in inputs.items()},
                **{f"content of the {role}": digest for role, digest in self.parents.items()}}


def make_plan(command: str, output: Path, config: RunConfig, extra: Mapping[str, Any],
              parents: Mapping[str, str]) -> TrainingPlan:
    """Plan a run that takes all its settings from a config; arguments as for `TrainingPlan`."""
    return TrainingPlan(command, output, config, run_settings(config, OptimizationConfig),
                        run_settings(config, ReportingConfig),
                        run_settings(config, RegularizationConfig),
                        run_settings(config, ReplayConfig), run_settings(config, AdversarialConfig),
                        extra, parents)


def check_targets(plan: TrainingPlan) -> None:
    """Refuse, before anything heavy, to write over a checkpoint or an unfinished run."""
    refuse_existing(plan.output, plan.overwrite)
    run = runs_directory(plan.output)
    if run.exists() and not plan.resume and not plan.overwrite:
        raise BmtoolsError(f"{run} holds an unfinished run; --resume goes on with it, "
                           "--overwrite starts again")


def check_before(plan: TrainingPlan, names: Iterable[str], processes: int, sharded: bool) -> None:
    """Refuse what cannot work, before text is encoded.

    Args:
        plan: the run as asked for.
        names: of the texts to train on.
        processes: that share the work.
        sharded: whether they share weights out too.

    Raises:
        BmtoolsError: a mixture names a text that is not there, phases disagree on the layout, a
            batch cannot be shared by the processes, or something needs weights in one place.
    """
    try:
        check_corpora(plan.config.phases, names)
    except ValueError as error:
        raise BmtoolsError(f"{error}; --corpus NAME=PATH gives a text its name") from None
    layouts = {phase.batch.layout for phase in plan.config.phases}
    if len(layouts) > 1:
        raise BmtoolsError(f"--layout: found {' and '.join(sorted(layouts))}, expected one for "
                           "all phases")
    for phase in plan.config.phases:
        for name, rows in (("--batch-size", phase.batch.batch_size),
                           ("--initial-batch-size", phase.batch.initial_batch_size)):
            if rows % processes:
                raise BmtoolsError(f"phase {phase.name!r}: {name}: found {rows}, expected a "
                                   f"multiple of the {processes} processes that share it")
    if sharded:
        _check_sharded(plan)


def _check_sharded(plan: TrainingPlan) -> None:
    """Refuse what looks at whole matrices, or was never tried on parts of them."""
    for name, found, is_whole in (
            ("--mixout", plan.regularization.mixout, plan.regularization.mixout > 0),
            ("--l2-sp", plan.regularization.l2_sp, plan.regularization.l2_sp > 0),
            ("--adversarial", plan.adversarial.adversarial, plan.adversarial.adversarial > 0),
            ("--optimizer", plan.optimization.optimizer, plan.optimization.optimizer != "adamw"),
            ("--mixed-precision", plan.optimization.mixed_precision,
             plan.optimization.mixed_precision == "fp16"),
            ("--compile", plan.optimization.compile, plan.optimization.compile)):
        if is_whole:
            raise BmtoolsError(f"{name}: found {found}, which does not go with weights that "
                               "processes share out; leave --shard out")
