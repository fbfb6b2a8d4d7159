"""Static models: Model2Vec's vectors, fine-tuned and run as other checkpoints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from bmtools.errors import CheckpointError
from bmtools.export.export import export_model
from bmtools.export.static import distill_static
from bmtools.models.checkpoint import load_checkpoint
from bmtools.study.cards.card import write_cards
from bmtools.tasks.finetune import finetune
from bmtools.tasks.predict import predict

pytestmark = pytest.mark.usefixtures("one_thread")
RECORDS = [{"id": f"{organ} {number}", "text": f"Il {organ} {verb}.", "label": label}
           for number, verb in enumerate(("regola", "accumula", "trasporta", "filtra"))
           for organ, label in (("cuore", "heart"), ("rene", "kidney"))]


@pytest.fixture(scope="module")
def static(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("static") / "model"
    [line] = export_model(tiny_checkpoint, output, format="static", dimensions=8)
    assert (line["dimensions"], line["format"]) == (8, "static")
    return output


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dimensions", [8, 100])
def test_vectors_are_those_of_model2vec(tiny_checkpoint: Path, tmp_path: Path,
                                        dimensions: int) -> None:
    pytest.importorskip("skeletoken")
    from model2vec.distill import distill_from_model

    tokenizer = AutoTokenizer.from_pretrained(tiny_checkpoint)
    expected = distill_from_model(AutoModel.from_pretrained(tiny_checkpoint), tokenizer,
                                  pca_dims=dimensions, quantize_to="float32", device="cpu")
    export_model(tiny_checkpoint, tmp_path / "own", format="static", dimensions=dimensions)
    found = load_file(tmp_path / "own" / "model.safetensors")["embeddings.weight"]
    ids = tokenizer.get_vocab()
    theirs = {token: expected.embedding[number]
              for token, number in expected.tokenizer.get_vocab().items()
              if token not in tokenizer.all_special_tokens}
    assert len(theirs) > 50
    np.testing.assert_allclose(np.stack([found[ids[token]] for token in theirs]),
                               np.stack([*theirs.values()]), atol=1e-6)
    texts = [record["text"] for record in RECORDS]
    model = load_checkpoint(tmp_path / "own", model_class="AutoModel").model
    own = model(**{name: values for name, values in tokenizer(
        texts, return_tensors="pt", padding=True).items() if name != "token_type_ids"})
    np.testing.assert_allclose(own.detach(), expected.encode(texts), atol=1e-5)


def test_an_encoder_without_a_head_is_enough(tiny_checkpoint: Path, static: Path, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = AutoModel.from_pretrained(tiny_checkpoint, add_pooling_layer=False)
    shutil.copytree(tiny_checkpoint, tmp_path / "encoder")
    encoder.save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "bmtools.json").unlink(missing_ok=True)
    # A graph and inputs to calibrate it on are of no use here.
    monkeypatch.setattr("bmtools.export.export.Graph", None)
    export_model(tmp_path / "encoder", tmp_path / "own", format="static", dimensions=8)
    found, expected = (load_file(path / "model.safetensors")["embeddings.weight"]
                       for path in (tmp_path / "own", static))
    np.testing.assert_array_equal(found, expected)
    weights = load_file(tmp_path / "encoder" / "model.safetensors")
    save_file({name: tensor for name, tensor in weights.items() if "layer.0" not in name},
              tmp_path / "encoder" / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"no fitting weights for encoder\.layer\.0"):
        export_model(tmp_path / "encoder", tmp_path / "lacking", format="static")


def test_a_classifier_is_trained_saved_and_run(static: Path, tmp_path: Path) -> None:
    finetune("classification", static, RECORDS, RECORDS, tmp_path / "classifier", seeds=1,
             epochs=8, learning_rate=0.1, batch_size=4)
    config = json.loads((tmp_path / "classifier" / "config.json").read_text())
    assert config["architectures"] == ["StaticForSequenceClassification"]
    found = predict([{"id": "1", "text": "Il rene accumula"},
                     {"id": "2", "text": "Il cuore regola"}], tmp_path / "classifier")
    assert [record["predicted"]["label"] for record in found] == ["kidney", "heart"]
    write_cards(tmp_path / "classifier")
    assert "import bmtools.models.static" in (tmp_path / "classifier" / "README.md").read_text()


def test_other_tasks_and_scores_are_refused(run: Callable[..., Any], static: Path, corpus: Path,
                                            tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"found a static model, .* whole texts"):
        load_checkpoint(static, model_class="AutoModelForTokenClassification")
    with pytest.raises(CheckpointError, match="found a static model, expected an encoder"):
        distill_static(load_checkpoint(static, model_class="AutoModel"), 8)
    done = run("score-pppl", corpus, "--model", static)
    assert done.code == 1
    assert "found model_type 'model2vec'; expected a masked language model" in done.err
    done = run("export", "model", static, "--format", "static", "--int8", "-o", tmp_path / "out")
    assert done.code == 2
    assert "--int8: found True, expected none for static, whose vectors are float32" in done.err
