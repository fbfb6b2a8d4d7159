"""Each loss against transformers' hidden states, logits and attention written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from toy_batches import packed_of, taught_by
from toy_models import FAMILIES, tiny_config
from transformers import AutoModelForMaskedLM

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.models import mlm
from bmtools.models.packed import prepare_packed
from bmtools.recipes.distillation import DistillationConfig
from bmtools.training.distillation import losses
from bmtools.training.loop import compile_layers, set_dropout

WEIGHTS = {"mlm_weight": 2.0, "kl_weight": 5.0, "cosine_weight": 1.0, "logit_mse_weight": 0.5,
           "hidden_weight": 3.0, "relation_weight": 4.0}
PAIRS = {"layer_map": "0:0,2:3,last:last", "relation_layers": "last:3,1:2", "relation_heads": 8}


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def make(family: str, seed: int, **changes: Any) -> Any:
    torch.manual_seed(seed)
    model = AutoModelForMaskedLM.from_config(tiny_config(family, **changes),
                                             dtype=torch.float64).eval()
    for weight in model.parameters():  # biases and positions start as 0
        torch.nn.init.normal_(weight, std=0.2)
    return model


@pytest.fixture
def batch() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(3)
    ids = torch.randint(5, 60, (5, 12), generator=rng)
    present = torch.arange(12) < torch.tensor([12, 12, 9, 7, 7])[:, None]
    chosen = (torch.rand(ids.shape, generator=rng) < 0.3) & present
    return {"input_ids": ids, "attention_mask": present,
            "labels": ids.where(chosen, torch.tensor(IGNORED))}


def outputs(model: Any, batch: dict[str, Tensor]) -> Any:
    return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long(),
                 output_hidden_states=True)


def vectors(model: Any, states: Any, layer: int) -> list[Tensor]:
    """Queries, keys and values, from the states below by the layer's own weights."""
    below = states[layer - 1]
    if model.config.model_type == "modernbert":
        module = model.model.layers[layer - 1]
        return list(module.attn.Wqkv(module.attn_norm(below)).chunk(3, dim=-1))
    attention = model.base_model.encoder.layer[layer - 1].attention
    if model.config.model_type == "megatron-bert":
        below = attention.ln(below)
    return [linear(below) for linear in (attention.self.query, attention.self.key,
                                         attention.self.value)]


def relations_apart(own: list[Tensor], theirs: list[Tensor], present: Tensor, heads: int) -> Tensor:
    """Wang et al. 2021, equations 6 to 8, sequence by sequence and head by head."""
    total = torch.zeros(())
    for kinds in zip(own, theirs, strict=True):
        for number, mask in enumerate(present):
            logarithms = []
            for kind in kinds:
                parts = kind[number, mask].chunk(heads, dim=-1)
                logarithms.append([(part @ part.T / part.shape[-1]**0.5).log_softmax(-1)
                                   for part in parts])
            for learnt, taught in zip(*logarithms, strict=True):
                total = total + (taught.exp() * (taught - learnt)).sum() / heads
    return total


def reference(student: Any, teacher: Any, taught_objective: Any, batch: dict[str, Tensor],
              positions: str, temperature: float) -> dict[str, Tensor]:
    learnt = outputs(student, batch)
    with torch.no_grad():
        taught = outputs(teacher, batch)
        kinds = {layer: vectors(teacher, taught.hidden_states, layer) for layer in (2, 3)}
    masked, present = batch["labels"] != IGNORED, batch["attention_mask"]
    compared = masked if positions == "masked" else present
    own, theirs = learnt.logits[compared], taught.logits[compared]
    p = (theirs / temperature).softmax(-1)
    hidden = torch.zeros(())
    for layer, other in ((0, 0), (2, 3), (3, 4)):
        difference = taught_objective.hidden_projection(learnt.hidden_states[layer][present]) \
            - taught.hidden_states[other][present]
        hidden = hidden + (difference**2).mean(-1).sum()
    return {
        "mlm": functional.cross_entropy(learnt.logits[masked], batch["labels"][masked],
                                        reduction="sum"),
        "kl": temperature**2 * (p * (p.log() - (own / temperature).log_softmax(-1))).sum(),
        "logit_mse": ((own - theirs)**2).mean(-1).sum(),
        "cosine": (1 - functional.cosine_similarity(
            taught_objective.projection(learnt.hidden_states[-1][present]),
            taught.hidden_states[-1][present], dim=-1)).sum(),
        "hidden": hidden,
        "relations": sum(relations_apart(
            vectors(student, learnt.hidden_states, layer), kinds[other], present, 8)
            for layer, other in ((3, 3), (1, 2)))}


