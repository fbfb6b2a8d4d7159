"""Translations by CTranslate2, compared with transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bmtools.errors import BmtoolsError, CheckpointError
from bmtools.io.unfinished import hidden_path
from bmtools.translation.engines import ctranslate2_engine
from bmtools.translation.engines.ctranslate2_engine import CTranslate2Translator, convert
from bmtools.translation.engines.neural import Search
from bmtools.translation.engines.transformers_engine import TransformersTranslator
from bmtools.translation.settings import EngineConfig

config = partial(EngineConfig, "ctranslate2", "en", "it")

pytest.importorskip("ctranslate2")
UNSEEN = ["The patient has pain.", "We studied fever.", "No drug reduces a fever (p < 0.05).",
          "Common pain.", "Died."]


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the conversions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/bmtools/ctranslate2"


def test_greedy_translations_equal_transformers(
        model: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    sentences = [*pairs, *UNSEEN]
    settings = config(model=converted(model), tokenizer=model, beam_size=1, batch_tokens=64)
    translator = CTranslate2Translator(settings)
    ours = translator.translate(sentences)
    peer = TransformersTranslator(config(model=model, beam_size=1))
    assert [one.text for one in ours] == [one.text for one in peer.translate(sentences)]
    assert [one.text for one in ours[:len(pairs)]] == list(pairs.values())
    encode = translator.subwords.encode
    for sentence, own in zip(sentences, ours, strict=True):
        assert own.engine == "ctranslate2" or own.fault
        [found] = translator.generate([encode(sentence)], 64, Search(1, 1.0, 0))
        ids, labels = (torch.tensor([peer.subwords.tokenizer.convert_tokens_to_ids(tokens)])
                       for tokens in (encode(sentence), found.tokens))
        with torch.no_grad():
            logits = peer._model(input_ids=ids, labels=labels).logits
        scores = logits.log_softmax(-1).gather(-1, labels[..., None])[0, :, 0]
        given = bool(translator.subwords.target_token)
        assert found.log_probability == pytest.approx(scores[given:].mean().item(), abs=2e-3)


def test_int8_and_beams_give_the_same_translations(
        nllb: Path, converted: Callable[[Path], Path], pairs: dict[str, str]) -> None:
    settings = config(model=converted(nllb), tokenizer=nllb, precision="int8", beam_size=4)
    translator = CTranslate2Translator(settings)
    assert [one.text for one in translator.translate(list(pairs))] == list(pairs.values())


def test_the_tokenizer_may_be_in_another_directory(
        nllb: Path, converted: Callable[[Path], Path], pairs: dict[str, str],
        tmp_path: Path) -> None:
    directory = shutil.copytree(converted(nllb), tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(nllb / name, directory)
    settings = config(model=directory, max_source_tokens=64)
    translator = CTranslate2Translator(settings)
    assert translator.translate(["No patient died."])[0].text == pairs["No patient died."]
    with pytest.raises(CheckpointError, match="set max_source_tokens"):
        CTranslate2Translator(config(model=directory))


def test_long_sentences_are_not_truncated(nllb: Path, converted: Callable[[Path], Path]) -> None:
    settings = config(model=converted(nllb), tokenizer=nllb, max_source_tokens=12)
    translator = CTranslate2Translator(settings)
    long, short = translator.translate(["Fever is common. " * 9, "Fever is common."])
    assert len(long.text) > 5 * len(short.text)
    assert translator.counts["split"] == 1
    assert short.text == "La febbre è comune."


def test_missing_tokenizer_is_reported_with_a_fix(
        marian: Path, converted: Callable[[Path], Path]) -> None:
    with pytest.raises(CheckpointError, match="name the directory of the original model with"):
        CTranslate2Translator(config(model=converted(marian)))


def test_tokenizer_of_another_model_is_rejected(
        marian: Path, nllb: Path, converted: Callable[[Path], Path]) -> None:
    with pytest.raises(CheckpointError, match="of the tokenizer's"):
        CTranslate2Translator(config(model=converted(marian), tokenizer=nllb))
    with pytest.raises(CheckpointError, match="of the tokenizer's"):
        CTranslate2Translator(config(model=converted(nllb), tokenizer=marian))


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Record which models are converted."""
    made: list[Path] = []
    real = ctranslate2_engine._convert

    def remembering(settings: EngineConfig, partial: Path) -> None:
        made.append(settings.directory)
        real(settings, partial)

    monkeypatch.setattr(ctranslate2_engine, "_convert", remembering)
    return made


