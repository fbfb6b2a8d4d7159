"""States of a teacher with another vocabulary, against a twin that goes by characters."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from toy_batches import packed_of, taught_by

from bmtools.data.masking.corruption import IGNORED
from bmtools.models.architectures import build_config, build_model, max_tokens
from bmtools.models.packed import prepare_packed
from bmtools.recipes.distillation import DistillationConfig
from bmtools.training.distillation.align_tokens import AlignedTeacher
from bmtools.training.distillation.objective import DistillationObjective
from bmtools.training.distillation.teacher import Teacher, needs_of
from bmtools.vocab.detokenizer import Detokenizer
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import train_tokenizer

TEXTS = ["Un β-bloccante (2.5 mg) riduce l'ipertensione, non l'età: 50% dei pazienti.",
         "Perché il paziente\nha febbre?", "Mo β e IL-6 [alti] aumentano.",
         "Il paziente ha ☃ e 🫀."]
KINDS = {"wordpiece": {}, "uncased": {"uncased": True}, "bpe": {"tokenizer_type": "bpe"},
         "unigram": {"tokenizer_type": "unigram"}}
WEIGHTS = {"kl_weight": 0.0, "hidden_weight": 2.0, "layer_map": "0:0,1:1,last:last"}


@cache
def vocabulary(kind: str, size: int = 320) -> Any:
    return train_tokenizer(TEXTS[:3] * 3, VocabularyConfig(size=size, allow_fewer=True,
                                                           **KINDS[kind]))


def build(tokenizer: Any, architecture: str = "bert-2x64", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return build_model(build_config(architecture, tokenizer)).eval()


def batch_of(tokenizer: Any, texts: list[str] = TEXTS, rate: float = 0.3) -> dict[str, Any]:
    """Frame, mask and pad texts."""
    rng = torch.Generator().manual_seed(5)
    ids = [torch.tensor([tokenizer.cls_token_id, *tokenizer.backend_tokenizer.encode(
        text, add_special_tokens=False).ids, tokenizer.sep_token_id]) for text in texts]
    padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True,
                                             padding_value=tokenizer.pad_token_id)
    mask = torch.arange(padded.shape[1]) < torch.tensor([*map(len, ids)])[:, None]
    special = torch.isin(padded, torch.tensor(tokenizer.all_special_ids))
    masked = (torch.rand(padded.shape, generator=rng) < rate) & mask & ~special
    return {"input_ids": padded.masked_fill(masked, tokenizer.mask_token_id),
            "attention_mask": mask, "labels": padded.where(masked, torch.tensor(IGNORED))}


def aligned_by(student: Any, own: Any, teacher: Any, theirs: Any, positions: int = 0,
               **settings: Any) -> DistillationObjective:
    config = DistillationConfig(**WEIGHTS | settings)
    source = Teacher(teacher, needs_of(config, student.config, teacher.config)[1])
    return DistillationObjective(student, AlignedTeacher(
        source, theirs, own, positions or max_tokens(teacher)), config)


@pytest.mark.parametrize(("kind", "texts"), [
    ("wordpiece", TEXTS), ("uncased", TEXTS), ("unigram", TEXTS[:3]),  # nothing unknown
    ("bpe", ["Il paziente ha (2.5 mg) di\nIL-6.", "TNF e IL-6 aumentano"])])  # no letter in parts
@torch.no_grad()
def test_one_vocabulary_gives_what_the_plain_path_gives(kind: str, texts: list[str]) -> None:
    words = vocabulary(kind)
    student, teacher = build(words), build(words, "bert-3x128", 1)
    batch = batch_of(words, texts)
    torch.manual_seed(2)
    plain = taught_by(student, teacher, **WEIGHTS)
    torch.manual_seed(2)
    aligned = aligned_by(student, words, teacher, words)
    prepared = aligned.prepare(batch)
    ids = prepared["aligned"].input_ids[:, :batch["input_ids"].shape[1]]
    assert torch.equal(ids, batch["input_ids"])
    expected, found = plain(**batch), aligned(**prepared)
    assert int(found.pop("aligned")) == int(batch["attention_mask"].sum())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def by_characters(teacher: Any, theirs: Any, own: Any, ids: np.ndarray,
                  labels: np.ndarray) -> list[torch.Tensor | None]:
    """States for each token of one document, character by character."""
    frame = np.isin(np.arange(len(ids)), [0, len(ids) - 1])
    unmasked = np.where(labels == IGNORED, ids, labels)
    text, spans = Detokenizer(own.backend_tokenizer, theirs.unk_token or theirs.mask_token)(
        unmasked, frame)
    pipeline = theirs.backend_tokenizer.encode(text[1:-1], add_special_tokens=False)
    other = [theirs.cls_token_id, *pipeline.ids, theirs.sep_token_id]
    found = [(0, 1), *((begin + 1, end + 1) for begin, end in pipeline.offsets),
             (len(text) - 1, len(text))]
    if any(token.startswith("Ġ") for token in pipeline.tokens):  # offsets leave such spaces out
        found = Detokenizer(theirs.backend_tokenizer, "")(
            np.array(other), np.isin(np.arange(len(other)), [0, len(other) - 1]))[1].tolist()
    covered = [{*range(*span)} for span in found]
    tokens = [{*range(*span)} for span in spans.tolist()]
    hidden = set().union(*(tokens[n] for n in np.flatnonzero(labels != IGNORED)))
    other = [theirs.mask_token_id if hidden & place else number
             for number, place in zip(other, covered, strict=True)]
    states = teacher(torch.tensor([other]), output_hidden_states=True).hidden_states[-1][0]
    rows = []
    for place in tokens:
        found = [states[n] for c in sorted(place) for n, one in enumerate(covered) if c in one]
        rows.append(torch.stack(found).mean(0) if found else None)
    return rows


@pytest.mark.parametrize(("own", "theirs"), [
    pair for pair in product(KINDS, KINDS) if pair[0] != pair[1]])
@torch.no_grad()
def test_states_are_those_that_characters_give(own: str, theirs: str) -> None:
    words, others = vocabulary(own), vocabulary(theirs, 180 if theirs == "wordpiece" else 400)
    student, teacher = build(words), build(others, "bert-2x128", 1)
    batch = batch_of(words, TEXTS[:3], 0.15)
    objective = aligned_by(student, words, teacher, others)
    aligned = objective.prepare(batch)["aligned"]
    taught = objective._teacher(None, None, aligned)
    expected = [row for ids, labels, mask in zip(*(batch[name] for name in (
        "input_ids", "labels", "attention_mask")), strict=True) for row in by_characters(
            teacher, others, words, ids[mask].numpy(), labels[mask].numpy())]
    has_partner = [row is not None for row in expected]
    assert aligned.tokens.tolist() == np.flatnonzero(has_partner).tolist()
    torch.testing.assert_close(taught.last_states, torch.stack(
        [row for row in expected if row is not None]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(aligned.weights.new_zeros(len(aligned.tokens)).index_add_(
        0, torch.repeat_interleave(torch.arange(len(aligned.bags)), torch.diff(
            aligned.bags, append=torch.tensor([len(aligned.weights)]))), aligned.weights),
        torch.ones(len(aligned.tokens), dtype=torch.float64))


def test_the_teacher_reads_nothing_that_is_masked_for_the_student() -> None:
    words, others = vocabulary("wordpiece"), vocabulary("bpe")
    batch = batch_of(words, ["Il paziente ha l'ipertensione."], 0)
    place = (batch["input_ids"] == words.convert_tokens_to_ids("paziente")).nonzero()[0]
    batch["labels"][tuple(place)] = batch["input_ids"][tuple(place)]
    batch["input_ids"][tuple(place)] = words.mask_token_id
    aligned = aligned_by(build(words), words, build(others), others).prepare(batch)["aligned"]
    text = others.decode(aligned.input_ids[0][aligned.attention_mask[0]])
    assert "paziente" not in text and "<mask>" in text
    assert text.replace("<mask>", "") == "<s> Il ha l'ipertensione.</s>"


@torch.no_grad()
def test_tokens_without_a_partner_are_left_out_and_counted() -> None:
    """The line break has no token in WordPiece; what is beyond its positions has none either."""
    words, others = vocabulary("bpe"), vocabulary("wordpiece")
    student, teacher = build(words), build(others, seed=1)
    batch = batch_of(words, TEXTS[1:2], 0)
    tokens = int(batch["attention_mask"].sum())
    whole = aligned_by(student, words, teacher, others)
    assert whole.counts([batch]) == {"aligned_tokens": tokens - 1}
    assert tokens - 1 == int(whole(**whole.prepare(batch))["aligned"])
    short = aligned_by(student, words, teacher, others, positions=5)
    assert short.loss_terms["cosine"].per == "aligned_tokens"
    aligned = short.prepare(batch)["aligned"]
    assert aligned.input_ids.shape == (1, 5)
    found = short(**short.prepare(batch))
    first = len(aligned.tokens) - 1  # [SEP] still has its partner
    assert aligned.tokens.tolist() == [*range(first), tokens - 1] and 3 < first < tokens - 2
    states = student(batch["input_ids"], output_hidden_states=True).hidden_states[-1][0]
    theirs = short._teacher(None, None, aligned).last_states
    expected = sum(1 - torch.cosine_similarity(states[number], theirs[row], dim=0)
                   for row, number in enumerate(aligned.tokens.tolist()))
    torch.testing.assert_close(found["cosine"], expected)


@pytest.mark.parametrize("family", ["bert", "roberta", "megatron-bert", "modernbert"])
def test_layouts_and_raw_inputs_give_the_same(family: str) -> None:
    words, others = vocabulary("unigram"), vocabulary("uncased")
    student, teacher = build(words, f"{family}-2x64"), build(others, f"{family}-2x64", 1)
    batch = batch_of(words)
    objective = aligned_by(student, words, teacher, others)
    prepared = objective.prepare(batch)
    expected = objective(**prepared)
    assert objective.raw_inputs(prepared).keys() == batch.keys()
    unmasked = {**batch, "input_ids": batch["input_ids"].where(batch["labels"] == IGNORED,
                                                               batch["labels"])}
    torch.testing.assert_close(objective(**unmasked), objective(**objective.prepare(unmasked)))
    for model in (student, teacher):
        prepare_packed(model)
    packed = objective.prepare(packed_of(batch))
    assert packed["aligned"].lengths.tokens % 64 == 0
    found = objective(**packed)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    (found["cosine"] + found["hidden"]).backward()
    assert all(weight.grad is None for weight in teacher.parameters())
    assert any(weight.grad is not None for weight in student.parameters())
