"""Phases of a pretraining run, their settings and the schedule of their steps; a light module."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from typing import TypeVar

from bmtools.errors import setting, suggestion
from bmtools.recipes.settings import (
    PHASE_FIELDS,
    PHASE_KINDS,
    RUN_FIELDS,
    RUN_KINDS,
    BatchConfig,
    FreezeConfig,
    LearningRateConfig,
    ObjectiveConfig,
    PhaseLengthConfig,
    Values,
)
from bmtools.records import JsonObject
from bmtools.settings import Settings

Kind = TypeVar("Kind", bound=Settings)
# Alternative settings: the first one that is not 0 is used, so a new value resets earlier ones.
ALTERNATIVES = (("steps", "tokens", "epochs"), ("warmup_steps", "warmup_ratio"))


@dataclass(frozen=True)
class Phase:
    """A part of a run with its own settings.

    Args:
        name: letters, digits, - and _; used in metrics and messages.
        length: its length in steps, tokens or epochs.
        batch: size and layout of its batches.
        objective: the training objective and its masking.
        learning_rate: the learning rate over it.
        freeze: weights that are not trained.
        mixture: weights of the corpora's tokens, by name; if empty, all corpora are weighted by
            their tokens.
    """

    name: str
    length: PhaseLengthConfig = field(default_factory=PhaseLengthConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    learning_rate: LearningRateConfig = field(default_factory=LearningRateConfig)
    freeze: FreezeConfig = field(default_factory=FreezeConfig)
    mixture: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w-]+", self.name):
            raise ValueError(f"name: found {self.name!r}, expected letters, digits, - and _")
        if not isinstance(self.mixture, Mapping):
            raise ValueError(f"mixture: found {self.mixture!r}, expected weights by name")
        for corpus, weight in self.mixture.items():
            if not isinstance(weight, Real) or not 0 <= weight < math.inf:
                raise ValueError(f"mixture: {corpus}: found {weight}, expected 0 or more")
        if self.mixture and not sum(self.mixture.values()):
            raise ValueError("mixture: found no weight above 0, expected at least one")

    def changed(self, values: Values) -> Phase:
        """Replace some settings by name, including `mixture`.

        A length in tokens or epochs replaces a length in steps, and a warm-up ratio replaces
        warm-up steps, unless both are given.

        Raises:
            ValueError: a name is unknown, or a value is out of range.
        """
        given = merged({}, values)
        for name in given:
            if name not in PHASE_FIELDS:
                raise ValueError(f"found unknown setting {name!r}, "
                                 f"{suggestion(name, PHASE_FIELDS)}")
        parts: JsonObject = {part: replace(getattr(self, part), **{
            one.name: given[one.name] for one in fields(kind) if one.name in given})
            for part, kind in PHASE_KINDS.items()}
        return replace(self, **parts, mixture=given.get("mixture", self.mixture))


@dataclass(frozen=True)
class RunConfig:
    """Phases of a run, and the settings that they share.

    Args:
        phases: the phases in order.
        title: short description.
        source: publication of the settings.
        notes: remarks, such as settings that the source leaves open.
        architecture: architecture of a new model; empty for continued pretraining.
        run: settings of the whole run, by name; other settings have their defaults.
    """

    phases: tuple[Phase, ...]
    title: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    architecture: str = ""
    run: Values = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.phases:
            raise ValueError("found no phases, expected at least one [[phases]]")
        name, times = Counter(phase.name for phase in self.phases).most_common(1)[0]
        if times > 1:
            raise ValueError(f"found two phases named {name!r}, expected names that differ")
        for kind in RUN_KINDS:
            run_settings(self.run, kind)


def run_settings(run: Values, kind: type[Kind]) -> Kind:
    """Make settings of one of `RUN_KINDS`, with defaults for missing settings."""
    return kind(**{name: run[name] for name in kind.__dataclass_fields__ if name in run})


def settings_text() -> str:
    """List the keys of a phases file and of `--set`, with their defaults and meanings."""
    titles = dict.fromkeys(PHASE_KINDS.values(), "[[phases]] or [common]") \
        | dict.fromkeys(RUN_KINDS, "[run]")
    lines = []
    for kind, table in titles.items():
        lines += ["", f"{kind.title}, in {table}:", ""]
        for one in fields(kind):
            default = json.dumps(one.default)
            lines += textwrap.wrap(f"{one.name} = {default}: {one.metadata['help']}", 73,
                                   initial_indent="  ", subsequent_indent="      ")
    return "\n".join(lines) + "\n"


def merged(settings: Values, values: Values) -> JsonObject:
    """Override settings; reset alternatives that would take precedence to 0."""
    reset = {other: 0 for names in ALTERNATIVES for number, name in enumerate(names)
             if name in values for other in names[:number] if other not in values}
    return {**settings, **reset, **values}


def resolved(run_config: RunConfig) -> JsonObject:
    """List all settings of all phases as plain values.

    Integers in float settings become floats, so that equal runs have equal output.
    """
    phases = []
    for phase in run_config.phases:
        content: JsonObject = {"name": phase.name}
        for part in PHASE_KINDS:
            content |= _plain(asdict(getattr(phase, part)), PHASE_FIELDS)
        if phase.mixture:
            content["mixture"] = {name: float(weight) for name, weight in phase.mixture.items()}
        phases.append(content)
    return {"title": run_config.title, "source": run_config.source, "notes": list(run_config.notes),
            "architecture": run_config.architecture,
            "run": _plain(dict(sorted(run_config.run.items())), RUN_FIELDS), "phases": phases}


def _plain(values: Values, kinds: Mapping[str, object]) -> JsonObject:
    return {name: float(value) if kinds[name] is float else value
            for name, value in values.items()}


@dataclass(frozen=True)
class PhaseStep:
    """A step of a run, in its phase.

    Args:
        phase_number: number of the phase, from 0.
        phase: settings of the phase.
        step: number within the phase, from 0.
        steps: steps of the phase.
    """

    phase_number: int
    phase: Phase
    step: int
    steps: int

    @property
    def is_last(self) -> bool:
        """Whether this is the last step of its phase."""
        return self.step == self.steps - 1

    @property
    def mask_rate(self) -> float:
        """Share of tokens to mask.

        Source: for a rise from 5 % to 25 % in five steps, Gu et al. 2021 (BLURB), section 2.3.
        """
        objective, progress = self.phase.objective, self.step / self.steps
        start, end = objective.mask_rate, objective.mask_rate_end
        if not end or progress <= 0:
            return start
        if progress >= 1:
            return end  # exact, without rounding
        if steps := objective.mask_rate_steps:
            progress = min(math.floor(progress * steps), steps - 1) / (steps - 1)
        return end if progress == 1 else start + (end - start) * progress


class Schedule:
    """Consecutive phases.

    Args:
        phases: the phases in order.
        steps: number of steps of each phase.
    """

    def __init__(self, phases: Sequence[Phase], steps: Sequence[int]) -> None:
        self.phases = tuple(phases)
        self.steps_per_phase = tuple(steps)
        self.steps = sum(steps)

    def phase_step(self, number: int) -> PhaseStep:
        """Return step `number`, from 0; for numbers beyond the end, return the last step."""
        left = min(number, self.steps - 1)
        lengths = zip(self.phases, self.steps_per_phase, strict=True)
        for phase_number, (phase, steps) in enumerate(lengths):
            if left < steps:
                return PhaseStep(phase_number, phase, left, steps)
            left -= steps
        raise AssertionError("a schedule without steps")

    def learning_rate(self, number: int) -> float:
        """Compute the learning rate of step `number`, from 0."""
        now = self.phase_step(number)
        return learning_rate_at(now.phase.learning_rate, now.step, now.steps)

    def unfinished_warmups(self) -> Iterator[str]:
        """Yield a warning for each phase that ends before its warm-up, which is not changed."""
        for phase, steps in zip(self.phases, self.steps_per_phase, strict=True):
            rate = phase.learning_rate
            if rate.warmup_steps > steps:
                yield (f"phase {phase.name!r}: {setting('warmup_steps')} is {rate.warmup_steps}, "
                       f"but the phase ends after {steps}: the learning rate rises to "
                       f"{learning_rate_at(rate, steps - 1, steps):.2g} and NEVER REACHES its "
                       f"peak of {rate.learning_rate:g}; set fewer, or {setting('warmup_ratio')}")


def learning_rate_at(config: LearningRateConfig, step: int, steps: int) -> float:
    """Compute the learning rate of step `step`, from 0, in a phase of `steps`."""
    warmup = config.warmup_steps or round(config.warmup_ratio * steps)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    left, share = (steps - step) / max(steps - warmup, 1), 1.0  # share falls from 1 to 0
    if config.schedule == "linear":
        share = left
    elif config.schedule == "cosine":
        share = (1 - math.cos(math.pi * left)) / 2
    elif config.schedule == "wsd":
        # Both shares may be rounded up.
        falling = max(min(round(config.decay_ratio * steps), steps - warmup), 1)
        share = 1 - math.sqrt(max(step - (steps - falling), 0) / falling)
    return config.learning_rate * (config.min_lr_ratio + (1 - config.min_lr_ratio) * share)


def count_steps(phase: Phase, sequences: float, tokens_per_sequence: float) -> int:
    """Count the steps of a phase; lengths in tokens and epochs are rounded up.

    Args:
        phase: the phase with its length and batches.
        sequences: number of sequences in an epoch.
        tokens_per_sequence: average tokens of a full sequence.
    """
    length = phase.length
    if length.steps:
        return length.steps
    total = length.tokens / tokens_per_sequence if length.tokens else length.epochs * sequences
    return max(1, math.ceil(total / phase.batch.batch_size - 1e-6))
