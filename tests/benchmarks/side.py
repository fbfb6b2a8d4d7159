"""One side of a pretraining race, as a program that runs the requested steps and times them.

Both sides read the same documents of the same shards and start from equal weights.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import distill_peer
import numpy as np
import peers
import torch
from peers import AfterStep
from race import MEASURED, Side, Turn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from transformers import BertTokenizer

from bmtools.data.batches import Collator, ScheduledBatches, SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.data.phase_lengths import attended_tokens, resolve_steps
from bmtools.data.sampler import Sampler
from bmtools.data.samples import count_parts
from bmtools.data.shards import Corpus, DocumentBatch
from bmtools.models.architectures import build_config, build_model
from bmtools.models.hardware import training_flops_per_token
from bmtools.models.packed import prepare_packed
from bmtools.models.precision import HALF_PRECISIONS
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import (
    BatchConfig,
    DistillationConfig,
    OptimizationConfig,
    PhaseLengthConfig,
)
from bmtools.training.distill import DistillationObjective, Teacher
from bmtools.training.distributed import join_processes, make_accelerator, resolve_precision
from bmtools.training.loop import Trainer
from bmtools.training.model_init import padded_lengths
from bmtools.training.objectives import MaskedObjective, Objective
from bmtools.vocab.loading import load_tokenizer

LEARNING_RATE = 5e-5  # as in run_mlm
_SPECIALS = 2
_VOCABULARY = 30_522
# PubMed abstracts of Cohen et al. 2006: quantiles of tokens with BERT's vocabulary.
_LENGTHS = (19, 69, 122, 163, 248, 351, 444, 539, 608, 780, 1136)
_SHARES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
_MADE_UP = 20_000
_STEPS_BEFORE = 5


class Pace:
    """Turns of a side: reads how many steps are requested, and reports how long they took.

    Args:
        cuda: measure memory on the GPU.
    """

    def __init__(self, cuda: bool) -> None:
        self._cuda = cuda
        self._wait(Turn(0, 0, 0.0, 0.0, 0))

    def after_step(self, tokens: Any) -> bool:
        """Count a step; after the last requested step, report all and wait for the next request."""
        self._tokens += tokens
        self._done += 1
        if self._done < self._requested:
            return True
        tokens = int(self._tokens)  # waits for the GPU
        seconds, cpu_seconds = (now - then for now, then in
                                zip(_clocks(), self._started, strict=True))
        return self._wait(Turn(self._done, tokens, seconds, cpu_seconds, self._peak_bytes()))

    def _wait(self, turn: Turn) -> bool:
        print(MEASURED + json.dumps(asdict(turn)), flush=True)
        self._requested = int(sys.stdin.readline() or 0)
        self._done, self._tokens, self._started = 0, 0, _clocks()
        return self._requested > 0

    def _peak_bytes(self) -> int:
        if self._cuda:
            return torch.cuda.max_memory_allocated()
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
        assert found is not None
        return int(found[1]) * 1024


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def train(side: Side, after_step: AfterStep) -> None:
    """Train a side until `after_step` returns False."""
    {"bmtools": train_ours, "trainer": train_peer, "loop": train_in_loop}[side.program](
        side, after_step)


def train_ours(side: Side, after_step: AfterStep) -> None:
    """Run the loop that `bmtools pretrain` runs, without its reports."""
    trainer, batches = set_up(side)
    for step in trainer.run(batches):
        if not after_step(step.counts["maskable"]):
            return


def set_up(side: Side) -> tuple[Trainer, ScheduledBatches]:
    """Set up trainer and batches as `bmtools pretrain` does."""
    corpus, tokenizer, model = load(side)
    batch_size = max(1, round(side.step_tokens / tokens_per_sequence(side, corpus)))
    phase = Phase("main", PhaseLengthConfig(steps=100_000), BatchConfig(
        max_length=side.max_length, batch_size=batch_size, layout=side.layout))
    packed, corpora = side.layout == "packed", {"text": corpus}
    schedule = resolve_steps([phase], corpora, packed)
    settings = OptimizationConfig(dropout=side.dropout, precision=side.precision,
                                  compile=side.compiled)
    settings, _ = resolve_precision(settings, model.config, join_processes(settings))
    accelerator = make_accelerator(settings)
    if packed or accelerator.device.type == "cpu":
        prepare_packed(model)
    trainer = Trainer(_objective(side, model, packed, settings.precision), schedule.steps,
                      lambda _: LEARNING_RATE, settings, accelerator)
    collator = Collator([corpus], SpecialTokens.of(tokenizer), packed, 0,
                        {"words": make_strategy("words")},
                        padded_lengths(schedule, accelerator))
    return trainer, ScheduledBatches(Sampler(corpora, schedule, packed, 0), collator)


def _objective(side: Side, model: Any, packed: bool, precision: str) -> Objective:
    if not side.teacher:
        return MaskedObjective(model)
    teacher = load_teacher(side)
    if packed:
        prepare_packed(teacher)
    config = DistillationConfig(kl_positions=side.positions)
    torch.manual_seed(0)
    return DistillationObjective(model, Teacher(teacher, HALF_PRECISIONS.get(precision)),
                                 config)


def train_in_loop(side: Side, after_step: AfterStep) -> None:
    """Run the plain loop of distillation on the batches of bmtools."""
    _, batches = set_up(replace(side, teacher=""))
    tokens: list[int] = []

    def inputs() -> Iterator[Any]:
        for number in count():
            batch = batches.batch(number)
            tokens.append(batch.counts["maskable"])
            yield batch.micro_batches[0]

    steps = distill_peer.train(load(side)[2], load_teacher(side), inputs(), side.positions,
                               LEARNING_RATE)
    for _ in steps:
        if not after_step(tokens.pop()):
            return


def busy_share(side: Side, steps: int = 20, activity: Any = ProfilerActivity.CUDA,
               device: Any = DeviceType.CUDA) -> float:
    """Return the share of time in which the device computes or copies, over some steps."""
    trainer, batches = set_up(side)
    with closing(trainer.run(batches)) as running:
        for _ in zip(range(_STEPS_BEFORE), running, strict=False):
            pass
        with profile(activities=[activity]) as profiler:
            for _ in zip(range(steps), running, strict=False):  # each waits for its losses
                pass
    spans = [(event.time_range.start, event.time_range.end) for event in profiler.events()
             if event.device_type == device and not getattr(event, "is_user_annotation", False)]
    if not spans:
        raise RuntimeError("torch's profiler saw nothing run on the device")
    return covered(spans)


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the share of time from the first start to the last end that the spans cover."""
    ordered = sorted(spans)
    first, end = ordered[0][0], ordered[0][0]
    inside = 0.0
    for begins, ends in ordered:
        inside += max(0.0, ends - max(begins, end))
        end = max(end, ends)
    return inside / (end - first)


