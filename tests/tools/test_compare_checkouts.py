"""The comparison of checkouts reports every change except for times and values based on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.compare_checkouts import (
    TOOLS,
    Command,
    Side,
    chosen_scenarios,
    main,
    parse_commands,
    read_scenarios,
)

SCENARIOS = """
[score]
commands = '''
bmtools scores.jsonl
!3 exit 3
'''
"""
PROGRAM = """
import hashlib, json, pathlib, sys, time
name, = sys.argv[1:]
line = json.dumps({{"mrr": {mrr}, "wall_seconds": time.time()}})
pathlib.Path(name).write_text(line)
pathlib.Path(name + ".bmtools.json").write_text(json.dumps(
    {{"sha256": hashlib.sha256(line.encode()).hexdigest(), "started": "2026-01-01T00:00:00"}}))
print(f"wrote {{name}} in {{time.time() % 10:.2f}} s", file=sys.stderr)
"""


def write_checkout(folder: Path, mrr: float) -> Path:
    """Write a checkout whose bmtools writes a score, the time, and a record with a hash."""
    (folder / "bmtools").mkdir(parents=True)
    (folder / "examples").mkdir()
    (folder / "bmtools" / "__init__.py").touch()
    (folder / "bmtools" / "__main__.py").write_text(PROGRAM.format(mrr=mrr))
    return folder


@pytest.mark.parametrize(("mrr", "code"), [(0.5, 0), (0.6, 1)])
def test_only_times_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str], mrr: float,
                               code: int) -> None:
    old, new = (write_checkout(tmp_path / name, value) for name, value in (("a", 0.5), ("b", mrr)))
    (tmp_path / "scenarios.toml").write_text(SCENARIOS)
    assert main([str(old), str(new), "--scenarios", str(tmp_path / "scenarios.toml"), "--work",
                 str(tmp_path / "work")]) == code
    out = capsys.readouterr().out
    if code:
        assert out.startswith("score: DIFFERENT\n  score/scores.jsonl:\n    -{\"mrr\": 0.5")
        assert "score/scores.jsonl.bmtools.json:" in out and ".stderr" not in out
    else:
        assert out == "score: same\n"


def test_unexpected_exit_code_is_reported(tmp_path: Path,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    checkout = write_checkout(tmp_path / "a", 0.5)
    (tmp_path / "scenarios.toml").write_text("[score]\ncommands = '''\nexit 3\n'''")
    words = [str(checkout), str(checkout), "--scenarios", str(tmp_path / "scenarios.toml")]
    assert main(words) == 1
    assert "01: exit 3, expected 0" in capsys.readouterr().out


def test_values_that_do_not_vary_are_kept(tmp_path: Path) -> None:
    side = Side(tmp_path / "checkout", tmp_path, Path("python"), tmp_path)
    kept = b'{"mrr": 0.153, "steps": 18, "lr": 2e-3}\nbmtools: 80 records to x.jsonl\n'
    assert side.constant(kept, is_stderr=True) == kept
    for duration in (b"0.1 s", b"3 min 5 s"):
        assert side.constant(b"bmtools: 8 records in " + duration + b"; next: ...") == \
            b"bmtools: 8 records in <duration>; next: ..."
    assert side.constant(b'{"tokens_per_second": 29255, "loss": 1}') == \
        b'{"tokens_per_second": 0, "loss": 1}'
    status = b"training: phase 2 of 2: 9 of 16 steps, loss 5.8, 2,942 tokens/s, 1.9 s left\n"
    assert side.constant(status + b"bmtools: done\n", is_stderr=True) == b"bmtools: done\n"


def test_commands_have_exit_codes_and_continued_lines() -> None:
    assert list(parse_commands("!75 stopped \\\n  3\n\ntrue\n")) == [
        Command("stopped    3", 75), Command("true")]


def test_needed_scenarios_run_first() -> None:
    scenarios = read_scenarios(TOOLS / "scenarios.toml")
    names = [scenario.name for scenario in chosen_scenarios(scenarios, ["models"])]
    assert names == ["quickstart", "text", "models"]
    assert [one.name for one in chosen_scenarios(scenarios, [])] == [*scenarios]
    seen: set[str] = set()
    for scenario in scenarios.values():
        assert set(scenario.needs) <= seen
        seen.add(scenario.name)
