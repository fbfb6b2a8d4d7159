"""What a run leaves behind when it is killed, fails or is interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmtools.training.run_directories import kept_directory, runs_directory, tidied


def fill(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "content").write_text("x")
    return path


def test_what_a_kill_left_half_written_goes(tmp_path: Path) -> None:
    output = tmp_path / "out"
    gone = [fill(tmp_path / ".out.a1b2c3d4.partial"),
            fill(runs_directory(output) / ".step-00000004.a1b2c3d4.partial"),
            fill(runs_directory(output) / ".step-00000004.a1b2c3d4.replaced"),
            fill(kept_directory(output) / ".phase-1-a.a1b2c3d4.partial")]
    (runs_directory(output) / ".start.safetensors.a1b2c3d4.partial").write_text("x")
    # Another run's, another output's, and what was there before an interrupted replacement.
    stays = [fill(tmp_path / name) for name in (
        ".outer.a1b2c3d4.partial", ".out.b.a1b2c3d4.partial", ".out.a1b2c3d4.replaced",
        "out.run/step-00000002", "out.kept/phase-1-a")]
    with tidied(output, True):
        pass
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in stays)
    assert sorted(path.name for path in runs_directory(output).iterdir()) == ["step-00000002"]


@pytest.mark.parametrize(("content", "stays"), [
    ((), False),
    (("text-text/shard-00000.safetensors",), False),
    (("text-text/shard-00000.safetensors", "text-text/shard-00001.safetensors"), True),
    (("text-text.run/shard-00000.safetensors",), True),
    (("step-00000004/state.json",), True),
    (("start.safetensors", ".step-00000004.a1b2c3d4.partial/state.json"), False),
], ids=["nothing", "a little text", "much text", "text on its way", "a state", "half a state"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, GeneratorExit])
def test_an_error_leaves_what_helps_the_next_sitting(
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


def test_only_one_process_clears(tmp_path: Path) -> None:
    partial = fill(tmp_path / ".out.a1b2c3d4.partial")
    with tidied(tmp_path / "out", False):
        pass
    assert partial.exists()
