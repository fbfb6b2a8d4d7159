"""Initial model of a run: loaded or built, and prepared for the layout of its sequences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from bmtools.data.batches import Collator
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.errors import BmtoolsError, setting
from bmtools.models.architectures import (
    build_config,
    build_model,
    max_tokens,
)
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.families import require_length
from bmtools.models.next_sentence import NextSentenceHead, is_saved, read_head
from bmtools.models.packed import prepare_packed, self_check
from bmtools.models.transfer.take_layers import take_layers
from bmtools.recipes.phases import Phase, Schedule
from bmtools.status import set_status
from bmtools.training.layers import encoder_layers
from bmtools.training.objectives import PhasedObjective
from bmtools.training.plan import ModelInit
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint

_LENGTH_STEP = 16


@dataclass(frozen=True)
class InitialModel:
    """A model before training.

    Args:
        tokenizer: of the model.
        vocabulary: fingerprint of the tokenizer.
        config: of the model.
        make: returns the model; a resumed run never calls it.
        next_sentence: head of next-sentence prediction that its checkpoint has, if any.
        make_objectives: makes the objectives of all phases of a plan, and that of `HELD_OUT`
            text, around a model and its head of next-sentence prediction; None for pretraining.
    """

    tokenizer: PreTrainedTokenizerFast
    vocabulary: str
    config: PretrainedConfig
    make: Callable[[], PreTrainedModel]
    next_sentence: NextSentenceHead | None = None
    make_objectives: Callable[..., PhasedObjective] | None = None


def load_initial_model(init: ModelInit, seed: int, phases: Sequence[Phase] = (),
                       tokenizer: PreTrainedTokenizerFast | None = None,
                       positions: str = "sinusoid") -> InitialModel:
    """Load a masked language model, or build one with new weights, which depend on the seed alone.

    Args:
        init: checkpoint, with the layers to take of it, or architecture.
        seed: of new weights.
        phases: whose sequences need positions, where the architecture leaves their number open.
        tokenizer: of an architecture for which `init` names no directory.
        positions: sinusoid or random, how learned ones of an architecture start.

    Raises:
        CheckpointError: the checkpoint or the tokenizer cannot be used.
        BmtoolsError: no such architecture.
    """
    if init.checkpoint is not None:
        checkpoint = load_checkpoint(init.checkpoint)
        model = checkpoint.model
        if init.take_layers:
            model = take_layers(model, init.take_layers)
        return InitialModel(checkpoint.tokenizer, checkpoint.vocabulary, model.config,
                            lambda: model, read_head(init.checkpoint, model))
    assert init.architecture is not None
    if init.tokenizer is not None:
        tokenizer = load_tokenizer(init.tokenizer)
    assert tokenizer is not None
    config = build_config(init.architecture, tokenizer, max(
        (phase.batch.max_length for phase in phases), default=0))

    def make() -> PreTrainedModel:
        torch.manual_seed(seed)
        return build_model(config, positions=positions)

    return InitialModel(tokenizer, fingerprint(tokenizer), config, make)


def check_fits(initial: InitialModel, phases: Sequence[Phase]) -> None:
    """Refuse phases that a model cannot be trained on; cheap.

    Raises:
        BmtoolsError: sequences longer than its positions, sentence pairs without token types, or
            layers to freeze that it does not have.
    """
    set_status("checking settings")
    outline = build_model(initial.config, "meta")
    for phase in phases:
        require_length(phase.batch.max_length, max_tokens(outline), "the model")
        if phase.objective.pair_term and not is_saved(initial.config):
            raise BmtoolsError(
                f"{setting('objective')} {phase.objective.objective}: {type(outline).__name__} has "
                "no token types or no head of sentence pairs; expected BERT or Megatron-BERT")
        phase.freeze.require_layers(len(encoder_layers(outline)))


def padded_lengths(schedule: Schedule, accelerator: Accelerator) -> list[int] | None:
    """List the lengths of padded sequences; None where any length will do.

    In half precision a processor works best on multiples of some number, and a CPU compiles its
    products anew for each shape.
    """
    if accelerator.mixed_precision == "no":
        return None
    longest = max(phase.batch.max_length for phase in schedule.phases)
    return [*range(_LENGTH_STEP, longest, _LENGTH_STEP), longest]


def prepare_packing(model: PreTrainedModel, schedule: Schedule, corpora: Mapping[str, Corpus],
                    collator: Collator, seed: int, accelerator: Accelerator) -> None:
    """Prepare a model for packed sequences, and check it on the first ones of each phase.

    Call it before the model is wrapped or sharded.

    Raises:
        BmtoolsError: a document changes its neighbour, or differs from itself alone.
    """
    model.to(accelerator.device)
    prepare_packed(model)
    for phase in schedule.phases:
        plan = Sampler(corpora, Schedule([phase], [1]), True, seed).batch(0)
        inputs, _ = collator(plan.sequences[:2].samples, phase.objective, 0.15)
        types = inputs.get("token_type_ids")
        with accelerator.autocast():
            self_check(model, inputs["input_ids"].to(accelerator.device), inputs["lengths"],
                       types if types is None else types.to(accelerator.device),
                       causal=phase.objective.objective == "causal")
