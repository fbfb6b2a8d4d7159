"""Plan of a training run: model, data, settings, output and the directories next to it.

This is a light module without torch.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bmtools.data.settings import ShardConfig
from bmtools.errors import BmtoolsError, setting
from bmtools.io.directories import beside, place_of, refuse_existing
from bmtools.io.json_files import read_object
from bmtools.io.provenance.manifest import DirectoryHashes
from bmtools.io.step import Step
from bmtools.io.unfinished import KEPT, RUN, real_path, refuse_unfinished, remove_abandoned
from bmtools.models.sizes import named_size
from bmtools.recipes.phases import Phase, RunConfig, resolved, run_settings
from bmtools.recipes.settings import (
    DistillationConfig,
    FreezeConfig,
    OptimizationConfig,
    PretrainingConfig,
    RegularizationConfig,
    ReportingConfig,
    Values,
)
from bmtools.recipes.toml import load_recipe, override, read_run_config
from bmtools.records import JsonObject

MAIN, REPLAY, EVALUATE, RETAIN = "text", "replay", "evaluate", "retain"
"""Names of the corpus without a given name, and of corpora with a special role."""
LAYOUT = "layout"
"""Name of the layout in a run's identity."""
PRECISION = "precision"
"""Name of the precision in a run's identity."""
Paths = str | Path | Sequence[str | Path]
Scorer = Callable[[Path], Sequence[JsonObject]]
Data = Paths | Mapping[str, Paths]
"""Files of records or directories of shards; corpora of a mixture by name."""
STATE = "state.json"
"""Name of the file in a state that contains the progress of the run."""
STATES = "step-*"
"""Pattern of the names of states, which sort by step."""
DISTILLATION_WARMUP = 0.05
"""Warm-up ratio of distillation, if no phases file sets it."""
CONTINUED_LEARNING_RATE = 1e-4
"""Learning rate for a checkpoint without recipe or phases file; Devlin et al. 2019, section A.2."""
# Settings that may change when a run is resumed: the division of the work, names of files whose
# content is compared instead, and the handling of a spike that ended the previous session.
_FREE = ("micro_batch_size", "memory_gib", "activation_checkpointing", "compile", "device",
         "model", "tokenizer", "teacher", "student", "terms", "skip_spikes")
# Settings of these that change the rounding of sums; in a deterministic run they must not change.
_ROUNDING = ("micro_batch_size", "compile")


@dataclass(frozen=True)
class ModelInit:
    """Initial weights: a checkpoint, or an architecture with new weights.

    Args:
        checkpoint: directory of a masked language model.
        architecture: its name, or the path of a config.json.
        tokenizer: directory of the tokenizer for an architecture; a checkpoint has its own.
        take_layers: layers of the checkpoint to use, see `taken_layers`; empty for all.
    """

    checkpoint: Path | None = None
    architecture: str | None = None
    tokenizer: Path | None = None
    take_layers: str = ""


@dataclass(frozen=True)
class DataConfig:
    """Corpora of a run: files of records, or directories of shards.

    Args:
        train: files of each corpus to train on, by its name.
        auxiliary: files of the corpora named after their use: replay, evaluate and retain.
        lang: default language of records, for sentence splitting.
        segmenter: word segmenter.
        terms: file of words and phrases for masking by terms.
    """

    train: Mapping[str, tuple[str, ...]]
    auxiliary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lang: str = ""
    segmenter: str = ShardConfig.segmenter
    terms: Path | None = None

    def __post_init__(self) -> None:
        for name in self.train:
            if not re.fullmatch(r"[\w-]+", name) or name in (REPLAY, EVALUATE, RETAIN):
                raise ValueError(
                    f"{setting('corpus')}: found the name {name!r}, expected letters, digits, - "
                    f"and _, and not {REPLAY}, {EVALUATE} or {RETAIN}")


