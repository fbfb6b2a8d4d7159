"""Batches by number: inputs of the model, and independence of everything but the number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from bmtools.data.batches import ScheduledBatches
from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import BmtoolsError
from bmtools.recipes.phases import Phase
from bmtools.recipes.settings import BatchConfig, OptimizationConfig
from bmtools.training.loop import Trainer
from bmtools.training.objectives import MaskedObjective

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [f"Il cuore pompa il sangue. {'E il polmone filtra aria. ' * n}" for n in range(9)]


def inputs_of(batches: ScheduledBatches, number: int = 0) -> dict[str, torch.Tensor]:
    [inputs] = batches.batch(number).micro_batches
    return dict(inputs)


def test_sequences_begin_and_end_with_special_tokens(toy: Any, toy_phase: Any) -> None:
    batches = toy.batches(TEXTS, toy_phase())
    share = batches.batch(0)
    inputs = inputs_of(batches)
    ids, attention_mask, labels = inputs["input_ids"], inputs["attention_mask"], inputs["labels"]
    assert share.counts["tokens"] == int(attention_mask.sum())
    assert share.counts["masked"] == int((labels != IGNORED).sum()) > 0
    assert (ids[:, 0] == toy.tokenizer.cls_token_id).all()
    assert (ids[~attention_mask] == toy.tokenizer.pad_token_id).all()
    for row in range(4):
        last = int(attention_mask[row].sum()) - 1
        assert ids[row, last] == toy.tokenizer.sep_token_id
        assert labels[row, 0] == labels[row, last] == IGNORED


@pytest.mark.parametrize("packed", [False, True])
def test_causal_labels_are_the_next_tokens(toy: Any, toy_phase: Any, packed: bool) -> None:
    batches = toy.batches(TEXTS, toy_phase(objective="causal"), packed=packed)
    share, inputs = batches.batch(0), inputs_of(batches)
    ids, labels = inputs["input_ids"], inputs["labels"]
    is_label = labels != IGNORED
    assert (labels[is_label] == ids.roll(-1, dims=-1)[is_label]).all()
    documents = len(inputs["lengths"]) if packed else 4
    assert share.counts["predicted"] == int(is_label.sum()) == share.counts["tokens"] - documents
    others = ids[~is_label & (ids != toy.tokenizer.pad_token_id)]
    assert (others == toy.tokenizer.sep_token_id).all()


def test_packed_documents_are_masked_like_padded_ones(toy: Any, toy_phase: Any) -> None:
    """A sample gets the same masks in a separate sequence and packed with others."""
    found = []
    for packed in (False, True):
        # Batches plan ahead with their sampler in a thread, so the second one is read.
        batches, plans = (toy.batches(TEXTS, toy_phase(8, BatchConfig(128, 3)), packed=packed)
                          for _ in range(2))
        samples = {}
        for number in range(8):
            chosen = plans.sampler.batch(number).sequences.samples
            for one, (ids, labels) in zip(chosen, _documents(inputs_of(batches, number)),
                                          strict=True):
                samples[tuple(one[["draw", "start", "length"]])] = (*ids.tolist(),
                                                                    *labels.tolist())
        found.append(samples)
    shared = found[0].keys() & found[1].keys()
    assert len(shared) > 8
    assert all(found[0][name] == found[1][name] for name in shared)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_batches_do_not_depend_on_the_number_of_processes(
        toy: Any, toy_phase: Any, packed: bool, processes: int) -> None:
    """Bit for bit: ids, labels and counts, over all processes, each step made on its own."""
    phases = (toy_phase(5, name="one"),
              toy_phase(5, BatchConfig(64, 8), name="two", masking="tokens", mask_rate=0.3))

    def stream_of(number: int, processes: int, micro_batch_size: int) -> list[tuple[int, ...]]:
        shares = [toy.batches(TEXTS, *phases, packed=packed, micro_batch_size=micro_batch_size)
                  .batch(number, rank, processes) for rank in range(processes)]
        documents = []
        for share in shares:
            for inputs in share.micro_batches:
                for ids, labels in _documents(inputs):
                    documents.append((*ids.tolist(), *labels.tolist()))
        return sorted(documents)

    for number in (0, 3, 4, 5, 6, 9):
        assert stream_of(number, processes, 1) == stream_of(number, 1, 0)


def _documents(inputs: dict[str, torch.Tensor]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    if "lengths" in inputs:
        sizes = inputs["lengths"].tolist()
        return [*zip(*(inputs[name].split(sizes) for name in ("input_ids", "labels")), strict=True)]
    return [(ids[keep], labels[keep]) for ids, labels, keep in
            zip(inputs["input_ids"], inputs["labels"], inputs["attention_mask"], strict=True)]


def test_pairs_have_token_types_and_labels(toy: Any, toy_phase: Any) -> None:
    for packed in (False, True):
        batches = toy.batches(TEXTS * 4, toy_phase(objective="masked+nsp"), packed=packed)
        inputs = inputs_of(batches)
        separators = inputs["input_ids"] == toy.tokenizer.sep_token_id
        assert int(separators.sum()) == 2 * len(inputs["nsp_labels"])
        types = inputs["token_type_ids"]
        assert set(types.unique().tolist()) == {0, 1}
        assert batches.batch(0).counts["pairs"] == len(inputs["nsp_labels"])
        if not packed:
            for row, ends in zip(types, separators, strict=True):
                first, second = np.nonzero(ends.numpy())[0]
                assert row[:first + 1].sum() == 0
                assert row[first + 1:second + 1].sum() == second - first
                assert row[second + 1:].sum() == 0


@pytest.mark.parametrize(("error", "who"), [
    (torch.OutOfMemoryError("CUDA out of memory"), "the GPU"),
    (RuntimeError("err == 0. DefaultCPUAllocator: can't allocate memory"), "this process"),
    (MemoryError(), "this process")])
def test_a_too_large_micro_batch_is_a_one_line_error(
        model: Any, toy: Any, toy_phase: Callable[..., Phase],
        monkeypatch: pytest.MonkeyPatch, error: Exception, who: str) -> None:
    def fail(self: MaskedObjective, **inputs: Tensor) -> None:
        raise error

    monkeypatch.setattr(MaskedObjective, "forward", fail)
    trainer = Trainer(MaskedObjective(model), 4, lambda _: 1e-3, OptimizationConfig(),
                      Accelerator(cpu=True))
    with pytest.raises(BmtoolsError, match=f"step 1: {who} has too little memory; lower micro_"):
        next(trainer.run(toy.batches(TEXTS, toy_phase())))
