"""One run of fine-tuning: a seed, trained until the development set no longer improves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional

from bmtools.errors import setting
from bmtools.recipes.phases import learning_rate_at
from bmtools.recipes.settings import FreezeConfig, RegularizationConfig
from bmtools.records import JsonObject
from bmtools.status import set_status
from bmtools.tasks.batches import (
    TaskBatches,
    input_labels,
    make_loss,
    repeat_rare,
    shuffle_batches,
)
from bmtools.tasks.heads import LastLayer
from bmtools.tasks.predict import run_model
from bmtools.tasks.settings import FinetunePlan, LabelConfig
from bmtools.tasks.task import DEV, TEST, TRAIN, AnySplit, AnyTask, Evaluation
from bmtools.tasks.unfinished import Best, Run, Unfinished
from bmtools.training.layers import freeze, frozen_names
from bmtools.training.loop import Trainer
from bmtools.training.metrics import DivergedError, StepResult
from bmtools.training.objectives import LossTerm, Objective
from bmtools.training.regularization import copy_initial_weights, hooks_towards

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_DIGITS = 6
_PLAIN = ("cross-entropy", "none", 0)  # loss, class weights and oversampling
Report = JsonObject
Reporter = Callable[[Report], object]
"""Receives reports as they are made, and notes for people under the key `note`."""
Stop = tuple[dict[str, float], JsonObject]
"""The point where a run was best, see `Best`, and the settings chosen on its dev set."""


class TaskObjective(Objective):
    """The loss of a task, averaged over labels."""

    def __init__(self, task: AnyTask, model: PreTrainedModel) -> None:
        super().__init__(model)
        self.loss_terms = {"task": LossTerm(1.0, "labels")}
        self._task = task
        self.last_layer = LastLayer(model)

    def forward(self, labels: Tensor, weight: Tensor | float = 1.0,
                **batch: Tensor) -> dict[str, Tensor]:
        """Sum the loss over labels that are not IGNORED, and multiply it by a weight."""
        if self.last_layer.can_be_limited:
            self.last_layer.index, labels = self._task.states_read(batch, labels)
        logits = self._task.logits(self.model, batch)
        return {"task": self._task.loss(self.model, logits, labels) * weight}


class SeedRun:
    """A model with a new head, trained with one seed.

    Args:
        plan: plan of all runs.
        task: task whose training set was read.
        splits: examples of train, dev and, if given, test; `dev` is not needed with `stop`.
        seed: seed for order, head, dropout and masks.
        accelerator: accelerator of this run only, because it keeps the loss scale of fp16.
        tokens: ids of the tokens whose embeddings are trained, see `read_tokens`.
        stop: point where training stops; None to choose it on the development set.
    """

    def __init__(self, plan: FinetunePlan, task: AnyTask,
                 splits: Mapping[str, AnySplit], seed: int, accelerator: Accelerator,
                 tokens: Tensor | None, stop: Stop | None = None) -> None:
        self._plan, self._task, self._splits, self._seed = plan, task, splits, seed
        self._stop, config, inputs = stop, plan.config, splits[TRAIN].inputs
        task.label_loss = None  # another combination of a grid may have set one
        if isinstance(config, LabelConfig) and (
                config.loss, config.class_weights, config.oversampling) != _PLAIN:
            labels = input_labels(task, inputs)
            task.label_loss = make_loss(
                config, labels, len(task.labels),
                label_sets=task.problem_type == "multi_label_classification")
            inputs = [inputs[number] for number in repeat_rare(labels, config.oversampling)]
        lengths = np.array([len(item) for item in inputs])
        order = [batch for epoch in range(plan.finetuning.epochs)
                 for batch in shuffle_batches(lengths, plan.finetuning.batch_size, seed, epoch)]
        self._batches = TaskBatches(task, inputs, order, plan.optimization.micro_batch_size)
        self._steps = len(order)
        self.model = task.new_model(seed)
        shrink(self.model, tokens)
        freeze(self.model, frozen_names(self.model, plan.freezing))
        self.model.to(accelerator.device)
        encoder = f"{self.model.base_model_prefix}."
        initial = {name: weight for name, weight in copy_initial_weights(self.model).items()
                   if name.startswith(encoder) and name not in task.checkpoint.new_weights} \
            if plan.regularization.mixout or plan.regularization.l2_sp else {}
        self._trainer = Trainer(TaskObjective(task, self.model), self._steps,
                                lambda step: learning_rate_at(plan.schedule, step, self._steps),
                                replace(plan.optimization, seed=seed), accelerator,
                                hooks_towards(initial, plan.regularization, self.model, seed))

    def run(self, report: Reporter, unfinished: Unfinished, key: str) -> Run:
        """Train until scores no longer improve, or to the given stop; report each evaluation.

        Args:
            report: receives a line for each evaluation.
            unfinished: contains the state to continue from, if any, and stores new states.
            key: key of this run in it.

        Raises:
            DivergedError: if a loss is not finite.
        """
        now = unfinished.restore(key, self._trainer)
        best = now.best
        for at, loss in self._intervals(now):
            line: Report = {"seed": self._seed, **at, "of": self._plan.finetuning.epochs,
                            "loss": loss}
            if self._stop:
                dev, rank = Evaluation({}, {}, math.nan, self._stop[1]), (0.0, 0.0)
                report(line)
            else:
                dev = self._evaluate(DEV, {})
                report({**line, "dev_loss": round(dev.loss, _DIGITS), "dev": dev.scores})
                score = dev.scores[self._task.metric]
                # While the score is 0, a lower loss also counts as progress.
                rank = score, 0.0 if score else -dev.loss
            if best is None or self._stop or rank > best.rank:
                best = Best(self._seed, at, rank, dev, unfinished.store(self.model, now.step),
                            now.tokens_seen, now.decay)
                now.since = now.evaluations
            if self._is_over(at, now.evaluations - now.since) or now.step == self._steps:
                break
            unfinished.save(now, best, self._trainer)
        assert best is not None
        unfinished.processes.wait_for_everyone()  # until the main process has written the weights
        unfinished.load(self.model, best.weights)
        line = {"seed": self._seed, **{f"best_{name}": value for name, value in best.at.items()},
                "epochs": at["epoch"]}
        if DEV in self._splits:
            line["dev"] = {**best.dev.scores, **best.dev.details}
        if TEST in self._splits:
            test = self._evaluate(TEST, best.dev.settings)
            line["test"] = {**test.scores, **test.details}
        return Run(line, best)

    def _is_over(self, at: Mapping[str, float], without_progress: int) -> bool:
        """Return whether the run has reached its stop, or no longer improves."""
        if self._stop is None:
            return without_progress >= self._plan.finetuning.patience
        unit = "step" if "step" in at and "step" in self._stop[0] else "epoch"
        return at[unit] >= self._stop[0][unit]

    def _intervals(self, now: Run) -> Iterator[tuple[dict[str, float], float]]:
        """Train, update `now`, and yield epoch, step and mean loss before each evaluation."""
        settings = self._plan.finetuning
        seeds = settings.seed_numbers(self._plan.optimization.seed)
        per_epoch = self._steps // settings.epochs
        every = settings.eval_steps or per_epoch
        done: list[StepResult] = []
        for step in self._trainer.run(self._batches, now.step):
            done.append(step)
            now.tokens_seen += step.counts["tokens"]
            now.decay *= 1 - step.learning_rate * self._plan.optimization.weight_decay
            epoch, batch = divmod(step.number - 1, per_epoch)
            set_status(f"seed {seeds.index(self._seed) + 1} of {len(seeds)}, epoch {epoch + 1} of "
                       f"{settings.epochs}", batch + 1, per_epoch, "batches",
                       **self._trainer.losses, tokens=now.tokens_seen)
            if step.number % every and step.number != self._steps:
                continue
            at: dict[str, float] = {"epoch": step.number // per_epoch} if every == per_epoch else \
                {"epoch": round(step.number / per_epoch, 2), "step": step.number}
            now.step, now.evaluations = step.number, now.evaluations + 1
            yield at, round(statistics.fmean(one.losses["loss"] for one in done), _DIGITS)
            done = []

    def _evaluate(self, name: str, settings: JsonObject) -> Evaluation:
        examples = self._splits[name].examples
        task = copy(self._task)
        task.config = replace(task.config, **settings)
        processes = self._trainer.accelerator
        found = task.score(examples, run_model(
            task, self.model, examples, self._plan.finetuning.batch_size,
            processes.process_index, processes.num_processes))
        if math.isnan(found.loss):  # caused by the last update
            raise DivergedError(f"the loss on {setting(name)} is {found.loss}; lower "
                                f"{setting('learning_rate')} or raise {setting('warmup_ratio')}")
        return found


class PartialEmbedding(nn.Module):
    """Some rows of an embedding, looked up by their numbers in the full embedding.

    Args:
        whole: embedding of all tokens; it is not changed.
        tokens: (rows,) int64 ascending, ids to keep.
    """

    rows: Tensor

    def __init__(self, whole: nn.Embedding, tokens: Tensor) -> None:
        super().__init__()
        rows = torch.full((whole.num_embeddings,), -1)
        rows[tokens] = torch.arange(len(tokens))
        self.register_buffer("rows", rows, persistent=False)
        self.weight = nn.Parameter(whole.weight.detach()[tokens], whole.weight.requires_grad)
        self._padding = None if whole.padding_idx is None else int(rows[whole.padding_idx])

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids, (batch, tokens); other ids raise an IndexError."""
        return functional.embedding(self.rows[ids], self.weight, self._padding)


