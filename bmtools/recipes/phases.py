"""Phases of a pretraining run: what each asks for, and how that is written down.

Importing this costs nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from bmtools.recipes.settings import (
    AdversarialConfig,
    BatchConfig,
    FreezeConfig,
    LearningRateConfig,
    ObjectiveConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    RegularizationConfig,
    ReplayConfig,
    ReportingConfig,
)

Settings = TypeVar("Settings")
ONLY_PHASE = "main"
"""Name of the phase where there is one and nobody named it."""
_NAME = re.compile(r"[\w-]+")


PHASE_KINDS: dict[str, type] = {
    "length": PhaseLengthConfig, "batch": BatchConfig, "objective": ObjectiveConfig,
    "learning_rate": LearningRateConfig, "freeze": FreezeConfig}
"""What a phase has settings of, by the name of its part."""
RUN_KINDS: tuple[type, ...] = (
    OptimizationConfig, ReportingConfig, RegularizationConfig, AdversarialConfig, ReplayConfig)
"""What a run has settings of, the same in all its phases."""
PHASE_FIELDS: Mapping[str, type] = {
    name: kind for part in PHASE_KINDS.values()
    for name, kind in typing.get_type_hints(part).items()}
"""Type of each setting of a phase, by name."""
RUN_FIELDS: Mapping[str, type] = {
    name: kind for part in RUN_KINDS for name, kind in typing.get_type_hints(part).items()}
"""Type of each setting of a run, by name."""
# Settings of one thing: the first that is not 0 counts, so a new value puts earlier ones back to 0.
_RIVALS = (("steps", "tokens", "epochs"), ("warmup_steps", "warmup_ratio"))


@dataclass(frozen=True)
class MixtureWeight:
    """A corpus's part in a phase.

    Args:
        corpus: its name.
        weight: its share of the tokens, beside the weights of the others.
        end_weight: weight at the end of the phase, reached linearly; None: as at the beginning.
        epochs: passes over it after which it is left out; infinite for no end.
    """

    corpus: str
    weight: float
    end_weight: float | None = None
    epochs: float = math.inf

    def __post_init__(self) -> None:
        for name, found in (("weight", self.weight), ("end", self.end_weight or 0.0)):
            if not 0 <= found < math.inf:
                raise ValueError(f"mixture: {self.corpus}: {name}: found {found}, "
                                 "expected 0 or more")
        if not self.epochs > 0:
            raise ValueError(f"mixture: {self.corpus}: epochs: found {self.epochs}, "
                             "expected above 0")

    @property
    def last_weight(self) -> float:
        """Weight at the end of the phase."""
        return self.weight if self.end_weight is None else self.end_weight


@dataclass(frozen=True)
class Phase:
    """A part of a run: so long, on these texts, asking for this.

    Args:
        name: letters, digits, - and _; what metrics and messages call it.
        length: how long it is.
        batch: size and layout of its batches.
        objective: the training objective and its masking.
        learning_rate: the learning rate over it.
        freeze: what it leaves as it is.
        mixture: corpora and their weights; empty for all of them, weighted by their tokens.
    """

    name: str
    length: PhaseLengthConfig = field(default_factory=PhaseLengthConfig)
    batch: BatchConfig = field(default_factory=BatchConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    learning_rate: LearningRateConfig = field(default_factory=LearningRateConfig)
    freeze: FreezeConfig = field(default_factory=FreezeConfig)
    mixture: tuple[MixtureWeight, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: found {self.name!r}, expected letters, digits, - and _")
        twice = first_repeated(portion.corpus for portion in self.mixture)
        if twice is not None:
            raise ValueError(f"mixture: found {twice!r} twice, expected each corpus once")
        if self.mixture and not sum(portion.weight for portion in self.mixture):
            raise ValueError("mixture: found no weight above 0, expected one at least")
        if self.mixture and not sum(portion.last_weight for portion in self.mixture):
            raise ValueError("mixture: found no weight above 0 at the end of the phase, expected "
                             "one at least")

    @property
    def freezes(self) -> bool:
        """Whether some weights stay as they are."""
        return self.freeze.frozen_layers > 0 or bool(self.freeze.frozen)

    def values(self) -> dict[str, Any]:
        """Every setting by name, the mixture left out."""
        return {one.name: getattr(getattr(self, part), one.name)
                for part, kind in PHASE_KINDS.items() for one in fields(kind)}

    def changed(self, values: Mapping[str, Any]) -> Phase:
        """Replace some settings, by name, `mixture` among them.

        A length in tokens or epochs puts an end to one in steps, a share of warm-up to one in
        steps, unless both are given.

        Raises:
            ValueError: a name that is not there, a value out of range.
        """
        given = merged({}, values)
        for name in given:
            if name not in PHASE_FIELDS and name != "mixture":
                raise ValueError(f"found unknown setting {name!r}, "
                                 f"{suggestion(name, [*PHASE_FIELDS, 'mixture'])}")
        parts: dict[str, Any] = {}
        for part, kind in PHASE_KINDS.items():
            own = {one.name: given[one.name] for one in fields(kind) if one.name in given}
            if own:
                parts[part] = replace(getattr(self, part), **own)
        if "mixture" in given:
            parts["mixture"] = given["mixture"]
        return replace(self, **parts)


@dataclass(frozen=True)
class RunConfig:
    """A run written down: its phases, and the settings that they share.

    Args:
        phases: in order.
        title: what it is.
        source: where its settings come from.
        notes: what a reader should know, such as what the source leaves open.
        architecture: of a fresh start; empty where the run goes on from a model.
        run: settings of the whole run that it gives, by name.
    """

    phases: tuple[Phase, ...]
    title: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    architecture: str = ""
    run: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.phases:
            raise ValueError("found no phases, expected one [[phases]] at least")
        twice = first_repeated(phase.name for phase in self.phases)
        if twice is not None:
            raise ValueError(f"found two phases named {twice!r}, expected names that differ")
        check_run_settings(self.run)


def single_phase(length: PhaseLengthConfig, batch: BatchConfig, objective: ObjectiveConfig,
                 learning_rate: LearningRateConfig, freeze: FreezeConfig,
                 mixture: tuple[MixtureWeight, ...] = ()) -> RunConfig:
    """Write the script of a run that asks for the same from its beginning to its end."""
    return RunConfig((Phase(ONLY_PHASE, length, batch, objective, learning_rate, freeze, mixture),))


def longest_sequence(phases: Iterable[Phase]) -> int:
    """Tokens that the longest row of any phase may have, special tokens included."""
    return max(phase.batch.max_length for phase in phases)


def run_settings(script: RunConfig, kind: type[Settings]) -> Settings:
    """Make settings of the whole run from what a script gives; the rest has its defaults.

    Args:
        script: gives some of them.
        kind: one of `RUN_KINDS`.
    """
    return _made_of(script.run, kind)


def _made_of(run: Mapping[str, Any], kind: type[Settings]) -> Settings:
    return kind(**{name: run[name] for name in typing.get_type_hints(kind) if name in run})


def check_run_settings(run: Mapping[str, Any]) -> None:
    """Refuse settings of the whole run that are not there or out of range.

    Raises:
        ValueError: names the first of them.
    """
    for name in run:
        if name not in RUN_FIELDS:
            raise ValueError(f"found unknown setting {name!r}, {suggestion(name, [*RUN_FIELDS])}")
    for kind in RUN_KINDS:
        _made_of(run, kind)


def merged(under: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Lay values over others; what would outvote a new value goes back to 0."""
    back = {rival: 0 for rivals in _RIVALS for place, name in enumerate(rivals) if name in values
            for rival in rivals[:place] if rival not in values}
    return {**under, **back, **values}


