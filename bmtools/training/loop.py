"""The loop: one for pretraining, distilling and fine-tuning."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from bmtools.data.batches import Batches, RankBatch
from bmtools.data.split_batch import MicroBatch, split_in_half
from bmtools.errors import BmtoolsError
from bmtools.models.allocator import Gaps
from bmtools.recipes.settings import OptimizationConfig
from bmtools.training.objectives import Objective
from bmtools.training.optimizers import make_optimizer, parameter_groups
from bmtools.training.sharding import is_sharded, norm_of, set_gradient_sync, shard


class DivergedError(BmtoolsError):
    """A loss that is no number, or has left for good."""


@dataclass(frozen=True)
class StepResult:
    """One update: its number from 1, its mean losses in nats, and what went in.

    Args:
        number: from 1.
        losses: `loss`, the weighted sum that was minimised, then its parts and other means.
        learning_rate: of this update.
        counts: what went in, over all processes.
        gradient_norm: before clipping.
        stop: some process was asked to stop.
    """

    number: int
    losses: dict[str, float]
    learning_rate: float
    counts: dict[str, int]
    gradient_norm: float = 0.0
    stop: bool = False

    @property
    def loss(self) -> float:
        """The weighted sum that was minimised."""
        return self.losses["loss"]


@dataclass(frozen=True)
class LoopPlan:
    """How long the loop runs and how fast it learns.

    Args:
        steps: updates in all.
        learning_rate: gives the rate of an update by its number, from 0.
    """

    steps: int
    learning_rate: Callable[[int], float]


@dataclass(frozen=True)
class LoopHooks:
    """What a run adds to the plain loop.

    Args:
        lr_scales: factor of the learning rate by weight name; 1 where absent.
        adjust_gradients: called when gradients are complete, before they are clipped, with the number that
            they are scaled by.
        around_passes: surrounds forward and backward passes of the step with this number.
    """

    lr_scales: Mapping[str, float] = field(default_factory=dict)
    adjust_gradients: Callable[[float], None] | None = None
    around_passes: Callable[[int], AbstractContextManager[None]] | None = None


class Trainer:
    """An objective, its optimizer and the processes that share the work.

    Args:
        objective: moved to the accelerator's device; wrapped where processes share the work,
            spread over them where they share weights too.
        plan: how many updates, at which rates.
        settings: how to optimise.
        accelerator: made by `start_processes`.
        hooks: what a run adds.
    """

    def __init__(self, objective: Objective, plan: LoopPlan, settings: OptimizationConfig,
                 accelerator: Accelerator, hooks: LoopHooks | None = None) -> None:
        self.settings = settings
        self.plan = plan
        self.accelerator = accelerator
        self.objective = objective
        self._hooks = hooks or LoopHooks()
        self._stop = False
        self._halvings = 0
        self._gaps = Gaps()
        self._sharded = is_sharded(accelerator)
        model: Any = objective.model
        set_dropout(model, settings.dropout)
        if settings.activation_checkpointing:
            model.activation_checkpointing_enable(
                activation_checkpointing_kwargs={"use_reentrant": False})
        self._module: Any
        self.optimizer: Any
        if self._sharded:
            shard(objective, accelerator)
            self._module = objective
            self.optimizer = accelerator.prepare_optimizer(self._make_optimizer())
        else:
            self._module, self.optimizer = accelerator.prepare(objective, self._make_optimizer())
        if settings.compile:
            model.base_model.compile(dynamic=True)

    def _make_optimizer(self) -> Any:
        # Where an encoder carries a pooler that no loss reaches, its weights stay as they are.
        settings = self.settings
        return make_optimizer(
            settings.optimizer,
            parameter_groups(self.objective, settings.weight_decay, self._hooks.lr_scales),
            learning_rate=self.plan.learning_rate(0),
        betas=(settings.adam_beta1, settings.adam_beta2),
            epsilon=settings.adam_epsilon)

    def run(self, batches: Batches, first: int = 0) -> Generator[StepResult, None, None]:
        """Train from step `first`, counted from 0, and yield after each update."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        with _Prefetcher(lambda number: batches.batch(number, rank, world),
                         range(first, self.plan.steps)) as shares:
            for number, share in shares:
                yield self.step(number, share)

    def step(self, number: int, share: RankBatch, turn: int = 0) -> StepResult:
        """Update once.

        Args:
            number: of the step, from 0.
            share: this process's part of the batch.
            turn: which update of this step it is; dropout differs between turns.

        Raises:
            Diverged: the loss is no number; the weights are no good any more.
            BmtoolsError: memory does not suffice.
        """
        self._module.train()
        rate = self.plan.learning_rate(number)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        counts = self._summed(share.counts)
        sums = self._passes(number, share, counts, turn)
        if self._hooks.adjust_gradients:
            scaler = self.accelerator.scaler
            self._hooks.adjust_gradients(scaler.get_scale() if scaler else 1.0)
        norm = self.accelerator.clip_grad_norm_(self._module.parameters(),
                                                self.settings.max_grad_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.accelerator.device.type == "cpu":
            self._gaps.give_back()
        losses, stop = self._mean_losses(sums, counts)
        if not math.isfinite(losses["loss"]):
            raise DivergedError(f"step {number + 1}: the loss is {losses['loss']}; lower "
                                "--learning-rate, raise --warmup-ratio or use bf16 for fp16")
        return StepResult(number + 1, losses, rate, counts, norm_of(norm), stop)

    def _passes(self, number: int, share: RankBatch, counts: Mapping[str, int],
                turn: int) -> Tensor:
        """Take gradients; where a single process runs out of memory, in smaller passes from now on.

        Several processes would wait for the one that begins again.
        """
        pieces = share.pieces
        for _ in range(self._halvings):
            pieces = split_in_half(pieces)
        rank = self.accelerator.process_index
        around = self._hooks.around_passes or contextlib.nullcontext
        while True:
            torch.manual_seed(_seed_of_step(self.settings.seed, number, rank, turn))
            try:
                with around(2 * number + turn):
                    return self._backward(RankBatch(pieces, share.counts), counts)
            except torch.OutOfMemoryError as error:
                smaller = split_in_half(pieces)
                if self.accelerator.num_processes > 1 or len(smaller) == len(pieces):
                    raise BmtoolsError(f"step {number + 1}: {_out_of_memory(pieces)}") from error
            self.optimizer.zero_grad()
            if self.accelerator.device.type == "cuda":
                torch.cuda.empty_cache()
            pieces = smaller
            self._halvings += 1

    def request_stop(self) -> None:
        """Ask all processes to stop after the step that they are in."""
        self._stop = True

    def _backward(self, share: RankBatch, counts: Mapping[str, int]) -> Tensor:
        """Add up gradients over the pieces of this process's share; return sums by name."""
        parts, names = self.objective.loss_terms, self.objective.output_names
        world = self.accelerator.num_processes
        sums = torch.zeros(len(names), device=self.accelerator.device)
        for place, piece in enumerate(share.pieces):
            waiting = self._waiting(place + 1 == len(share.pieces))
            inputs = {name: value if name == "lengths" else
                      value.to(self.accelerator.device, non_blocking=True)
                      for name, value in piece.items()}
            with waiting, self.accelerator.autocast():
                found = self._module(**inputs)
                # Gradients are averaged over processes, so the sum is scaled up by them.
                loss = sum(part.weight * world / max(counts[part.per], 1) * found[name]
                           for name, part in parts.items())
                self.accelerator.backward(loss)
            sums += torch.stack([found[name].detach().float() for name in names])
        return sums

    def _waiting(self, last: bool) -> AbstractContextManager[Any]:
        """Let gradients of all passes but the last one stay in this process."""
        if self._sharded:
            set_gradient_sync(self._module, last)
            return contextlib.nullcontext()
        return contextlib.nullcontext() if last else self.accelerator.no_sync(self._module)

    def _summed(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Add up counts over all processes."""
        if self.accelerator.num_processes == 1:
            return dict(counts)
        own = torch.tensor(list(counts.values()), device=self.accelerator.device)
        total = self.accelerator.reduce(own, "sum").tolist()
        return dict(zip(counts, total, strict=True))

    def _mean_losses(self, sums: Tensor, counts: Mapping[str, int]) -> tuple[
            dict[str, float], bool]:
        """Divide sums over all processes by the whole batch's counts. Waits for the device."""
        flag = torch.tensor([float(self._stop)], device=sums.device)
        *total, stop = self.accelerator.reduce(torch.cat([sums, flag]), "sum").tolist()
        per = {name: part.per for name, part in self.objective.loss_terms.items()} \
            | self.objective.metrics
        means = {name: value / max(counts[per[name]], 1)
                 for name, value in zip(self.objective.output_names, total, strict=True)}
        loss = sum(part.weight * means[name] for name, part in self.objective.loss_terms.items())
        if len(self.objective.loss_terms) == 1:
            means.pop(next(iter(self.objective.loss_terms)))
        return {"loss": loss, **means}, stop > 0


class _Prefetcher:
    """Makes the next batch while the present one is trained on."""

    def __init__(self, make: Callable[[int], RankBatch], numbers: range) -> None:
        self._make = make
        self._numbers = numbers
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Iterator[tuple[int, RankBatch]]:
        return self._shares()

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _shares(self) -> Iterator[tuple[int, RankBatch]]:
        waiting: Future[RankBatch] | None = None
        for number in self._numbers:
            share = waiting.result() if waiting else self._make(number)
            waiting = self._pool.submit(self._make, number + 1) \
                if number + 1 in self._numbers else None
            yield number, share


def set_dropout(model: nn.Module, probability: float) -> None:
    """Set every dropout of a model; what its configuration says is left alone."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability
        if isinstance(getattr(module, "attention_dropout", None), float):
            setattr(module, "attention_dropout", probability)  # noqa: B010, ModernBERT's


def _out_of_memory(pieces: Sequence[MicroBatch]) -> str:
    rows = len(next(iter(pieces[0].values())))
    what = f"a pass of {rows} rows" if "attention_mask" in pieces[0] else f"a pass of {rows} tokens"
    return (f"the GPU has too little memory for {what}; set --micro-batch-size, lower --max-length "
            "or add --activation-checkpointing")


def _seed_of_step(seed: int, number: int, rank: int, turn: int) -> int:
    """Dropout depends on the step and not on history, so a resumed run repeats it."""
    return ((seed * 1_000_003 + number) * 1_009 + rank) * 2 + turn
