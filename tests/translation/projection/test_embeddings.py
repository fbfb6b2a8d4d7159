"""Encoders, and links between their hidden states."""

import pytest
import torch
from toy_models import save_random

from bmtools.errors import CheckpointError
from bmtools.translation.projection.embeddings import EmbeddingsProjector, WordTokenizer
from bmtools.translation.projection.pairs import SentencePair

PAIR = SentencePair("The drug reduces pain.", "Il farmaco riduce il dolore.", ((4, 8), (0, 22)))


@pytest.mark.parametrize(("family", "marks"), [("m2m", ("__en__", "__it__")),
                                               ("nllb", ("eng_Latn", "ita_Latn"))])
def test_each_side_is_encoded_in_its_own_language(request, family, marks):
    directory = request.getfixturevalue(family)
    projector = EmbeddingsProjector.load(directory, "en", "it")
    sentences = PAIR.source, PAIR.target
    for tokenizer, sentence, mark in zip(projector.tokenizers, sentences, marks, strict=True):
        first, *_, last = tokenizer(sentence).ids
        known = tokenizer._tokenizer
        assert known.convert_ids_to_tokens([first, last]) == [mark, known.eos_token]
    [[drug, whole]] = projector.project([PAIR])
    assert (whole.start, whole.end) == (0, 28)
    assert drug is None or 0 <= drug.start < drug.end <= 28


def test_model_of_one_language_is_rejected(marian):
    with pytest.raises(CheckpointError, match=(
            "so its encoder reads only 'en'; expected a model that reads both")):
        EmbeddingsProjector.load(marian, "en", "it")


def test_missing_layer_is_an_error(m2m):
    with pytest.raises(ValueError, match="layer: found 2, expected 0 to 1, the encoder's last"):
        EmbeddingsProjector.load(m2m, "en", "it", layer=2)


class Meanings(torch.nn.Module):
    """An encoder whose last hidden state is a scaled one-hot vector of the id."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(9.0))
        self.shapes: list[tuple[int, ...]] = []

    def forward(self, input_ids, attention_mask, output_hidden_states):
        self.shapes.append(tuple(input_ids.shape))
        states = torch.nn.functional.one_hot(input_ids, 40) * attention_mask[..., None]
        return type("Output", (), {"hidden_states": (states * 0, states * self.scale)})


def letters(text, **_):
    """Tokenize a text into letter numbers, ignoring case."""
    return {"input_ids": [ord(letter) - 96 for letter in text.strip().lower()]}


@pytest.fixture
def meanings():
    words = WordTokenizer(letters, [38], 39)

    def make(**changes):
        settings = {"layer": 1, "pad_id": 0, "max_length": 12,
                    "batch_tokens": 30, **changes}
        return EmbeddingsProjector(Meanings(), (words, words), **settings)

    return make


PAIRS = [SentencePair("ab c def", "DEF AB C", ((0, 2), (5, 8), (0, 4))),
         SentencePair("no span here", "HERE"), SentencePair("gh i", "GH JK I", ((0, 4),)),
         SentencePair("q", "R", ((0, 1),))]


def test_spans_follow_words_with_equal_states(meanings):
    found = meanings().project(PAIRS)
    assert [[one and (one.start, one.end) for one in places] for places in found[:3]] == [
        [(4, 6), (0, 3), (4, 8)], [], [(0, 7)]]
    assert all(0 < one.score <= 1 for places in found[:3] for one in places)


def test_batches_do_not_change_the_places(meanings):
    alone, together = meanings(batch_tokens=1), meanings(batch_tokens=1000)
    assert alone.project(PAIRS) == together.project(PAIRS)
    assert len(alone.encoder.shapes) == 3
    assert together.encoder.shapes == [(6, 8)]


def test_sentence_too_long_for_the_encoder_has_no_places(meanings):
    found = meanings(max_length=7).project(PAIRS)
    assert found[0] == [None] * 3
    assert found[2][0].end == 7


def test_only_the_named_layer_counts(meanings):
    assert meanings(layer=0).project(PAIRS) != meanings().project(PAIRS)


def test_an_encoder_without_decoder_has_one_tokenizer_for_both_languages(tokenizer, tmp_path):
    save_random(tmp_path, tokenizer)
    projector = EmbeddingsProjector.load(tmp_path, "it", "en", layer=1)
    one, other = (side("Il cuore .").ids for side in projector.tokenizers)
    assert one == other and one[0] == tokenizer.cls_token_id and one[-1] == tokenizer.sep_token_id
    [[found]] = projector.project([SentencePair("Il cuore .", "Il cuore .", ((3, 8),))])
    assert (found.start, found.end) == (3, 8)
