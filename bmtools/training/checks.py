"""Checks of a run's settings and of the names and headers of files; a light module."""

from __future__ import annotations

from pathlib import Path

from bmtools.data.settings import ShardConfig
from bmtools.data.shards import is_shards
from bmtools.errors import BmtoolsError, CheckpointError, setting, suggestion
from bmtools.installation import require_versions
from bmtools.io.provenance.licence_check import check_licences, known_licences
from bmtools.io.provenance.manifest import directories
from bmtools.models.checkpoint_files import check_masked_lm, check_tokenizer, describe_directory
from bmtools.models.device import missing_for_cuda
from bmtools.models.families import positions, require_length
from bmtools.models.model_files import read_config
from bmtools.training.plan import REPLAY, DataConfig, ModelInit, TrainingPlan


def check_run(plan: TrainingPlan, model: ModelInit, data: DataConfig, processes: int = 1,
              sharded: bool = False, teacher: Path | None = None) -> None:
    """Reject invalid settings and files before torch is imported; loading and training check more.

    Args:
        plan: settings of the run.
        model: initial weights.
        data: corpora of the run.
        processes: number of processes that share the work.
        sharded: whether they also share weights.
        teacher: checkpoint to learn from.

    Raises:
        CheckpointError: the files of a checkpoint, tokenizer or corpus cannot be used.
            BmtoolsError: settings do not fit each other, the model or this machine, or torch,
            transformers or Accelerate are too old.
    """
    require_versions()
    check_settings(plan, data, processes, sharded)
    for files in (*data.train.values(), *data.auxiliary.values()):
        check_corpus_files([*map(Path, files)])
    check_licences({**parent_licences(plan), **{
        file: known_licences(file) for name, files in {**data.auxiliary, **data.train}.items()
        if name in (REPLAY, *data.train) for file in files}})
    if data.segmenter != ShardConfig.segmenter:
        from bmtools.vocab.segmenters import load_segmenter

        load_segmenter(data.segmenter)
    if missing_for_cuda():
        plan.optimization.require_device("cpu")
    for checkpoint in filter(None, (teacher, model.checkpoint)):
        check_masked_lm(checkpoint)
        name = "the teacher" if checkpoint == teacher else "the model"
        longest = max(phase.batch.max_length for phase in plan.config.phases)
        require_length(longest, positions(read_config(checkpoint)), name)
    if model.checkpoint and not model.take_layers:
        layers = read_config(model.checkpoint).get("num_hidden_layers")
        for phase in plan.config.phases:
            if isinstance(layers, int):
                phase.freeze.require_layers(layers)
    if model.tokenizer is not None:
        check_tokenizer(model.tokenizer)


def check_corpus_files(paths: list[Path]) -> bool:
    """Return whether paths are shards; reject a mixture, and directories without shards.

    Raises:
        CheckpointError: a path is rejected; the message names it.
    """
    has_shards = any(map(is_shards, paths))
    for path in paths:
        if has_shards and not is_shards(path):
            raise CheckpointError(f"{path}: found records together with shards, expected only "
                                  "one kind; convert records with bmtools tokenize")
        if path.is_dir() and not has_shards:
            raise CheckpointError(f"{path}: found a directory without shards, expected files of "
                                  "records or the output of bmtools tokenize"
                                  f"{describe_directory(path)}")
    return has_shards


def parent_licences(plan: TrainingPlan) -> dict[str, list[str]]:
    """Return the licences of the checkpoints that a run starts from, by their paths."""
    return {str(path): known_licences(path) for path in directories(plan.parents).values()}


def check_settings(plan: TrainingPlan, data: DataConfig, processes: int, sharded: bool) -> None:
    """Reject settings that do not fit together.

    Raises:
        BmtoolsError: a mixture names a missing corpus, phases differ in their layout, a batch
            cannot be divided among the processes, terms are missing, or a setting does not work
            with sharded weights or in a deterministic run.
    """
    known = list(data.train)
    layouts = {phase.batch.layout for phase in plan.config.phases}
    if len(layouts) > 1:
        raise BmtoolsError(f"{setting('layout')}: found {' and '.join(sorted(layouts))}, expected "
                           "one for all phases")
    for phase in plan.config.phases:
        for corpus in phase.mixture:
            if corpus not in known:
                raise BmtoolsError(f"phase {phase.name!r}: mixture: found {corpus!r}, "
                                   f"{suggestion(corpus, known)}; name a text with "
                                   f"{setting('corpus')} NAME=PATH")
        if (size := phase.batch.batch_size) % processes:
            raise BmtoolsError(f"phase {phase.name!r}: {setting('batch_size')}: found {size}, "
                               f"expected a multiple of the {processes} processes that share it")
        if phase.objective.masking == "terms" and data.terms is None:
            raise BmtoolsError(f"{setting('masking', 'terms')}: found no terms, expected "
                               f"{setting('terms')} as well")
    if plan.optimization.deterministic and plan.optimization.memory_gib \
            and not plan.optimization.micro_batch_size:
        raise BmtoolsError(f"{setting('deterministic')}: {setting('memory_gib')} chooses the "
                           "micro-batch by the free memory, which may change; expected "
                           f"{setting('micro_batch_size')} as well")
    settings = plan.settings()
    for name, whole in (("mixout", "initial weights"), ("l2_sp", "initial weights"),
                        ("adversarial", "embeddings")):
        if sharded and settings[name]:
            raise BmtoolsError(f"{setting(name)}: found {settings[name]}, which needs complete "
                               f"{whole} and does not work with sharded weights; leave "
                               f"{setting('shard')} out")
