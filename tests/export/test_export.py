"""Exported models, compared with transformers for all heads and families."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from toy_models import SENTENCES, tiny_config

from bmtools.errors import BmtoolsError, CheckpointError, DataError
from bmtools.export.export import export_model
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import load_checkpoint, load_for_inference, save_checkpoint
from bmtools.models.exported.model import load_openvino
from bmtools.vocab.tokenizer import fingerprint

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = [{"id": str(number), "text": text} for number, text in enumerate(SENTENCES)]


def save(directory: Path, tokenizer: Any, family: str, head: str) -> Path:
    """Save a tiny model with weights large enough for every part to matter."""
    torch.manual_seed(0)
    config = tiny_config(family, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id,
                         num_hidden_layers=2 if family == "ModernBERT" else 1)
    config.num_labels = 2
    model = getattr(transformers, f"AutoModelFor{head}").from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
    save_checkpoint(directory, model, tokenizer, Manifest("test", {}, fingerprint(tokenizer)))
    return directory


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    """A masked language model."""
    return save(tmp_path_factory.mktemp("source") / "model", tokenizer, "BERT", "MaskedLM")


@pytest.fixture(scope="module")
def exported(checkpoint: Path) -> Path:
    """The same model in OpenVINO's format, next to it."""
    export_model(checkpoint, checkpoint.parent / "exported")
    return checkpoint.parent / "exported"


@pytest.mark.parametrize(("family", "head"), [
    ("Megatron-BERT", "SequenceClassification"), ("CamemBERT", "QuestionAnswering"),
    ("ModernBERT", "TokenClassification")])
def test_logits_equal_transformers(tmp_path: Path, tokenizer: Any, family: str, head: str) -> None:
    source, target = save(tmp_path / "model", tokenizer, family, head), tmp_path / "exported"
    line = export_model(source, target)
    assert (line["format"], line["precision"]) == ("openvino", "float32")
    assert 0 < line["difference"]["random"]["max"] < 1e-5
    # Shapes not used in the export, with padding outside ModernBERT's window of four tokens.
    mask = (torch.arange(38) < torch.tensor([38, 3, 20, 1])[:, None]).long()
    batch = {"input_ids": torch.randint(5, len(tokenizer), mask.shape), "attention_mask": mask}
    if family == "Megatron-BERT":
        batch["token_type_ids"] = (torch.arange(38) > 5).long().expand_as(mask)
    model_class = f"AutoModelFor{head}"
    with torch.inference_mode():
        exact = load_checkpoint(source, model_class=model_class).model(**batch)
    logits = torch.stack([exact.start_logits, exact.end_logits], dim=-1) \
        if "Question" in head else exact.logits
    near = load_for_inference(target, model_class=model_class).model(**batch).logits
    kept = mask.bool() if logits.ndim > 2 else ...
    torch.testing.assert_close(near[kept], logits[kept], atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_int8_is_close_on_held_out_texts(checkpoint: Path, tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *where: connected.append(where))
    line = export_model(checkpoint, tmp_path / "int8", TEXTS, int8=True)
    assert line["precision"] == "int8"
    difference = line["difference"]["texts"]
    assert 1e-4 < difference["max"] < 1 and difference["mean"] < 0.1
    assert difference["cosine"] > 0.99
    manifest = json.loads((tmp_path / "int8" / "bmtools.json").read_text())
    assert manifest["results"]["difference"] == line["difference"]
    assert manifest["settings"]["exported"]["precision"] == "int8"
    assert connected == []


def test_openvino_computes_in_float32(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    hints = {}
    compile_model = openvino.Core.compile_model

    def compiled(*arguments: Any) -> Any:
        model = compile_model(*arguments)
        hints.update({name: model.get_property(name) for name in (
            "INFERENCE_PRECISION_HINT", "INFERENCE_NUM_THREADS", "NUM_STREAMS")})
        return model

    monkeypatch.setattr(openvino.Core, "compile_model", compiled)
    load_openvino(exported, 2, 2)
    assert str(hints["INFERENCE_PRECISION_HINT"]) == "<Type: 'float32'>"
    assert (hints["INFERENCE_NUM_THREADS"], hints["NUM_STREAMS"]) == (2, 2)


@pytest.mark.slow
def test_exports_with_other_outputs_are_not_written(checkpoint: Path, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.export.export.MOST_DIFFERENCE", 1e-12)
    with pytest.raises(CheckpointError, match=r"exported logits differ by up to .*e-0.*"
                                              ", expected 1e-12 or less; use the checkpoint"):
        export_model(checkpoint, tmp_path / "exported")
    assert list(tmp_path.iterdir()) == []


def test_texts_unsuitable_for_calibration_are_errors(checkpoint: Path, tmp_path: Path) -> None:
    for text, message in (("", "calibration: found no text, expected records with text"),
                          ("Ж Ж Ж Ж", "calibration: 4 of 4 tokens are unknown to the model")):
        with pytest.raises(DataError, match=message):
            export_model(checkpoint, tmp_path / "exported", [{"id": "1", "text": text}])


def test_damaged_files_are_errors(exported: Path, checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="found an exported AutoModelForMaskedLM, expected "):
        load_for_inference(exported, model_class="AutoModelForTokenClassification")
    (exported / "openvino_model.bin").rename(tmp_path / "bin")
    model: Any = load_for_inference(exported).model
    with pytest.raises(CheckpointError, match="OpenVINO could not load it"):
        model(input_ids=torch.ones(1, 3).long(), attention_mask=torch.ones(1, 3).long())
    (tmp_path / "bin").rename(exported / "openvino_model.bin")
    assert np.isfinite(load_for_inference(exported).model.config.vocab_size)


def test_full_disk_is_reported_before_writing( checkpoint: Path, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.export.export.weight_bytes", lambda _: 10 ** 18)
    with pytest.raises(BmtoolsError, match=r"no space left on device: 1,000,000,000,000\.0 MB nee"):
        export_model(checkpoint, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_openvino_does_not_send_telemetry() -> None:
    code = """
from bmtools.models.exported.model import import_openvino
import_openvino()
from openvino.tools.ovc import convert_impl, telemetry_utils
assert "stub" in convert_impl.tm.__name__ and "stub" in telemetry_utils.tm.__name__
try:
    import openvino_telemetry
except ImportError:
    print("absent")
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "absent\n"
