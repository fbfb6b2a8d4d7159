"""Comparison of embedding initializations by the loss on held-out text, before long training."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bmtools.data.batches import SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.data.shards import Corpus
from bmtools.data.tokenize import tokenize
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.jsonl import RecordReader
from bmtools.io.output import write_records
from bmtools.models.architectures import max_tokens
from bmtools.models.mlm import masked_lm_loss
from bmtools.models.settings import (
    READING_METHODS,
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.transfer.decoders import load_base
from bmtools.models.transfer.init_weights import Transfer, check_targets, split_sentences
from bmtools.models.transfer.init_weights import transfer as transfer_weights
from bmtools.models.transfer.vocab_overlap import nearest_tokens
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    BatchConfig,
    LearningRateConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    ReportingConfig,
)
from bmtools.status import set_status
from bmtools.training.datasets import DataConfig
from bmtools.training.evaluation import EvaluationSet
from bmtools.training.model_init import InitialModel
from bmtools.training.objectives import EncoderInputs, Lengths, MaskedObjective, select_masked
from bmtools.training.plan import TrainingPlan
from bmtools.training.run import prepare_run
from bmtools.vocab.loading import load_tokenizer
from bmtools.vocab.tokenizer import fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from bmtools.records import JsonObject, Record

_DIGITS = 6


def compare_inits(base: str | Path, tokenizer: str | Path, records: Iterable[Record],
                  compare: CompareConfig, *, held_out: Iterable[Record] | None = None,
                  lang: str = "en", transfer: TransferConfig | None = None,
                  focus: FocusConfig | None = None, distil: TokenDistillationConfig | None = None,
                  reject: Reject = refuse) -> Iterator[JsonObject]:
    """Yield a line for each method: losses on held-out text before and after a short training.

    Held-out text is used for nothing else: no contexts, no static vectors, no training. All
    methods are scored on the same masked words and trained on the same batches, in a temporary
    directory of which nothing is kept.

    Args:
        base: checkpoint whose weights are kept.
        tokenizer: directory of the new vocabulary.
        records: the corpus, as for `init_weights`.
        compare: methods, and how long each is trained.
        held_out: text to score; None holds out a share of the records.
        lang: language of records without one; sentences are split by it.
        transfer: settings of every method; its own method is ignored.
        focus: settings of static vectors.
        distil: settings of token distillation.
        reject: receives records with unusable targets.

    Raises:
        DataError: no text to train on, or none to score.
        BmtoolsError: a checkpoint, tokenizer or record that cannot be used.
    """
    checkpoint, new = load_base(Path(base)), load_tokenizer(Path(tokenizer))
    transfer = transfer or TransferConfig()
    with tempfile.TemporaryDirectory(prefix="bmtools-compare-") as name:
        directory = Path(name)
        files = {side: directory / f"{side}.jsonl" for side in ("train", "held")}
        usable = check_targets(records, reject)
        if held_out is None:
            _split(usable, compare.held_out_ratio, transfer.seed, directory)
        else:
            _write(usable, files["train"], "the input: no records with text")
            _write(held_out, files["held"], f"{setting('held_out')}: no records with text")
        for side, file in files.items():
            tokenize(RecordReader([str(file)]), new, directory / side, processes=0)
        for method in compare.methods():
            set_status(f"initializing by {method}")
            start = time.monotonic()
            sentences = split_sentences(RecordReader([str(files["train"])]), lang) \
                if method in READING_METHODS else ()
            transferred = transfer_weights(
                checkpoint, new, replace(transfer, method=method), sentences,
                focus or FocusConfig(), distil or TokenDistillationConfig())
            seconds = time.monotonic() - start
            neighbours = nearest_tokens(checkpoint.tokenizer, new, transferred.model,
                                        transferred.overlap, compare.sample_tokens, transfer.seed)
            yield {"method": method, "seconds": round(seconds, 3), **transferred.report,
                   "neighbours": neighbours,
                   **_evaluate(transferred, new, compare, transfer.seed, directory)}


def _split(records: Iterable[Record], ratio: float, seed: int, directory: Path) -> None:
    """Write text to train on and text to score, by content alone: equal texts are on one side."""
    everything = directory / "all.jsonl"
    _write(records, everything, "the input: no records with text")

    def is_held(text: str) -> bool:
        digest = hashlib.sha256(f"{seed}\0{text}".encode()).digest()
        return int.from_bytes(digest[:8]) < ratio * 2**64

    for side, purpose in (("train", "train on"), ("held", "score")):
        _write((record for record in RecordReader([str(everything)])
                if is_held(record["text"]) == (side == "held")),
               directory / f"{side}.jsonl",
               f"{setting('held_out_ratio')}: found {ratio}, which leaves no text to {purpose}; "
               f"give more records, or {setting('held_out')} FILE")


def _write(records: Iterable[Record], path: Path, message: str) -> None:
    if not write_records((record for record in records if record["text"].strip()), str(path)):
        raise DataError(message)


def _evaluate(transferred: Transfer, tokenizer: PreTrainedTokenizerFast, compare: CompareConfig,
              seed: int, directory: Path) -> JsonObject:
    """Score held-out text, its new and old tokens apart; train for a while and score it again."""
    model = transferred.model
    max_length = min(compare.probe_max_length, max_tokens(model))
    held = EvaluationSet(Corpus.open(directory / "held"), SpecialTokens.of(tokenizer),
                         make_strategy("words"), max_length)
    is_new = torch.zeros(len(tokenizer), dtype=torch.bool)
    is_new[list(transferred.overlap.pieces)] = True
    phase = Phase("probe", PhaseLengthConfig(steps=max(1, compare.probe_steps)),
                  BatchConfig(max_length, compare.probe_batch_size),
                  learning_rate=LearningRateConfig(compare.probe_learning_rate))
    plan = TrainingPlan("init-weights", directory / "probe", RunConfig((phase,)),
                        OptimizationConfig(seed=seed, mixed_precision="no"),
                        ReportingConfig(logging_steps=sys.maxsize, save_steps=0), overwrite=True)
    initial = InitialModel(tokenizer, fingerprint(tokenizer), max_tokens(model), model.config,
                           lambda: model)
    data = DataConfig({"text": (str(directory / "train"),)})
    with prepare_run(plan, initial, data, refuse) as run:

        def score() -> JsonObject:
            objective = LossByTokenAge(run.trainer.objective.model, is_new)
            return {**held.score(objective, run.accelerator), **objective.losses()}

        results: JsonObject = {"start": score()}
        if compare.probe_steps:
            start = time.monotonic()
            deque(run.lines(), maxlen=0)
            seconds = round(time.monotonic() - start, 3)
            results["probe"] = {"steps": compare.probe_steps, "seconds": seconds, **score()}
    return results


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
                lengths: Lengths = None, masked: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled positions; shapes as in `EncoderInputs`."""
        states = EncoderInputs(input_ids, attention_mask, lengths).encode(self.model)
        states, labels = select_masked(states, labels, masked)
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