def train_peer(side: Side, after_step: AfterStep) -> None:
    """Run transformers' Trainer."""
    corpus, tokenizer, model = load(side)
    documents = documents_of(corpus, tokenizer)
    sequences = peers.group_texts(documents, side.max_length) if side.layout == "grouped" else \
        peers.line_by_line(documents, side.max_length, tokenizer.pad_token_id)
    del documents
    gpu = side.device == "cuda"
    with tempfile.TemporaryDirectory() as directory:
        peers.train(
            model, tokenizer, sequences,
            max(1, round(side.step_tokens / tokens_per_sequence(side, corpus))),
            Path(directory), after_step, use_cpu=not gpu, dataloader_pin_memory=gpu,
            dataloader_num_workers=4 if gpu else 0, bf16=side.precision == "bf16",
            torch_compile=side.compiled)


def tokens_per_sequence(side: Side, corpus: Corpus) -> float:
    """Return the mean number of useful tokens per sequence."""
    lengths = corpus.lengths.astype(int)
    longest = side.max_length - _SPECIALS
    if side.layout == "padded":
        return float(lengths.sum() / count_parts(lengths, longest).sum())
    if side.layout == "lines":
        return float(np.minimum(lengths, longest).mean())
    shown = lengths if side.layout == "grouped" else np.minimum(lengths, longest)
    return float(side.max_length * shown.mean() / (shown.mean() + _SPECIALS))


def flops_per_token(side: Side) -> float:
    """Count the operations that the objective needs for a useful token, for any trainer.

    Counts six operations for each weight of the layers, attention inside documents, and the head on
    masked tokens; see `training_flops_per_token`.
    """
    corpus, tokenizer = open_text(side)
    phase = Phase("main", batch=BatchConfig(max_length=side.max_length))
    flops = training_flops_per_token(
        build_config(side.architecture, tokenizer, side.max_length),
        attended_tokens(phase, {"text": corpus}), phase.objective.mask_rate)
    assert flops is not None
    return flops


def load(side: Side) -> tuple[Corpus, Any, Any]:
    """Open the text and build the model, with weights that are equal on both sides."""
    corpus, tokenizer = open_text(side)
    config = build_config(side.architecture, tokenizer, side.max_length)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        if hasattr(config, name):
            setattr(config, name, side.dropout)
    torch.manual_seed(0)
    return corpus, tokenizer, build_model(config)


def load_teacher(side: Side) -> Any:
    """Build the teacher, with separate weights."""
    torch.manual_seed(1)
    return build_model(build_config(side.teacher, open_text(side)[1], side.max_length))


def open_text(side: Side) -> tuple[Corpus, Any]:
    """Open the text and its tokenizer, or make both up."""
    tokenizer = load_tokenizer(Path(side.tokenizer)) if side.tokenizer else stand_in_tokenizer()
    return Corpus.open(Path(side.text)) if side.text else made_up_corpus(tokenizer), tokenizer


def documents_of(corpus: Corpus, tokenizer: Any) -> list[np.ndarray]:
    """Read the documents' ids, each between its special tokens."""
    numbers = np.arange(len(corpus))
    ids, _ = corpus.gather(numbers, np.zeros_like(numbers), corpus.lengths)
    parts = np.split(ids, np.cumsum(corpus.lengths.astype(int))[:-1])
    first, last = (np.array([number], dtype=ids.dtype)
                   for number in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    return [np.concatenate([first, part, last]) for part in parts]


def stand_in_tokenizer() -> Any:
    """Make a vocabulary of BERT's size, for made-up ids."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = special + [f"t{number}" for number in range(_VOCABULARY - len(special))]
    return BertTokenizer(vocab={token: number for number, token in enumerate(tokens)})


def made_up_corpus(tokenizer: Any, documents: int = _MADE_UP) -> Corpus:
    """Make documents with lengths of real abstracts and frequencies of ids as in real text."""
    rng = np.random.default_rng(0)
    lengths = np.interp(rng.random(documents), _SHARES, _LENGTHS).astype(int)
    least = len(tokenizer.all_special_ids)
    ranks = (np.exp(rng.random(lengths.sum()) * np.log(len(tokenizer) - least))).astype(int)
    ids = (least - 1 + ranks).astype(np.int32)
    starts = rng.random(len(ids)) < 0.75
    return Corpus.of(DocumentBatch(ids, starts, lengths))


if __name__ == "__main__":
    requested = Side(**json.loads(sys.argv[1]))
    train(requested, Pace(requested.device == "cuda").after_step)
