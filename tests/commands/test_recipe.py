"""`bmtools recipe` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.recipes.phases import resolved
from bmtools.recipes.toml import load_recipe, parse_run_config, recipe_names, recipe_text

Run = Callable[..., Any]
SMALL = b'[[phases]]\nname = "only"\nsteps = 9  # few\n'


@pytest.fixture
def phases(tmp_path: Path) -> Path:
    path = tmp_path / "phases.toml"
    path.write_bytes(SMALL)
    return path


def test_list_has_one_line_per_recipe(run: Run) -> None:
    outcome = run("recipe", "list")
    assert (outcome.code, outcome.err) == (0, "")
    assert [line["recipe"] for line in outcome.records] == recipe_names()
    line = next(line for line in outcome.records if line["recipe"] == "clm-detour")
    script = load_recipe("clm-detour")
    assert line == {"recipe": "clm-detour", "title": script.title,
                    "phases": ["causal", "masked"], "source": script.source}
    assert run("recipe", "list", "--json") == outcome


def test_a_recipe_is_shown_unchanged(run: Run) -> None:
    outcome = run("recipe", "show", "biobit")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == recipe_text("biobit")
    assert "# ours" in outcome.out


def test_a_file_is_shown_with_all_settings(run: Run, phases: Path) -> None:
    outcome = run("recipe", "show", phases)
    assert (outcome.code, outcome.err) == (0, "")
    assert parse_run_config(outcome.out.encode(), "out") == parse_run_config(SMALL, "in")
    assert "mask_rate = 0.15" in outcome.out and "few" not in outcome.out


def test_json_contains_every_setting(run: Run, phases: Path) -> None:
    assert run("recipe", "show", "bioptimus", "--json").records == \
        [resolved(load_recipe("bioptimus"))]
    (shown,) = run("recipe", "show", phases, "--json").records
    assert shown == resolved(parse_run_config(SMALL, "in"))
