"""Plans of runs: their identity, rejected settings, and files that remain after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError
from bmtools.io.unfinished import hidden_path
from bmtools.recipes.phases import Phase, RunConfig
from bmtools.recipes.settings import (
    LearningRateConfig,
    OptimizationConfig,
    PretrainingConfig,
    RegularizationConfig,
    ReportingConfig,
)
from bmtools.training.checks import check_settings
from bmtools.training.plan import (
    DataConfig,
    TrainingPlan,
    kept_directory,
    runs_directory,
    tidied,
)

CONTENTS = {"text": ["b", "a"], "more": ["c"]}


def corpora(*names: str) -> DataConfig:
    return DataConfig(dict.fromkeys(names, ("corpus.jsonl",)))


@pytest.fixture
def plan(toy_phase: Callable[..., Phase], tmp_path: Path) -> TrainingPlan:
    """Two phases."""
    return TrainingPlan("pretrain", tmp_path / "out",
                        RunConfig((toy_phase(name="a"), toy_phase(name="b"))),
                        OptimizationConfig(), ReportingConfig(),
                        extra={"architecture": "bert-1x64", "model": "here"},
                        parents={"model": "hash"})


def test_free_settings_are_not_part_of_the_identity(plan: TrainingPlan) -> None:
    before = plan.identity(CONTENTS, "v", (4, 5))
    for other in (
            replace(plan, reporting=ReportingConfig(logging_steps=1, save_steps=7, budget="2h")),
            replace(plan, optimization=OptimizationConfig(micro_batch_size=2, memory_gib=3,
                                                          compile=True,
                                                          activation_checkpointing=True)),
            replace(plan, output=Path("elsewhere")),
            replace(plan, extra={**plan.extra, "model": "moved", "terms": "moved"})):
        assert other.identity(CONTENTS, "v", (4, 5)) == before
    assert plan.identity({"more": ["c"], "text": ["a", "b"]}, "v", (4, 5)) == before
    assert json.loads(json.dumps(before)) == before


def test_changed_settings_are_named(plan: TrainingPlan) -> None:
    before = plan.identity(CONTENTS, "v", (4, 5))

    def changed(other: dict[str, Any]) -> set[str]:
        return {name for name in {*before, *other} if before.get(name) != other.get(name)}

    first, second = plan.config.phases
    slower = replace(second, learning_rate=LearningRateConfig(learning_rate=1e-5))
    for other, names in (
            (replace(plan, config=RunConfig((first, slower))), {"b: learning_rate"}),
            (replace(plan, optimization=OptimizationConfig(seed=4)), {"seed"}),
            (replace(plan, regularization=RegularizationConfig(mixout=0.5)), {"mixout"}),
            (replace(plan, pretraining=PretrainingConfig(adversarial=1)), {"adversarial"}),
            (replace(plan, extra={"architecture": "bert-2x64"}), {"architecture"}),
            (replace(plan, parents={"model": "other"}), {"content of the model"})):
        assert changed(other.identity(CONTENTS, "v", (4, 5))) == names
    assert changed(plan.identity({"text": ["c"], "more": ["a", "b"]}, "v", (4, 5))) == {
        "inputs of text", "inputs of more"}
    assert changed(plan.identity(CONTENTS, "w", (4, 5))) == {"vocabulary"}
    assert changed(plan.identity(CONTENTS, "v", (4, 6))) == {"resolved steps"}
    assert changed(plan.resolved("packed", "bf16").identity(CONTENTS, "v", (4, 5))) == {
        "layout", "precision"}


def test_a_deterministic_run_keeps_rounding_settings_and_gpu(plan: TrainingPlan) -> None:
    def identity(gpu: str = "", **settings: Any) -> dict[str, Any]:
        settings = {"deterministic": True, **settings}
        return replace(plan, optimization=OptimizationConfig(**settings)).identity(
            CONTENTS, "v", (4, 5), gpu)

    assert identity(micro_batch_size=2) != identity(compile=True) != identity()
    assert identity(activation_checkpointing=True) == identity()
    assert identity("A100") == {**identity("H100"), "GPU": "A100"}
    assert plan.identity(CONTENTS, "v", (4, 5), "A100") == plan.identity(CONTENTS, "v", (4, 5))


def test_a_deterministic_run_needs_a_micro_batch_size(plan: TrainingPlan) -> None:
    def check(**settings: Any) -> None:
        check_settings(replace(plan, optimization=OptimizationConfig(**settings)),
                       corpora("text"), 1, False)

    check(memory_gib=3)
    check(deterministic=True)
    check(deterministic=True, memory_gib=3, micro_batch_size=2)
    with pytest.raises(BmtoolsError, match=r"deterministic: memory_gib chooses the micro-batch by "
                                           r"the free memory.*expected micro_batch_size"):
        check(deterministic=True, memory_gib=3)


@pytest.mark.parametrize(("change", "message"), [
    ({"regularization": RegularizationConfig(mixout=0.5)}, "mixout: found 0.5"),
    ({"regularization": RegularizationConfig(l2_sp=0.1)}, "l2_sp: found 0.1"),
    ({"pretraining": PretrainingConfig(adversarial=10)}, "adversarial: found 10"),
])
def test_settings_that_need_complete_weights_reject_sharding(
        plan: TrainingPlan, change: dict[str, Any], message: str) -> None:
    changed = replace(plan, **change)
    check_settings(plan, corpora("text"), 2, True)
    check_settings(changed, corpora("text"), 2, False)
    with pytest.raises(BmtoolsError, match=f"{message}.* sharded weights"):
        check_settings(changed, corpora("text"), 2, True)


def test_every_optimizer_precision_and_compiled_code_can_be_sharded(plan: TrainingPlan) -> None:
    settings = OptimizationConfig(optimizer="muon", precision="fp16", compile=True)
    check_settings(replace(plan, optimization=settings), corpora("text"), 2, True)


def fill(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "content").write_text("x")
    return path


def test_incomplete_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    state = runs_directory(output) / "step-00000004"
    gone = [fill(hidden_path(output, "partial")), fill(hidden_path(state, "partial")),
            fill(hidden_path(fill(state), "replaced")),
            fill(hidden_path(kept_directory(output) / "phase-1-a", "partial"))]
    hidden_path(runs_directory(output) / "start.safetensors", "partial").write_text("x")
    # Other outputs'.
    stays = [fill(path) for path in (
        hidden_path(tmp_path / "outer", "partial"), hidden_path(tmp_path / "out.b", "partial"),
        kept_directory(output) / "phase-1-a")]
    with tidied(output, True):
        pass
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stays)
    assert [path.name for path in runs_directory(output).iterdir()] == ["step-00000004"]


@pytest.mark.parametrize(("content", "stays"), [
    ((), False),
    (("text-text/shard-00000.safetensors",), False),
    (("text-text/shard-00000.safetensors", "text-text/shard-00001.safetensors"), True),
    (("text-text.run/shard-00000.safetensors",), True),
    (("step-00000004/state.json",), True),
    (("start.safetensors", ".step-00000004.a1b2c3d4.partial/state.json"), False),
], ids=["nothing", "a little text", "much text", "text on its way", "a state", "half a state"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, GeneratorExit])
def test_an_error_keeps_files_for_the_next_session(
        tmp_path: Path, content: tuple[str, ...], stays: bool, error: type) -> None:
    run = runs_directory(tmp_path / "out")

    def fail() -> None:
        with tidied(tmp_path / "out", True):
            run.mkdir()
            for name in content:
                (run / name).parent.mkdir(parents=True, exist_ok=True)
                (run / name).write_text("x")
            raise error

    with pytest.raises(error):
        fail()
    assert run.exists() == stays
