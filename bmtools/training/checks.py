"""Checks of a run from its settings and the names and headers of files; importing is cheap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bmtools.data.settings import ShardConfig
from bmtools.distributed import shard_processes
from bmtools.errors import BmtoolsError, CheckpointError, setting, suggestion
from bmtools.installation import unmet_requirements
from bmtools.io.provenance.licence_check import check_licences, known_licences
from bmtools.io.provenance.manifest import directories
from bmtools.models.checkpoint_files import check_masked_lm, check_tokenizer, describe_directory
from bmtools.models.device import missing_for_cuda
from bmtools.models.families import positions, require_length
from bmtools.models.model_files import CONFIG, read_config, weight_bytes
from bmtools.models.sizes import STATE_COPIES, named_size
from bmtools.models.transfer.take_layers import taken_layers
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.plan import REPLAY, DataConfig, ModelInit, TrainingPlan

GIB = 2**30
_PAIRED = ("bert", "megatron-bert")


@dataclass(frozen=True)
class ModelFacts:
    """Facts about a model that its files or its architecture's name tell.

    Args:
        positions: tokens that it reads; None where they are not known, or made to fit.
        layers: of the encoder; None where they are not known.
        has_token_types: whether it tells two segments apart; None where that is not known.
        weight_bytes: of its weights in float32, at least.
    """

    positions: int | None = None
    layers: int | None = None
    has_token_types: bool | None = None
    weight_bytes: int = 0


def check_run(plan: TrainingPlan, model: ModelInit, data: DataConfig, processes: int = 1,
              sharded: bool = False, teacher: Path | None = None) -> None:
    """Refuse what cannot work before torch is imported; loading and training check more.

    Args:
        plan: settings of the run.
        model: initial weights.
        data: corpora of the run.
        processes: that share the work.
        sharded: whether they share weights too.
        teacher: checkpoint to learn from.

    Raises:
        CheckpointError: a checkpoint, tokenizer or corpus whose files cannot be used.
        BmtoolsError: settings that do not fit each other, the model or this machine, or torch,
            transformers or Accelerate are too old.
    """
    if unmet := unmet_requirements("torch", "transformers", "accelerate"):
        raise BmtoolsError("; ".join(unmet))
    check_settings(plan, data, processes, sharded)
    for files in (*data.train.values(), *data.auxiliary.values()):
        check_corpus_files(files)
    check_licences({**parent_licences(plan), **{
        file: known_licences(file) for name, files in {**data.auxiliary, **data.train}.items()
        if name in (REPLAY, *data.train) for file in files}})
    if data.segmenter != ShardConfig.segmenter:
        from bmtools.vocab.segmenters import load_segmenter

        load_segmenter(data.segmenter)
    if missing_for_cuda():
        plan.optimization.require_device("cpu")
    facts = read_facts(model)
    if teacher is not None:
        check_masked_lm(teacher)
        check_shared_length(plan.config.phases, facts.positions, positions(read_config(teacher)))
    check_facts(plan.config.phases, facts)
    require_memory(plan.optimization, STATE_COPIES * facts.weight_bytes, processes, sharded)


def read_facts(model: ModelInit) -> ModelFacts:
    """Read what a run's initial weights will be like.

    Raises:
        CheckpointError: no whole checkpoint or tokenizer.
        BmtoolsError: no such architecture.
    """
    if model.tokenizer is not None:
        check_tokenizer(model.tokenizer)
    if model.checkpoint is not None:
        check_masked_lm(model.checkpoint)
        facts = _facts_of(read_config(model.checkpoint), weight_bytes(model.checkpoint))
        if model.take_layers and facts.layers is not None:
            layers = len(taken_layers(model.take_layers, facts.layers))
            facts = replace(facts, layers=layers, weight_bytes=0)  # measured once they are taken
        return facts
    path = Path(model.architecture or "")
    if not path.exists():
        family, size = named_size(model.architecture or "")
        width = size.hidden_size
        inner = size.intermediate_size or width
        return ModelFacts(None, size.num_hidden_layers, family in _PAIRED,
                          4 * size.num_hidden_layers * (4 * width**2 + 2 * width * inner))
    file = path / CONFIG if path.is_dir() else path
    try:
        return _facts_of(read_config(file.parent, file.name))
    except (CheckpointError, OSError):
        return ModelFacts()  # transformers says what is wrong


def _facts_of(config: Mapping[str, object], size: int = 0) -> ModelFacts:
    layers, types = config.get("num_hidden_layers"), config.get("type_vocab_size")
    return ModelFacts(positions(config), layers if isinstance(layers, int) else None,
                      types > 1 if isinstance(types, int) else None, size)


def parent_licences(plan: TrainingPlan) -> dict[str, list[str]]:
    """Return the licences of the checkpoints that a run starts from, by their paths."""
    return {str(path): known_licences(path) for path in directories(plan.parents).values()}


def check_settings(plan: TrainingPlan, data: DataConfig, processes: int, sharded: bool) -> None:
    """Refuse settings that do not go together.

    Raises:
        BmtoolsError: a mixture names a missing corpus, phases differ in their layout, a batch
            cannot be divided among the processes, terms are missing, or a setting does not go
            with sharded weights or with a deterministic run.
    """
    known = list(data.train)
    layouts = {phase.batch.layout for phase in plan.config.phases}
    if len(layouts) > 1:
        raise BmtoolsError(f"{setting('layout')}: found {' and '.join(sorted(layouts))}, expected "
                           "one for all phases")
    for phase in plan.config.phases:
        for one in phase.mixture:
            if one.corpus not in known:
                raise BmtoolsError(f"phase {phase.name!r}: mixture: found {one.corpus!r}, "
                                   f"{suggestion(one.corpus, known)}; {setting('corpus')} "
                                   "NAME=PATH gives a text its name")
        if (size := phase.batch.batch_size) % processes:
            raise BmtoolsError(f"phase {phase.name!r}: {setting('batch_size')}: found {size}, "
                               f"expected a multiple of the {processes} processes that share it")
        if phase.objective.masking == "terms" and data.terms is None:
            raise BmtoolsError(f"{setting('masking')} terms: found no terms, expected "
                               f"{setting('terms')} as well")
    if plan.optimization.deterministic and plan.optimization.memory_gib \
            and not plan.optimization.micro_batch_size:
        raise BmtoolsError(f"{setting('deterministic')}: {setting('memory_gib')} chooses the "
                           "micro-batch by the memory that is free, which may change; expected "
                           f"{setting('micro_batch_size')} as well")
    # Settings that need whole matrices, or were never tried on parts of them.
    settings = plan.settings()
    for name, works in (("mixout", [0]), ("l2_sp", [0]), ("adversarial", [0]),
                        ("optimizer", ["adamw"]), ("compile", [False]),
                        ("mixed_precision", ["auto", "no", "bf16"])):
        if sharded and settings[name] not in works:
            raise BmtoolsError(f"{setting(name)}: found {settings[name]}, which does not go with "
                               f"sharded weights; leave {setting('shard')} out")


def check_corpus_files(files: Iterable[str]) -> None:
    """Refuse directories without shards, and shards beside records.

    Raises:
        CheckpointError: names the directory or file.
    """
    paths = [Path(file) for file in files]
    if not any(path.is_dir() for path in paths):
        return
    from bmtools.data.shards import is_shards

    shards = [is_shards(path) for path in paths]
    for path, has_shards in zip(paths, shards, strict=True):
        if any(shards) and not has_shards:
            raise CheckpointError(f"{path}: found it beside a directory of shards, expected "
                                  "shards alone or records alone; bmtools tokenize makes shards "
                                  "of records")
        if path.is_dir() and not has_shards:
            raise CheckpointError(f"{path}: found a directory without shards, expected files of "
                                  "records or the output of bmtools tokenize"
                                  f"{describe_directory(path)}")


def check_facts(phases: Iterable[Phase], facts: ModelFacts) -> None:
    """Refuse phases that a model cannot be trained on, as far as its files tell.

    Raises:
        BmtoolsError: sequences longer than its positions, more layers to freeze than it has, or
            sentence pairs without token types.
    """
    for phase in phases:
        require_length(phase.batch.max_length, facts.positions, "the model")
        if facts.layers is not None:
            phase.freeze.require_layers(facts.layers)
        if phase.objective.pair_term and facts.has_token_types is False:
            refuse_pairs(phase, "the model")


def refuse_pairs(phase: Phase, model: str) -> None:
    """Refuse sentence pairs for a model without token types.

    Raises:
        BmtoolsError: names the model, and families that have them.
    """
    raise BmtoolsError(f"{setting('objective')} {phase.objective.objective}: {model} has no token "
                       "types; expected BERT or Megatron-BERT")


def check_shared_length(phases: Iterable[Phase], student: int | None,
                        teacher: int | None) -> None:
    """Refuse sequences longer than the positions of student or teacher, where they are known.

    Raises:
        BmtoolsError: names the longest, and the positions that both have.
    """
    shared = min(math.inf if one is None else one for one in (student, teacher))
    longest = max(phase.batch.max_length for phase in phases)
    if longest > shared:
        raise BmtoolsError(f"{setting('max_length')}: found {longest}, but student and teacher "
                           f"share {shared} positions")


def require_memory(settings: OptimizationConfig, needed: int, processes: int,
                   sharded: bool) -> None:
    """Raise an error for a memory limit that the model alone exceeds.

    Args:
        settings: with the limit.
        needed: bytes of weights, gradients and optimizer states, or fewer if they are not known.
        processes: that share a batch.
        sharded: whether they share weights too.

    Raises:
        BmtoolsError: they do not fit.
    """
    if sharded:
        needed //= shard_processes(processes)
    if not settings.micro_batch_size and 0 < settings.memory_gib * GIB < needed:
        raise BmtoolsError(
            f"{setting('memory_gib')}: found {settings.memory_gib:g}, but weights, gradients and "
            f"optimizer states alone take {in_gib(needed)}; give more or take a smaller model")


def in_gib(size: int) -> str:
    """Write bytes in GiB, rounded up to a hundredth."""
    return f"{math.ceil(size / GIB * 100) / 100:g}"