@dataclass(frozen=True)
class TrainingPlan:
    """Settings, output and lineage of a run.

    Args:
        command: name of the command, for the manifest.
        output: checkpoint to write.
        config: phases of the run.
        optimization: optimizer, precision and memory.
        reporting: metrics, states and kept checkpoints.
        regularization: regularization towards the initial weights.
        pretraining: replay, perturbation of the embeddings and new weights.
        distillation: losses of a student; None for pretraining.
        extra: further settings of the command, by name.
        parents: hash of each checkpoint that the run starts from, by role.
        resume: continue from the newest state, if there is one.
        overwrite: replace an existing checkpoint or unfinished run.
        began: start of this session on the monotonic clock, in seconds.
        step: the command; its energy is recorded as the run's energy.
        scorers: return the scores of a checkpoint from its directory; the first line is used.
    """

    command: str
    output: Path
    config: RunConfig
    optimization: OptimizationConfig
    reporting: ReportingConfig
    regularization: RegularizationConfig = field(default_factory=RegularizationConfig)
    pretraining: PretrainingConfig = field(default_factory=PretrainingConfig)
    distillation: DistillationConfig | None = None
    extra: Values = field(default_factory=dict)
    parents: Mapping[str, str] = field(default_factory=dict)
    resume: bool = False
    overwrite: bool = False
    began: float = field(default_factory=time.monotonic)
    step: Step = field(default_factory=Step)
    scorers: Sequence[Scorer] = ()

    @property
    def layout(self) -> str:
        """Layout of sequences, which is the same in all phases: packed, padded or auto."""
        return self.config.phases[0].batch.layout

    @property
    def leaves_weights_unused(self) -> bool:
        """Whether some weights have no gradient in some steps, which data parallelism must know."""
        phases = self.config.phases
        return len({phase.objective.objective for phase in phases}) > 1 \
            or any(phase.freeze != FreezeConfig() for phase in phases) \
            or (self.distillation is not None and not self.distillation.trains_every_weight)

    def resolved(self, layout: Any, precision: Any) -> TrainingPlan:
        """Return a plan with this layout and precision, also in the saved phases."""
        phases = tuple(replace(phase, batch=replace(phase.batch, layout=layout))
                       for phase in self.config.phases)
        return replace(
            self, optimization=replace(self.optimization, precision=precision),
            config=replace(self.config, phases=phases,
                           run={**self.config.run, PRECISION: precision}))

    def check_targets(self) -> None:
        """Raise an error early if a checkpoint or an unfinished run would be overwritten."""
        refuse_existing(self.output, self.overwrite)
        refuse_unfinished(runs_directory(self.output), self.resume, self.overwrite)

    def settings(self) -> JsonObject:
        """Return every resolved setting, for the manifest."""
        return {"phases": resolved(self.config)["phases"], **asdict(self.optimization),
                **asdict(self.regularization), **asdict(self.pretraining),
                **(asdict(self.distillation) if self.distillation else {}), **self.extra,
                **asdict(self.reporting)}

    def identity(self, contents: Mapping[str, Iterable[str]], vocabulary: str,
                 steps: Sequence[int], gpu: str = "") -> JsonObject:
        """Return settings and inputs that must not change when the run is resumed.

        Args:
            contents: hashes of each corpus's inputs, by its name.
            vocabulary: fingerprint of the tokenizer.
            steps: number of steps of each phase, for any unit of its length.
            gpu: kind of the GPU, which a deterministic run must keep; empty without a GPU.
        """
        run = self.settings()
        phases = run.pop("phases")
        names = [phase.pop("name") for phase in phases]
        for phase in phases:
            phase.pop(LAYOUT)
        # A single phase is not named: `learning_rate` instead of `decay: learning_rate`.
        settings = {name if len(phases) == 1 else f"{phase_name}: {name}": value
                    for phase_name, phase in zip(names, phases, strict=True)
                    for name, value in phase.items()}
        if self.optimization.deterministic:
            run |= {"GPU": gpu} if gpu else {}
        settings |= {name: value for name, value in lasting(run).items()
                     if name not in asdict(self.reporting)}
        return {"phases": names, **settings, LAYOUT: self.layout, "resolved steps": [*steps],
                "vocabulary": vocabulary,
                **{f"inputs of {name}": sorted(hashes) for name, hashes in contents.items()},
                **{f"content of the {role}": digest for role, digest in self.parents.items()}}


