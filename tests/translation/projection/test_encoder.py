"""Encoders of translation models."""

import pytest

from bmtools.errors import CheckpointError
from bmtools.translation.projection.encoder import translation_encoder
from bmtools.translation.projection.pairs import SentencePair
from bmtools.translation.settings import ModelConfig

PAIR = SentencePair("The drug reduces pain.", "Il farmaco riduce il dolore.", ((4, 8), (0, 22)))


@pytest.mark.parametrize(("family", "marks"), [("m2m", ("__en__", "__it__")),
                                               ("nllb", ("eng_Latn", "ita_Latn"))])
def test_each_side_is_encoded_in_its_own_language(request, family, marks):
    directory = request.getfixturevalue(family)
    projector = translation_encoder(ModelConfig(directory, device="cpu"), "en", "it")
    sentences = PAIR.source, PAIR.target
    for tokenizer, sentence, mark in zip(projector._tokenizers, sentences, marks, strict=True):
        first, *_, last = tokenizer(sentence).ids
        known = tokenizer._tokenizer
        assert known.convert_ids_to_tokens([first, last]) == [mark, known.eos_token]
    [[drug, whole]] = projector.project([PAIR])
    assert (whole.start, whole.end) == (0, 28)
    assert drug is None or 0 <= drug.start < drug.end <= 28


def test_codes_of_languages_change_sides(nllb):
    config = ModelConfig(nllb, source_code="cat_Latn", target_code="ita_Latn", device="cpu")
    left, right = translation_encoder(config, "en", "it")._tokenizers
    assert left._tokenizer.convert_ids_to_tokens(left("a").ids[:1]) == ["cat_Latn"]
    assert right._tokenizer.convert_ids_to_tokens(right("a").ids[:1]) == ["ita_Latn"]


def test_a_model_of_one_direction_says_what_is_needed(marian):
    with pytest.raises(CheckpointError, match=(
            "so its encoder reads 'en' alone; method encoder needs a model that reads both")):
        translation_encoder(ModelConfig(marian), "en", "it")


def test_a_layer_that_the_encoder_lacks(m2m):
    with pytest.raises(ValueError, match="layer: found 2, expected 0 to 1, the encoder's last"):
        translation_encoder(ModelConfig(m2m), "en", "it", layer=2)
