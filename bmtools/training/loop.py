"""Training loop of pretraining, distillation and fine-tuning."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from bmtools.data.batches import Batches, Prefetcher, RankBatch
from bmtools.errors import BmtoolsError, setting
from bmtools.models.memory import HeapTrimmer
from bmtools.models.packed import prepare_for_cpu
from bmtools.models.precision import HALF_PRECISIONS
from bmtools.training.distributed import is_sharded, shard, share_after
from bmtools.training.layers import encoder_layers
from bmtools.training.metrics import DivergedError, Figures, StepResult
from bmtools.training.optimizers import make_optimizer, parameter_groups
from bmtools.training.working_weights import WorkingWeights

if TYPE_CHECKING:
    from bmtools.recipes.settings import OptimizationConfig
    from bmtools.training.objectives import Objective

_logger = logging.getLogger(__name__)
# Maximum number of versions of compiled code.
_VERSIONS = 64
# 2**64 divided by the golden ratio, an odd number: separates the passes of different seeds.
_SPREAD = 0x9E37_79B9_7F4A_7C15
# Number of recent steps that a spike is compared with, and their minimum number.
_RECENT = 128
_LEAST_RECENT = 64
_Counts = tuple[list[dict[str, int]], Tensor]
"""Counts of each part of a batch by name, and the same counts in one tensor, (counts,) float64."""


@dataclass(frozen=True)
class LoopHooks:
    """Additions of a run to the plain loop.

    Args:
        lr_scales: factor of the learning rate by weight name; default: 1.
        adjust_gradients: called with the loss scale once gradients are complete, before clipping.
        around_passes: context manager around the forward and backward passes, by step number.
        skip_spikes: number of deviations above the mean from which an update is skipped; 0 for
            never.
    """

    lr_scales: Mapping[str, float] = field(default_factory=dict)
    adjust_gradients: Callable[[float], None] | None = None
    around_passes: Callable[[int], AbstractContextManager[None]] | None = None
    skip_spikes: float = 0.0


class Trainer:
    """An objective and its optimizer, trained by one or several processes.

    Args:
        objective: moved to the accelerator's device; wrapped for data parallelism, or sharded.
        steps: total number of updates.
        learning_rate: returns the learning rate of a step, numbered from 0.
        settings: settings of the optimizer and of memory.
        accelerator: made by `make_accelerator`.
        hooks: additions of the run.

    Attributes:
        losses: losses of the last step whose results were read.
        recent: loss and gradient norm of the last steps, (2,) each, if spikes are skipped.
    """

    def __init__(self, objective: Objective, steps: int, learning_rate: Callable[[int], float],
                 settings: OptimizationConfig, accelerator: Accelerator,
                 hooks: LoopHooks | None = None) -> None:
        self.settings = settings
        self.steps = steps
        self.learning_rate = learning_rate
        self.accelerator = accelerator
        self.objective = objective
        self._hooks = hooks or LoopHooks()
        self._stop = self._agreed_to_stop = False
        self._counted: _Counts | None = None
        self.losses: dict[str, float] = {}
        self.recent: list[Tensor] = []
        self._heap_trimmer = HeapTrimmer()
        self._sharded = is_sharded(accelerator)
        model = objective.model
        set_dropout(model, settings.dropout)
        if accelerator.device.type == "cpu":
            prepare_for_cpu(model)
        if settings.activation_checkpointing:
            # Older versions of transformers have only the second name.
            enable = getattr(model, "activation_checkpointing_enable", None) \
                or model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        self._module: Any = objective
        self.optimizer: AcceleratedOptimizer
        if self._sharded:
            shard(objective, accelerator)
        optimizer = make_optimizer(
            settings.optimizer,
            parameter_groups(objective, settings.weight_decay, self._hooks.lr_scales),
            learning_rate(0), (settings.adam_beta1, settings.adam_beta2),
            settings.adam_epsilon)
        if self._sharded:
            self.optimizer = accelerator.prepare_optimizer(optimizer)
        else:
            self._module, self.optimizer = accelerator.prepare(objective, optimizer)
        dtype = HALF_PRECISIONS.get(accelerator.mixed_precision)
        self._working = WorkingWeights(objective, dtype) if dtype and not self._sharded else None
        # Pad if memory is allocated by shape or code is compiled for shapes.
        self._pads = settings.compile or accelerator.device.type == "cuda"
        if settings.compile:
            compile_layers(model)
        # Then the host need not check that all values are finite before it starts the update.
        self._skips_on_device = accelerator.device.type == "cuda" \
            and settings.optimizer == "adamw" and accelerator.scaler is None

    def run(self, batches: Batches, first: int = 0) -> Generator[StepResult, None, None]:
        """Train from step `first`, counted from 0, and yield after each update.

        A thread makes the next batch during training on the current one. A GPU receives a step
        before the results of the previous step are read, so that it never waits for the host.
        """
        rank, world_size = self.accelerator.process_index, self.accelerator.num_processes

        def prepared(batch: RankBatch) -> RankBatch:
            """Add other inputs of passes to a batch, and pin them for a transfer without a wait."""
            inputs = [self.objective.active.prepare(one, self._pads)
                      for one in batch.micro_batches]
            if self.accelerator.device.type == "cuda":
                inputs = [{name: value.pin_memory() for name, value in one.items()}
                          for one in inputs]
            return replace(batch, micro_batches=inputs,
                           replayed=batch.replayed and prepared(batch.replayed))

        prefetcher = Prefetcher(
            lambda number: prepared(batches.batch(number, rank, world_size)), 1, self.steps)
        before = self._counted = None
        for number in range(first, self.steps):
            following = partial(prefetcher.get, number + 1) if number + 1 < self.steps else None
            step = self.step(number, prefetcher.get(number), following)
            if before:
                before.figures()
            yield step
            before = step
        if before:
            before.figures()

    def step(self, number: int, batch: RankBatch,
             following: Callable[[], RankBatch] | None = None) -> StepResult:
        """Update once.

        Args:
            number: number of the step, from 0.
            batch: this process's part of the batch.
            following: makes this process's part of the next batch, if any, so that its counts are
                summed together with the losses of this one.

        Raises:
            DivergedError: the loss or a gradient is not finite; the weights stay unchanged. On a
                GPU, reading the results raises it. BmtoolsError: out of memory.
        """
        self._module.train()
        learning_rate = self.learning_rate(number)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group.get("lr_scale", 1.0)
        batches = batch.parts
        counts, totals = self._counted or self._sum_counts(batch)
        with memory_errors(f"step {number + 1}: "):
            sums = self._accumulate_gradients(number, batches, counts, totals)
        if self._hooks.adjust_gradients:
            scaler = self.accelerator.scaler
            self._hooks.adjust_gradients(scaler.get_scale() if scaler else 1.0)
        norm: Any = self.accelerator.clip_grad_norm_(self._module.parameters(),
                                                     self.settings.max_grad_norm)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        coming, own = _own_counts(following()) \
            if following and self.accelerator.num_processes > 1 else ([], torch.zeros(0))
        computed = self._reduced([*sums, to_device(own, sums[0].device)], norm)
        self._counted = (coming, computed[-1 - len(own):-1]) if coming else None
        spike = self._is_spike(computed, counts[0], totals)
        computed = torch.cat([computed, spike.to(computed).reshape(1)])
        read = self._figures(number, computed, counts, coming)
        results = [
            StepResult(number + 1, partial(lambda part: read()[part], part), learning_rate,
                       counts[part], self._agreed_to_stop, one.following)
            for part, one in enumerate(batches)]
        if self._skips_on_device:
            finite = torch.isfinite(computed).all()
            self.optimizer.optimizer.found_inf = (finite.logical_not() | spike).float()
        else:
            read()
            results = [replace(one, stop=self._agreed_to_stop) for one in results]
        if self._skips_on_device or not spike:
            self.optimizer.step()
        elif self.accelerator.scaler:
            self.accelerator.scaler.update()
        self.optimizer.zero_grad()
        if self.accelerator.device.type == "cpu":
            self._heap_trimmer.trim()
        result, *replayed = results
        return replace(result, replayed=replayed[0]) if replayed else result

    def _sum_counts(self, batch: RankBatch) -> _Counts:
        """Sum the counts of a batch over processes, and wait for the result."""
        counts, values = _own_counts(batch)
        if self.accelerator.num_processes > 1:
            values = self.accelerator.reduce(values.to(self.accelerator.device), "sum")
            _read_counts(counts, iter(values.tolist()))
        return counts, values

    def require_finite_weights(self) -> None:
        """Raise an error if an update made weights useless; every process calls this.

        Raises:
            DivergedError: a weight is not finite.
        """
        norms = torch._foreach_norm([
            weight.to_local() if isinstance(weight, DTensor) else weight.detach()
            for weight in self.objective.parameters()])
        total = self.accelerator.reduce(torch.stack(norms).sum(), "sum")
        if not torch.isfinite(total):
            raise DivergedError("a weight is not finite; lower "
                                f"{setting('learning_rate')} or raise {setting('warmup_ratio')}")

    def request_stop(self) -> None:
        """Ask all processes to stop after the current step."""
        self._stop = True

    def stop_on_signal(self) -> None:
        """Ask all processes to stop after the current step, and log that it will take a while."""
        self.request_stop()
        if self.accelerator.is_main_process:
            _logger.warning("stopping after this step and saving the training state; press Ctrl-C "
                            "again to exit now without saving")

    def _accumulate_gradients(self, number: int, batches: Sequence[RankBatch],
                              counts: Sequence[Mapping[str, int]],
                              totals: Tensor) -> list[Tensor]:
        """Run both passes of all micro-batches; return the objective's sums for each batch."""
        objective, device = self.objective.active, self.accelerator.device
        terms, names = objective.loss_terms, (*objective.loss_terms, *objective.metrics)
        own, processes = self.accelerator.process_index, self.accelerator.num_processes
        around_passes = self._hooks.around_passes or contextlib.nullcontext
        sums, keys = [], [(part, name) for part, one in enumerate(counts) for name in one]
        divisors = dict(zip(keys, totals.clamp(min=1).unbind(), strict=True))
        with around_passes(2 * number):
            if self._working:
                self._working.update()
            for offset, batch in enumerate(batches):
                # Gradients are averaged over processes, so each process multiplies its sums by
                # their number.
                weights = {name: (term.weight * processes / divisors[offset, term.per]).float()
                           for name, term in terms.items()}
                total = torch.zeros(len(names), device=device)
                for index, micro_batch in enumerate(batch.micro_batches):
                    torch.manual_seed(dropout_seed(self.settings.seed, number, self.steps,
                                                   offset + 2 * (own + index * processes)))
                    inputs = {name: value.to(device, non_blocking=True) for name, value
                              in objective.prepare(micro_batch, self._pads).items()}
                    # Gradients stay in this process until the last micro-batch.
                    is_last = index + 1 == len(batch.micro_batches)
                    synced: AbstractContextManager[object] = contextlib.nullcontext()
                    if self._sharded:
                        share_after(self._module, is_last, len(batch.micro_batches))
                    elif not is_last:
                        synced = self.accelerator.no_sync(self._module)
                    with synced, self.passes():
                        outputs = self._module(**inputs)
                        self.accelerator.backward(sum(weights[name] * outputs[name]
                                                      for name in terms))
                    total += torch.stack([outputs[name].detach().float() for name in names])
                sums.append(total)
        return sums

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Compute a forward and a backward pass inside this context in the precision of the run."""
        working = self._working.in_place() if self._working else contextlib.nullcontext()
        with working, self.accelerator.autocast():
            yield

    def _reduced(self, sums: Sequence[Tensor], norm: Tensor) -> Tensor:
        """Sum requests to stop and sums over processes; append the norm of the gradients."""
        # These operations do not wait for the device; a copy of a number would.
        flag = sums[0].new_full((1,), float(self._stop))
        total = self.accelerator.reduce(torch.cat([flag, *sums]), "sum")
        return torch.cat([total, norm.detach().to(total).reshape(1)])

    def _is_spike(self, computed: Tensor, counts: Mapping[str, int], totals: Tensor) -> Tensor:
        """Return whether to skip an update, () bool on the device, and store its loss and norm.

        Skipped steps are also stored, so training soon resumes if the loss stays high. All
        processes have the same sums and norm, so they decide the same.

        Source: Team OLMo 2025 (OLMo 2), whose optimizer skips a loss or norm beyond 6 deviations of
        128 steps. It also skips steps far below the mean. Here they are not skipped.
        """
        spike = torch.zeros((), dtype=torch.bool, device=computed.device)
        if not self._hooks.skip_spikes:
            return spike
        terms = self.objective.loss_terms.values()
        sums, names = computed[1:-1].float(), list(counts)
        loss = torch.stack([
            (term.weight / totals[names.index(term.per)].clamp(min=1)).float() * value
            for term, value in zip(terms, sums, strict=False)]).sum()
        figures = torch.stack([loss, computed[-1].float()])
        if self.accelerator.scaler and not figures.isfinite().all():
            return spike  # the scaler skips this update
        if len(self.recent) >= _LEAST_RECENT:
            deviation, mean = torch.std_mean(torch.stack(self.recent), dim=0)
            spike = (figures > mean + self._hooks.skip_spikes * deviation).any()
        self.recent = [*self.recent[1 - _RECENT:], figures]
        return spike

    def _figures(self, number: int, computed: Tensor, counts: Sequence[Mapping[str, int]],
                 coming: Sequence[dict[str, int]]) -> Callable[[], list[Figures]]:
        """Start to copy the result of `_reduced`; return the function that waits and reads it.

        Args:
            number: number of the step, from 0.
            computed: request to stop, sums for each part of the batch, counts of the next batch.
            counts: counts of each part, over all processes.
            coming: counts of the next batch in this process; replaced by the counts of all
                processes.
        """
        terms = self.objective.loss_terms
        per = {**{name: term.per for name, term in terms.items()}, **self.objective.metrics}
        copied, event = computed.to("cpu", non_blocking=True), None
        if computed.is_cuda:
            event = torch.cuda.Event()
            event.record()

        @cache
        def read() -> list[Figures]:
            if event:
                event.synchronize()
            values = iter(copied.tolist())
            self._agreed_to_stop = next(values) > 0
            means = [{name: next(values) / max(one[key], 1) for name, key in per.items()}
                     for one in counts]
            _read_counts(coming, values)
            norm, skipped = values
            found = []
            for one in means:
                loss = sum(term.weight * one[name] for name, term in terms.items())
                _require_finite(number, "loss", loss)
                if len(terms) == 1:
                    one.pop(next(iter(terms)))
                found.append(Figures({"loss": loss, **one}, norm, skipped > 0))
            if not self.accelerator.scaler:
                _require_finite(number, "norm of the gradients", norm)
            elif not math.isfinite(norm):  # the scaler skips such an update
                found = [replace(one, gradient_norm=0.0) for one in found]
            self.losses = found[0].losses
            return found

        return read


def dropout_seed(seed: int, number: int, steps: int, part: int) -> int:
    """Make a seed that is unique to a pass within the run.

    A resumed run uses the same seed. So do runs with other numbers of processes but the same
    micro-batches. A CPU's generator reads 32 bits of the seed, which are distinct in up to 2**32
    passes.

    Args:
        seed: seed of the run.
        number: number of the step, from 0.
        steps: number of steps of the run.
        part: number of the part of the step's batch, from 0, over all processes.
    """
    return (seed * _SPREAD + part * steps + number) % 2**64


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the CPU without waiting for the device."""
    values = values.pin_memory() if device.type == "cuda" else values
    return values.to(device, non_blocking=True)


