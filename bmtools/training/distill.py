"""Distillation of one masked language model into another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers import PretrainedConfig, PreTrainedModel

from bmtools.errors import CheckpointError, Reject, refuse
from bmtools.models.architectures import max_tokens
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.families import require_length
from bmtools.models.mlm import (
    chunks_of_logits,
    head_weights,
    lm_head,
    masked_lm_loss,
    sum_by_chunks,
    sum_cross_entropy,
    wide,
)
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.models.packed import prepare_for_cpu, prepare_packed
from bmtools.models.precision import FLOAT32_ONLY, HALF_PRECISIONS
from bmtools.recipes.settings import DistillationConfig
from bmtools.records import JsonObject
from bmtools.training.forecast import run_to_end
from bmtools.training.model_init import load_initial_model
from bmtools.training.objectives import (
    EncoderInputs,
    LabelObjective,
    Lengths,
    LossTerm,
    MaskedObjective,
    PhasedObjective,
    masked_positions,
)
from bmtools.training.plan import (
    DISTILLATION_WARMUP,
    Data,
    DataConfig,
    ModelInit,
    TrainingPlan,
    make_data_config,
    make_init,
    make_plan,
    make_run_config,
)
from bmtools.training.run import HELD_OUT, StartRun, train

# Numbers in a pass over rows: few enough for a CPU's cache, enough to keep a GPU busy.
_CACHED_ON_CPU = 2**18
_CACHED_ON_GPU = 2**27
# Lower limit for logarithms: the logarithm of 0 is not finite, and exp of less underflows in
# float32.
_LEAST_LOG = -87.0


def distill(data: Data, output: str | Path, *, teacher: str | Path,
            student: str | Path | None = None, architecture: str | None = None,
            take_layers: str = "", tokenizer: str | Path | None = None,
            recipe: str | None = None, phases: str | Path | None = None,
            on_report: Callable[[JsonObject], None] | None = None, resume: bool = False,
            overwrite: bool = False, dry_run: bool = False, **settings: object) -> JsonObject:
    """Train a smaller masked language model to predict like a larger one.

        distill("corpus.jsonl", "small", teacher="model", architecture="bert-tiny", steps=1000)

    Args:
        data: paths of records or shards, or corpora by name for mixtures.
        output: directory of the checkpoint.
        teacher: checkpoint to learn from.
        student: checkpoint to train, with the teacher's vocabulary; instead of `architecture`.
        architecture: architecture of a student with new weights.
        take_layers: layers of the student or the teacher to start from: even, a count, or their
            numbers from 0.
        tokenizer: directory of an architecture's vocabulary; default: the teacher's.
        recipe, phases, on_report, resume, overwrite, dry_run: as for `pretrain`.
        settings: settings of `pretrain` and of `DistillationConfig`, such as `temperature`.

    Returns:
        description of the checkpoint, as for `pretrain`.

    Raises:
        ValueError: a setting is unknown, out of range or contradicts another one. BmtoolsError:
            data, model or output cannot be used, or the loss diverged.
    """
    data_config, settings = make_data_config(data, settings)
    config = make_run_config(recipe, phases, settings, warmup_ratio=DISTILLATION_WARMUP)
    init = make_init(student or (teacher if take_layers else None), architecture, tokenizer,
                     take_layers)
    plan = make_plan(Path(output), config, init, data_config, resume, overwrite, Path(teacher))
    lines = partial(distill_lines, plan, init, Path(teacher), data_config, refuse)
    return run_to_end(plan, lines, on_report, dry_run)


def distill_lines(plan: TrainingPlan, student: ModelInit, teacher: Path, data: DataConfig,
                  reject: Reject, start: StartRun = train) -> Iterator[JsonObject]:
    """Train a student to predict masked tokens like its teacher, and yield metrics.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1. The paper starts from a pretrained student.
    With an architecture, training starts from new weights.

    Raises:
        CheckpointError: a checkpoint cannot be used, or the two have different vocabularies.
        BmtoolsError: sequences are longer than the positions of a model.
    """
    taught = load_checkpoint(teacher)
    initial = load_initial_model(student, plan.optimization.seed, tokenizer=taught.tokenizer,
                                 positions=plan.pretraining.positions)
    if initial.vocabulary != taught.vocabulary:
        raise CheckpointError(
            f"{teacher}: found vocabulary {taught.vocabulary[:12]}, but the student has "
            f"{initial.vocabulary[:12]}; expected the same vocabulary")
    require_length(max(phase.batch.max_length for phase in plan.config.phases),
                   max_tokens(taught.model), "the teacher")

    def make_objectives(plan: TrainingPlan, model: PreTrainedModel,
                        head: NextSentenceHead | None,
                        device: torch.device) -> PhasedObjective:
        assert plan.distillation is not None
        dtype = None if taught.model.config.model_type in FLOAT32_ONLY \
            else HALF_PRECISIONS.get(plan.optimization.precision)
        if plan.layout == "packed":
            prepare_packed(taught.model)
        source = Teacher(taught.model.to(device), dtype)  # type: ignore[arg-type]
        torch.manual_seed(plan.optimization.seed)
        return PhasedObjective(
            model, {"masked": DistillationObjective(model, source, plan.distillation),
                    HELD_OUT: MaskedObjective(model)}, head)

    return start(plan, replace(initial, make_objectives=make_objectives), data, reject)


class Teacher:
    """A frozen model that computes targets for each micro-batch.

    Args:
        model: a masked language model on its device, prepared for packed documents if needed.
        dtype: data type of its matrices, in memory and in products; None for float32.
    """

    def __init__(self, model: PreTrainedModel, dtype: torch.dtype | None = None) -> None:
        self.config: PretrainedConfig = model.config
        self._dtype = dtype
        if dtype:
            # Autocast needs norms and biases in float32 and casts matrices anyway.
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.data = weight.data.to(dtype)
        elif model.device.type == "cpu":
            prepare_for_cpu(model)
        self._model = model.eval()

    @torch.no_grad()
    def encode(self, inputs: EncoderInputs) -> Tensor:
        """Compute last states; see `EncoderInputs.encode`."""
        with self._autocast():
            return inputs.encode(self._model)

    @torch.no_grad()
    def logits(self, states: Tensor) -> Tensor:
        """Compute (rows, vocabulary) logits of states, in a tensor that may be overwritten."""
        with self._autocast():
            logits: Tensor = lm_head(self._model)(states)
            return logits

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._model.device.type, self._dtype,
                              enabled=self._dtype is not None)


class DistillationObjective(LabelObjective):
    """Masked language modelling with a teacher's predictions and last states as targets.

    Predictions are compared at masked positions or at every token. States are compared at every
    token, through a learned projection if widths differ. A loss without weight is not computed.

    Source: Lewis et al. 2020 (Bio-LM), section 7.1, after Sanh et al. 2020.
    """

    def __init__(self, student: PreTrainedModel, teacher: Teacher,
                 settings: DistillationConfig) -> None:
        super().__init__(student)
        self._teacher = teacher  # not a module, so its weights are not registered here
        self._settings = settings
        self._vocabulary = min(student.config.vocab_size, teacher.config.vocab_size)
        compared = "tokens" if settings.kl_positions == "all" else "masked"
        terms = {"mlm": LossTerm(settings.mlm_weight, "masked"),
                 "kl": LossTerm(settings.kl_weight, compared),
                 "cosine": LossTerm(settings.cosine_weight, "tokens")}
        self.loss_terms = {name: term for name, term in terms.items() if term.weight}
        self.metrics = {"mlm_accuracy": "masked"} if settings.mlm_weight else {}
        width, teacher_width = student.config.hidden_size, teacher.config.hidden_size
        self.projection = nn.Linear(width, teacher_width) \
            if settings.cosine_weight and width != teacher_width else nn.Identity()

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Lengths = None, masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum each term; for shapes see `EncoderInputs`."""
        inputs = EncoderInputs(input_ids, attention_mask, lengths)
        if masked is None:
            masked = masked_positions(labels)
        compared = inputs.token_positions() if self._settings.kl_positions == "all" else masked
        taught = self._teacher.encode(inputs)
        last = inputs.encode(self.model)
        sums = self._sum_predictions(last.flatten(0, -2), labels, masked, compared,
                                     taught.flatten(0, -2)[compared])
        if "cosine" in self.loss_terms:
            # Sanh et al. 2020 (DistilBERT), section 2.
            own = self.projection(inputs.token_states(last))
            sums["cosine"] = (1 - functional.cosine_similarity(
                wide(own), wide(inputs.token_states(taught)), dim=-1)).sum()
        return sums

    def _sum_predictions(self, states: Tensor, labels: Tensor, masked: Tensor, compared: Tensor,
                         taught: Tensor) -> dict[str, Tensor]:
        """Sum the losses of predictions, and compute logits once if there are few.

        Args:
            states: (positions, width) states of the student.
            labels: labels of the micro-batch.
            masked, compared: positions with a label, and positions to compare with the teacher.
            taught: (compared, width) states of the teacher.
        """
        labels = labels.flatten()[masked]
        sums: dict[str, Tensor] = {}
        if "kl" in self.loss_terms:
            selected = states[compared]
            chunks = chunks_of_logits(self.model, selected)
            if len(chunks) == 1:
                logits = wide(lm_head(self.model)(selected))
                sums["kl"] = self._divergence(logits, taught)
                if "mlm" in self.loss_terms and compared is masked:
                    sums["mlm"], sums["mlm_accuracy"] = sum_cross_entropy(logits, labels)
            else:
                sums["kl"] = sum_by_chunks(
                    lambda inputs, rows: (self._divergence(wide(lm_head(self.model)(inputs)),
                                                           taught[rows]), 0),
                    chunks, selected, head_weights(self.model))[0]
        if "mlm" in self.loss_terms and "mlm" not in sums:
            sums["mlm"], sums["mlm_accuracy"] = masked_lm_loss(self.model, states[masked], labels)
        return sums

    def _divergence(self, logits: Tensor, taught: Tensor) -> Tensor:
        """Sum the divergence over rows; padding of the vocabularies is ignored."""
        return teacher_divergence(logits[:, :self._vocabulary],
                                  wide(self._teacher.logits(taught))[:, :self._vocabulary],
                                  self._settings.temperature)


