"""Regularization against forgetting: L2-SP and mixout towards the initial weights, and replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save
from torch import Tensor, nn
from transformers import PreTrainedModel

from bmtools.data.batches import Batches, RankBatch
from bmtools.errors import start_again
from bmtools.io.failures import reading
from bmtools.io.output import new_file
from bmtools.recipes.phases import Schedule
from bmtools.recipes.settings import RegularizationConfig
from bmtools.training.layers import encoder_layers, layerwise_lr_scales
from bmtools.training.loop import LoopHooks, to_device
from bmtools.training.plan import TrainingPlan, runs_directory

_INITIAL_WEIGHTS = "start.safetensors"
_MIXOUT_STREAM = 11  # separates mixout's samples from batches and masks


def make_hooks(plan: TrainingPlan, model: PreTrainedModel, state: Path | None,
               accelerator: Accelerator) -> LoopHooks:
    """Make the hooks of layer-wise learning rates, L2-SP and mixout that a plan requests.

    The initial weights are written once, next to the states to resume from.

    Args:
        plan: settings of the run.
        model: model with its initial weights or the weights of a state; moved to the device.
        state: directory of the state; None for a new run.
        accelerator: accelerator of the run.
    """
    settings = plan.regularization
    initial: Mapping[str, Tensor] = {}
    if settings.mixout or settings.l2_sp:
        model.to(accelerator.device)
        path = runs_directory(plan.output) / _INITIAL_WEIGHTS
        if state:
            initial = load_initial_weights(path, model)
        else:
            initial = copy_initial_weights(model)
            if accelerator.is_main_process:
                with new_file(path) as stream:
                    stream.write(save({name: weight.contiguous()
                                       for name, weight in initial.items()}))
    return replace(hooks_towards(initial, settings, model, plan.optimization.seed),
                   skip_spikes=plan.pretraining.skip_spikes)


def hooks_towards(initial: Mapping[str, Tensor], settings: RegularizationConfig,
                  model: PreTrainedModel, seed: int) -> LoopHooks:
    """Make the hooks for settings.

    Args:
        initial: weights that L2-SP and mixout pull towards, by name, on the model's device.
        settings: settings of the methods.
        model: model to train.
        seed: seed of mixout's masks.
    """
    return LoopHooks(
        layerwise_lr_scales(model, settings.layer_decay) if settings.layer_decay != 1 else {},
        l2_sp_gradients(model, initial, settings.l2_sp) if settings.l2_sp else None,
        Mixout(model, initial, settings, seed).mixed if settings.mixout else None)


def copy_initial_weights(model: nn.Module) -> dict[str, Tensor]:
    """Copy all weights by name, on their device; the model must not have distributed wrappers."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def load_initial_weights(path: Path, model: nn.Module) -> dict[str, Tensor]:
    """Read initial weights, each with the device and type of the model's weight.

    Raises:
        CheckpointError: the file is missing, or has weights that the model does not have.
    """
    with reading(path, "the initial weights, which mixout and L2-SP need, cannot be read",
                 start_again()):
        initial = load_file(path)
    weights = dict(model.named_parameters())
    return {name: weight.to(weights[name]) for name, weight in initial.items()}


def l2_sp_gradients(model: nn.Module, initial: Mapping[str, Tensor],
                    strength: float) -> Callable[[float], None]:
    """Make a function that adds gradients of an L2 penalty on the distance from initial weights.

    The penalty is `strength / 2` times the square of the distance. Its gradient, multiplied by the
    loss scale of fp16, is added to the existing gradients before clipping, without a graph. Frozen
    weights and weights without an initial weight of the same shape (a new head, a new vocabulary)
    have no penalty. Weight decay towards zero stays active; switch it off to follow the paper.

    Source: Li et al. 2018 (L2-SP), equation 2, without its second term for new weights.

    Args:
        model: model without distributed wrappers, on its device.
        initial: initial weights by name, on the same device.
        strength: strength of the penalty.
    """
    pairs = [(weight, initial[name]) for name, weight in model.named_parameters()
             if name in initial and initial[name].shape == weight.shape]

    @torch.no_grad()
    def add_gradients(scale: float) -> None:
        trained = [(weight.grad, weight, one) for weight, one in pairs if weight.grad is not None]
        if trained:
            gradients, weights, targets = map(list, zip(*trained, strict=True))
            torch._foreach_add_(gradients, torch._foreach_sub(weights, targets),
                                alpha=strength * scale)

    return add_gradients


