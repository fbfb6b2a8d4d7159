"""`bmtools compare-models`: its measurements."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, ClassVar

import pytest

import bmtools.study.reports.compare_models as model_speed
from bmtools.export.export import export_model
from bmtools.study import compare_models

pytestmark = pytest.mark.usefixtures("one_thread")


class Here(Executor):
    """Runs calls in this process instead of other processes, and records their names."""

    calls: ClassVar[list[tuple[str, str]]] = []

    def submit(self, function: Any, /, *arguments: Any, **others: Any) -> Future[Any]:
        self.calls.append((function.__name__, Path(arguments[0]).name))
        done: Future[Any] = Future()
        done.set_result(function(*arguments))
        return done


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(model_speed, "_process", Here)
    monkeypatch.setattr(Here, "calls", [])
    return Here.calls


@pytest.fixture(scope="module")
def models(tiny_checkpoint: Path, make_tagger: Callable[[Path], Path],
           tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A checkpoint, the same model for another engine, and a tagger."""
    exported = tmp_path_factory.mktemp("models") / "openvino"
    export_model(tiny_checkpoint, exported)
    return [tiny_checkpoint, exported, make_tagger(tiny_checkpoint)]


def test_measures(run: Callable[..., Any], here: list[tuple[str, str]],
                             models: list[Path], corpus: Path) -> None:
    done = run("compare-models", *models, "--turns", "2", "--workers", "1", "--texts", corpus)
    assert done.code == 0, done.err
    assert [line["kind"] for line in done.records] == ["bert", "openvino", "bert"]
    assert [line["model"] for line in done.records] == [*map(str, models)]
    first, exported, _ = done.records
    assert exported["parameters"] == pytest.approx(first["parameters"], rel=0.02)
    for line in done.records:
        assert line["cpu"]["tokens_per_second"] >= line["cpu"]["median"] > 0
        assert line["cpu"]["texts_per_second"] > 0 and line["cpu"]["peak_megabytes"] > 50
        assert line["threads"] == 1 and line["megabytes"] > 0
    turns = [model for name, model in here if name == "_turn"]
    assert turns == [path.name for path in models] * 3


def test_every_model_reads_the_same_texts(here: list[tuple[str, str]], models: list[Path],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[int, list[int]] = {}
    run_batch = model_speed._run

    def keep(checkpoint: Any, is_masked_lm: bool, ids: Any) -> None:
        read.setdefault(id(checkpoint), []).extend(map(len, ids))
        run_batch(checkpoint, is_masked_lm, ids)

    monkeypatch.setattr(model_speed, "_run", keep)
    compare_models(models[:3], texts=[{"id": "a", "text": "Il cuore pompa il sangue."},
                                      {"id": "b", "text": "Il rene " * 20}],
                   turns=1, workers=1, batch_size=1, max_length=10)
    lengths = list(read.values())
    assert len(lengths) == 3 and lengths == [lengths[0]] * 3
    assert max(lengths[0]) == 10 and len(lengths[0]) == 2 * 2


@pytest.mark.slow
def test_models_are_measured_in_separate_processes(tiny_checkpoint: Path) -> None:
    [line] = compare_models([tiny_checkpoint], [{"id": "a", "text": "Il rene."}], turns=1,
                            workers=1, batch_size=2, max_length=8)
    assert line["texts"] == 1
    assert 50 < line["cpu"]["peak_megabytes"] < 2_000
