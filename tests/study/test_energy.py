"""Totals over lineages: each step counts once, kinds are separate, and the statement is correct."""

from __future__ import annotations

import random
import re
from itertools import permutations
from typing import Any

import pytest

from bmtools.io.energy.figures import add
from bmtools.io.energy.settings import EnergyConfig
from bmtools.io.provenance.record import steps_of
from bmtools.study.energy import find_steps, statement, total

NOTHING = EnergyConfig()


def record(number: int, command: str = "pretrain", run: str = "", **figures: Any,
           ) -> dict[str, Any]:
    """Return the record of a step."""
    return {"command": command, "sha256": f"hash {number}", "started": "2024-05-01T10:00:00+00:00",
            "energy": {"run": run or f"run {number}", **figures}}


def test_sums_are_the_same_in_any_order() -> None:
    assert {add([{"declared": {"kwh": one}} for one in order])["declared"]["kwh"] for order in
            permutations((1.194107e-06, 7.10367e-07, 1.298801e-06))} == {3.20327e-06}


def test_shared_steps_of_a_graph_count_once() -> None:
    numbers = random.Random(1)
    for _ in range(40):
        size = numbers.randrange(1, 12)
        kwh = [numbers.randrange(1, 1000) for _ in range(size)]
        parents = [[one for one in range(child) if numbers.random() < 0.4]
                   for child in range(size)]
        roots = [numbers.randrange(size) for _ in range(3)]
        records = [record(one, hours=1.0, measured={"kwh": kwh[one], "hours": 1.0, "by": ["rapl"]})
                   for one in range(size)]
        for child, found in enumerate(parents):  # some inputs were piped
            if found and numbers.random() < 0.5:
                records[child]["upstream"] = {"-": records[found[0]]}

        def reachable(one: int, parents: Any = parents) -> set[int]:
            return {one}.union(*(reachable(parent) for parent in parents[one]))

        named = [(f"{one}", records[one]) for root in roots for one in reachable(root)]
        whole = total(find_steps((name, step) for name, one in named
                                 for step in steps_of(one, all_piped=True)), NOTHING)[-1]
        expected = set[int]().union(*map(reachable, roots))
        assert whole["steps"] == len(expected)
        assert whole["measured"]["kwh"] == sum(kwh[one] for one in expected)
        assert whole["hours"] == len(expected)


def test_checkpoints_of_one_run_are_one_step() -> None:
    kept = [record(step, run="one", hours=float(step), declared={
        "kwh": step / 10, "hours": float(step), "watts": 100}) for step in (2, 5, 3)]
    whole = total(find_steps((str(one), one_record) for one, one_record in enumerate(kept)),
                  NOTHING)[-1]
    assert (whole["steps"], whole["hours"], whole["declared"]["kwh"]) == (1, 5, 0.5)


def test_log_with_more_hours_does_not_hide_the_tokens_of_its_run() -> None:
    """The record of redirected stdout is written after the checkpoint's, and has no tokens."""
    kept, model, log = (record(number, run="one", hours=hours) | more for number, hours, more in (
        (1, 1.0, {"tokens_seen": 400}), (2, 2.0, {"tokens_seen": 900}), (3, 2.5, {})))
    for order in permutations((("kept", kept), ("model", model), ("log", log))):
        [step] = find_steps(order)
        assert (step.name, step.record["tokens_seen"], step.figures["hours"]) == (
            "model", 900, 2.5)


def test_kinds_are_separate_and_steps_without_energy_are_listed() -> None:
    records = {
        "corpus.jsonl": record(1, "translate", hours=4.0, declared={"kwh": 2, "hours": 4.0}),
        "model": record(2, hours=3.0, gpu_hours=6.0,
                        measured={"kwh": 5, "hours": 2.0, "by": ["nvml"]},
                        allotted={"kwh": 4, "hours": 2.0, "of": "measured"}),
        "old": {"command": "build-vocab", "wall_seconds": 1800}, "data.jsonl": {}}
    *commands, whole = total(find_steps(records.items()), NOTHING)
    assert [line["command"] for line in commands] == ["translate", "pretrain", "build-vocab"]
    assert (whole["steps"], whole["hours"], whole["gpu_hours"]) == (3, 7.5, 6)
    assert {kind: (whole[kind]["kwh"], whole[kind]["hours"], whole[kind]["steps"])
            for kind in ("measured", "allotted", "declared")} == {
        "measured": (5, 2, 1), "allotted": (4, 2, 1), "declared": (2, 4, 1)}
    assert whole["without"] == ["build-vocab (old)"]
    assert "kg_co2eq" not in whole["measured"]


