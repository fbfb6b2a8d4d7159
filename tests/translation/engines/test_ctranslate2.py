"""Translation by CTranslate2, against transformers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bmtools.errors import CheckpointError
from bmtools.translation.engines.neural import CTranslate2Translator
from bmtools.translation.engines.transformers_engine import TransformersTranslator
from bmtools.translation.settings import ModelConfig

pytest.importorskip("ctranslate2")
UNSEEN = ["The patient has pain.", "We studied fever.", "No drug reduces a fever (p < 0.05).",
          "Common pain.", "Died."]


def test_greedy_translations_are_those_of_transformers(
        model: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    sentences = [*pairs, *UNSEEN]
    settings = ModelConfig(converted(model), tokenizer=model, beam_size=1, batch_tokens=64)
    ours = CTranslate2Translator(settings, "en", "it").translate(sentences)
    theirs = TransformersTranslator(
        ModelConfig(model, beam_size=1), "en", "it").translate(sentences)
    assert ours == theirs
    assert [one.text for one in ours[:len(pairs)]] == list(pairs.values())


def test_given_translations_have_the_probabilities_that_transformers_gives(
        model: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    ours = CTranslate2Translator(ModelConfig(converted(model), tokenizer=model), "en", "it")
    theirs = TransformersTranslator(ModelConfig(model, batch_tokens=90), "en", "it")
    # Each sentence with its own translation, then with that of its neighbour.
    targets = [*pairs.values(), *list(pairs.values())[1:], *list(pairs.values())[:1]]
    sources = [ours.subwords.encode(one) for one in [*pairs, *pairs]]
    tokens = [ours.subwords.encode_target(one) for one in targets]
    found = ours.score(sources, tokens)
    for left, right, target in zip(found, theirs.score(sources, tokens), tokens, strict=True):
        assert len(left) == len(target)
        assert left == pytest.approx(right, abs=5e-3)
    sums = [sum(one) for one in found]
    assert all(own > other + 1 for own, other in zip(sums[:6], sums[6:], strict=True))


def test_int8_and_beams_still_know_the_sentences(
        nllb: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    settings = ModelConfig(converted(nllb), tokenizer=nllb, compute_type="int8", beam_size=4)
    translator = CTranslate2Translator(settings, "en", "it")
    assert [one.text for one in translator.translate(list(pairs))] == list(pairs.values())


def test_the_tokenizer_may_be_in_another_directory(
        nllb: Path, converted: Callable[[Path], Path], pairs: dict[str, str],
        tmp_path: Path) -> None:
    directory = shutil.copytree(converted(nllb), tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(nllb / name, directory)
    settings = ModelConfig(directory, max_length=64)
    translator = CTranslate2Translator(settings, "en", "it")
    assert translator.translate(["No patient died."])[0].text == pairs["No patient died."]
    with pytest.raises(CheckpointError, match="max_length does"):
        CTranslate2Translator(ModelConfig(directory), "en", "it")


def test_nothing_is_cut_off_in_silence(nllb: Path, converted: Callable[[Path], Path]) -> None:
    settings = ModelConfig(converted(nllb), tokenizer=nllb, max_length=12)
    long, short = CTranslate2Translator(settings, "en", "it").translate(
        ["Fever is common. " * 9, "Fever is common."])
    assert long.fault.endswith("tokens, the model takes 12")
    assert short.text == "La febbre è comune."


def test_a_directory_without_tokenizer_is_reported_with_a_remedy(
        marian: Path, converted: Callable[[Path], Path]) -> None:
    with pytest.raises(CheckpointError, match="tokenizer names the directory"):
        CTranslate2Translator(ModelConfig(converted(marian)), "en", "it")


def test_a_tokenizer_of_another_model_is_noticed(
        marian: Path, nllb: Path, converted: Callable[[Path], Path]) -> None:
    with pytest.raises(CheckpointError, match="lacks eng_Latn, ita_Latn"):
        CTranslate2Translator(ModelConfig(converted(marian), tokenizer=nllb), "en", "it")
    with pytest.raises(CheckpointError, match="of the tokenizer's"):
        CTranslate2Translator(ModelConfig(converted(nllb), tokenizer=marian), "en", "it")


def test_a_directory_that_was_not_converted_is_refused(marian: Path) -> None:
    with pytest.raises(CheckpointError, match="ct2-transformers-converter"):
        CTranslate2Translator(ModelConfig(marian), "en", "it")