class Mixout:
    """Mixout: weights trained through random mixtures with their initial values.

    All micro-batches, processes and recomputations of a step use the same mask, so their number
    does not change the result. Weights are replaced during the step, and gradients are scaled after
    it; the modules are not changed. The mask of a matrix selects inputs.

    Source: Lee et al. 2020, equations 2 and 3, and section 2 for masks by neuron. The scope
    `linear` and the gradient `unscaled` follow their code.

    Args:
        model: model without distributed wrappers, on its device.
        initial: initial weights by name, on the same device.
        settings: probability, scope and gradient.
        seed: seed of the masks, combined with the number of the step.

    Raises:
        CheckpointError: a matrix of the encoder's layers has no initial weight of its shape.
    """

    def __init__(self, model: PreTrainedModel, initial: Mapping[str, Tensor],
                 settings: RegularizationConfig, seed: int) -> None:
        self._probability = settings.mixout
        self._exact = settings.mixout_gradient == "exact"
        self._seed = seed
        weights = dict(model.named_parameters())
        names = [name for name in mixed_names(model, settings.mixout_scope)
                 if name in initial and initial[name].shape == weights[name].shape]
        self._weights = [weights[name] for name in names]
        self._initial = [initial[name] for name in names]

    def masks(self, number: int) -> list[Tensor]:
        """Sample the inputs that keep their weights in a step: 1 or 0, (inputs,) per matrix."""
        rng = np.random.default_rng((self._seed, _MIXOUT_STREAM, number))
        widths = [weight.shape[-1] for weight in self._weights]
        kept = rng.random(sum(widths)) >= self._probability
        # Use one transfer to the device for all weights.
        masks = to_device(torch.from_numpy(kept.astype(np.float32)), self._weights[0].device)
        return list(masks.to(self._weights[0].dtype).split(widths))

    @contextmanager
    def mixed(self, number: int) -> Iterator[None]:
        """Mix for the forward and backward passes of step `number`; then restore the weights.

        Enter this context with cleared gradients and outside of autocast, which keeps copies of
        weights. Clip and update after it.
        """
        assert all(weight.grad is None for weight in self._weights)
        masks, factor = self.masks(number), 1 / (1 - self._probability)
        own = [weight.data for weight in self._weights]
        try:
            for weight, initial, mask in zip(self._weights, self._initial, masks, strict=True):
                # If m is 1 for inputs that keep the weight, and p is the probability of 0, then ((1
                # - m) initial + m weight - p initial) / (1 - p) equals initial + m / (1 - p)
                # (weight - initial).
                weight.data = torch.lerp(initial, weight.data, (mask * factor).expand_as(weight))
            yield
        finally:
            for weight, values, mask in zip(self._weights, own, masks, strict=True):
                weight.data = values
                if weight.grad is not None:
                    weight.grad.mul_(mask * factor if self._exact else mask)


def mixed_names(model: PreTrainedModel, scope: str = "layers") -> list[str]:
    """Return the names of the weights that mixout mixes.

    Args:
        model: any encoder, with or without a head.
        scope: layers or linear, as in `RegularizationConfig`. The authors' code unties the decoder,
            which is also linear, from the embeddings. Here it stays tied and is not mixed.
    """
    parts = encoder_layers(model) if scope == "layers" else [model]
    mixed = {id(module.weight) for part in parts for module in part.modules()
             if isinstance(module, nn.Linear)} - {id(model.get_input_embeddings().weight)}
    return [name for name, weight in model.named_parameters() if id(weight) in mixed]


class ReplayedBatches:
    """Batches of a run, with a batch of an earlier corpus added to every n-th update.

    Source: Buonocore et al. 2023 (BioBIT), "Catastrophic Forgetting Mitigation"; its notebook adds
    the gradients of both batches.

    Args:
        batches: batches of the run.
        every: number of steps between replayed batches.
        schedule: schedule of the run; a replayed batch has the size and masking of its phase.
        make_batches: makes the batches of the earlier corpus by a schedule.
    """

    def __init__(self, batches: Batches, every: int, schedule: Schedule,
                 make_batches: Callable[[Schedule], Batches]) -> None:
        self._batches, self._every = batches, every
        phases, steps, before = [], [], 0
        for phase, length in zip(schedule.phases, schedule.steps_per_phase, strict=True):
            replayed = (before + length) // every - before // every
            before += length
            if replayed:
                phases.append(replace(phase, mixture={}))
                steps.append(replayed)
        self._earlier = make_batches(Schedule(phases, steps))

    def batch(self, number: int, rank: int, world_size: int) -> RankBatch:
        """Make one process's part of a batch, and of the batch to replay if it is due."""
        turn, rest = divmod(number + 1, self._every)
        return replace(self._batches.batch(number, rank, world_size), replayed=None if rest else
                       self._earlier.batch(turn - 1, rank, world_size))