def teacher_divergence(logits: Tensor, teacher_logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Sum the Kullback-Leibler divergences between a teacher's predictions and these, in nats.

    The sum is multiplied by the squared temperature, so that gradients keep their size (Hinton et
    al. 2015, section 2).

    Args:
        logits: (rows, classes), at least float32.
        teacher_logits: same shape; overwritten by the gradient to save memory.
        temperature: temperature of both softmax distributions.
    """
    summed: Tensor = _Divergence.apply(logits, teacher_logits, temperature)
    return summed


class _Divergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
        total = logits.new_zeros(())
        numbers = _CACHED_ON_CPU if logits.device.type == "cpu" else _CACHED_ON_GPU
        rows = max(1, numbers // logits.shape[-1])
        for own, theirs in zip(logits.split(rows), teacher_logits.split(rows), strict=True):
            predicted = functional.log_softmax(own / temperature, dim=-1)
            taught = functional.log_softmax(theirs / temperature, dim=-1).clamp_(min=_LEAST_LOG)
            expected = taught.exp()
            total += taught.sub_(predicted).mul_(expected).sum()
            torch.sub(predicted.exp_(), expected, out=theirs)
        ctx.save_for_backward(teacher_logits)
        ctx.temperature = temperature
        return total * temperature**2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        gradient, = ctx.saved_tensors
        return gradient.mul_(upstream * ctx.temperature), None, None
