"""A new vocabulary for an old model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from toy_tokenizers import train_tokenizer
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertTokenizer

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint, save_checkpoint
from bmtools.models.settings import METHODS, TransferConfig
from bmtools.models.transfer.context_embeddings import Sentence
from bmtools.models.transfer.init_weights import transfer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

OLD_TEXT = ["La bronchite riduce il respiro e la nutrizione.", "Il cuore pompa il sangue."] * 20
NEW_TEXT = ["La broncocostrizione riduce il respiro.", "Il cuore pompa sangue ossigenato."] * 20
TEXTS = ["La broncocostrizione è grave.", "Nulla da dire.", "Il sangue ossigenato circola.",
         "Dopo la broncocostrizione il sangue non è ossigenato."]
SENTENCES = [*map(Sentence, TEXTS)]


@pytest.fixture(scope="module")
def base() -> Checkpoint:
    tokenizer = train_tokenizer(OLD_TEXT, VocabularyConfig(size=120, allow_fewer=True))
    torch.manual_seed(1)
    model = build_model(build_config("bert-2x64", tokenizer)).eval()
    torch.nn.init.normal_(model.cls.predictions.bias)
    return Checkpoint(Path(), model, tokenizer, fingerprint(tokenizer))


@pytest.fixture(scope="module")
def new() -> Any:
    return train_tokenizer(NEW_TEXT, VocabularyConfig(size=140, allow_fewer=True))


def row(model: Any, tokenizer: Any, token: str) -> torch.Tensor:
    return model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids(token)]


@pytest.mark.parametrize("method", METHODS)
def test_shared_tokens_are_copied_exactly(base: Checkpoint, new: Any, method: str) -> None:
    made = transfer(base, new, TransferConfig(method), SENTENCES)
    shared = set(base.tokenizer.get_vocab()) & set(new.get_vocab())
    assert {"[MASK]", "cuore", "##e"} <= shared
    for token in shared:
        assert torch.equal(row(made.model, new, token), row(base.model, base.tokenizer, token))
        old, now = (b.cls.predictions.bias[t.convert_tokens_to_ids(token)] for b, t in (
            (base.model, base.tokenizer), (made.model, new)))
        assert torch.equal(old, now)
    assert made.model.cls.predictions.decoder.weight.data_ptr() \
        == made.model.get_input_embeddings().weight.data_ptr()
    assert made.report["copied"] == len(shared)
    assert sum(made.report[k] for k in ("copied", "folded", "averaged", *METHODS)
               if k in made.report) == len(new)
    kept = dict(base.model.state_dict())
    for name, tensor in made.model.state_dict().items():
        if "encoder" in name or "position" in name or "transform" in name:
            assert torch.equal(tensor, kept[name]), name


@torch.inference_mode()
def test_only_contexts_with_exact_pieces_are_counted(base: Checkpoint) -> None:
    """Every new token against a loop over its occurrences; `##stri` cuts into `##s ##triz`."""
    new = extended(base.tokenizer, "ossi", "##gen", "##stri", "##zi", "##tato")
    made = transfer(base, new, TransferConfig("contextual"), SENTENCES)
    averaged = transfer(base, new, TransferConfig("average")).model
    exact: dict[int, list[torch.Tensor]] = {}
    seen = set()
    for text in TEXTS:
        given = base.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = given.pop("offset_mapping")[0].tolist()
        states = base.model.bert(**given).last_hidden_state[0]
        words = new(text, return_offsets_mapping=True, add_special_tokens=False)
        for token, (start, end) in zip(words["input_ids"], words["offset_mapping"], strict=True):
            inside = [n for n, (first, last) in enumerate(offsets)
                      if first < last and first < end and start < last]
            if token in made.overlap.pieces:
                seen.add(token)
                if "".join(text[slice(*offsets[n])] for n in inside) == text[start:end]:
                    exact.setdefault(token, []).append(states[inside].mean(dim=0))
    inexact = seen - set(exact)
    assert new.convert_ids_to_tokens([*sorted(exact), *sorted(inexact)]) == [
        "ossi", "##gen", "##stri", "##zi"]
    for token in made.overlap.pieces:
        found = made.model.get_input_embeddings().weight[token]
        expected = torch.stack(exact[token]).mean(dim=0) if token in exact else \
            averaged.get_input_embeddings().weight[token]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    report = made.report
    assert (report["contextual"], report["averaged"]) == (2, 3)


def test_rescaled_vectors_keep_their_direction(base: Checkpoint, new: Any) -> None:
    plain, rescaled = (
        transfer(base, new, TransferConfig("contextual", rescale=rescale), SENTENCES).model
        for rescale in (False, True))
    found = [(row(plain, new, token), row(rescaled, new, token))
             for token in ("broncocostrizione", "ossigenato")]
    for before, after in found:
        torch.testing.assert_close(after / after.norm(), before / before.norm())
    lengths = base.model.get_input_embeddings().weight.norm(dim=1)
    assert lengths.min() < found[0][1].norm() < 2 * lengths.mean() < found[0][0].norm()


@pytest.mark.parametrize("layers", ["last", "1,-1"])
@torch.no_grad()
def test_average_of_states_reads_pieces_without_context(base: Checkpoint, new: Any,
                                                        layers: str) -> None:
    """Token by token, in transformers' model; also where contextual finds no sentence."""
    settings = {"average_of": "states", "layers": layers}
    made = transfer(base, new, TransferConfig("average", **settings))
    ids = base.tokenizer
    assert len(made.overlap.pieces) == made.report["averaged"] > 4
    for token, pieces in made.overlap.pieces.items():
        given = torch.tensor([[ids.cls_token_id, *pieces, ids.sep_token_id]])
        states = base.model.base_model(given, output_hidden_states=True).hidden_states
        picked = [states[-1]] if layers == "last" else [states[1], states[-1]]
        expected = torch.stack(picked).mean(0)[0, 1:-1].mean(0)
        torch.testing.assert_close(made.model.get_input_embeddings().weight[token], expected,
                                   atol=1e-5, rtol=1e-4)
    contextual = transfer(base, new, TransferConfig("contextual", **settings), SENTENCES)
    assert 0 < contextual.report["contextual"] < len(made.overlap.pieces)
    tables = [one.model.get_input_embeddings().weight for one in (made, contextual)]
    same = (tables[0] - tables[1]).abs().amax(1) < 1e-5
    assert int((~same).sum()) == contextual.report["contextual"]
    plain = transfer(base, new, TransferConfig("average"))
    bias = [one.model.get_output_embeddings().bias for one in (made, plain)]
    assert torch.equal(*bias)


