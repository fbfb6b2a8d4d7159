"""Held-out text: all of it, always hidden alike, whatever else goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import SpecialTokens
from bmtools.data.shards import Corpus
from bmtools.masking.strategies import make_strategy
from bmtools.models.packed import prepare_packed
from bmtools.training.evaluation import EvaluationSet
from bmtools.training.objectives import MaskedObjective

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue. {'Il polmone filtra la bile. ' * n}" for n in range(40)]


def held_out(corpus: Corpus, tokenizer: Any, **settings: Any) -> EvaluationSet:
    return EvaluationSet(corpus, SpecialTokens.of(tokenizer), make_strategy("words"), 32,
                         **settings)


@pytest.fixture
def corpus(toy: Any) -> Corpus:
    """Documents of which some are longer than a row."""
    return toy.corpus(TEXTS)


def test_it_is_the_mean_over_hidden_tokens_of_all_text(
        model: Any, tokenizer: Any, corpus: Corpus) -> None:
    """Against one pass a row, with logits for every place."""
    held = held_out(corpus, tokenizer)
    found = held.score(MaskedObjective(model), Accelerator(cpu=True))
    asked, losses, right = [], [], []
    model.eval()
    single = EvaluationSet(corpus, held.special_tokens, held.strategy, 32, batch_size=1)
    for samples in single._batches():
        inputs, _ = held.collator()(samples, held.objective, held.objective.mask_rate)
        with torch.no_grad():
            logits = model(inputs["input_ids"], inputs["attention_mask"].long()).logits[0]
        labels = inputs["labels"][0]
        asked.append(int((inputs["input_ids"] != 0).sum()))
        for place in torch.nonzero(labels >= 0).flatten().tolist():
            losses.append(-logits[place].log_softmax(-1)[labels[place]].item())
            right.append(int(logits[place].argmax() == labels[place]))
    assert found["masked"] == len(losses)
    assert found["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    assert 0.1 < found["masked"] / corpus.tokens < 0.2


def test_it_asks_the_same_every_time_and_disturbs_nothing(
        model: Any, tokenizer: Any, corpus: Corpus) -> None:
    """Neither batches, generators nor the mode of the model change."""
    objective = MaskedObjective(model).train()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    found = [held_out(corpus, tokenizer, batch_size=rows).score(objective, Accelerator(cpu=True))
             for rows in (32, 32, 5)]
    assert found[0] == found[1]
    assert found[2] == pytest.approx(found[0], abs=1e-5)
    assert torch.equal(torch.rand(2), expected)
    assert objective.training and model.training
    assert all(weight.grad is None for weight in model.parameters())


def test_a_model_made_ready_for_packing_scores_as_it_did(
        model: Any, tokenizer: Any, corpus: Corpus) -> None:
    held = held_out(corpus, tokenizer)
    before = held.score(MaskedObjective(model), Accelerator(cpu=True))
    prepare_packed(model)
    assert held.score(MaskedObjective(model), Accelerator(cpu=True)) == \
        pytest.approx(before, abs=1e-5)


class Crew:
    """Processes that come one after the other; their sums are added up by hand."""

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
def test_processes_share_the_text_and_run_as_often(
        model: Any, tokenizer: Any, corpus: Corpus, processes: int) -> None:
    """Where weights are shared out, one pass too few would leave the others waiting."""
    held = held_out(corpus, tokenizer, batch_size=8)
    whole = held.score(MaskedObjective(model), Accelerator(cpu=True))
    crew: Any = Crew(processes)
    passes = []

    class Counted(MaskedObjective):
        def forward(self, **inputs: torch.Tensor) -> Any:
            passes[-1] += 1
            return super().forward(**inputs)

    for crew.process_index in range(processes):
        passes.append(0)
        found = held.score(Counted(model), crew)
    assert found == pytest.approx(whole, abs=1e-5)
    assert len(set(passes)) == 1 and passes[0] * processes >= len(held._batches())
