"""A training run from text to a checkpoint, with metrics, states and evaluations."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import PreTrainedModel

from bmtools.data.batches import Batches, Collator, Prefetcher, ScheduledBatches, SpecialTokens
from bmtools.data.masking.strategies import MaskStrategy
from bmtools.data.phase_lengths import resolve_steps
from bmtools.data.sampler import Sampler, StreamPosition
from bmtools.data.samples import cut_evenly, token_counts, whole_documents
from bmtools.data.shards import Corpus
from bmtools.distributed import local_world_size
from bmtools.errors import BmtoolsError, Reject, count_of
from bmtools.io.failures import WriteError
from bmtools.io.system import ENDING_SIGNALS, REPEAT_SECONDS, handling_signals
from bmtools.models.checkpoint import check_room, load_checkpoint
from bmtools.models.hardware import describe_hardware
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.recipes.phases import PhaseStep, Schedule
from bmtools.recipes.settings import ObjectiveConfig, Values
from bmtools.records import JsonObject
from bmtools.status import counted, set_status
from bmtools.training.checkpoints import (
    Checkpointer,
    find_resume_point,
    restore_heads,
    restore_optimizer,
)
from bmtools.training.checks import check_settings
from bmtools.training.datasets import Datasets, open_datasets
from bmtools.training.distributed import (
    decide_by_main_process,
    deterministic_algorithms,
    gather_anew,
    is_sharded,
    join_processes,
    make_accelerator,
    patient_group,
    resolve_auto,
    sum_over_processes,
)
from bmtools.training.layers import freeze, frozen_names
from bmtools.training.loop import Trainer, memory_errors, to_device
from bmtools.training.metrics import DivergedError, Reporter, speed_of
from bmtools.training.microbatch import fit_micro_batches, require_memory
from bmtools.training.model_init import InitialModel, check_fits, padded_lengths, prepare_packing
from bmtools.training.objectives import (
    AdversarialObjective,
    CausalObjective,
    MaskedObjective,
    Objective,
    PhasedObjective,
)
from bmtools.training.plan import (
    EVALUATE,
    MAIN,
    REPLAY,
    RETAIN,
    DataConfig,
    TrainingPlan,
    runs_directory,
    tidied,
)
from bmtools.training.regularization import ReplayedBatches, make_hooks
from bmtools.values import format_duration

HELD_OUT = "held-out"
"""Name of the masked-LM objective for held-out text among a run's objectives."""
BATCH_SIZE = 32
"""Sequences of full length in a pass on held-out text, if memory does not limit them."""
# With fewer tokens, a GPU that computes a few layers waits for the host.
_GPU_TOKENS = 2**16
_EVALUATION_SEED = 0
_DIGITS = 6
StartRun = Callable[..., "Iterator[JsonObject]"]
"""Starts a run with the arguments of `train`, and yields lines."""



def make_objectives(plan: TrainingPlan, model: PreTrainedModel, head: NextSentenceHead | None,
                    _device: torch.device) -> PhasedObjective:
    """Make the objectives of a plan's phases and of held-out text, with a model.

    Args:
        plan: settings of the run.
        model: model to train.
        head: the model's head for sentence pairs; None for a new head if needed.
    """
    terms = {phase.objective.objective: phase.objective.pair_term for phase in plan.config.phases}
    if head is None and any(terms.values()):
        head = NextSentenceHead(model.config.hidden_size, plan.optimization.seed,
                                model.config.initializer_range)
    objectives: dict[str, Objective] = {}
    for name, term in sorted(terms.items()):
        own_head = head if term else None
        if name == "causal":
            objectives[name] = CausalObjective(model)
        elif plan.pretraining.adversarial:
            objectives[name] = AdversarialObjective(model, plan.pretraining, own_head, term)
        else:
            objectives[name] = MaskedObjective(model, own_head, term)
    return PhasedObjective(model, {**objectives, HELD_OUT: MaskedObjective(model)}, head)


