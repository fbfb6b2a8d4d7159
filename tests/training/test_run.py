"""Evaluation on all held-out text, always with the same mask."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import Collator, SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.data.samples import token_counts
from bmtools.data.shards import Corpus
from bmtools.recipes.settings import ObjectiveConfig
from bmtools.training.objectives import MaskedObjective
from bmtools.training.run import evaluate, sorted_batches

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue. {'Il polmone filtra la bile. ' * n}" for n in range(40)]


def score(objective: Any, corpus: Corpus, tokenizer: Any, accelerator: Any = None,
          **settings: Any) -> Any:
    return evaluate(objective, corpus, SpecialTokens.of(tokenizer), make_strategy("words"), 32,
                    accelerator or Accelerator(cpu=True), **{"tokens": 1024, **settings})


@pytest.fixture
def corpus(toy: Any) -> Corpus:
    """Documents, some of them longer than a sequence."""
    return toy.corpus(TEXTS)


def test_loss_is_the_mean_over_masked_tokens_of_all_text(
        model: Any, tokenizer: Any, corpus: Corpus) -> None:
    """Against one pass per sequence, with logits at all positions."""
    found = score(MaskedObjective(model), corpus, tokenizer)
    losses, correct = [], []
    model.eval()
    collator = Collator([corpus], SpecialTokens.of(tokenizer), False, 0,
                        {"words": make_strategy("words")})
    for samples in sorted_batches(corpus, 32, 1):
        inputs, _ = collator(samples, ObjectiveConfig(), 0.15)
        with torch.no_grad():
            logits = model(inputs["input_ids"], inputs["attention_mask"].long()).logits[0]
        labels = inputs["labels"][0]
        for position in torch.nonzero(labels >= 0).flatten().tolist():
            losses.append(-logits[position].log_softmax(-1)[labels[position]].item())
            correct.append(int(logits[position].argmax() == labels[position]))
    assert found["masked"] == len(losses)
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(correct), abs=1e-6)
    assert 0.1 < found["masked"] / corpus.tokens < 0.2


def test_every_evaluation_is_the_same_and_has_no_side_effects(
        model: Any, tokenizer: Any, corpus: Corpus) -> None:
    """Batches, generators and the mode of the model do not change."""
    objective = MaskedObjective(model).train()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = [score(objective, corpus, tokenizer, tokens=size) for size in (1024, 1024, 160)]
    assert found[0] == found[1]
    assert found[2] == pytest.approx(found[0], abs=1e-5)
    assert torch.equal(torch.rand(2), expected)
    assert objective.training and model.training
    assert all(weight.grad is None for weight in model.parameters())


class SimulatedProcesses:
    """Processes that run one after the other and add up their sums."""

    def __init__(self, processes: int) -> None:
        self.device = torch.device("cpu")
        self.num_processes, self.process_index = processes, 0
        self.sums = torch.zeros(3, dtype=torch.float64)

    def autocast(self) -> Any:
        return torch.no_grad()

    def reduce(self, sums: torch.Tensor, _how: str) -> torch.Tensor:
        self.sums += sums
        return self.sums


@pytest.mark.parametrize("processes", [2, 3, 7])
def test_processes_share_the_text_and_run_equally_many_passes(
        model: Any, tokenizer: Any, corpus: Corpus, processes: int) -> None:
    """With sharded weights, one pass too few would leave the others waiting."""
    whole = score(MaskedObjective(model), corpus, tokenizer, tokens=256)
    simulated: Any = SimulatedProcesses(processes)
    passes = []

    class Counted(MaskedObjective):
        def forward(self, **inputs: torch.Tensor) -> Any:
            passes[-1] += 1
            return super().forward(**inputs)

    for simulated.process_index in range(processes):
        passes.append(0)
        found = score(Counted(model), corpus, tokenizer, simulated, tokens=256)
    assert found == pytest.approx(whole, abs=1e-5)
    assert len(set(passes)) == 1 and passes[0] * processes >= len(sorted_batches(corpus, 32, 256))


def test_batches_have_the_tokens_that_fit_and_every_sample_once(corpus: Corpus) -> None:
    batches = sorted_batches(corpus, 32, 100)
    lengths = [token_counts(batch) for batch in batches]
    assert all(len(one) * one.max() <= 100 for one in lengths)
    for one, following in itertools.pairwise(lengths):
        assert one.max() <= following.min()
        assert (len(one) + 1) * following.min() > 100, "one more would have fit"
    assert np.array_equal(np.sort(np.concatenate(batches)),
                          np.sort(np.concatenate(sorted_batches(corpus, 32, 1))))
    assert max(map(len, sorted_batches(corpus, 32, 1))) == 1