def test_published_model_is_converted_once(
        model: Path, pairs: dict[str, str], made: Path, conversions: list[Path]) -> None:
    settings = config(model=model, beam_size=1)
    for _ in range(2):
        translator = CTranslate2Translator(settings)
        assert [one.text for one in translator.translate(list(pairs))] == list(pairs.values())
    assert conversions == [model]
    [directory] = made.iterdir()
    assert directory.name.startswith(f"{model.name}-int8-")
    assert translator.details == {"model": model.name}


def test_pickled_weights_are_read_without_running_code(
        marian: Path, pairs: dict[str, str], tmp_path: Path) -> None:
    directory = shutil.copytree(marian, tmp_path / "model")
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save(weights, directory / "pytorch_model.bin")
    settings = config(model=directory, beam_size=1)
    translator = CTranslate2Translator(settings)
    assert [one.text for one in translator.translate(list(pairs))] == list(pairs.values())
    torch.save({**weights, "x": Fraction(1)}, directory / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"found fractions.Fraction, which is not a weight"):
        CTranslate2Translator(settings)
    del weights["model.encoder.layers.0.fc1.weight"]
    torch.save(weights, directory / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"weights model.encoder.layers.0.fc1.* are missing"):
        CTranslate2Translator(settings)


def test_other_weights_and_types_need_another_conversion(
        marian: Path, tmp_path: Path, made: Path, conversions: list[Path]) -> None:
    changed = shutil.copytree(marian, tmp_path / marian.name)
    content = json.loads((changed / "config.json").read_text())
    (changed / "config.json").write_text(json.dumps({**content, "note": 1}))
    fingerprints = {CTranslate2Translator(settings).fingerprint for settings in (
        config(model=marian), config(model=changed), config(model=marian, precision="float32"),
        config(model=marian, batch_tokens=9, workers=1))}
    assert len(fingerprints) == len(conversions) == 3
    assert len(list(made.iterdir())) == 3


def test_processes_wait_for_the_same_conversion(
        marian: Path, made: Path, conversions: list[Path]) -> None:
    settings = config(model=marian, precision="int8")
    with ThreadPoolExecutor(3) as threads:
        [directory] = set(threads.map(lambda _: convert(settings, "0" * 64), range(3)))
    assert len(conversions) == 1
    assert list(made.iterdir()) == [directory]


def test_remains_of_a_killed_conversion_are_removed(
        marian: Path, made: Path, conversions: list[Path]) -> None:
    settings = config(model=marian, precision="int8")
    done = convert(settings, "0" * 64)
    left = hidden_path(done, "partial")
    done.rename(left)
    (made / f".{done.name}.lock").touch()
    assert convert(settings, "0" * 64) == done
    assert list(made.iterdir()) == [done]


def test_damaged_models_and_unsupported_types_are_errors(marian: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(marian, tmp_path / "model")
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"model.safetensors"):
        CTranslate2Translator(config(model=directory))
    with pytest.raises(BmtoolsError, match="precision fp16 is not supported on this cpu; use"):
        CTranslate2Translator(config(model=marian, precision="fp16", device="cpu"))


def test_attempts_use_different_searches(
        nllb: Path, converted: Callable[[Path], Path], pairs: dict[str, str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(model=converted(nllb), tokenizer=nllb, beam_size=1)
    translator = CTranslate2Translator(settings)
    searches = [translator._search(attempt) for attempt in range(translator.attempts)]
    assert len(set(searches)) == 3
    assert searches[0] == (1, 1.0, 0)
    assert all(one.no_repeat_ngram_size and one.repetition_penalty > 1 for one in searches[1:])
    found = translator.translate(["No patient died."], attempt=2)
    assert found == translator.translate(["No patient died.", *pairs], attempt=2)[:1]
