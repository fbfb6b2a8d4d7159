"""States: written completely, read back to the bit, and valid for one run only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.next_sentence import NextSentenceHead
from bmtools.training import checkpoints
from bmtools.training.checkpoints import (
    Progress,
    copy_state,
    read_progress,
    restore_heads,
    restore_optimizer,
)
from bmtools.training.objectives import MaskedObjective, PhasedObjective
from bmtools.training.optimizers import make_optimizer, parameter_groups
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")


def phased(model: Any) -> PhasedObjective:
    """Masked tokens and sentence pairs around one model; pairs have a head."""
    return PhasedObjective(model, {"masked": MaskedObjective(model),
                                   "masked+nsp": MaskedObjective(model, NextSentenceHead(64))})


def trained(model: Any, optimizer: str = "adamw", steps: int = 2) -> tuple[Any, Any]:
    """An objective and an optimizer with a state; the encoder's biases are frozen."""
    objective = phased(model)
    for name, weight in objective.named_parameters():
        weight.requires_grad_(not (name.startswith("model.bert") and name.endswith("bias")))
    made = make_optimizer(optimizer, parameter_groups(objective, 0.01), 1e-3)
    torch.manual_seed(1)
    for _ in range(steps):
        for weight in objective.parameters():
            weight.grad = torch.randn_like(weight) if weight.requires_grad else None
        made.step()
    return objective, made


@pytest.fixture
def save(tokenizer: Any, tmp_path: Path) -> Any:
    """Save a state: `save(objective, optimizer, progress, ...)`."""

    def call(objective: Any, optimizer: Any, progress: Progress, **more: Any) -> None:
        copy_state(tmp_path, progress, objective, optimizer, tokenizer,
                   Manifest("test", {}, fingerprint(tokenizer)), **more)()

    return call


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_states_are_read_back_to_the_bit(model: Any, save: Any, tmp_path: Path,
                                             name: str) -> None:
    objective, optimizer = trained(model, name)
    progress = Progress({"seed": 1}, 7, 100, 2.5, {"loss": 0.1 + 0.2}, [{"step": 5}],
                        {"before": {"loss": 1 / 3}}, {"scale": 65536.0})
    save(objective, optimizer, progress)
    found = tmp_path / "step-00000007"
    assert vars(read_progress(found, {"seed": 1})) == vars(progress)

    again = phased(load_checkpoint(found).model)
    restore_heads(found, again)
    fresh = make_optimizer(name, parameter_groups(again, 0.01), 1e-3)
    restore_optimizer(found, again, fresh)
    ours, theirs = objective.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys() and "heads.head.pooler.weight" in ours
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    weights = dict(again.named_parameters())
    for key, weight in objective.named_parameters():
        memory, copy = optimizer.state.get(weight, {}), fresh.state.get(weights[key], {})
        assert memory.keys() == copy.keys(), key
        for kind in memory:
            assert torch.equal(memory[kind], copy[kind])
            assert memory[kind].dtype == copy[kind].dtype


def test_a_state_has_the_values_of_its_copy(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    """Training continues between the copy and the writing."""
    objective, optimizer = trained(model)
    progress = Progress({}, 3, metrics=[{"step": 3}])
    before = {name: weight.clone() for name, weight in objective.state_dict().items()}
    moments = {name: optimizer.state[weight]["exp_avg"].clone()
               for name, weight in objective.named_parameters() if optimizer.state.get(weight)}
    write = copy_state(tmp_path, progress, objective, optimizer, tokenizer,
                       Manifest("test", {}, fingerprint(tokenizer)))
    progress.step, progress.metrics = 4, [*progress.metrics, {"step": 4}]
    optimizer.step()
    write()
    state = tmp_path / "step-00000003"
    assert read_progress(state, {}).metrics == [{"step": 3}]
    again = phased(load_checkpoint(state).model)
    restore_heads(state, again)
    assert all(torch.equal(value, before[name]) for name, value in again.state_dict().items())
    fresh = make_optimizer("adamw", parameter_groups(again, 0.01), 1e-3)
    restore_optimizer(state, again, fresh)
    found = dict(again.named_parameters())
    assert all(torch.equal(fresh.state[found[name]]["exp_avg"], value)
               for name, value in moments.items())


def test_a_lost_part_of_the_optimizer_is_named(model: Any, save: Any, tmp_path: Path) -> None:
    objective, optimizer = trained(model)
    save(objective, optimizer, Progress({}, 3))
    state = tmp_path / "step-00000003"
    (state / "optimizer.safetensors").rename(state / "optimizer-00002-of-00002.safetensors")
    with pytest.raises(CheckpointError, match=r"optimizer-00001-of-00002\.safetensors: cannot be"):
        restore_optimizer(state, objective, optimizer)


def test_a_crash_while_writing_leaves_the_previous_state(
        model: Any, save: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objective, optimizer = trained(model)
    save(objective, optimizer, Progress({}, 3))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(BmtoolsError, match="no space left"):
        save(objective, optimizer, Progress({}, 6))
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


@pytest.mark.parametrize(("identity", "message"), [
    ({"seed": 2, "of": [1, 2]}, "has seed 1, found 2; resume with the same settings"),
    ({"seed": 1, "of": [1]}, r"has of \[1, 2\], found \[1\]"),
    ({"seed": 1, "of": [1, 2], "new": 0.1}, "has new None, found 0.1"),
    ({"of": [1, 2]}, "has seed 1, found None"),
])
def test_a_state_of_another_run_is_rejected(model: Any, save: Any, tmp_path: Path,
                                   identity: dict[str, Any], message: str) -> None:
    save(*trained(model), Progress({"seed": 1, "of": (1, 2)}, 3))
    state = tmp_path / "step-00000003"
    assert read_progress(state, {"seed": 1, "of": (1, 2)}).step == 3
    with pytest.raises(CheckpointError, match=message):
        read_progress(state, identity)


def test_weights_damaged_inside_are_named(model: Any, save: Any, tmp_path: Path) -> None:
    objective, optimizer = trained(model)
    save(objective, optimizer, Progress({}, 3))
    state = tmp_path / "step-00000003"
    for name in ("optimizer.safetensors", "objective.safetensors"):
        content = (state / name).read_bytes()
        (state / name).write_bytes(content[:8] + b"x" * 20 + content[28:])
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors: cannot be restored \("):
        restore_optimizer(state, objective, optimizer)
    with pytest.raises(CheckpointError, match=r"objective\.safetensors: cannot be restored \("):
        restore_heads(state, objective)