def lasting(settings: JsonObject) -> JsonObject:
    """Return the settings of a run that must not change when it is resumed."""
    free = {*_FREE} - ({*_ROUNDING} if settings["deterministic"] else set())
    return {name: value for name, value in settings.items() if name not in free}


def make_data_config(data: Data, settings: Values) -> tuple[DataConfig, JsonObject]:
    """Separate the corpora of a run from its settings, for calls from Python.

    Args:
        data: paths to train on, or paths by name.
        settings: settings of the run; `replay`, `evaluate`, `retain`, `lang`, `segmenter` and
            `terms` belong to the data.

    Returns:
        the corpora, and the other settings.
    """

    def as_strings(corpora: Mapping[str, Paths]) -> dict[str, tuple[str, ...]]:
        return {name: (str(paths),) if isinstance(paths, str | Path) else tuple(map(str, paths))
                for name, paths in corpora.items()}

    others = dict(settings)
    given = {name: others.pop(name) for name in ("lang", "segmenter", "terms") if name in others}
    if given.get("terms"):
        given["terms"] = Path(given["terms"])
    auxiliary = {name: others.pop(name) for name in (REPLAY, EVALUATE, RETAIN) if name in others}
    return DataConfig(as_strings(data if isinstance(data, Mapping) else {MAIN: data}),
                      as_strings(auxiliary), **given), others


def make_run_config(recipe: str | None = None, phases: str | Path | None = None,
                    settings: Values | None = None, changes: Sequence[str] = (),
                    **defaults: Any) -> RunConfig:
    """Make phases from a recipe, a phases file or defaults, and settings that override them.

    Args:
        recipe: name of a recipe in the package.
        phases: path of a phases file, or `-` for stdin.
        settings: settings of all phases or of the run, by name.
        changes: `KEY=VALUE` or `PHASE.KEY=VALUE`; they override `settings`.
        defaults: defaults of settings that the recipe or file does not set.

    Raises:
        ValueError: there are both a recipe and phases, or a setting is unknown or out of range.
        DataError: the phases file cannot be read.
    """
    if recipe and phases:
        raise ValueError(f"expected one of {setting('recipe')} and {setting('phases')}")
    if recipe:
        config = load_recipe(recipe)
    elif phases:
        config = read_run_config(str(phases))
    else:
        config = override(RunConfig((Phase("main"),)), defaults)
    return override(config, settings or {}, changes)


def continued_defaults(checkpoint: object, output: Path, resume: bool) -> JsonObject:
    """Return the defaults of a run on a checkpoint; a resumed run keeps its learning rate."""
    recorded = recorded_identity(output) if resume else {}
    rate = recorded.get("learning_rate") or CONTINUED_LEARNING_RATE
    return {"learning_rate": rate} if checkpoint else {}


def make_init(checkpoint: str | Path | None, architecture: str | None,
              tokenizer: str | Path | None, take_layers: str = "") -> ModelInit:
    """Make initial weights from settings; empty settings count as missing."""
    return ModelInit(Path(checkpoint) if checkpoint else None, architecture or None,
                     Path(tokenizer) if tokenizer else None, take_layers)


