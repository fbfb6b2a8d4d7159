"""Packed sequences: the layout of a run, and the check that a model separates documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import Collator, SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.errors import BmtoolsError
from bmtools.models import packed as packed_models
from bmtools.recipes.phases import Phase, Schedule
from bmtools.recipes.settings import BatchConfig
from bmtools.training.model_init import prepare_packing

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue. {'Il polmone filtra la bile. ' * (n % 5)}" for n in range(60)]


@pytest.fixture
def prepare(model: Any, toy: Any, toy_phase: Callable[..., Phase]) -> Callable[[], None]:
    """Prepare a model for three phases that ask for different things."""
    phases = [toy_phase(name=f"phase-{number}", batch=BatchConfig(32, 3), objective=task)
              for number, task in enumerate(("causal", "masked+nsp", "masked"))]

    def call() -> None:
        corpora = {"text": toy.corpus(TEXTS)}
        collator = Collator(list(corpora.values()), SpecialTokens.of(toy.tokenizer), True, 0,
                            {"words": make_strategy("words")})
        prepare_packing(model, Schedule(phases, [3, 3, 3]), corpora, collator, 0,
                        Accelerator(cpu=True))

    return call


def test_a_correct_model_passes_and_does_not_change(model: Any,
                                                    prepare: Callable[[], None]) -> None:
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    torch.manual_seed(2)
    expected = torch.rand(3)
    torch.manual_seed(2)
    prepare()
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


def test_a_leak_stops_the_run_before_it_begins(prepare: Callable[[], None],
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention over the whole row, as in plain transformers."""
    attend = packed_models.varlen_attention

    def leaky(query: Any, key: Any, value: Any, documents: Any, *others: Any) -> Any:
        one = packed_models.DocumentLengths.of(torch.tensor([len(query)]), query.device,
                                               documents.causal)
        return attend(query, key, value, one, *others)

    monkeypatch.setattr(packed_models, "varlen_attention", leaky)
    with pytest.raises(BmtoolsError, match=r"packed document .* use layout padded"):
        prepare()
