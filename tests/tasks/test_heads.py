from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_models import tiny_config
from transformers import AutoModelForMaskedLM, ModernBertConfig, RobertaConfig

from bmtools.errors import CheckpointError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import load_checkpoint, save_checkpoint
from bmtools.records import Record
from bmtools.tasks.batches import TaskBatches
from bmtools.tasks.heads import load_encoder, with_new_head
from bmtools.tasks.ner import NerConfig, NerTask
from bmtools.tasks.predict import run_model
from bmtools.tasks.registry import TASKS, load_task
from bmtools.tasks.seed_run import TaskObjective
from bmtools.training.layers import encoder_layers
from bmtools.training.loop import set_dropout
from bmtools.vocab.tokenizer import fingerprint

LABELS = ["O", "B-X", "I-X"]
TAGGER = "AutoModelForTokenClassification"
CLASSIFIER = "AutoModelForSequenceClassification"
TEXTS = ["Il paziente ha l'ipertensione arteriosa, e (PKU). " * 9, "", "🧬 asma"]


def config(kind: str, tokenizer: Any) -> Any:
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 2, "intermediate_size": 64,
             "pad_token_id": tokenizer.pad_token_id, "bos_token_id": tokenizer.cls_token_id,
             "eos_token_id": tokenizer.sep_token_id}
    if kind == "modernbert":
        return ModernBertConfig(**sizes, max_position_embeddings=128, local_attention=16,
                                cls_token_id=tokenizer.cls_token_id,
                                sep_token_id=tokenizer.sep_token_id)
    return RobertaConfig(**sizes, max_position_embeddings=66, type_vocab_size=1)


