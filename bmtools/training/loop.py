"""The loop: one for pretraining, distilling and fine-tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, InitProcessGroupKwargs
from torch import Tensor, nn

from bmtools.errors import BmtoolsError
from bmtools.training.batches import Batches, Share
from bmtools.training.objectives import Objective
from bmtools.training.optimizers import make_optimizer, parameter_groups
from bmtools.training.settings import LoopSettings


@dataclass(frozen=True)
class Step:
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
class Course:
    """How long the loop runs and how fast it learns.

    Args:
        steps: updates in all.
        learning_rate: gives the rate of an update by its number, from 0.
    """

    steps: int
    learning_rate: Callable[[int], float]


@dataclass(frozen=True)
class Extras:
    """What a run adds to the plain loop.

    Args:
        rates: factor of the learning rate of each weight of the model, by name; 1 where absent.
        adjust: called when gradients are complete, before they are clipped, with the number that
            they are scaled by.
        around: surrounds forward and backward passes of the step with this number.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    adjust: Callable[[float], None] | None = None
    around: Callable[[int], AbstractContextManager[None]] | None = None


class Trainer:
    """An objective, its optimizer and the processes that share the work.

    Args:
        objective: moved to the accelerator's device, and wrapped where processes share it.
        course: how many updates, at which rates.
        settings: how to optimise.
        accelerator: made by `start_processes`.
        extras: what a run adds.
    """

    def __init__(self, objective: Objective, course: Course, settings: LoopSettings,
                 accelerator: Accelerator, extras: Extras | None = None) -> None:
        self.settings = settings
        self.course = course
        self.accelerator = accelerator
        self.objective = objective
        self._extras = extras or Extras()
        self._stop = False
        set_dropout(objective.model, settings.dropout)
        if settings.activation_checkpointing:
            objective.model.activation_checkpointing_enable(
                activation_checkpointing_kwargs={"use_reentrant": False})
        # Where an encoder carries a pooler that no loss reaches, its weights stay as they are.
        optimizer = make_optimizer(
            settings.optimizer,
            parameter_groups(objective, settings.weight_decay, self._extras.rates),
            learning_rate=course.learning_rate(0), betas=(settings.beta1, settings.beta2),
            epsilon=settings.adam_epsilon)
        self._module: Any
        self.optimizer: Any
        self._module, self.optimizer = accelerator.prepare(objective, optimizer)
        if settings.compile:
            objective.model.base_model.compile(dynamic=True)

    def run(self, batches: Batches, first: int = 0) -> Iterator[Step]:
        """Train from step `first`, counted from 0, and yield after each update."""
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        with _Ahead(lambda number: batches.batch(number, rank, world),
                    range(first, self.course.steps)) as shares:
            for number, share in shares:
                yield self.step(number, share)

    def step(self, number: int, share: Share, turn: int = 0) -> Step:
        """Update once.

        Args:
            number: of the step, from 0.
            share: this process's part of the batch.
            turn: which update of this step it is; dropout differs between turns.
        """
        self._module.train()
        rank = self.accelerator.process_index
        torch.manual_seed(_seed_of_step(self.settings.seed, number, rank, turn))
        rate = self.course.learning_rate(number)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        counts = self._summed(share.counts)
        around = self._extras.around or contextlib.nullcontext
        with around(2 * number + turn):
            sums = self._backward(share, counts)
        if self._extras.adjust:
            scaler = self.accelerator.scaler
            self._extras.adjust(scaler.get_scale() if scaler else 1.0)
        norm = self.accelerator.clip_grad_norm_(self._module.parameters(),
                                                self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        losses, stop = self._mean_losses(sums, counts)
        if not torch.isfinite(torch.tensor(losses["loss"])):
            raise BmtoolsError(f"step {number + 1}: the loss is {losses['loss']}; lower "
                               "--learning-rate, raise --warmup-share or use bf16 for fp16")
        return Step(number + 1, losses, rate, counts, float(norm), stop)

    def request_stop(self) -> None:
        """Ask all processes to stop after the step that they are in."""
        self._stop = True

    def _backward(self, share: Share, counts: Mapping[str, int]) -> Tensor:
        """Add up gradients over the pieces of this process's share; return sums by name."""
        parts, names = self.objective.parts, self.objective.sums
        world = self.accelerator.num_processes
        sums = torch.zeros(len(names), device=self.accelerator.device)
        for place, piece in enumerate(share.pieces):
            last = place + 1 == len(share.pieces)
            waiting: Any = contextlib.nullcontext() if last else \
                self.accelerator.no_sync(self._module)
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
        per = {name: part.per for name, part in self.objective.parts.items()} \
            | self.objective.measures
        means = {name: value / max(counts[per[name]], 1)
                 for name, value in zip(self.objective.sums, total, strict=True)}
        loss = sum(part.weight * means[name] for name, part in self.objective.parts.items())
        if len(self.objective.parts) == 1:
            means.pop(next(iter(self.objective.parts)))
        return {"loss": loss, **means}, stop > 0


class _Ahead:
    """Makes the next batch while the present one is trained on."""

    def __init__(self, make: Callable[[int], Share], numbers: range) -> None:
        self._make = make
        self._numbers = numbers
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Iterator[tuple[int, Share]]:
        return self._shares()

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _shares(self) -> Iterator[tuple[int, Share]]:
        waiting: Future[Share] | None = None
        for number in self._numbers:
            share = waiting.result() if waiting else self._make(number)
            waiting = self._pool.submit(self._make, number + 1) \
                if number + 1 in self._numbers else None
            yield number, share


def start_processes(settings: LoopSettings, trackers: str = "",
                    leaves_some: bool = False) -> Accelerator:
    """Join the other processes of `accelerate launch`, or stand alone.

    Args:
        settings: how to optimise.
        trackers: services that get the metrics, by commas.
        leaves_some: some steps give some weights no gradient: a phase freezes them, or asks
            nothing of a head.
    """
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = settings.tf32
        torch.backends.cudnn.allow_tf32 = settings.tf32
    names = [name.strip() for name in trackers.split(",") if name.strip()]
    # The first process may encode a large corpus while the others wait for it.
    patience = InitProcessGroupKwargs(timeout=timedelta(days=2))
    return Accelerator(mixed_precision=settings.precision, log_with=names or None,
                       kwargs_handlers=[patience, DistributedDataParallelKwargs(
                           find_unused_parameters=leaves_some)])


def set_dropout(model: nn.Module, probability: float) -> None:
    """Set every dropout of a model; what its configuration says is left alone."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability
        if isinstance(getattr(module, "attention_dropout", None), float):
            setattr(module, "attention_dropout", probability)  # noqa: B010, ModernBERT's


def _seed_of_step(seed: int, number: int, rank: int, turn: int) -> int:
    """Dropout depends on the step and not on history, so a resumed run repeats it."""
    return ((seed * 1_000_003 + number) * 1_009 + rank) * 2 + turn