def check_corpora(phases: Iterable[Phase], names: Iterable[str]) -> None:
    """Refuse a mixture that names a corpus that is not there.

    Raises:
        ValueError: names the phase, the corpus and those that there are.
    """
    known = list(names)
    for phase in phases:
        for portion in phase.mixture:
            if portion.corpus not in known:
                raise ValueError(
                    f"phase {phase.name!r}: mixture: found {portion.corpus!r}, "
                    f"{suggestion(portion.corpus, known)}")


def suggestion(found: str, known: Sequence[str]) -> str:
    """Say what may have been meant instead, or all there is."""
    near = difflib.get_close_matches(found, known, 1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"expected {'one of ' if len(known) > 1 else ''}{', '.join(known) or 'none'}"


def first_repeated(names: Iterable[str]) -> str | None:
    """Find the first name that came before."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def resolved(script: RunConfig) -> dict[str, Any]:
    """Lay a script out as plain values, every setting of every phase among them."""
    return {"title": script.title, "source": script.source, "notes": list(script.notes),
            "architecture": script.architecture,
            "run": {name: _plain(value, RUN_FIELDS[name])
                    for name, value in sorted(script.run.items())},
            "phases": [_resolved_phase(phase) for phase in script.phases]}


def _resolved_phase(phase: Phase) -> dict[str, Any]:
    values = {name: _plain(value, PHASE_FIELDS[name]) for name, value in phase.values().items()}
    mixture = {portion.corpus: _resolved_portion(portion) for portion in phase.mixture}
    return {"name": phase.name, **values, **({"mixture": mixture} if mixture else {})}


def _resolved_portion(portion: MixtureWeight) -> dict[str, float]:
    content = {"weight": float(portion.weight)}
    if portion.end_weight is not None:
        content["end"] = float(portion.end_weight)
    if math.isfinite(portion.epochs):
        content["epochs"] = float(portion.epochs)
    return content


def _plain(value: Any, kind: type) -> Any:
    """Write a whole number as a float where it stands for one, so that equal scripts look alike."""
    return float(value) if kind is float else value


def identity(script: RunConfig) -> str:
    """Hash what a script asks for; words about it do not count."""
    content = {name: value for name, value in resolved(script).items()
               if name in ("architecture", "run", "phases")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def to_toml(script: RunConfig) -> str:
    """Write a script as a phases file that reads back equal.

    Every setting is there, so that a later default changes nothing; those that all phases agree
    on stand under [common].
    """
    content = resolved(script)
    phases, run = content.pop("phases"), content.pop("run")
    common = _shared(phases)
    parts = [_toml_lines({key: value for key, value in content.items() if value})]
    if run:
        parts.append(["[run]", *_toml_lines(run)])
    if common:
        parts.append(["[common]", *_toml_lines(common)])
    for phase in phases:
        mixture = phase.pop("mixture", {})
        own = {key: value for key, value in phase.items() if key not in common}
        parts.append(["[[phases]]", *_toml_lines(own)])
        if mixture:
            parts.append(["[phases.mixture]", *_toml_lines(mixture)])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _shared(phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings that several phases have and agree on, rivals only where all of them are."""
    if len(phases) < 2:
        return {}
    same = {key: value for key, value in phases[0].items()
            if key in PHASE_FIELDS and all(phase[key] == value for phase in phases)}
    torn = [rivals for rivals in _RIVALS if not set(rivals) <= same.keys()]
    return {key: value for key, value in same.items() if not any(key in one for one in torn)}


def _toml_lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in values.items()]


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_text(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, list):
        return "[" + "".join(f"\n    {_toml_value(item)}," for item in value) + "\n]"
    if isinstance(value, dict):
        return "{ " + ", ".join(_toml_lines(value)) + " }"
    return f"{value:_}" if isinstance(value, int) else repr(value)


def _toml_text(text: str) -> str:
    """Quote text; JSON's escapes are TOML's, which also wants one for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
