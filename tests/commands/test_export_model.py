"""`bmtools export model`, and commands that run the exported model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bmtools.study.reports.compare_models as model_speed
from bmtools.export.export import export_model
from bmtools.models.settings import SpeedConfig
from bmtools.tasks import finetune
from bmtools.vocab.loading import load_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def exported(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model."""
    folder = tmp_path_factory.mktemp("exported") / "openvino"
    export_model(tiny_checkpoint, folder)
    return folder


@pytest.mark.slow
def test_scores_equal_scores_of_the_checkpoint(run: Callable[..., Any], corpus: Path,
                                               exported: Path, tiny_checkpoint: Path) -> None:
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
def test_a_tagger_of_tokens(run: Callable[..., Any], write_lines: Callable[..., Path],
                            tiny_checkpoint: Path, tmp_path: Path) -> None:
    """Predictions of the exported model also have the offsets of tokens."""
    text = "Il cuore pompasangue."
    encoding = load_tokenizer(tiny_checkpoint).backend_tokenizer.encode(
        text, add_special_tokens=False)
    later = next(number for number, word in enumerate(encoding.word_ids[1:], 1)
                 if word == encoding.word_ids[number - 1])
    start, end = encoding.offsets[later]
    inside = [{"id": number, "text": text, "entities": [
        {"start": start, "end": end, "type": "X"}]} for number in "01"]
    path = write_lines("records.jsonl", *inside)
    finetune("ner", tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=40,
             patience=40, learning_rate=3e-3, tags="tokens")
    assert run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out").code == 0
    for name in ("tuned", "out"):
        for record in run("predict", path, "--model", tmp_path / name).records:
            assert [(one["start"], one["end"]) for one in record["predicted"]["entities"]] == [
                (start, end)]


def require_equal_predictions(run: Callable[..., Any], path: Path, folder: Path, key: str,
                              error: float) -> None:
    """Compare the predictions of a checkpoint, `tuned`, and of its export, `out`."""
    exact, found = (run("predict", path, "--model", folder / name).records
                    for name in ("tuned", "out"))
    for one, other in zip(exact, found, strict=True):
        scores = [[part.pop("score") for part in record["predicted"][key]]
                  for record in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=error)
    assert exact == found and exact[0]["predicted"][key]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"pooling": "mentions"}, {"pooling": "mentions-mean", "head": "mlp"}, {"head": "mlp"}], ids=str)
def test_a_head_of_bmtools(run: Callable[..., Any], write_lines: Callable[..., Path],
                           tiny_checkpoint: Path, tmp_path: Path,
                           settings: dict[str, str]) -> None:
    path = write_lines("records.jsonl", *RELATED)
    finetune("relations", tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=1,
             **settings)
    done = run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out")
    assert done.code == 0, done.err
    require_equal_predictions(run, path, tmp_path, "relations", 1e-5)
    for name in ("tuned", "out"):  # compare-models runs both
        model = str(tmp_path / name)
        model_speed._load(model, ["Il cuore pompa."] * 4,
                          SpeedConfig(batch_size=1, max_length=4, workers=1))
        assert model_speed._turn(model)[0] == 4 * 4


@pytest.mark.slow
def test_hidden_layers_of_questions(run: Callable[..., Any], write_lines: Callable[..., Path],
                                    tiny_checkpoint: Path, tmp_path: Path) -> None:
    path = write_lines("records.jsonl", *({**record, "question": "Cosa pompa?", "answers": [
        {"text": "cuore", "start": 3}]} for record in RELATED))
    finetune("qa", tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=1,
             head="mlp", head_layers=2)
    assert run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out").code == 0
    require_equal_predictions(run, path, tmp_path, "answers", 1e-3)


@pytest.mark.parametrize(("task", "settings"), [
    ("ner", {"crf": True}), ("relations", {"head": "bilstm"})])
def test_a_crf_or_an_lstm_is_rejected(run: Callable[..., Any], write_lines: Callable[..., Path],
                                      tiny_checkpoint: Path, tmp_path: Path, task: str,
                                      settings: dict[str, Any]) -> None:
    path = write_lines("records.jsonl", *RELATED)
    finetune(task, tiny_checkpoint, path, path, tmp_path / "tuned", seeds=1, epochs=1, **settings)
    done = run("export", "model", tmp_path / "tuned", "-o", tmp_path / "out")
    assert (done.code, done.err) == (1, (
        f"bmtools: {tmp_path / 'tuned'}: found a head with a CRF or an LSTM, which cannot be "
        "exported to other engines; fine-tune with a linear head or mlp and without CRF\n"))
