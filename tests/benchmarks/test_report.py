"""The table of benchmark results."""

from __future__ import annotations

from report import table


def test_each_benchmark_with_a_measurement_is_a_row() -> None:
    found = table({
        "machine_info": {"machine": "x86_64", "cpu": {"brand_raw": "A processor"},
                         "versions": {"torch": "2.13.0"}},
        "datetime": "2026-11-21T10:00:00", "benchmarks": [
            {"name": "test_pppl_against_minicons[4-256]", "params": {"layers": 4, "width": 256},
             "extra_info": {"times_faster": {"median": 4.2, "memory": 0.55}, "sentences": 2000,
                            "sides": {"minicons": {"seconds": 3.5}}}},
            {"name": "test_that_measures_nothing", "params": None, "extra_info": {}}]})
    assert found.splitlines() == [
        "A processor, torch 2.13.0, 2026-11-21", "", "| what | times faster | measured |",
        "| --- | ---: | --- |",
        "| pppl against minicons, layers 4, width 256 | median 4.2; memory 0.55 | sentences 2,000; "
        "sides (minicons (seconds 3.5)) |"]