def make_plan(output: Path, config: RunConfig, model: ModelInit, data: DataConfig,
              resume: bool = False, overwrite: bool = False, teacher: Path | None = None,
              step: Step | None = None) -> TrainingPlan:
    """Plan a run of `pretrain` or, if there is a teacher, of `distill`.

    Args:
        output: checkpoint to write.
        config: phases and settings of the run.
        model: initial weights.
        data: corpora of the run.
        resume: continue from the newest state.
        overwrite: replace an existing checkpoint or unfinished run.
        teacher: checkpoint to learn from.
        step: the command.

    Raises:
        ValueError: there is not exactly one of checkpoint and architecture, one of two settings
            that belong together is missing, or phases cannot be distilled.
    """
    role = "student" if teacher else "model"
    if (model.checkpoint is None) == (model.architecture is None):
        raise ValueError(f"expected one of {setting(role)} and {setting('architecture')}"
                         + (f", or {setting('take_layers')}" if teacher else
                            ": a model to continue, or the size of a new one"))
    # By default, a student's tokenizer is its teacher's tokenizer.
    if (model.architecture is None) != (model.tokenizer is None) \
            and (model.tokenizer or not teacher):
        raise ValueError(f"{setting('architecture')} and {setting('tokenizer')} go together")
    if model.architecture and not Path(model.architecture).exists():
        named_size(model.architecture)  # raises for a wrong name before anything is loaded
    pretraining = run_settings(config.run, PretrainingConfig)
    if bool(pretraining.replay_steps) != (REPLAY in data.auxiliary):
        raise ValueError(f"{setting('replay')} and {setting('replay_steps')} go together")
    own: JsonObject = {role: model.checkpoint and str(model.checkpoint),
                       "architecture": model.architecture,
                       "tokenizer": model.tokenizer and str(model.tokenizer)}
    parents, distillation = {role: model.checkpoint}, None
    if teacher:
        if any(phase.objective.objective != "masked" for phase in config.phases):
            raise ValueError(f"{setting('objective')}: distillation supports only masked")
        if pretraining.adversarial:
            raise ValueError(f"{setting('adversarial')}: distillation does not support it")
        own = {"teacher": str(teacher), **own, "take_layers": model.take_layers}
        parents = {"teacher": teacher, **parents}
        distillation = run_settings(config.run, DistillationConfig)
        config = replace(config, run={**config.run, **asdict(distillation)})
    return TrainingPlan(
        "distill" if teacher else "pretrain", output, config,
        run_settings(config.run, OptimizationConfig), run_settings(config.run, ReportingConfig),
        run_settings(config.run, RegularizationConfig), pretraining, distillation,
        {**own, "terms": data.terms and str(data.terms)},
        DirectoryHashes({role: path for role, path in parents.items() if path}), resume, overwrite,
        step=step or Step())


def runs_directory(output: Path) -> Path:
    """Return the directory of an unfinished run's states and encoded text."""
    return beside(output, RUN)


def kept_directory(output: Path) -> Path:
    """Return the directory of kept checkpoints, at the ends of phases and every `keep_steps`."""
    return beside(output, KEPT)


def last_kept(output: Path, number: int) -> list[Path]:
    """List the last checkpoints that a run kept because of `keep_steps`, in order.

    Raises:
        BmtoolsError: there are fewer checkpoints.
    """
    found = sorted(kept_directory(output).glob(STATES))
    if len(found) < number:
        raise BmtoolsError(f"{kept_directory(output)}: found {len(found)} checkpoints of steps, "
                           f"expected {number} or more; keep them with {setting('keep_steps')}")
    return found[-number:]


def newest_state(output: Path) -> Path | None:
    """Return the newest state of a run; states appear only once they are complete."""
    return max(runs_directory(output).glob(STATES), default=None)


def recorded_identity(output: Path) -> JsonObject:
    """Read the identity of an unfinished run; empty without one.

    Only one of several processes calls this, before it clears directories, and sends the result to
    the others.
    """
    state = newest_state(output)
    identity = read_object(state / STATE).get("identity") if state else None
    return identity if isinstance(identity, dict) else {}


@contextmanager
def tidied(output: Path, clears: bool) -> Iterator[None]:
    """Remove incomplete files of a killed session, and a useless directory after an error.

    A run's directory is kept if it contains a state or text that took long to encode.

    Args:
        output: checkpoint of the run.
        clears: whether this process removes anything; true in one process.
    """
    if not clears:
        yield
        return
    _clear_abandoned(output)
    try:
        yield
    except BaseException:
        _clear_abandoned(output)
        directory = runs_directory(output)
        # Encoding text beyond a first shard takes minutes.
        useful = (STATES, "text-*/shard-00001*", "text-*.run/shard-00000*")
        if not any(next(directory.glob(pattern), None) for pattern in useful):
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _clear_abandoned(output: Path) -> None:
    """Remove incomplete files and directories of a killed run."""
    target = real_path(output)
    remove_abandoned(place_of(target), target)
    for directory in (runs_directory(output), kept_directory(output)):
        remove_abandoned(directory)