def train(plan: TrainingPlan, initial: InitialModel, data: DataConfig,
          reject: Reject) -> Iterator[JsonObject]:
    """Train and write the checkpoint; yield lines of metrics, then one about the checkpoint.

    A session that is requested to stop ends with a line that has the key `stopped`. Lines with the
    key `note` are messages for people. Only the main process yields.

    Args:
        plan: settings of the run.
        initial: the model and its tokenizer.
        data: corpora of the run.
        reject: receives bad records.

    Raises:
        BmtoolsError: a setting does not fit the model, the corpora, the processes or memory,
            another run has the same output, or the loss diverged.
    """
    with plan.step.metered(), \
            prepare_run(plan, initial, data, reject) as run, \
            handled_signals(lambda _number: run.trainer.stop_on_signal()):
        for line in run.lines():
            if run.accelerator.is_main_process:
                yield line


@contextmanager
def handled_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` at the first signal; a later Ctrl-C raises KeyboardInterrupt.

    Other later signals are ignored: `timeout` sends SIGTERM twice, and schedulers send it after
    their warning.
    """
    first_at: float | None = None

    def handle(number: int) -> None:
        nonlocal first_at
        now = time.monotonic()
        if first_at is None:
            first_at = now
            stop(number)
        elif number == signal.SIGINT and now - first_at > REPEAT_SECONDS:
            raise KeyboardInterrupt

    with handling_signals(ENDING_SIGNALS, handle):
        yield


@contextmanager
def prepare_run(plan: TrainingPlan, initial: InitialModel, data: DataConfig, reject: Reject,
                processes: int = 0) -> Iterator[Run]:
    """Prepare a run up to its first step; for arguments and errors see `train`.

    Args:
        processes: number of processes that will share the work; 0 for the current number.
    """
    check_fits(initial, plan.config.phases)
    state = join_processes(plan.optimization)
    plan = replace(plan, config=decide_by_main_process(lambda: plan.config, state))
    plan, notes = resolve_auto(plan, initial.config, state)
    accelerator = make_accelerator(plan.optimization, plan.leaves_weights_unused)
    processes = processes or accelerator.num_processes
    check_settings(plan, data, processes, is_sharded(accelerator))
    with tidied(plan.output, accelerator.is_main_process), memory_errors(), \
            deterministic_algorithms(plan.optimization):
        datasets = open_datasets(plan, data, initial, reject, accelerator)
        yield Run(plan, datasets, initial, accelerator, processes, notes)


class Run:
    """One session of a run.

    Args:
        plan: settings of the run.
        datasets: datasets of the run.
        initial: the model and its tokenizer.
        accelerator: made by `make_accelerator`.
        processes: number of processes that will share the work.
        notes: messages for people about resolved settings.
    """

    def __init__(self, plan: TrainingPlan, datasets: Datasets, initial: InitialModel,
                 accelerator: Accelerator, processes: int, notes: Sequence[str]) -> None:
        self._plan = plan
        self.datasets = datasets
        self._initial = initial
        self.accelerator = accelerator
        self.packed = plan.layout == "packed"
        seed = plan.optimization.seed
        self.schedule = resolve_steps(plan.config.phases, datasets.train, self.packed, seed)
        device = accelerator.device
        identity = plan.identity(
            datasets.contents, initial.vocabulary, self.schedule.steps_per_phase,
            describe_hardware(str(device)).name if device.type == "cuda" else "")
        self._progress, self._state = decide_by_main_process(
            lambda: find_resume_point(plan, identity), accelerator)
        self.notes = (*notes, *self.schedule.unfinished_warmups())
        self._began = plan.began - self._progress.wall_seconds
        plan.step.resume_energy(self._progress.energy)
        self._phase_step = self.schedule.phase_step(self._progress.step)
        self.speed = speed_of(initial.config, self.schedule, datasets.train, plan.optimization,
                              accelerator)
        self.trainer = self._make_trainer()
        set_status("measuring memory")
        self.micro_batch_sizes = fit_micro_batches(plan, self.trainer, self.packed, processes)
        self._frozen_weights: list[nn.Parameter] = []
        self._checkpointer = Checkpointer(
            plan, initial, datasets, self.trainer, self._progress, self.schedule,
            decide_by_main_process(local_world_size, accelerator), patient_group(accelerator))
        self._batches: Batches = self.make_batches(MAIN, self.schedule)
        self._positions: dict[str, StreamPosition] = {}
        if plan.pretraining.replay_steps and REPLAY in datasets.auxiliary:
            self._batches = ReplayedBatches(
                self._batches, plan.pretraining.replay_steps, self.schedule,
                partial(self.make_batches, REPLAY))

    def _make_trainer(self) -> Trainer:
        plan, state = self._plan, self._state
        set_status("preparing the model")
        model = load_checkpoint(state).model if state else self._initial.make()
        if self.packed:
            corpora = self.datasets.train
            prepare_packing(model, self.schedule, corpora, self._collator(corpora),
                            plan.optimization.seed, self.accelerator)
        self._objective = (self._initial.make_objectives or make_objectives)(
            plan, model, self._initial.next_sentence, self.accelerator.device)
        if state:
            restore_heads(state, self._objective)
        trainer = Trainer(
            self._objective, self.schedule.steps, self.schedule.learning_rate, plan.optimization,
            self.accelerator, make_hooks(plan, model, state, self.accelerator))
        if state:
            restore_optimizer(state, self._objective, trainer.optimizer)
            if self.accelerator.scaler and self._progress.scaler:
                self.accelerator.scaler.load_state_dict(self._progress.scaler)
            if plan.pretraining.skip_spikes:
                trainer.recent = [torch.tensor(one, device=self.accelerator.device)
                                  for one in self._progress.recent]
        return trainer

    def _collator(self, corpora: Mapping[str, Corpus]) -> Collator:
        return Collator(list(corpora.values()), SpecialTokens.of(self._initial.tokenizer),
                        self.packed, self._plan.optimization.seed, self.datasets.strategies,
                        padded_lengths(self.schedule, self.accelerator))

    def make_batches(self, role: str, schedule: Schedule) -> ScheduledBatches:
        """Make the batches of the text, or of the text to replay, in micro-batches that fit."""
        corpora = self.datasets.train if role == MAIN else {role: self.datasets.auxiliary[role]}
        sampler = Sampler(corpora, schedule, self.packed, self._plan.optimization.seed,
                          self._progress.position(role))
        return ScheduledBatches(sampler, self._collator(corpora), self.micro_batch_sizes)

    def lines(self) -> Iterator[JsonObject]:
        """Train, report and save; the last line describes the checkpoint of a finished run."""
        reporting, progress = self._plan.reporting, self._progress
        require_memory(self._plan, self.trainer, self.packed, self.speed.device.memory_bytes)
        if self.accelerator.is_main_process:
            check_room(self._plan.output, self._objective.model)
        yield from ({"note": note} for note in self.notes)
        self.enter(self._phase_step)
        yield from self._retained("before")
        if self._plan.scorers and not progress.step:
            yield from self._first_scores()
        progress.wall_seconds = time.monotonic() - self._began
        reporter = Reporter(progress, reporting.logging_steps, self.schedule.steps, self.speed)
        self._set_status()
        deadline = self._plan.began + reporting.budget_seconds()
        try:
            for step in self.trainer.run(self._batches, progress.step):
                self._positions |= {corpus: result.following
                                    for corpus, result in ((MAIN, step), (REPLAY, step.replayed))
                                    if result and result.following}
                progress.wall_seconds = time.monotonic() - self._began
                line = reporter.account(step, self._phase_step)
                self._set_status()
                yield from reporter.skipped()
                if line:
                    yield line
                if self._phase_step.is_last:
                    self.trainer.recent = []  # the next phase may have other losses
                yield from self._save(step.number, reporter)
                if time.monotonic() >= deadline:
                    self.trainer.request_stop()
                if step.stop and step.number < self.schedule.steps:
                    set_status("saving a state")
                    reporter.settle()
                    yield from reporter.skipped()
                    self._checkpointer.save(self._positions)
                    self._checkpointer.settle()
                    yield {"stopped": step.number, "of": self.schedule.steps,
                           "state": str(runs_directory(self._plan.output)),
                           "wall_seconds": round(progress.wall_seconds, 3)}
                    return
                before, self._phase_step = self._phase_step, self.schedule.phase_step(step.number)
                if self._phase_step.phase_number != before.phase_number:
                    self.enter(self._phase_step)
            yield from self._retained("after")
            progress.wall_seconds = time.monotonic() - self._began
            set_status(f"writing {self._plan.output}")
            written = self._checkpointer.finish()
        except (DivergedError, WriteError) as error:
            raise BmtoolsError(f"{error}; {self._checkpointer.way_back()}") from error
        finally:
            with suppress(Exception):
                self._checkpointer.settle()
        yield describe(str(self._plan.output), written) if written else {}

    def _set_status(self) -> None:
        phases, now = self.schedule.phases, self._phase_step
        activity = "training" if len(phases) == 1 else \
            f"training, phase {now.phase_number + 1} of {len(phases)}: {now.phase.name}"
        figures = {name: value for name, value in self.trainer.losses.items()
                   if name == "loss" or name.endswith("accuracy")}
        set_status(activity, self._progress.step, self.schedule.steps, "steps", **figures,
                   tokens=self._progress.tokens_seen)

    def enter(self, phase_step: PhaseStep) -> None:
        """Start a phase with its objective and its frozen weights."""
        self._objective.switch(phase_step.phase.objective.objective)
        for weight in self._frozen_weights:
            weight.requires_grad_(True)
        model = self._objective.model
        self._frozen_weights = freeze(model, frozen_names(model, phase_step.phase.freeze))

    def _save(self, number: int, reporter: Reporter) -> Iterator[JsonObject]:
        """Evaluate after a step, and write checkpoints and states, if they are due."""
        reporting, phase_step, checkpointer = \
            self._plan.reporting, self._phase_step, self._checkpointer
        if checkpointer.has_failed():
            self.trainer.request_stop()  # so that all processes raise the error
        if phase_step.is_last or (reporting.eval_steps and number % reporting.eval_steps == 0):
            found = self._evaluate(EVALUATE)
            if found:
                line = {"step": number, "phase": phase_step.phase.name, "evaluate": found}
                self._progress.metrics.append(line)
                yield line
            if self._plan.scorers:
                yield from checkpointer.score()
        if phase_step.is_last and len(self.schedule.phases) > 1:
            checkpointer.keep(f"phase-{phase_step.phase_number + 1}-{phase_step.phase.name}")
        if reporting.keep_steps and number % reporting.keep_steps == 0:
            checkpointer.keep(f"step-{number:08d}")
        if reporting.save_steps and number % reporting.save_steps == 0 \
                and number != self.schedule.steps:
            reporter.settle()
            checkpointer.save(self._positions)

    def _first_scores(self) -> Iterator[JsonObject]:
        """Score the initial weights, so that unusable files for scoring end the run here."""
        yield from (lines := self._checkpointer.score())
        every, ends = self._plan.reporting.eval_steps, {*accumulate(self.schedule.steps_per_phase)}
        times = len(ends.union(range(every, self.schedule.steps + 1, every) if every else ()))
        seconds = sum(line["seconds"] for line in lines)
        yield {"note": f"scoring took {format_duration(seconds)}; {count_of(times, 'times')} more "
                       f"will take {format_duration(times * seconds)}"}

    def _retained(self, when: str) -> Iterator[JsonObject]:
        """Evaluate on the corpus to retain, before the first step and after the last."""
        if when in self._progress.retained:
            return
        found = self._evaluate(RETAIN)
        if found:
            self._progress.retained[when] = found
            yield {"step": self._progress.step, "retain": when, **found}

    def _evaluate(self, name: str) -> JsonObject | None:
        """Evaluate on an auxiliary corpus, if there is one."""
        if name not in self.datasets.auxiliary:
            return None
        longest = max(phase.batch.max_length for phase in self.schedule.phases)
        self._objective.switch(HELD_OUT)
        found = evaluate(
            self._objective, self.datasets.auxiliary[name],
            SpecialTokens.of(self._initial.tokenizer), self.datasets.strategies["words"], longest,
            self.accelerator, self._evaluated_tokens(longest))
        self._objective.switch(self._phase_step.phase.objective.objective)
        return found

    def _evaluated_tokens(self, longest: int) -> int:
        """Return the tokens of a pass on held-out text, which fit into memory in training."""
        usual = BATCH_SIZE * longest
        if self._plan.optimization.micro_batch_size:
            return usual
        processes = self.accelerator.num_processes
        fitted = [size * phase.batch.max_length if (size := self.micro_batch_sizes[phase.name])
                  else max(usual, phase.batch.batch_size // processes * phase.batch.max_length)
                  for phase in self.schedule.phases]
        return min(*fitted, usual if self.accelerator.device.type == "cpu" else _GPU_TOKENS)


def describe(output: str, manifest: Values) -> JsonObject:
    """Describe a finished checkpoint from its manifest's results."""
    return {"checkpoint": output, **manifest["results"],
            "tokens_seen": manifest["tokens_seen"], "wall_seconds": manifest["wall_seconds"]}


def evaluate(objective: Objective, corpus: Corpus, special_tokens: SpecialTokens,
             strategy: MaskStrategy, max_length: int, accelerator: Accelerator,
             tokens: int) -> JsonObject:
    """Compute the mean loss in nats per masked token, and the accuracy, with a fixed mask.

    Whole words are masked with a fixed seed: 15 percent, 80/10/10. A phase's mask rate is ignored.
    The loss is computed in the precision of the run. Every process takes part and scores every n-th
    batch, while the next one is prepared.

    Args:
        objective: a masked-LM objective.
        corpus: the held-out text.
        special_tokens: special tokens of the vocabulary.
        strategy: masking strategy.
        max_length: maximum length of a sequence, with special tokens.
        accelerator: accelerator of the run.
        tokens: maximum number of tokens in a forward pass, with padding; a longer sequence gets its
            own pass.
    """
    settings = ObjectiveConfig()
    collator = Collator([corpus], special_tokens, False, _EVALUATION_SEED,
                        {settings.masking: strategy})
    batches = sorted_batches(corpus, max_length, tokens)
    rank, world_size = accelerator.process_index, accelerator.num_processes

    def make(turn: int) -> tuple[Mapping[str, Tensor], int]:
        samples = batches[min(turn * world_size + rank, len(batches) - 1)]
        inputs, counts = collator(samples, settings, settings.mask_rate)
        return objective.active.prepare(inputs), counts["masked"]

    # With sharded weights all processes must run the same number of passes; surplus batches are not
    # counted.
    turns = range(-(-len(batches) // world_size))
    prefetcher, masked = Prefetcher(make, 1, len(turns)), 0
    found = [torch.zeros(2, device=accelerator.device)]
    was_training = objective.training
    objective.eval()
    for turn in counted(turns, "evaluating held-out text", len(turns), "batches"):
        inputs, count = prefetcher.get(turn)
        moved = {name: to_device(value, accelerator.device) for name, value in inputs.items()}
        with torch.no_grad(), accelerator.autocast():
            outputs = objective(**moved)
        if turn * world_size + rank < len(batches):
            found.append(torch.stack([outputs[name].float() for name in ("mlm", "mlm_accuracy")]))
            masked += count
    gather_anew(objective)
    objective.train(was_training)
    sums = torch.stack(found).cpu().double().sum(dim=0)
    *totals, number = sum_over_processes(torch.cat([sums, torch.tensor([masked])]), accelerator)
    loss, accuracy = (round(total / max(number, 1), _DIGITS) for total in totals)
    return {"loss": loss, "accuracy": accuracy, "masked": int(number)}


def sorted_batches(corpus: Corpus, max_length: int, tokens: int) -> list[np.ndarray]:
    """Sort the samples of a text by length into batches with limited tokens, padding included."""
    numbers = np.arange(len(corpus))
    samples = cut_evenly(whole_documents(numbers, corpus.lengths, numbers), [corpus], max_length)
    samples = samples[np.argsort(token_counts(samples), kind="stable")]
    lengths, bounds = token_counts(samples), [0]
    while bounds[-1] < len(samples):
        padded = lengths[bounds[-1]:] * np.arange(1, len(samples) - bounds[-1] + 1)
        bounds.append(bounds[-1] + max(1, int(np.searchsorted(padded, tokens, "right"))))
    return np.split(samples, bounds[1:-1])