def _own_counts(batch: RankBatch) -> _Counts:
    counts = [dict(one.counts) for one in batch.parts]
    return counts, torch.tensor([float(value) for one in counts for value in one.values()],
                                dtype=torch.float64)


def _read_counts(counts: Sequence[dict[str, int]], values: Iterator[float]) -> None:
    """Replace counts by the next of these values."""
    for one in counts:
        one.update({name: int(next(values)) for name in one})


@contextmanager
def memory_errors(where: str = "") -> Iterator[None]:
    """Turn a failed allocation inside into a one-line error that begins with `where`.

    Raises:
        BmtoolsError: out of memory.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_gpu = isinstance(error, torch.OutOfMemoryError)
        # torch raises a plain RuntimeError on a processor.
        if not (is_gpu or isinstance(error, MemoryError) or "allocate memory" in str(error)):
            raise
        raise BmtoolsError(
            f"{where}{'the GPU' if is_gpu else 'this process'} has too little memory; lower "
            f"{setting('micro_batch_size')} or {setting('max_length')}, or add "
            f"{setting('activation_checkpointing')}") from error


def _require_finite(number: int, name: str, value: float) -> None:
    if not math.isfinite(value):
        raise DivergedError(
            f"step {number + 1}: the {name} is {value}; lower {setting('learning_rate')}, raise "
            f"{setting('warmup_ratio')} or use bf16 for fp16")


def compile_layers(model: nn.Module) -> None:
    """Compile the layers of an encoder, which share their code, for sequences of any length.

    Each kind of layer, frozen layers, evaluation and padding need separate versions. By default,
    torch stops compiling before it reaches this number.
    """
    config: Any = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, _VERSIONS)
    config.skip_nnmodule_hook_guards = False  # some layers may have hooks that others do not
    for layer in encoder_layers(model):
        layer.compile(dynamic=True)


def set_dropout(model: nn.Module, probability: float) -> None:
    """Set all dropout probabilities of a model; its configuration keeps the old value."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability
        if isinstance(getattr(module, "attention_dropout", None), float):
            setattr(module, "attention_dropout", probability)  # noqa: B010, ModernBERT's
