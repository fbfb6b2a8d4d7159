"""`bmtools export model`, and commands that run what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bmtools.study.reports.compare_models as model_speed
from bmtools.export.export import export_model
from bmtools.models.settings import SpeedConfig
from bmtools.tasks import finetune

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def exported(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model."""
    folder = tmp_path_factory.mktemp("exported") / "openvino"
    export_model(tiny_checkpoint, folder)
    return folder


@pytest.mark.slow
def test_scores_are_those_of_the_checkpoint(run: Callable[..., Any], corpus: Path, exported: Path,
                                            tiny_checkpoint: Path) -> None:
    done = run("score-pppl", corpus, "--model", tiny_checkpoint, "--model", exported,
               "--resamples", "0")
    assert done.code == 0, done.err
    exact, found = (line["pppl"] for line in done.records[:2])
    assert found == pytest.approx(exact, rel=1e-5)
    assert "format:openvino" in done.records[1]["signature"]


RELATED = [{"id": str(number), "text": "Il cuore pompa il sangue.",
            "entities": [{"start": 3, "end": 8, "type": "X", "id": "a"},
                         {"start": 18, "end": 24, "type": "Y", "id": "b"}],
            "relations": [{"head": "a", "tail": "b", "type": "r"}]} for number in range(2)]


@pytest.mark.slow
def test_a_head_of_bmtools(run: Callable[..., Any], write_lines: Callable[..., Path],
                           tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = write_lines("records.jsonl", *RELATED)
    finetune("relations", tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=1,
             pooling="mentions")
    done = run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    exact, found = (run("predict", path, "--model", tmp_path / name).records
                    for name in ("tuned", "out"))
    for one, other in zip(exact, found, strict=True):
        scores = [[arc.pop("score") for arc in record["predicted"]["relations"]]
                  for record in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert exact == found and exact[0]["predicted"]["relations"]
    for name in ("tuned", "out"):  # compare-models runs both
        model = str(tmp_path / name)
        model_speed._load(model, ["Il cuore pompa."] * 4,
                          SpeedConfig(batch_size=1, max_length=4, workers=1))
        assert model_speed._turn(model)[0] == 4 * 4


def test_a_crf_is_refused(run: Callable[..., Any], write_lines: Callable[..., Path],
                          tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = write_lines("records.jsonl", *RELATED)
    finetune("ner", tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=1, crf=True)
    done = run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out")
    assert (done.code, done.err) == (1, (
        f"bmtools: {tmp_path / 'tuned'}: found a head with a CRF or an LSTM, which no graph of "
        "other engines holds; fine-tune with a linear head or mlp and no CRF\n"))
