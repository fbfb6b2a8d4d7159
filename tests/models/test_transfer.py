"""A new vocabulary for an old model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.errors import CheckpointError
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.contexts import sample_sentences
from bmtools.models.settings import TransferSettings
from bmtools.models.transfer import trace, transfer
from bmtools.vocab.settings import WordPieceSettings
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.wordpiece import learn

OLD_TEXT = ["La bronchite riduce il respiro e la nutrizione.", "Il cuore pompa il sangue."] * 20
NEW_TEXT = ["La broncocostrizione riduce il respiro.", "Il cuore pompa sangue ossigenato."] * 20
SENTENCES = ["La broncocostrizione è grave.", "Nulla da dire.", "Il sangue ossigenato circola.",
             "Dopo la broncocostrizione il sangue non è ossigenato."]


@pytest.fixture(scope="module")
def base() -> Checkpoint:
    tokenizer = learn(OLD_TEXT, WordPieceSettings(size=120))
    torch.manual_seed(1)
    model = build_model(build_config("bert-2x64", tokenizer)).eval()
    torch.nn.init.normal_(model.cls.predictions.bias)
    return Checkpoint(Path(), model, tokenizer, fingerprint(tokenizer))


@pytest.fixture(scope="module")
def new() -> Any:
    return learn(NEW_TEXT, WordPieceSettings(size=140))


def row(model: Any, tokenizer: Any, token: str) -> torch.Tensor:
    return model.get_input_embeddings().weight[tokenizer.convert_tokens_to_ids(token)]


@pytest.mark.parametrize("method", ["random", "average", "contextual"])
def test_shared_tokens_are_copied_exactly(base: Checkpoint, new: Any, method: str) -> None:
    made = transfer(base, new, TransferSettings(method), SENTENCES)
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
    assert sum(made.report[k] for k in ("copied", "contextual", "averaged", "random")) == len(new)
    kept = dict(base.model.state_dict())
    for name, tensor in made.model.state_dict().items():
        if "encoder" in name or "position" in name or "transform" in name:
            assert torch.equal(tensor, kept[name]), name


def test_average_is_the_mean_of_the_pieces(base: Checkpoint, new: Any) -> None:
    made = transfer(base, new, TransferSettings("average"))
    pieces = base.tokenizer("broncocostrizione", add_special_tokens=False)["input_ids"]
    assert len(pieces) > 2
    expected = base.model.get_input_embeddings().weight[pieces].mean(dim=0)
    torch.testing.assert_close(row(made.model, new, "broncocostrizione"), expected)
    number = new.convert_tokens_to_ids("broncocostrizione")
    torch.testing.assert_close(made.model.cls.predictions.bias[number],
                               base.model.cls.predictions.bias[pieces].mean())


@torch.inference_mode()
def test_contextual_equals_a_computation_by_hand(base: Checkpoint, new: Any) -> None:
    """Last-layer states at the pieces, averaged over pieces, then over sentences."""
    made = transfer(base, new, TransferSettings("contextual"), SENTENCES)
    vectors = []
    for sentence in (SENTENCES[0], SENTENCES[3]):
        given = base.tokenizer(sentence, return_tensors="pt", return_offsets_mapping=True)
        offsets = given.pop("offset_mapping")[0].tolist()
        states = base.model.bert(**given).last_hidden_state[0]
        first = sentence.index("broncocostrizione")
        inside = [n for n, (start, end) in enumerate(offsets)
                  if start >= first and end <= first + len("broncocostrizione") and end > start]
        assert len(inside) > 2
        vectors.append(states[inside].mean(dim=0))
    torch.testing.assert_close(row(made.model, new, "broncocostrizione"),
                               torch.stack(vectors).mean(dim=0), atol=1e-5, rtol=1e-4)


def test_rescaled_vectors_keep_their_direction(base: Checkpoint, new: Any) -> None:
    plain, rescaled = (
        transfer(base, new, TransferSettings("contextual", rescale=rescale), SENTENCES).model
        for rescale in (False, True))
    found = [(row(plain, new, token), row(rescaled, new, token))
             for token in ("broncocostrizione", "ossigenato")]
    for before, after in found:
        torch.testing.assert_close(after / after.norm(), before / before.norm())
    lengths = base.model.get_input_embeddings().weight.norm(dim=1)
    assert lengths.min() < found[0][1].norm() < 2 * lengths.mean() < found[0][0].norm()


def test_tokens_found_nowhere_fall_back_to_their_pieces(base: Checkpoint, new: Any) -> None:
    average = transfer(base, new, TransferSettings("average"))
    contextual = transfer(base, new, TransferSettings("contextual"), ["Nulla."])
    assert torch.equal(row(contextual.model, new, "broncocostrizione"),
                       row(average.model, new, "broncocostrizione"))
    assert contextual.report["contextual"] == 0


def test_random_rows_follow_the_seed(base: Checkpoint, new: Any) -> None:
    first, again, other = (
        row(transfer(base, new, TransferSettings("random", seed=seed)).model, new, "ossigenato")
        for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_pieces_inside_words_are_told_from_those_at_their_start(base: Checkpoint) -> None:
    new = learn(NEW_TEXT, WordPieceSettings(size=140))
    origins = trace(base.tokenizer, new)
    by_token = {new.convert_ids_to_tokens(n): base.tokenizer.convert_ids_to_tokens(p)
                for n, p in origins.pieces.items()}
    inner = {token: pieces for token, pieces in by_token.items() if token.startswith("##")}
    assert inner
    assert all(piece.startswith("##") or piece == "[UNK]"
               for pieces in inner.values() for piece in pieces)
    for token in set(by_token) - set(inner):
        assert by_token[token] == base.tokenizer.tokenize(token)


def test_at_most_so_many_sentences_uniformly() -> None:
    tokenizer = learn(["uno due tre"] * 3, WordPieceSettings(size=100))
    wanted = np.zeros(len(tokenizer), dtype=bool)
    wanted[tokenizer.convert_tokens_to_ids("due")] = True
    sentences = [f"due {'tre ' * n}" for n in range(40)]
    counts = dict.fromkeys(sentences, 0)
    for seed in range(300):
        found = sample_sentences(tokenizer, wanted, sentences, 10, np.random.default_rng(seed))
        assert len(found) == 10
        for sentence in found:
            counts[sentence] += 1
    assert all(45 < count < 110 for count in counts.values())  # 75 expected, 7.5 the deviation


def test_two_kinds_of_vocabulary_are_refused(base: Checkpoint) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    other = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    with pytest.raises(CheckpointError, match="expected two of a kind"):
        trace(base.tokenizer, other)


@torch.no_grad()
def test_positions_stay_where_the_padding_id_moves(base: Checkpoint, new: Any) -> None:
    """RoBERTa counts positions from behind its padding id: the same text gives the same states."""
    config = build_config("roberta-2x64", base.tokenizer)
    config.pad_token_id = 1
    torch.manual_seed(2)
    old = Checkpoint(Path(), build_model(config).eval(), base.tokenizer, base.vocabulary)
    made = transfer(old, new, TransferSettings("average")).model
    assert new.pad_token_id == 0
    assert made.config.max_position_embeddings == config.max_position_embeddings - 1
    tokens = ["[CLS]", "cuore", "[MASK]", "respiro", "[SEP]"]
    states = [model.base_model(
        input_ids=torch.tensor([tokenizer.convert_tokens_to_ids(tokens)])).last_hidden_state
        for model, tokenizer in ((old.model, old.tokenizer), (made, new))]
    torch.testing.assert_close(*states)
