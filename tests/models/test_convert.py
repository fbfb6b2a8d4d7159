"""Published checkpoints become ones that all commands read, with the same predictions."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_models import tiny_config
from transformers import (
    AutoModelForMaskedLM,
    BertForPreTraining,
    MegatronBertConfig,
    MegatronBertForPreTraining,
    ModernBertForMaskedLM,
    RobertaForMaskedLM,
)

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint import load_checkpoint, load_for_inference
from bmtools.models.checkpoint_files import check_masked_lm
from bmtools.models.convert import convert
from bmtools.study.cards.card import write_cards
from bmtools.vocab.loading import load_tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]", "a", "asma", "##a", "cuore"]
IDS = torch.tensor([[2, 6, 7, 4, 9, 3], [2, 9, 8, 4, 6, 3]])
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]])


def words_of(folder: Path, tokens: list[str] = TOKENS, **config: Any) -> Path:
    """Write a vocabulary as it was published, with a configuration only if there are settings."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def random_bert(build: Callable[[Any], Any] = BertForPreTraining, family: str = "BERT") -> Any:
    torch.manual_seed(0)
    config = tiny_config(family, vocab_size=len(TOKENS), pad_token_id=0, initializer_range=0.5)
    model = build(config).eval()
    for weight in model.parameters():
        if weight.dim() == 1:
            weight.data += 0.3 * torch.randn(weight.shape)
    return model


def published(folder: Path, model: Any, names: Callable[[str], str] = str, *,
              config: str = "config.json", drop: str = "$nothing") -> Path:
    """Write a model as pytorch_model.bin, its weights under other names."""
    words_of(folder)
    content = {key: value for key, value in model.config.to_dict().items()
               if key not in ("architectures", "model_type", "dtype")}
    (folder / config).write_text(json.dumps(content))
    torch.save({names(name): weight for name, weight in model.state_dict().items()
                if not re.search(drop, name)}, folder / "pytorch_model.bin")
    return folder


def logits(model: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=IDS, token_type_ids=SEGMENTS)


def old_names(name: str) -> str:
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
    return f"module.{name.replace('LayerNorm.bias', 'LayerNorm.beta')}"


@pytest.mark.parametrize(("names", "drop", "config"), [
    (str, "$nothing", "config.json"), (old_names, "$nothing", "bert_config.json"),
    (str, "decoder", "config.json"),
    (lambda name: name.removeprefix("bert."), "$nothing", "config.json")],
    ids=["as today", "old names", "tied decoder left out", "no prefix"])
def test_a_converted_pickled_bert_makes_the_same_predictions(
        tmp_path: Path, names: Callable[[str], str], drop: str, config: str) -> None:
    model = random_bert()
    source = published(tmp_path / "old", model, names, config=config, drop=drop)
    line = convert(source, tmp_path / "new", casing="uncased")
    assert (line["class"], line["left_out"], line["casing"]) == ("BertForPreTraining", [],
                                                               "uncased")
    made, expected = BertForPreTraining.from_pretrained(tmp_path / "new"), logits(model)
    torch.testing.assert_close(logits(made).prediction_logits, expected.prediction_logits)
    torch.testing.assert_close(logits(made).seq_relationship_logits,
                               expected.seq_relationship_logits)
    check_masked_lm(tmp_path / "new")
    for load in (load_checkpoint, load_for_inference):
        checkpoint = load(tmp_path / "new")
        plain = checkpoint.model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
        whole = model(input_ids=IDS).prediction_logits
        torch.testing.assert_close(plain, whole, atol=1e-5, rtol=1e-5)
    manifest = json.loads((tmp_path / "new/bmtools.json").read_text())
    assert manifest["inputs"].keys() == {"pytorch_model.bin"}
    write_cards(tmp_path / "new")
    assert "converted from" in (tmp_path / "new/README.md").read_text()
    written = json.loads((tmp_path / "new/tokenizer_config.json").read_text())
    assert written["do_lower_case"] is True