def test_values_can_be_declared_afterwards() -> None:
    """Calculated by hand: 350 W over 2.5 h are 0.875 kWh; at 281.4 g and PUE 1.2, 0.29547 kg."""
    records = {"old": {"command": "build-vocab", "wall_seconds": 1800, "started": "2024-01-01"},
               "model": record(2, hours=2.0, cpu_hours=1.0, machine_cpu_hours=8.0)}
    declared = EnergyConfig(watts=350, country="ITA", pue=1.2)
    whole = total(find_steps(records.items()), declared)[-1]
    assert whole["declared"] == {"kwh": 0.875, "hours": 2.5, "steps": 2, "kg_co2eq": 0.29547,
                                 "watts": 350}
    assert whole["allotted"]["kwh"] == 0.0875, "an eighth of 0.7 kWh; the old step has no share"
    assert whole["without"] == []


def test_emissions_are_reported_for_all_steps_or_not_at_all() -> None:
    one = record(1, hours=1.0, declared={"kwh": 1, "hours": 1.0}, grid={"g_per_kwh": 100},
                 kg_co2eq={"declared": 0.1})
    other = record(2, hours=1.0, declared={"kwh": 3, "hours": 1.0})
    assert total(find_steps([("a", one)]), NOTHING)[-1]["declared"]["kg_co2eq"] == 0.1
    assert "kg_co2eq" not in total(find_steps([("a", one), ("b", other)]), NOTHING)[-1]["declared"]


@pytest.fixture
def study() -> list[dict[str, Any]]:
    """Return the totals of a study on two grids; on one of them energy was measured."""
    grids = {"ITA": {"country": "ITA", "year": 2024, "g_per_kwh": 281.4, "source": "Ember (2026)"},
             "own": {"g_per_kwh": 50.0, "source": "declared"}}
    return total(find_steps([
        ("model", record(1, hours=700.0, gpu_hours=2800.0, hardware="NVIDIA A100-SXM4-40GB",
                         measured={"kwh": 900.0, "hours": 700.0, "by": ["nvml", "rapl"]},
                         declared={"kwh": 1050.0, "hours": 700.0, "watts": 1500},
                         grid=grids["ITA"], pue=1.2,
                         kg_co2eq={"measured": 303.912, "declared": 354.564})),
        ("scores.jsonl", record(2, "score-mrr", hours=3.0, hardware="Xeon (8 cores)", declared={
            "kwh": 0.3, "hours": 3.0, "watts": 100}, grid=grids["own"],
            kg_co2eq={"declared": 0.015})),
        ("words", {"command": "build-vocab"})]), NOTHING)


def test_statement(study: Any) -> None:
    text = statement(study)
    assert text.startswith(
        "Experiments were conducted using electricity of the grid of ITA with a carbon efficiency "
        "of 0.2814 kgCO2eq/kWh (2024, Ember (2026)) and a grid with a carbon efficiency of 0.05 "
        "kgCO2eq/kWh (as declared). A cumulative of 703 hours of computation (2,800 "
        "GPU-hours) was performed on hardware of type NVIDIA A100-SXM4-40GB; Xeon (8 cores). Total "
        "emissions are estimated to be 303.9 kgCO2eq (measured, of 1 of 3 steps) or 354.6 kgCO2eq "
        "(declared, of 2 of 3 steps).")
    assert "GPUs by NVML and processors and memory by RAPL; 1 of 3 steps, 700 of 703" in text
    assert "1 of 3 steps have no energy and are not included: build-vocab (words)." in text


def test_arithmetic_of_a_statement_is_correct(study: Any) -> None:
    sums = re.findall(r"^    (.*) = ([\d.,]+) kgCO2eq$", statement(study), re.MULTILINE)
    assert len(sums) == 2
    for products, told in sums:
        found = 0.0
        for product in products.split(" + "):
            factors = [float(number.replace(",", "")) for number in
                       re.findall(r"([\d.,]+)(?= kWh| kgCO2eq/kWh|$| x )", product)]
            found += factors[0] * factors[1] * (factors[2] if len(factors) > 2 else 1)
        assert found == pytest.approx(float(told), rel=1e-3)