def trained(module: Any, loss: Tensor) -> dict[str, Tensor]:
    module.zero_grad()
    loss.backward()
    return {name: weight.grad for name, weight in module.named_parameters()
            if weight.grad is not None}


@pytest.mark.parametrize(("family", "teacher_family", "positions", "chunk"), [
    *((one, other, "masked", None) for one, other in zip(
        FAMILIES, FAMILIES[1:] + FAMILIES[:1], strict=True)),
    ("BERT", "ModernBERT", "all", None), ("ModernBERT", "BERT", "all", 4),
    ("RoBERTa", "Megatron-BERT", "masked", 3)])
def test_losses_and_gradients_are_those_of_plain_formulas(
        family: str, teacher_family: str, positions: str, chunk: int | None,
        batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Wider teacher, padded and packed sequences, all at once and chunk by chunk."""
    if chunk:
        monkeypatch.setattr(mlm, "_LOGITS_ON_CPU", 60 * chunk)
        monkeypatch.setattr(losses, "_SCORES", 2 * 3 * 8 * 12**2)
        monkeypatch.setattr(losses, "_CACHED_ON_CPU", 100)
    student, teacher = make(family, 0), make(teacher_family, 1, hidden_size=48,
                                             num_hidden_layers=4)
    made = taught_by(student, teacher, temperature=3.0, kl_positions=positions, **WEIGHTS, **PAIRS)
    expected = reference(student, teacher, made, batch, positions, 3.0)
    weights = {name: term.weight for name, term in made.loss_terms.items()}
    assert weights == {"mlm": 2, "kl": 5, "cosine": 1, "logit_mse": 0.5, "hidden": 3,
                       "relations": 4}
    gradients = trained(made, sum(weights[name] * value for name, value in expected.items()))
    assert {name for name in gradients if "projection" in name} == {
        "projection.weight", "projection.bias", "hidden_projection.weight",
        "hidden_projection.bias"}
    for layout in ("padded", "packed"):
        if layout == "packed":
            prepare_packed(student)
            prepare_packed(teacher)
        found = made(**(batch if layout == "padded" else packed_of(batch)))
        assert found.pop("mlm_accuracy") >= 0
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
        total = sum(weights[name] * value for name, value in found.items())
        torch.testing.assert_close(trained(made, total), gradients, rtol=1e-6, atol=1e-8)
        assert all(weight.grad is None for weight in teacher.parameters())


@pytest.mark.parametrize("name", ["mlm", "kl", "cosine", "logit_mse", "hidden", "relations"])
def test_a_loss_alone_computes_nothing_else(name: str, batch: dict[str, Tensor],
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither logits of a model that are not compared, nor a projection, nor higher layers."""
    student, teacher = make("BERT", 0), make("BERT", 1, hidden_size=48, num_hidden_layers=6)
    setting = {"relations": "relation_weight"}.get(name, f"{name}_weight")
    made = taught_by(student, teacher, **{**dict.fromkeys(WEIGHTS, 0.0), setting: 1.0},
                     layer_map="1:2,last:3", relation_layers="last:4", relation_heads=4)
    ran = []
    for model in (student, teacher):
        model.cls.register_forward_hook(lambda module, *_: ran.append(module))
    found = made(**batch)
    assert set(found) == {name, *(["mlm_accuracy"] if name == "mlm" else [])}
    assert set(made.metrics) == set(found) - {name}
    assert (student.cls in ran, teacher.cls in ran) == {
        "mlm": (True, False), "kl": (True, True), "logit_mse": (True, True)}.get(
            name, (False, False))
    projected = {"cosine": "projection", "hidden": "hidden_projection"}.get(name)
    assert [key for key, module in made.named_children()
            if isinstance(module, torch.nn.Linear)] == ([projected] if projected else [])
    assert len(teacher.bert.encoder.layer) == {"hidden": 4, "relations": 4, "mlm": 1}.get(name, 6)


def test_uniform_maps_follow_the_paper_and_last_is_the_last(batch: dict[str, Tensor]) -> None:
    """Jiao et al. 2020, section 4.1: of 12 layers for 4, every third one, and the embeddings."""
    made = taught_by(make("BERT", 0, num_hidden_layers=4), make("BERT", 1, num_hidden_layers=12),
                     hidden_weight=1.0, relation_weight=1.0)
    assert (made._needs.layers, made._teacher_needs.layers) == (
        (0, 1, 2, 3, 4), (0, 3, 6, 9, 12))
    assert (made._needs.relation_layers, made._teacher_needs.relation_layers) == ((4,), (12,))


@pytest.mark.parametrize(("settings", "message"), [
    ({"hidden_weight": 1.0, "layer_map": "4:1"},
     "layer_map: found layer 4 of the student, expected 0 to 3"),
    ({"relation_weight": 1.0, "relation_layers": "last:7"},
     "relation_layers: found layer 7 of the teacher, expected 1 to 3"),
    ({"relation_weight": 1.0, "relation_heads": 12},
     "relation_heads: found 12, but student and teacher are 32 and 48 wide, expected a divisor of "
     "both: 1, 2, 4, 8, 16")])
def test_what_does_not_fit_both_models_is_refused(settings: dict, message: str) -> None:
    with pytest.raises(BmtoolsError) as caught:
        taught_by(make("BERT", 0), make("BERT", 1, hidden_size=48), **settings)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["", "first", "1-2", "1:2;2:3", "1:2,", "all:last"])