def test_weights_in_several_files_and_in_half_precision(tmp_path: Path) -> None:
    model = random_bert(RobertaForMaskedLM, "RoBERTa").half()
    source = published(tmp_path / "old", model)
    config = {"model_type": "roberta", **json.loads((source / "config.json").read_text())}
    (source / "config.json").write_text(json.dumps(config))
    (source / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    (source / "pytorch_model.bin").unlink()
    index: dict[str, str] = {}
    for number, name in enumerate(("pytorch_model-1.bin", "pytorch_model-2.bin")):
        part = dict(list(state.items())[number::2])
        torch.save(part, source / name)
        index |= dict.fromkeys(part, name)
    (source / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": index}))
    assert convert(source, tmp_path / "new")["class"] == "RobertaForMaskedLM"
    made = AutoModelForMaskedLM.from_pretrained(tmp_path / "new").state_dict()
    assert all(torch.equal(made[name], weight.float())
               for name, weight in model.state_dict().items())
    (source / "pytorch_model-2.bin").unlink()
    with pytest.raises(CheckpointError, match=r"no pytorch_model-2\.bin, which pytorch_model\.bin"
                                              r"\.index\.json lists; download it again"):
        convert(source, tmp_path / "newer")


def as_megatron(model: Any, version: float, name: str, **args: Any) -> dict[str, Any]:
    """Arrange a model as Megatron-LM saves it, written out from its documentation."""
    old = model.state_dict()
    bert = model.bert

    def plain(module: str) -> dict[str, Any]:
        return {kind: old[f"{module}.{kind}"] for kind in ("weight", "bias")}

    layers: dict[str, Any] = {}
    for number in range(model.config.num_hidden_layers):
        here = f"bert.encoder.layer.{number}"
        for kind in ("weight", "bias"):
            parts = [old[f"{here}.attention.self.{part}.{kind}"]
                     for part in ("query", "key", "value")]
            heads = [part.unflatten(0, (model.config.num_attention_heads, -1)) for part in parts]
            stacked = {0: torch.stack(heads, 0), 1: torch.stack(heads, 2),
                       2: torch.stack(heads, 1)}[int(version)]
            layers[f"layers.{number}.{name}.query_key_value.{kind}"] = \
                stacked.reshape(-1, *parts[0].shape[1:])
        for theirs, ours in (("input_layernorm", "attention.ln"),
                             (f"{name}.dense", "attention.output.dense"),
                             ("post_attention_layernorm", "ln"),
                             ("mlp.dense_h_to_4h", "intermediate.dense"),
                             ("mlp.dense_4h_to_h", "output.dense")):
            for kind, weight in plain(f"{here}.{ours}").items():
                layers[f"layers.{number}.{theirs}.{kind}"] = weight
    layers |= {f"final_layernorm.{kind}": one for kind, one in plain("bert.encoder.ln").items()}
    tables = bert.embeddings
    head = model.cls.predictions
    language_model = {
        "embedding": {"word_embeddings": {"weight": tables.word_embeddings.weight.data},
                      "position_embeddings": {"weight": tables.position_embeddings.weight.data},
                      "tokentype_embeddings": {"weight": tables.token_type_embeddings.weight.data}},
        "transformer" if version < 2 else "encoder": layers,
        "pooler": {f"dense.{kind}": one for kind, one in plain("bert.pooler.dense").items()}}
    content = {"model": {
        "language_model": language_model,
        "lm_head": {"bias": head.bias.data,
                    **{f"dense.{kind}": one for kind, one
                       in plain("cls.predictions.transform.dense").items()},
                    **{f"layernorm.{kind}": one for kind, one
                       in plain("cls.predictions.transform.LayerNorm").items()}},
        "binary_head": plain("cls.seq_relationship")},
        "iteration": 7, "rng_state": [{"np_rng_state": np.random.RandomState(0).get_state()}]}
    content["args"] = argparse.Namespace(
        num_attention_heads=model.config.num_attention_heads, layernorm_epsilon=1e-12,
        params_dtype=torch.half, **args)
    return content | ({"checkpoint_version": version} if version else {})


@pytest.mark.parametrize(("version", "name", "args", "activation"), [
    (0.0, "attention", {}, "gelu"), (1.0, "attention", {}, "gelu"),
    (2.0, "attention", {"bias_gelu_fusion": False}, "gelu"),
    (3.0, "self_attention", {"bias_gelu_fusion": True}, "gelu_pytorch_tanh")])
def test_megatron_lm_has_the_predictions_of_the_same_weights(
        tmp_path: Path, version: float, name: str, args: dict[str, Any],
        activation: str) -> None:
    model = random_bert(MegatronBertForPreTraining, "Megatron-BERT")
    source = tmp_path / "published"
    (source / "release/mp_rank_00").mkdir(parents=True)
    content = as_megatron(model, min(version, 2.0), name, **args)
    torch.save(content, source / "release/mp_rank_00/model_optim_rng.pt")
    with pytest.raises(CheckpointError, match=re.escape(
            f"; to convert Megatron-LM's, run: bmtools convert {source} -o published-converted "
            "--tokenizer DIR")):
        check_masked_lm(source)
    words = words_of(tmp_path / "words", do_lower_case=True)
    line = convert(source, tmp_path / "new", tokenizer=words)
    assert (line["class"], line["left_out"]) == ("MegatronBertForPreTraining", [])
    made = MegatronBertForPreTraining.from_pretrained(tmp_path / "new").eval()
    assert made.config.hidden_act == activation
    made.config.hidden_act = "gelu"
    for key, weight in model.state_dict().items():
        assert torch.equal(made.state_dict()[key], weight), key
    if activation == "gelu":
        for key, expected in logits(model).items():
            torch.testing.assert_close(logits(made)[key], expected)


@pytest.mark.parametrize(("width", "args", "message"), [
    (32, None, "found a width of 32 and no number of heads"),
    (96, None, "found a width of 96 and no number of heads"),
    (32, 5, "found a width of 32 and 5 heads"), (32, 4, "its weights do not fit each other")])
def test_megatron_lm_without_a_valid_number_of_heads_is_rejected(
        tmp_path: Path, width: int, args: int | None, message: str) -> None:
    model = MegatronBertForPreTraining(MegatronBertConfig(
        vocab_size=10, hidden_size=width, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=8, max_position_embeddings=16))
    content = as_megatron(model, 0.0, "attention")
    content["args"] = argparse.Namespace(num_attention_heads=args) if args else None
    layers = content["model"]["language_model"]["transformer"]
    layers["layers.0.attention.query_key_value.bias"] = torch.ones(95)
    torch.save(content, tmp_path / "model_optim_rng.pt")
    with pytest.raises(CheckpointError, match=message) as caught:
        convert(tmp_path, tmp_path / "new", tokenizer=words_of(tmp_path / "words"),
                casing="uncased")
    assert str(caught.value).startswith(f"{tmp_path / 'model_optim_rng.pt'}: ")


class Malicious:
    """Object that runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("is_zip", [True, False], ids=["zip", "before torch 1.6"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model_optim_rng.pt"])
def test_a_file_that_would_run_code_is_a_one_line_error(tmp_path: Path, name: str,
                                                        is_zip: bool) -> None:
    source = published(tmp_path / "old", random_bert())
    (source / "pytorch_model.bin").unlink()
    torch.save({"model": Malicious(tmp_path / "ran")}, source / name,
               _use_new_zipfile_serialization=is_zip)
    with pytest.raises(CheckpointError) as caught:
        convert(source, tmp_path / "new", casing="uncased")
    assert str(caught.value) == (
        f"{source / name}: found {os.system.__module__}.system, which is not a weight and could "
        "run code, expected weights; no code was run. Look for a safetensors version of this model")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [b"(S'true'\nios\nsystem\n."])
def test_advice_to_run_code_is_not_repeated(tmp_path: Path, content: bytes) -> None:
    source = published(tmp_path / "old", random_bert())
    (source / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(CheckpointError, match="could run code, expected weights") as caught:
        convert(source, tmp_path / "new", casing="uncased")
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize("content", [
    b"<!DOCTYPE html>\n<html><body>Please log in</body></html>", b'{"error": "not found"}',
    b"Entry not found", bytes(1000), "Le poids n'existe pas".encode("utf-16"), b"\x80\x02}q\x00X"],
    ids=["HTML", "JSON", "text", "zeros", "UTF-16", "cut pickle"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model_optim_rng.pt"])
def test_an_error_about_other_files_does_not_mention_code(tmp_path: Path, content: bytes,
                                                          name: str) -> None:
    source = published(tmp_path / "old", random_bert())
    (source / "pytorch_model.bin").unlink()
    (source / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{name}: no weights could be read .+ download or "
                                              "copy it again") as caught:
        convert(source, tmp_path / "new", casing="uncased")
    assert "could run code" not in str(caught.value) and "weights_only" not in str(caught.value)


@pytest.mark.parametrize(("family", "prefix"), [
    (BertForPreTraining, "_orig_mod."), (BertForPreTraining, "module.module."),
    (BertForPreTraining, "model."), (BertForPreTraining, "model._orig_mod.module."),
    (ModernBertForMaskedLM, ""), (ModernBertForMaskedLM, "model."),
    (ModernBertForMaskedLM, "module.")])
def test_prefixes_of_wrapped_models_are_removed_and_named(tmp_path: Path, family: Any,
                                                          prefix: str) -> None:
    model = random_bert(family, "ModernBERT" if family is ModernBertForMaskedLM else "BERT")
    source = published(tmp_path / "old", model, lambda name: prefix + name)
    config = {"model_type": model.config.model_type,
              **json.loads((source / "config.json").read_text())}
    (source / "config.json").write_text(json.dumps(config))
    words = words_of(tmp_path / "words", tokenizer_class="BertTokenizer", do_lower_case=True)
    load_tokenizer(words).save_pretrained(words)
    line = convert(source, tmp_path / "new", tokenizer=words)
    assert (line["class"], line["left_out"]) == (family.__name__, [])
    assert line["removed_prefix"] == prefix
    made = family.from_pretrained(tmp_path / "new").state_dict()
    assert all(torch.equal(made[name], weight) for name, weight in model.state_dict().items())


@pytest.mark.parametrize("name", ["../old/pytorch_model.bin", "/etc/passwd"])
def test_an_index_must_name_files_in_its_directory(tmp_path: Path, name: str) -> None:
    published(tmp_path / "old", random_bert())
    source = words_of(tmp_path / "new")
    index = source / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"weight": name}}))
    with pytest.raises(CheckpointError, match=re.escape(
            f"{index}: found {name!r}, expected names of files in its directory")):
        convert(source, tmp_path / "out", casing="uncased")


UPPER = [*TOKENS[:-1], "Cuore"]


@pytest.mark.parametrize(("tokens", "said", "casing", "message"), [
    (TOKENS, None, None, "no file says whether text keeps its case, but its vocabulary has no "
                         "upper case; set casing uncased"),
    (UPPER, None, None, "its vocabulary has upper case ('Cuore'); set casing cased"),
    (UPPER, None, "uncased", "casing uncased, but its vocabulary has upper case ('Cuore'); set "
                             "casing cased"),
    (TOKENS, False, None, "tokenizer_config.json says do_lower_case false, but its vocabulary has "
                          "no upper case; set casing uncased"),
    ([*TOKENS[:-1], "x", "y"], True, None, "the tokenizer has 11 tokens, the model embeds 10"),
    (TOKENS, False, "uncased", ""), (UPPER, None, "cased", ""), (UPPER, False, None, "")])
def test_casing_is_read_from_files_or_required(tmp_path: Path, tokens: list[str], said: bool | None,
                                               casing: Any, message: str) -> None:
    source = published(tmp_path / "old", random_bert())
    words_of(source, tokens, **({} if said is None else {"do_lower_case": said}))
    if message:
        with pytest.raises(CheckpointError, match=re.escape(message)):
            convert(source, tmp_path / "new", casing=casing)
    else:
        assert convert(source, tmp_path / "new", casing=casing)["casing"] == \
            ("cased" if tokens is UPPER else "uncased")


def damage(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def damaged(state: dict[str, Any]) -> None:
        state[name] = change(state[name])
    return damaged


@pytest.mark.parametrize(("change", "message"), [
    (damage("bert.pooler.dense.bias", lambda w: w * float("nan")), "are not finite"),
    (damage("bert.pooler.dense.bias", lambda w: w[:5]),
     "found bert.pooler.dense.bias of shape (5,), expected (32,) from config.json"),
    (damage("bert.pooler.dense.bias", lambda _: 5),
     "found 'bert.pooler.dense.bias', int, expected only weights"),
    (lambda state: state.pop("bert.encoder.layer.1.output.dense.weight"),
     "no weights for bert.encoder.layer.1.output.dense.weight, expected a complete Bert"),
    (damage("cls.predictions.decoder.weight", lambda w: w + 1), '"tie_word_embeddings": false')])
def test_weights_that_do_not_fit_are_named(tmp_path: Path, change: Callable[[Any], None],
                                           message: str) -> None:
    source = published(tmp_path / "old", random_bert())
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    change(state)
    torch.save(state, source / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=re.escape(message)) as caught:
        convert(source, tmp_path / "new", casing="uncased")
    assert str(caught.value).startswith(f"{source}")


def test_unused_weights_are_reported_as_left_out(tmp_path: Path) -> None:
    source = published(tmp_path / "old", random_bert())
    state = torch.load(source / "pytorch_model.bin", weights_only=True)
    state |= {"bert.embeddings.position_ids": torch.arange(40), "extra.weight": torch.ones(3)}
    torch.save(state, source / "pytorch_model.bin")
    assert convert(source, tmp_path / "new", casing="uncased")["left_out"] == ["extra.weight"]


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    weights = published(tmp_path / "old", random_bert()) / "pytorch_model.bin"
    weights.write_bytes(weights.read_bytes()[:-200])
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: no weights could be read"):
        convert(tmp_path / "old", tmp_path / "new", casing="uncased")
