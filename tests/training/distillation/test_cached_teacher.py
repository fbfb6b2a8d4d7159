"""Cached outputs of a teacher against live ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_batches import make_batch, packed_of, taught_by

from bmtools.errors import DataError
from bmtools.models.architectures import build_config, build_model
from bmtools.models.packed import prepare_packed
from bmtools.recipes.distillation import DistillationConfig
from bmtools.training.distillation.cached_teacher import (
    DATABASE,
    CachedTeacher,
    TeacherCache,
    sample_predictions,
)
from bmtools.training.distillation.losses import teacher_divergence
from bmtools.training.distillation.objective import DistillationObjective
from bmtools.training.distillation.teacher import LayerOutputs, Needs, Teacher
from bmtools.training.objectives import EncoderInputs

BOTH = Needs(logits=True, last_states=True)


@pytest.fixture
def pupil(tokenizer: Any) -> Any:
    torch.manual_seed(1)
    return build_model(build_config("bert-1x64", tokenizer)).eval()


def cached_by(student: Any, teacher: Any, directory: Path, live: bool = True,
              **settings: Any) -> DistillationObjective:
    """Make the objective of a student whose teacher may be computed, or must be read."""
    config = DistillationConfig(**settings)
    cache = TeacherCache(directory, {})

    def compute() -> Teacher:
        assert live, "computed what should have been read"
        return Teacher(teacher, BOTH)

    source = CachedTeacher(teacher.config, compute, cache, BOTH, config, teacher.config.vocab_size)
    return DistillationObjective(student, source, config)


@pytest.mark.parametrize("positions", ["masked", "all"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_whole_vocabulary_gives_the_losses_of_a_live_teacher(
        model: Any, tokenizer: Any, pupil: Any, tmp_path: Path, positions: Any,
        packed: bool) -> None:
    torch.nn.init.normal_(model.get_input_embeddings().weight, std=0.3)  # predictions that differ
    batch = make_batch(tokenizer)
    if packed:
        batch = packed_of(batch)
        for one in (model, pupil):
            prepare_packed(one)
    live = taught_by(pupil, model, kl_positions=positions)
    expected = live(**live.prepare(batch))
    objective = cached_by(pupil, model, tmp_path, teacher_top_k=0, kl_positions=positions)
    computed = objective(**objective.prepare(batch))
    again = cached_by(pupil, model, tmp_path, live=False, teacher_top_k=0,
                         kl_positions=positions)
    read = again(**again.prepare(batch))
    for name, value in expected.items():
        torch.testing.assert_close(computed[name], value, rtol=1e-3, atol=1e-4)
        assert torch.equal(read[name], computed[name])


def test_documents_are_found_in_other_batches_and_layouts(
        model: Any, tokenizer: Any, pupil: Any, tmp_path: Path) -> None:
    batch = make_batch(tokenizer)
    objective = cached_by(pupil, model, tmp_path, teacher_top_k=4)
    expected = objective(**objective.prepare(batch))
    again = cached_by(pupil, model, tmp_path, live=False, teacher_top_k=4)
    parts = [again(**again.prepare({name: value[rows] for name, value in batch.items()}))
             for rows in ([3, 0], [2, 1])]
    for one in (model, pupil):
        prepare_packed(one)
    packed = again(**again.prepare(packed_of(batch)))
    for name, value in expected.items():
        torch.testing.assert_close(sum(part[name] for part in parts), value, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(packed[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [2, 4, 11])
def test_few_tokens_stand_for_all_on_average(count: int) -> None:
    """Value and gradient of the divergence, over many rows; of all tokens, at each."""
    rng = torch.Generator().manual_seed(0)
    theirs, own = (3 * torch.randn(11, generator=rng) for _ in range(2))
    logits, theirs = own.expand(4000, 11).clone().requires_grad_(), theirs.expand(4000, 11)
    expected = teacher_divergence(logits, theirs.clone(), 2.0)
    gradient, = torch.autograd.grad(expected, logits)
    ids, values = sample_predictions(theirs, count, 2.0)
    dense = torch.zeros(4000, 11).scatter_add_(1, ids, values[:, :-1].float().exp())
    found = teacher_divergence(logits, 2 * dense.log(), 2.0) + 4 * values[:, -1].float().sum()
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=0)
    torch.testing.assert_close(torch.autograd.grad(found, logits)[0].mean(0), gradient[0],
                               rtol=0, atol=2e-3)


def test_processes_share_a_directory(tmp_path: Path) -> None:
    one, other = (TeacherCache(tmp_path, {"seed": 1}) for _ in range(2))
    one.add([b"a", b"b"], [b"1", b"2"], [b"", b"x"])
    other.add([b"b", b"\0"], [b"never", b"3"], [b"never", b"yz"])
    for cache in (one, other):
        assert cache.read([b"\0", b"a", b"b"]) == (b"312", b"yzx")
        assert cache.read([b"a", b"c"]) is None


def test_documents_that_were_not_all_written_are_not_read(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"1"
        raise KeyboardInterrupt

    cache = TeacherCache(tmp_path, {})
    with pytest.raises(KeyboardInterrupt):
        cache.add([b"a", b"b"], broken(), [b"", b""])
    assert cache.read([b"a"]) is None
    cache.add([b"a"], [b"2"], [b""])
    assert TeacherCache(tmp_path, {}).read([b"a"]) == (b"2", b"")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database, but text of some length")
    with pytest.raises(DataError, match=r"teacher.sqlite: cannot be used as a cache of a teacher's "
                                        r"outputs \(file is not a database\); remove it"):
        TeacherCache(tmp_path, {})


def test_matrices_in_bfloat16_are_half_as_large_and_leave_products_as_they_were(
        model: Any, tokenizer: Any, pupil: Any) -> None:
    batch = make_batch(tokenizer)
    with torch.autocast("cpu", torch.bfloat16):
        expected = taught_by(pupil, model)(**batch)
        config = DistillationConfig()
        objective = DistillationObjective(pupil, Teacher(model, BOTH, torch.bfloat16), config)
        found = objective(**batch)
    for name in ("kl", "cosine"):
        assert found[name].dtype == torch.float32
        torch.testing.assert_close(found[name], expected[name], rtol=2e-2, atol=1e-4)
    dtypes = {weight.dim() > 1: weight.dtype for weight in model.parameters()}
    assert dtypes == {True: torch.bfloat16, False: torch.float32}


@torch.no_grad()
def test_a_float32_teacher_computes_in_float32_whatever_its_student_does(
        model: Any, tokenizer: Any) -> None:
    batch = make_batch(tokenizer)
    teacher = Teacher(model, Needs(last_states=True))
    inputs = EncoderInputs(batch["input_ids"], batch["attention_mask"])
    expected = teacher(inputs, torch.tensor([0])).last_states
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(teacher(inputs, torch.tensor([0])).last_states, expected)


def test_inputs_go_to_the_teachers_device_and_outputs_come_back(
        model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs of the meta device, which have no numbers, cannot come back."""
    batch = make_batch(tokenizer)
    monkeypatch.setattr(Teacher, "_autocast", lambda _: nullcontext())  # it knows no such device
    teacher = Teacher(model, Needs(logits=True), device=torch.device("meta"))

    def encode(moved: EncoderInputs) -> LayerOutputs:
        assert moved.input_ids.is_meta and moved.attention_mask.is_meta
        return LayerOutputs(torch.empty(4, 12, 64, device="meta"), {}, {})

    monkeypatch.setattr(teacher._recorder, "encode", encode)
    outputs = teacher(EncoderInputs(batch["input_ids"], batch["attention_mask"]),
                      torch.tensor([0]))
    assert outputs.logits is not None
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        outputs.logits(slice(None))