def test_a_malformed_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"layer_map: found .*, expected uniform, last or pairs"):
        DistillationConfig(layer_map=text)


def test_relations_of_an_unknown_architecture_are_refused() -> None:
    with pytest.raises(CheckpointError, match="DebertaV2ForMaskedLM: queries, keys and values of "
                                              "this architecture are not known, expected BERT"):
        taught_by(make("DeBERTa", 0), make("BERT", 1), relation_weight=1.0)


def test_tables_padded_differently_share_the_vocabulary(batch: dict[str, Tensor]) -> None:
    """Published tables often have more rows than their vocabulary has tokens."""
    student, teacher = make("BERT", 0), make("BERT", 1, vocab_size=64)
    found = taught_by(student, teacher)(**batch)["kl"]
    teacher.resize_token_embeddings(60)
    torch.testing.assert_close(found, taught_by(student, teacher)(**batch)["kl"])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch's own, in dynamo
@pytest.mark.parametrize(("family", "how"), [
    ("ModernBERT", "checkpointed"), ("BERT", "compiled"), ("ModernBERT", "both")])
def test_compiled_and_checkpointed_layers_give_the_same(
        family: str, how: str, batch: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers share their code, but relations are recorded in some of them only."""
    compile_module = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **options: compile_module(
        module, backend="eager", **options))
    student, teacher = make(family, 0).train(), make("BERT", 1, hidden_size=48)
    set_dropout(student, 0.0)
    made = taught_by(student, teacher, **WEIGHTS, relation_heads=4)
    expected = made(**batch)
    gradients = trained(made, expected["relations"] + expected["hidden"])
    if how != "compiled":
        student.activation_checkpointing_enable(
            activation_checkpointing_kwargs={"use_reentrant": False})
    if how != "checkpointed":
        compile_layers(student)
    found = made(**batch)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(trained(made, found["relations"] + found["hidden"]), gradients)