ARCHITECTURES = ("bert-2x64", "roberta-2x64", "megatron-bert-2x64", "modernbert-2x64")


def checkpoint(architecture: str, tokenizer: Any, tied: bool = True) -> Checkpoint:
    config = build_config(architecture, tokenizer)
    config.tie_word_embeddings = tied
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = build_model(config).eval()
        torch.nn.init.normal_(model.get_output_embeddings().bias)
    return Checkpoint(Path(), model, tokenizer, fingerprint(tokenizer))


def extended(tokenizer: Any, *tokens: str) -> Any:
    """A vocabulary with more tokens at its end; old tokens keep their ids."""
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    return BertTokenizer(vocab={token: n for n, token in enumerate([*names, *tokens])},
                         do_lower_case=False)


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_an_extended_vocabulary_keeps_the_logits_of_old_tokens(
        base: Checkpoint, architecture: str, tied: bool, tmp_path: Path) -> None:
    old = checkpoint(architecture, base.tokenizer, tied)
    new = extended(base.tokenizer, "broncocostrizione", "ossigenato", "##zioni")
    made = transfer(old, new, TransferConfig("contextual", rescale=True), SENTENCES)
    save_checkpoint(tmp_path / "out", made.model, new,
                    Manifest("test", {}, fingerprint(new)))
    reloaded, report = AutoModelForMaskedLM.from_pretrained(
        tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert AutoTokenizer.from_pretrained(tmp_path / "out").get_vocab() == new.get_vocab()
    ids = torch.tensor([[new.cls_token_id, *new.convert_tokens_to_ids(["cuore", "##e"]),
                         new.mask_token_id, new.sep_token_id]])
    logits = reloaded.eval()(ids).logits
    assert logits.shape[-1] == len(new) == reloaded.config.vocab_size
    torch.testing.assert_close(logits[..., :len(base.tokenizer)], old.model(ids).logits,
                               atol=1e-6, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("tied", [True, False])
def test_all_vocabulary_tensors_are_filled(base: Checkpoint, new: Any, architecture: str,
                                                tied: bool) -> None:
    old = checkpoint(architecture, base.tokenizer, tied)
    made = transfer(old, new, TransferConfig("average"))
    pieces = base.tokenizer("broncocostrizione", add_special_tokens=False)["input_ids"]
    number = new.convert_tokens_to_ids("broncocostrizione")
    before, after = old.model.get_output_embeddings(), made.model.get_output_embeddings()
    for table, target in ((before.weight, after.weight), (before.bias, after.bias),
                          (old.model.get_input_embeddings().weight,
                           made.model.get_input_embeddings().weight)):
        torch.testing.assert_close(target[number], table[pieces].mean(dim=0), atol=1e-6, rtol=0)
    assert (after.weight.data_ptr() == made.model.get_input_embeddings().weight.data_ptr()) == tied
    assert made.model.config.vocab_size == len(new) == len(after.bias)
    assert made.model.config.pad_token_id == new.pad_token_id
    layer = made.model.get_input_embeddings()
    assert layer.padding_idx in (None, new.pad_token_id)


def test_global_random_generators_do_not_change(base: Checkpoint, new: Any) -> None:
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    for method in METHODS:
        transfer(base, new, TransferConfig(method), SENTENCES)
    assert torch.equal(torch.rand(2), expected)


@torch.no_grad()
def test_positions_stay_when_the_padding_id_moves(base: Checkpoint, new: Any) -> None:
    """RoBERTa counts positions from its padding id plus one; the same text has the same states."""
    config = build_config("roberta-2x64", base.tokenizer)
    config.pad_token_id = 1
    torch.manual_seed(2)
    old = Checkpoint(Path(), build_model(config).eval(), base.tokenizer, base.vocabulary)
    made = transfer(old, new, TransferConfig("average")).model
    assert new.pad_token_id == 0
    assert made.config.max_position_embeddings == config.max_position_embeddings - 1
    tokens = ["[CLS]", "cuore", "[MASK]", "respiro", "[SEP]"]
    states = [model.base_model(
        input_ids=torch.tensor([tokenizer.convert_tokens_to_ids(tokens)])).last_hidden_state
              for model, tokenizer in ((old.model, old.tokenizer), (made, new))]
    torch.testing.assert_close(*states)
