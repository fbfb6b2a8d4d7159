"""Comparison of embedding initializations by the loss on held-out text, before long training."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bmtools.data.batches import SpecialTokens
from bmtools.data.shards import Corpus
from bmtools.data.tokenize import tokenize
from bmtools.errors import DataError, refuse, setting
from bmtools.io.jsonl import RecordReader, write_records
from bmtools.masking.corruption import IGNORED
from bmtools.masking.strategies import make_strategy
from bmtools.models.architectures import has_segment_embeddings, max_tokens
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.context_embeddings import Sentence
from bmtools.models.init_weights import transfer
from bmtools.models.mlm import masked_lm_loss
from bmtools.models.settings import (
    READING_METHODS,
    CompareConfig,
    FocusConfig,
    Method,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.vocab_overlap import nearest_tokens
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    BatchConfig,
    LearningRateConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    ReportingConfig,
)
from bmtools.records import Record
from bmtools.training.datasets import DataConfig
from bmtools.training.evaluation import EvaluationSet
from bmtools.training.model_init import InitialModel
from bmtools.training.objectives import EncoderInputs, MaskedObjective
from bmtools.training.plan import TrainingPlan
from bmtools.training.pretrain import objectives_of
from bmtools.training.run import Run, prepare_run
from bmtools.vocab.tokenizer import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

ReadSentences = Callable[[Iterable[Record]], Iterable[Sentence]]
_DIGITS = 6


@dataclass(frozen=True)
class InitComparison:
    """Settings of a comparison.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        compare: methods, and how long each is trained.
        transfer: settings of every method; its own method is ignored.
        focus: settings of static vectors.
        distil: settings of token distillation.
        read: splits records into sentences.
    """

    base: Checkpoint
    tokenizer: PreTrainedTokenizerFast
    compare: CompareConfig
    transfer: TransferConfig
    focus: FocusConfig
    distil: TokenDistillationConfig
    read: ReadSentences


def compare_inits(comparison: InitComparison, records: Iterable[Record],
                  held_out: Iterable[Record] | None = None) -> Iterator[dict[str, Any]]:
    """Yield a line for each method: losses on held-out text before and after a short training.

    Held-out text is used for nothing else: no contexts, no static vectors, no training. All
    methods are scored on the same masked words and trained on the same batches, in a temporary
    directory of which nothing is kept.

    Args:
        comparison: methods and settings.
        records: the corpus.
        held_out: text to score; None holds out a share of the records.

    Raises:
        DataError: no text to train on, or none to score.
        BmtoolsError: a method cannot be used with these.
    """
    with tempfile.TemporaryDirectory(prefix="bmtools-compare-") as name:
        directory = Path(name)
        if held_out is None:
            _split(records, comparison, directory)
        else:
            _write(records, directory / "train.jsonl", "the input: no records with text")
            _write(held_out, directory / "held.jsonl",
                   f"{setting('held_out')}: no records with text")
        for side in ("train", "held"):
            tokenize(RecordReader([str(directory / f"{side}.jsonl")]), comparison.tokenizer,
                     directory / side, processes=0)
        for method in comparison.compare.methods():
            yield _try_method(comparison, directory, method)


def _split(records: Iterable[Record], comparison: InitComparison, directory: Path) -> None:
    """Write text to train on and text to score."""
    share, seed = comparison.compare.held_out_ratio, comparison.transfer.seed
    _write(records, directory / "all.jsonl", "the input: no records with text")
    for side, purpose in (("train", "train on"), ("held", "score")):
        everything = RecordReader([str(directory / "all.jsonl")])
        _write((record for record in everything
                if _is_held(record["text"], share, seed) == (side == "held")),
               directory / f"{side}.jsonl",
               f"{setting('held_out_ratio')}: found {share}, which leaves no text to {purpose}; "
               f"give more records, or {setting('held_out')} FILE")


def _is_held(text: str, share: float, seed: int) -> bool:
    """Choose by content alone, so that equal texts are on one side."""
    digest = hashlib.sha256(f"{seed}\0{text}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _write(records: Iterable[Record], path: Path, message: str) -> None:
    if not write_records((record for record in records if record["text"].strip()), str(path)):
        raise DataError(message)


def _try_method(comparison: InitComparison, directory: Path, method: Method) -> dict[str, Any]:
    """Initialize embeddings, score held-out text, train for a while and score it again."""
    tokenizer, compare = comparison.tokenizer, comparison.compare
    start = time.monotonic()
    text = RecordReader([str(directory / "train.jsonl")])
    made = transfer(comparison.base, tokenizer, replace(comparison.transfer, method=method),
                    comparison.read(text) if method in READING_METHODS else (),
                    comparison.focus, comparison.distil)
    seconds = time.monotonic() - start
    line = {"method": method, "seconds": round(seconds, 3), **made.report,
            "neighbours": nearest_tokens(comparison.base.tokenizer, tokenizer, made.model,
                                         made.overlap, compare.sample_tokens,
                                         comparison.transfer.seed)}
    max_length = min(compare.probe_max_length, max_tokens(made.model))
    held = EvaluationSet(Corpus.open(directory / "held"), SpecialTokens.of(tokenizer),
                         make_strategy("words"), max_length)
    is_new = torch.zeros(len(tokenizer), dtype=torch.bool)
    is_new[list(made.overlap.pieces)] = True
    with _prepare(comparison, directory, made.model, method, max_length) as run:
        line["start"] = _score(held, run, is_new)
        if compare.probe_steps:
            start = time.monotonic()
            deque(run.lines(), maxlen=0)
            line["probe"] = {"steps": compare.probe_steps,
                             "seconds": round(time.monotonic() - start, 3),
                             **_score(held, run, is_new)}
    return line


def _prepare(comparison: InitComparison, directory: Path, model: PreTrainedModel, method: str,
             max_length: int) -> AbstractContextManager[Run]:
    """Prepare a short run of plain pretraining."""
    compare, tokenizer = comparison.compare, comparison.tokenizer
    phase = Phase("probe", PhaseLengthConfig(steps=max(1, compare.probe_steps)),
                  BatchConfig(max_length, compare.probe_batch_size),
                  learning_rate=LearningRateConfig(compare.probe_learning_rate))
    plan = TrainingPlan("init-weights", directory / method, RunConfig((phase,)),
                        OptimizationConfig(seed=comparison.transfer.seed),
                        ReportingConfig(logging_steps=sys.maxsize, save_steps=0))
    initial = InitialModel(tokenizer, fingerprint(tokenizer), max_tokens(model), model.config,
                           has_segment_embeddings(model), lambda: model)
    return prepare_run(plan, initial, DataConfig({"text": (str(directory / "train"),)}), refuse,
                       objectives_of(plan))


def _score(held: EvaluationSet, run: Run, is_new: Tensor) -> dict[str, Any]:
    """Score held-out text as a whole, and its new and old tokens apart."""
    objective = LossByTokenAge(run.trainer.objective.model, is_new)
    return {**held.score(objective, run.accelerator), **objective.losses()}


class LossByTokenAge(MaskedObjective):
    """Masked-LM loss that is also summed for new and for old tokens apart.

    Args:
        model: a masked language model.
        is_new: (vocabulary,) bool, True for new tokens.
    """

    def __init__(self, model: PreTrainedModel, is_new: Tensor) -> None:
        super().__init__(model)
        self._is_new = is_new
        self._sums = {True: 0.0, False: 0.0}
        self._counts = {True: 0, False: 0}

    def forward(self, input_ids: Tensor, labels: Tensor, attention_mask: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled positions; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).encode(self.model)
        masked = labels != IGNORED
        states, labels = states[masked], labels[masked]
        is_new = self._is_new.to(labels.device)[labels]
        loss, correct = states.new_zeros(()), labels.new_zeros(())
        for age, chosen in ((True, is_new), (False, ~is_new)):
            if chosen.any():
                own_loss, own_correct = masked_lm_loss(self.model, states[chosen], labels[chosen])
                self._sums[age] += float(own_loss)
                self._counts[age] += int(chosen.sum())
                loss, correct = loss + own_loss, correct + own_correct
        return {"mlm": loss, "mlm_accuracy": correct}

    def losses(self) -> dict[str, float | int | None]:
        """Return the mean loss of new and of old tokens; None where none was masked."""
        means = {age: round(self._sums[age] / count, _DIGITS) if count else None
                 for age, count in self._counts.items()}
        return {"new_loss": means[True], "old_loss": means[False],
                "new_masked": self._counts[True]}
