"""The loop: one for pretraining, distilling and fine-tuning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from bmtools.errors import BmtoolsError
from bmtools.training.batches import Batch, Batches
from bmtools.training.objectives import Objective
from bmtools.training.settings import LoopSettings


@dataclass(frozen=True)
class Step:
    """One update: its number from 1, its mean losses in nats, and what went in."""

    number: int
    losses: dict[str, float]
    learning_rate: float
    counts: dict[str, int]

    @property
    def loss(self) -> float:
        """The weighted sum that was minimised."""
        return self.losses["loss"]


class Trainer:
    """An objective, its optimizer and the processes that share the work.

    Args:
        objective: moved to the accelerator's device, and wrapped where processes share it.
        steps: updates in all; the learning rate reaches 0 after them.
        settings: how to optimise.
        accelerator: made by `start_processes`.
    """

    def __init__(self, objective: Objective, steps: int, settings: LoopSettings,
                 accelerator: Accelerator) -> None:
        self.settings = settings
        self.steps = steps
        self.accelerator = accelerator
        self.objective = objective
        set_dropout(objective.model, settings.dropout)
        # Where an encoder carries a pooler that no loss reaches, its weights stay as they are.
        optimizer = torch.optim.AdamW(
            _parameter_groups(objective, settings.weight_decay), lr=settings.learning_rate,
            eps=settings.adam_epsilon, fused=True)
        self._module: Any
        self.optimizer: Any
        self._module, self.optimizer = accelerator.prepare(objective, optimizer)

    def run(self, batches: Batches, first: int = 0) -> Iterator[Step]:
        """Train from step `first`, counted from 0, and yield after each update."""
        self._module.train()
        for number in range(first, self.steps):
            yield self._step(number, batches.batch(number))

    def _step(self, number: int, batch: Batch) -> Step:
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        torch.manual_seed(_seed_of_step(self.settings.seed, number, rank))
        rate = learning_rate(number, self.steps, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        sums = self._backward(batch, rank, world)
        self.accelerator.clip_grad_norm_(self._module.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        losses = self._mean_losses(sums, batch.counts)
        if not torch.isfinite(torch.tensor(losses["loss"])):
            raise BmtoolsError(f"step {number + 1}: the loss is {losses['loss']}; lower "
                               "--learning-rate, raise --warmup-share or use bf16 for fp16")
        return Step(number + 1, losses, rate, batch.counts)

    def _backward(self, batch: Batch, rank: int, world: int) -> Tensor:
        """Add up gradients over the pieces of this process's share; return sums by part."""
        parts = self.objective.parts
        sums = torch.zeros(len(parts), device=self.accelerator.device)
        rows = len(next(iter(batch.inputs.values())))
        if rows % world:
            raise BmtoolsError(f"--batch-size: found {rows}, expected a multiple of the "
                               f"{world} processes that share it")
        share = batch.share(rank, world).inputs
        size = self.settings.micro_batch or rows
        for start in range(0, rows // world, size):
            piece = {name: value[start:start + size].to(self.accelerator.device)
                     for name, value in share.items()}
            last = start + size >= rows // world
            waiting: Any = contextlib.nullcontext() if last else \
                self.accelerator.no_sync(self._module)
            with waiting, self.accelerator.autocast():
                found = self._module(**piece)
                # Gradients are averaged over processes, so the sum is scaled up by them.
                loss = sum(part.weight * world / max(batch.counts[part.per], 1) * found[name]
                           for name, part in parts.items())
                self.accelerator.backward(loss)
            sums += torch.stack([found[name].detach().float() for name in parts])
        return sums

    def _mean_losses(self, sums: Tensor, counts: dict[str, int]) -> dict[str, float]:
        """Divide sums over all processes by the whole batch's counts. Waits for the device."""
        total = self.accelerator.reduce(sums, "sum").tolist()
        parts = self.objective.parts
        means = {name: value / max(counts[part.per], 1)
                 for (name, part), value in zip(parts.items(), total, strict=True)}
        loss = sum(part.weight * means[name] for name, part in parts.items())
        return {"loss": loss, **means} if len(parts) > 1 else {"loss": loss}


def start_processes(settings: LoopSettings) -> Accelerator:
    """Join the other processes of `accelerate launch`, or stand alone."""
    return Accelerator(mixed_precision=settings.precision)


def learning_rate(number: int, steps: int, settings: LoopSettings) -> float:
    """Rate of update `number`, from 0: a linear rise, then a linear fall to 0 after the last."""
    warmup = round(settings.warmup_share * steps)
    if number < warmup:
        return settings.learning_rate * (number + 1) / warmup
    return settings.learning_rate * (steps - number) / max(steps - warmup, 1)


def set_dropout(model: nn.Module, probability: float) -> None:
    """Set every dropout of a model; what its configuration says is left alone."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability
        if isinstance(getattr(module, "attention_dropout", None), float):
            setattr(module, "attention_dropout", probability)  # noqa: B010, ModernBERT's


def _parameter_groups(objective: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Decay matrices; leave biases and normalisation alone."""
    trained = [p for p in objective.parameters() if p.requires_grad]
    return [{"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
            {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0}]


def _seed_of_step(seed: int, number: int, rank: int) -> int:
    """Dropout depends on the step and not on history, so a resumed run repeats it."""
    return (seed * 1_000_003 + number) * 1_009 + rank