def read_tokens(plan: FinetunePlan, task: AnyTask, splits: Mapping[str, AnySplit]) -> Tensor | None:
    """Collect the ids of all tokens in the sets, (tokens,) int64 ascending.

    Returns:
        the ids; None unless AdamW trains all weights without further constraints.
    """
    if plan.regularization != RegularizationConfig() or plan.freezing != FreezeConfig() \
            or plan.optimization.optimizer != "adamw":
        return None
    special = np.array(task.checkpoint.tokenizer.all_special_ids, dtype=np.int64)
    seen = [item.ids for split in splits.values() for item in split.inputs]
    return torch.from_numpy(np.unique(np.concatenate([*seen, special])).astype(np.int64))


def shrink(model: PreTrainedModel, tokens: Tensor | None) -> nn.Embedding | None:
    """Keep only the embeddings of these tokens in a model.

    Returns:
        its full embedding; None if it is unchanged, for example without tokens.
    """
    whole = model.get_input_embeddings()
    if tokens is None or type(whole) is not nn.Embedding \
            or model.get_output_embeddings() is not None:
        return None
    model.set_input_embeddings(PartialEmbedding(whole, tokens))
    return whole


def trained_model(task: AnyTask, best: Best, tokens: Tensor | None,
                  unfinished: Unfinished) -> PreTrainedModel:
    """Build the model of the best evaluation; called by the main process.

    Args:
        task: task whose sets were read.
        best: the evaluation.
        tokens: ids of the tokens whose embeddings were trained; None for all.
        unfinished: contains the weights.
    """
    model = task.new_model(best.seed)
    whole = shrink(model, tokens)
    unfinished.load(model, best.weights)
    if whole is not None:
        partial = cast("PartialEmbedding", model.get_input_embeddings())
        with torch.no_grad():
            whole.weight *= best.decay
            whole.weight[tokens] = partial.weight
        model.set_input_embeddings(whole)
    return model
