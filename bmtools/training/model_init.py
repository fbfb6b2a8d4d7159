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
        tokenizer: the model's tokenizer.
        vocabulary: fingerprint of the tokenizer.
        config: the model's configuration.
        make: returns the model; a resumed run never calls it.
        next_sentence: head of next-sentence prediction in its checkpoint, if any.
        make_objectives: makes the objectives of all phases and of `HELD_OUT` text from a plan, a
            model and its head of next-sentence prediction; None for pretraining.
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
    """Load a masked language model, or build one with new weights that depend only on the seed.

    Args:
        init: checkpoint, with the layers to use, or architecture.
        seed: seed of new weights.
        phases: phases that determine the number of positions, if the architecture does not.
        tokenizer: tokenizer for an architecture, if `init` does not name one.
        positions: initialization of learned positions of an architecture: sinusoid or random.

    Raises:
        CheckpointError: the checkpoint or the tokenizer cannot be used.
        BmtoolsError: the architecture is unknown.
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
    """Reject phases that a model cannot be trained on, without loading weights.

    Raises:
        BmtoolsError: sequences are longer than its positions, it has no token types for sentence
            pairs, or it does not have all layers to freeze.
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
    """List the lengths to pad sequences to; None if any length is suitable.

    In half precision a processor is fastest on multiples of a number, and a CPU compiles its
    products again for each shape.
    """
    if accelerator.mixed_precision == "no":
        return None
    longest = max(phase.batch.max_length for phase in schedule.phases)
    return [*range(_LENGTH_STEP, longest, _LENGTH_STEP), longest]


def prepare_packing(model: PreTrainedModel, schedule: Schedule, corpora: Mapping[str, Corpus],
                    collator: Collator, seed: int, accelerator: Accelerator) -> None:
    """Prepare a model for packed sequences, and check it on the first two of each phase.

    Call it before the model is wrapped or sharded.

    Raises:
        BmtoolsError: a document influences its neighbour, or differs from the same document alone.
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