@pytest.fixture(params=["roberta", "modernbert"])
def checkpoint(request: pytest.FixtureRequest, tokenizers: dict[str, Any],
               tmp_path: Path) -> Path:
    """A random masked language model; pad_token_id is 0, so RoBERTa's positions start at 1."""
    tokenizer = tokenizers["bytes" if request.param == "modernbert" else "bytes-trimmed"]
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config(request.param, tokenizer))
    save_checkpoint(tmp_path / "lm", model, tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    return tmp_path / "lm"


def tagger(checkpoint: Path, max_length: int = 512) -> NerTask:
    task = NerTask(NerConfig(max_length), load_encoder(checkpoint, TAGGER))
    task.accept_labels(LABELS)
    return task


def records() -> list[Record]:
    return [Record(id=str(number), text=text) for number, text in enumerate(TEXTS)]


def test_other_architectures_tag_and_reload(checkpoint: Path, tmp_path: Path) -> None:
    task = tagger(checkpoint)
    tokenizer = task.checkpoint.tokenizer
    original = AutoModelForMaskedLM.from_pretrained(checkpoint)
    model = task.new_model(0).eval()
    for name, value in original.base_model.state_dict().items():
        assert torch.equal(value, model.base_model.state_dict()[name])
    examples = task.encode(records())
    assert len(examples[0].inputs) > 1
    found = run_model(task, model, examples, 2)
    assert [sum(map(len, output)) for output in found] == [len(e.words) for e in examples]
    assert all(rows.shape[1:] == (1, 3) for output in found for rows in output)

    save_checkpoint(tmp_path / "tagger", model, tokenizer,
                    Manifest("test", {}, task.checkpoint.vocabulary))
    again = load_checkpoint(tmp_path / "tagger", model_class=TAGGER)
    assert again.model.config.id2label == dict(enumerate(LABELS))
    for before, after in zip(found, run_model(task, again.model, examples, 2), strict=True):
        assert all((a == b).all() for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(("kind", "other"), [("linear", "mlp"), ("mlp", "linear")])
def test_heads_for_the_same_labels_are_reused(checkpoint: Path, tmp_path: Path, kind: Any,
                                              other: Any) -> None:
    def start(head: Any, directory: Path, labels: list[str]) -> Any:
        task = NerTask(NerConfig(40, head=head), load_encoder(directory, TAGGER))
        task.labels = labels
        return task

    first = start(kind, checkpoint, LABELS)
    assert first.trained_head() is None
    model, same, other_seed = (first.new_model(seed) for seed in (1, 1, 2))
    drawn = [dict(one.named_parameters()) for one in (model, same, other_seed)]
    assert all(torch.equal(weight, drawn[1][name]) for name, weight in drawn[0].items())
    assert not all(torch.equal(weight, drawn[2][name]) for name, weight in drawn[0].items())
    save_checkpoint(tmp_path / "tuned", model, first.checkpoint.tokenizer,
                    Manifest("test", {}, first.checkpoint.vocabulary))
    weights = model.state_dict()
    second = start(kind, tmp_path / "tuned", LABELS).new_model(2).state_dict()
    assert all(torch.equal(second[name], weight) for name, weight in weights.items())
    assert start(kind, tmp_path / "tuned", ["O", "B-Y", "I-Y"]).trained_head() is None
    assert start(kind, tmp_path / "tuned", [*LABELS, "B-Y", "I-Y"]).trained_head() is None
    assert start(other, tmp_path / "tuned", LABELS).trained_head() is None


@pytest.mark.parametrize("model_class", [TAGGER, CLASSIFIER])
def test_new_weights_depend_only_on_the_seed(checkpoint: Path, model_class: str) -> None:
    """Head weights come from the seed unless the checkpoint contains them (ModernBERT)."""
    def draw(noise: int, seed: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(noise)
        encoder = load_encoder(checkpoint, model_class)
        torch.manual_seed(noise)
        return with_new_head(encoder, LABELS, seed).state_dict()

    original = AutoModelForMaskedLM.from_pretrained(checkpoint).state_dict()
    first, second, other = draw(7, 3), draw(8, 3), draw(7, 4)
    assert all(torch.equal(first[name], second[name]) for name in first)
    changed = {name for name in first if not torch.equal(first[name], other[name])}
    new = {name for name in first if name not in original}
    assert changed == {name for name in new if first[name].ndim > 1}
    for name in new - changed:
        assert (first[name] == 0).all(), "new biases are 0"


def test_head_without_output_layer_is_an_error(checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match=r"the head of a .*ForMaskedLM is not known"):
        load_encoder(checkpoint, "AutoModelForMaskedLM")


_SENTENCES = ["due asma e la febbre alta", "asma", "il cuore con asma e artrosi"]
_ANNOTATED = [Record(
    id=str(number), text=text, label="ab"[number % 2], entities=[
        {"id": "1", "type": "X", "start": text.index("asma"), "end": text.index("asma") + 4},
        {"id": "2", "type": "Y", "start": 0, "end": len(text)}],
    relations=[{"head": "1", "tail": "2", "type": "R"}] * (number % 2))
    for number, text in enumerate(_SENTENCES * 2)]


@pytest.mark.parametrize("family", ["BERT", "XLM-R", "Megatron-BERT", "ModernBERT"])
@pytest.mark.parametrize(("name", "settings"), [
    ("classification", {}), ("classification", {"head": "mlp", "head_dropout": 0.0}),
    ("relations", {"pooling": "mentions"}), ("ner", {}), ("ner", {"crf": True}),
    ("ner", {"head": "bilstm", "head_dropout": 0.0})], ids=str)
def test_limiting_the_last_layer_keeps_gradients( tmp_path: Path, tokenizers: dict[str, Any],
                                                 family: str, name: str, settings: dict[str,
                                                 Any]) -> None:
    tokenizer = tokenizers["wordpiece"]
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(tiny_config(
        family, vocab_size=len(tokenizer), pad_token_id=0))
    save_checkpoint(tmp_path / "lm", model, tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    task_class, options = load_task(name), TASKS[name][1](max_length=32, **settings)
    task = task_class(options, load_encoder(tmp_path / "lm", task_class.head_for(options)[0]))
    inputs = task.read("train", _ANNOTATED).inputs
    [batch] = TaskBatches(task, inputs, [np.arange(len(inputs))]).batch(0).micro_batches
    objective = TaskObjective(task, task.new_model(0).train())
    set_dropout(objective, 0.0)
    sizes: list[int] = []
    encoder_layers(objective.model)[-1].register_forward_hook(
        lambda layer, given, states: sizes.append(
            (states[0] if isinstance(states, tuple) else states).numel()))
    found = []
    for limited in (objective.last_layer.can_be_limited, False):
        objective.last_layer.can_be_limited, objective.last_layer.index = limited, None
        objective.zero_grad()
        loss = objective(**batch)["task"]
        loss.backward()
        found.append([loss.detach(), *(weight.grad for weight in objective.parameters()
                                       if weight.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    reads_all = family == "ModernBERT" or "crf" in settings or settings.get("head") == "bilstm"
    assert (sizes[0] == sizes[1]) == reads_all
    if name == "ner" and not reads_all:  # products have few different shapes
        assert sizes[0] % (16 * objective.model.config.hidden_size) == 0
