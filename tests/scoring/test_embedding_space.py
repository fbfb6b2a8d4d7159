"""Measures of a space constructed by hand, and lines of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.records import Record
from bmtools.scoring.embedding_space import (
    EmbeddingSpace,
    WordStatistics,
    WordVectors,
    bootstrap_weights,
    compare_spaces,
    embedding_space,
    fit_contexts,
    read_vectors,
)
from bmtools.scoring.settings import EmbeddingSpaceConfig, InferenceConfig
from bmtools.scoring.space_sample import SampledWords, WordContext, sample_contexts

pytestmark = pytest.mark.usefixtures("one_thread")
FREQUENT = ["cuore", "sangue", "asma"]
RARE = ["mellito", "artrosi", "respiro"]
MORE = (["dolore", "paziente", "nausea", "spalla", "farmaco", "cervello", "sonno"],
        ["dopamina", "neuroni", "addome", "pressione", "cronica", "malattia", "anziano"])


def settings(**changed: Any) -> EmbeddingSpaceConfig:
    return EmbeddingSpaceConfig(**{"bands": 2, "words_per_band": 3, "min_count": 2,
                                   "occurrences": 2, "neighbours": 2, "resamples": 200, **changed})


def lines_of(models: list[Any], chosen: EmbeddingSpaceConfig,
             more: tuple[list[str], list[str]] = ([], [])) -> list[dict[str, Any]]:
    frequent, rare = FREQUENT + more[0], RARE + more[1]
    texts = [" ".join(frequent)] * 6 + [" ".join([*frequent, *rare])] * 2
    records = [Record(id=str(number), text=text) for number, text in enumerate(texts)]
    return [line for line, _ in compare_spaces(
        [model.checkpoint for model in models], *sample_contexts(records, chosen), chosen,
        InferenceConfig())]


def made_up(apart: float, each: int = 4, words: int = 50) -> EmbeddingSpace:
    """Two bands of words whose occurrences surround a point."""
    rng = np.random.default_rng(0)
    bands = np.repeat([0, 1], words)
    centres = rng.normal(size=(2 * words, 12)) + apart * np.eye(12)[bands]
    words_of = np.repeat(np.arange(2 * words), each)
    vectors = (centres[words_of] + 0.1 * rng.normal(size=(len(words_of), 12))).astype(np.float32)
    ones = np.ones(len(words_of), dtype=np.int64)
    sample = SampledWords([f"word{n}" for n in range(2 * words)], 100 - 50 * bands, bands)
    found = WordVectors(np.arange(len(words_of)), vectors, ones, ones < 0)
    return EmbeddingSpace(sample, found, words_of)


def test_only_planted_bands_are_separated() -> None:
    ones = np.ones((1, 100))
    mixed, apart = (WordStatistics.of(made_up(distance),
                                      settings(words_per_band=50, neighbours=5)).estimate(ones)
                    for distance in (0.0, 20.0))
    assert mixed["own_band_neighbours"][0] == pytest.approx(49 / 99, abs=0.08)
    assert abs(mixed["silhouette"][0]) < 0.05
    assert apart["own_band_neighbours"][0] == 1
    assert apart["silhouette"][0] > 0.8
    assert mixed["self_similarity"][0] > 0.95 > mixed["average_cosine"][0]


def test_words_are_resampled_within_bands() -> None:
    space, chosen = made_up(1.0), settings(words_per_band=50, resamples=4_000)
    word_statistics = WordStatistics.of(space, chosen)
    weights = bootstrap_weights(space.sample.bands, chosen)
    assert (weights[:, :50].sum(axis=1) == 50).all() and (weights.sum(axis=1) == 100).all()
    values = word_statistics.values["own_band_neighbours"]
    # The spread of a mean of two means, each over a number of draws equal to the number of words.
    expected = np.sqrt(sum(values[part].var() / 50 for part in (slice(50), slice(50, 100)))) / 2
    spread = word_statistics.estimate(weights)["own_band_neighbours"].std()
    assert spread == pytest.approx(expected, rel=0.05)


def test_each_model_has_a_line_with_the_change_from_the_first(wordpiece: Any,
                                                              modernbert: Any) -> None:
    first, same, other = lines_of([wordpiece, wordpiece, modernbert],
                                  settings(words_per_band=10), MORE)
    assert (first["model"], other["model"]) == ("wordpiece", "modernbert")
    assert "change" not in first
    assert same["average_cosine"] == first["average_cosine"]
    assert all(change == {"value": 0, "low": 0, "high": 0}
               for name, change in same["change"].items() if name != "from")
    for name, (low, high) in first["intervals"].items():
        assert low <= high, name
    changed = other["change"]["average_cosine"]
    assert changed["value"] == pytest.approx(other["average_cosine"] - first["average_cosine"],
                                             abs=2e-6)
    assert changed["low"] < changed["high"]
    assert (first["words"], first["occurrences"]) == (20, 40)
    assert first["adjusted_self_similarity"] == pytest.approx(
        first["self_similarity"] - first["average_cosine"], abs=2e-6)
    assert "layers:last|bands:2|words_per_band:10" in first["signature"]


def test_bands_are_measured_separately(wordpiece: Any) -> None:
    [line] = lines_of([wordpiece], settings())
    frequent, rare = line["bands"]
    assert (frequent["min_count"], frequent["max_count"]) == (8, 8)
    assert (rare["min_count"], rare["max_count"]) == (2, 2)
    for band in (frequent, rare):
        assert (band["words"], band["occurrences"]) == (3, 6)
    for name in ("self_similarity", "own_band_neighbours", "silhouette"):
        assert line[name] == pytest.approx((frequent[name] + rare[name]) / 2, abs=2e-6)
    assert line["chance_neighbours"] == 0.4


def test_all_models_read_the_same_occurrences(wordpiece: Any, known: Any) -> None:
    short = known({"cuore": 1, "sangue": 1, "asma": 1, "mellito": 1, "artrosi": 1}, tokens=3)
    texts = [f"{word} {word}" for word in [*FREQUENT, *RARE]]
    records = [Record(id=word, text=word) for word in texts]
    chosen = settings()
    words, contexts = sample_contexts(records, chosen)
    lines = [line for line, _ in compare_spaces([wordpiece.checkpoint, short.checkpoint], words,
                                                contexts, chosen, InferenceConfig())]
    assert [line["words"] for line in lines] == [6, 6]
    assert lines[1]["unknown"] == 2
    assert {band["tokens_per_word"] for band in lines[1]["bands"]} == {1}


TEXT = "Il cuore pompa il sangue nelle arterie."
LONG = " ".join(["Il cuore pompa"] * 30)


def vectors(contexts: list[WordContext], *models: Any, layers: str = "last",
            **inference: Any) -> list[WordVectors]:
    return list(read_vectors(contexts, [model.checkpoint for model in models], layers,
                             InferenceConfig(**inference)))


def contexts_of(text: str, *words: str) -> list[WordContext]:
    return [WordContext(number, text, text.index(word), text.index(word) + len(word))
            for number, word in enumerate(words)]


def states_by_hand(model: Any, context: WordContext, layer: int) -> np.ndarray:
    """Run one text through transformers and average the tokens that overlap the word."""
    tokenizer = model.tokenizer
    encoding = tokenizer.backend_tokenizer.encode(context.text, add_special_tokens=False)
    ids = [tokenizer.cls_token_id, *encoding.ids, tokenizer.sep_token_id]
    with torch.no_grad():
        hidden = model.checkpoint.model(
            input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    states = hidden[layer][0]
    touching = [position for position, (start, end) in enumerate(encoding.offsets, 1)
                if context.text[start:end].strip() and start < context.end and end > context.start]
    return states[touching].mean(dim=0).numpy()


@pytest.mark.parametrize(("layers", "layer"), [("0", 0), ("1", 1), ("2", 2), ("last", -1)])
def test_vectors_equal_means_of_transformers_states(any_model: Any, layers: str,
                                                    layer: int) -> None:
    contexts = [*contexts_of(TEXT, "cuore", "sangue", "arterie"),
                *contexts_of("L'asma riduce il respiro.", "asma", "respiro")]
    [found] = vectors(contexts, any_model, layers=layers, batch_tokens=30)
    assert found.contexts.tolist() == [0, 1, 2, 3, 4]
    expected = np.stack([states_by_hand(any_model, context, layer) for context in contexts])
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)


def test_all_averages_the_layers(wordpiece: Any) -> None:
    contexts = contexts_of(TEXT, "cuore", "sangue")
    [found] = vectors(contexts, wordpiece, layers="all")
    expected = np.mean([[states_by_hand(wordpiece, context, layer) for context in contexts]
                        for layer in range(3)], axis=0)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-5)


def test_contexts_are_shortened_until_all_models_fit(wordpiece: Any, modernbert: Any) -> None:
    checkpoints = [wordpiece.checkpoint, modernbert.checkpoint]
    position = LONG.index("cuore", 200)
    contexts = [WordContext(0, LONG, position, position + 5), *contexts_of(TEXT, "sangue")]
    fitting = fit_contexts(contexts, checkpoints, len(LONG))
    assert fitting[1] == contexts[1]
    assert fitting[0].text[fitting[0].start:fitting[0].end] == "cuore"
    assert 20 < len(fitting[0].text) < len(LONG)
    sizes = [len(one.tokenizer(fitting[0].text)["input_ids"]) for one in checkpoints]
    assert max(sizes) <= 64
    assert [found.contexts.tolist() for found in vectors(fitting, wordpiece, modernbert)] \
        == [[0, 1], [0, 1]]


def test_missing_layer_is_an_error(wordpiece: Any, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_checkpoint(path, wordpiece.checkpoint.model, wordpiece.tokenizer,
                    Manifest("test", {}, wordpiece.vocabulary))
    with pytest.raises(DataError, match="no words in the input"):
        embedding_space([], path, layers="-3,2", device="cpu")
    for number in (3, -4):
        with pytest.raises(BmtoolsError) as raised:
            embedding_space([], path, layers=f"0,{number}", device="cpu")
        assert str(raised.value) == (f"layers: found {number}, but {path} has layers 1 to 2, and "
                                     "0 for its embeddings")
