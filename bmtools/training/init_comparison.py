"""Ways of starting new tokens, held against each other before one of them is trained for long."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bmtools.data.batches import SpecialTokens
from bmtools.data.shards import Corpus
from bmtools.data.tokenize import tokenize
from bmtools.errors import DataError, refuse
from bmtools.io.jsonl import RecordReader, write_records
from bmtools.masking.corruption import IGNORED
from bmtools.masking.strategies import make_strategy
from bmtools.models.architectures import has_segment_embeddings
from bmtools.models.checkpoint import Checkpoint, max_tokens
from bmtools.models.context_embeddings import Sentence
from bmtools.models.mlm import masked_lm_loss
from bmtools.models.nearest_tokens import nearest_tokens
from bmtools.models.settings import (
    READING,
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.transfer import Transfer, transfer
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
from bmtools.training.pretrain import losses_of
from bmtools.training.run import Run, prepare_run
from bmtools.vocab.tokenizer import fingerprint

ReadSentences = Callable[[Iterable[Record]], Iterable[Sentence]]
_DIGITS = 6


@dataclass(frozen=True)
class InitComparison:
    """What is compared, and how.

    Args:
        base: the model and its old vocabulary.
        tokenizer: the new vocabulary.
        compare: methods, and how they are tried.
        transfer: settings of a method; its name is left aside.
        focus: of static vectors.
        distil: of the fit.
        read: cuts records into sentences.
    """

    base: Checkpoint
    tokenizer: Any
    compare: CompareConfig
    transfer: TransferConfig
    focus: FocusConfig
    distil: TokenDistillationConfig
    read: ReadSentences


def compare_inits(contest: InitComparison, records: Iterable[Record],
                  held_out: Iterable[Record] | None = None) -> Iterator[dict[str, Any]]:
    """Yield a line for each method: losses on held-out text before and after a short trial.

    Text that is asked about is used for nothing else: no contexts, no static vectors, no training.
    All methods are asked for the same words, hidden alike, and are trained on the same batches.
    Texts and trials lie in a temporary directory; nothing is kept.

    Args:
        contest: what is compared.
        records: the corpus.
        held_out: text to ask about; None sets a share of the records apart.

    Raises:
        DataError: no text on one of the two sides.
        BmtoolsError: a method cannot be used with these.
    """
    with tempfile.TemporaryDirectory(prefix="bmtools-starts-") as name:
        directory = Path(name)
        _divide(records, held_out, contest, directory)
        for side in ("train", "held"):
            tokenize(RecordReader([str(directory / f"{side}.jsonl")]), contest.tokenizer,
                     directory / side, processes=0)
        for method in contest.compare.methods():
            yield _Trial(contest, directory, method).line()


def _divide(records: Iterable[Record], held_out: Iterable[Record] | None, contest: InitComparison,
            directory: Path) -> None:
    """Write the text to learn from and the text to ask about."""
    if held_out is not None:
        _write(records, directory / "train.jsonl", "the input: no records with text")
        _write(held_out, directory / "held.jsonl", "--held-out: no records with text")
        return
    share, seed = contest.compare.held_share, contest.transfer.seed
    _write(records, directory / "all.jsonl", "the input: no records with text")
    for side, is_held in (("train", False), ("held", True)):
        whole = RecordReader([str(directory / "all.jsonl")])
        _write((record for record in whole if _is_held(record["text"], share, seed) == is_held),
               directory / f"{side}.jsonl",
               f"--held-share {share}: it leaves no text to "
               f"{'ask about' if is_held else 'learn from'}; give more records, or --held-out FILE")


def _is_held(text: str, share: float, seed: int) -> bool:
    """Choose by content alone, so that equal texts are on one side."""
    digest = hashlib.sha256(f"{seed}\0{text}".encode()).digest()
    return int.from_bytes(digest[:8]) < share * 2**64


def _write(records: Iterable[Record], path: Path, otherwise: str) -> None:
    if not write_records((record for record in records if record["text"].strip()), str(path)):
        raise DataError(otherwise)


class _Trial:
    """One method's start, looked at and trained a little.

    Args:
        contest: what it is part of.
        directory: holds the texts, as records and as shards.
        method: its name.
    """

    def __init__(self, contest: InitComparison, directory: Path, method: str) -> None:
        self._contest = contest
        self._directory = directory
        self._method = method

    def line(self) -> dict[str, Any]:
        """Make the start, score it, train it, score it again."""
        contest, began = self._contest, time.monotonic()
        made = self._start()
        taken = time.monotonic() - began
        told = {"method": self._method, "seconds": round(taken, 3), **made.report,
                "neighbours": nearest_tokens(contest.base.tokenizer, contest.tokenizer, made.model,
                                             made.origins, contest.compare.sample_tokens,
                                             contest.transfer.seed)}
        plan = self._plan(made.model)
        wanted = DataConfig({"text": (str(self._directory / "train"),)})
        with prepare_run(plan, self._origin(made.model), wanted, refuse, losses_of(plan)) as run:
            told["start"] = self._scores(run, made, plan)
            if contest.compare.probe_steps:
                began = time.monotonic()
                for _ in run.lines():
                    pass
                took = round(time.monotonic() - began, 3)
                told["probe"] = {"steps": contest.compare.probe_steps, "seconds": took,
                                 **self._scores(run, made, plan)}
        return told

    def _start(self) -> Transfer:
        contest = self._contest
        text = RecordReader([str(self._directory / "train.jsonl")])
        return transfer(contest.base, contest.tokenizer,
                        replace(contest.transfer, method=self._method),
                        contest.read(text) if self._method in READING else (),
                        contest.focus, contest.distil)

    def _origin(self, model: Any) -> InitialModel:
        tokenizer = self._contest.tokenizer
        return InitialModel(tokenizer, fingerprint(tokenizer), max_tokens(model), model.config,
                            has_segment_embeddings(model), lambda: model)

    def _plan(self, model: Any) -> TrainingPlan:
        compare = self._contest.compare
        rows = BatchConfig(min(compare.probe_max_length, max_tokens(model)), compare.probe_batch)
        phase = Phase("probe", PhaseLengthConfig(steps=max(1, compare.probe_steps)), rows,
                      learning_rate=LearningRateConfig(compare.probe_rate))
        return TrainingPlan("init-weights", self._directory / self._method, RunConfig((phase,)),
                            OptimizationConfig(seed=self._contest.transfer.seed),
                            ReportingConfig(logging_steps=sys.maxsize, save_steps=0))

    def _scores(self, run: Run, made: Transfer, plan: TrainingPlan) -> dict[str, Any]:
        """Score held-out text: whole, and what is new of it and what is not."""
        words = SpecialTokens.of(self._contest.tokenizer)
        fresh = torch.zeros(len(self._contest.tokenizer), dtype=torch.bool)
        fresh[list(made.origins.pieces)] = True
        counted = LossByTokenAge(run.trainer.objective.model, fresh)
        held = EvaluationSet(Corpus.open(self._directory / "held"), words, make_strategy("words"),
                             plan.config.phases[0].batch.max_length)
        found = held.score(counted, run.accelerator)
        return {**found, **counted.losses()}


class LossByTokenAge(MaskedObjective):
    """The loss of hidden words, which also counts that of new tokens and that of others.

    Args:
        model: asked.
        fresh: (vocabulary,) bool, True for new tokens.
    """

    def __init__(self, model: Any, fresh: Tensor) -> None:
        super().__init__(model)
        self._fresh = fresh
        self._lost = {True: 0.0, False: 0.0}
        self._asked = {True: 0, False: 0}

    def forward(self, ids: Tensor, labels: Tensor, attended: Tensor | None = None,
                lengths: Tensor | None = None) -> dict[str, Tensor]:
        """Sum cross-entropy, in nats, over labelled places; shapes as in `EncoderInputs`."""
        states = EncoderInputs(ids, attended, lengths).states(self.model)
        asked = labels != IGNORED
        states, labels = states[asked], labels[asked]
        is_new = self._fresh.to(labels.device)[labels]
        total, right = states.new_zeros(()), labels.new_zeros(())
        for novelty, chosen in ((True, is_new), (False, ~is_new)):
            if chosen.any():
                lost, known = masked_lm_loss(self.model, states[chosen], labels[chosen])
                self._lost[novelty] += float(lost)
                self._asked[novelty] += int(chosen.sum())
                total, right = total + lost, right + known
        return {"mlm": total, "mlm_accuracy": right}

    def losses(self) -> dict[str, float | int | None]:
        """Mean loss of new tokens and of old ones so far, None where none was asked for."""
        means = {novelty: round(self._lost[novelty] / count, _DIGITS) if count else None
                 for novelty, count in self._asked.items()}
        return {"new_loss": means[True], "old_loss": means[False],
                "new_masked": self._asked[True]}
