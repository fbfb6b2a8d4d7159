"""Choosing a size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bmtools.errors import DataError
from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig
from bmtools.vocab.size_search import find_knee, search_size, truncate
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.trainers import TRAINERS, train_tokenizer

TEXTS = ["il cuore batte e il sangue scorre nelle arterie del paziente",
         "la mobilità del ginocchio è ridotta: perché la gonartrosi bilaterale?",
         "la gonartrosi e la coxartrosi del paziente, il linfoma e il diabete mellito"] * 20


@pytest.fixture(scope="module")
def clinical(data: Path) -> list[str]:
    lines = (data / "it/corpus/native-clinical.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines[:400]]


@pytest.mark.parametrize(("sizes", "values", "index"), [
    ([1, 2, 3, 4, 5], [5.0, 2.0, 1.5, 1.2, 1.0], 1),
    ([0, 1, 2, 10], [10.0, 6.0, 3.0, 0.0], 2),
    ([1, 2, 3], [3.0, 2.0, 1.0], 0),  # a line: nothing is below it
    ([1, 2, 3], [1.0, 1.0, 1.0], 0),
    ([1, 2, 3], [1.0, 2.0, 3.0], 0),
])
def test_the_knee_is_farthest_below_the_chord(sizes: Sequence[float], values: Sequence[float],
                                              index: int) -> None:
    assert find_knee(sizes, values) == index


def test_the_knee_by_geometry() -> None:
    """1/x from 1 to 4 has the slope of its chord at x = 2."""
    sizes = [1 + step / 100 for step in range(301)]
    assert sizes[find_knee(sizes, [1 / size for size in sizes])] == pytest.approx(2.0)


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe"])
def test_the_beginning_is_what_a_smaller_size_learns(tokenizer_type: str) -> None:
    settings = VocabularyConfig(tokenizer_type=tokenizer_type, size=500, allow_fewer=True)
    trainer = TRAINERS[settings.tokenizer_type](settings)
    largest = train_tokenizer(TEXTS, settings)
    words = trainer.count_words(TEXTS)
    for size in range(max(trainer.min_size(words), 100), len(largest) + 1, 7):
        exact = VocabularyConfig(tokenizer_type=tokenizer_type, size=size)
        assert fingerprint(truncate(largest, size, trainer)) == \
            fingerprint(train_tokenizer(TEXTS, exact))


@pytest.mark.data
@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe"])
def test_the_beginning_on_real_text(tokenizer_type: str, clinical: list[str]) -> None:
    largest = train_tokenizer(clinical, VocabularyConfig(tokenizer_type=tokenizer_type, size=4_000))
    settings = VocabularyConfig(tokenizer_type=tokenizer_type, size=1_500)
    assert fingerprint(truncate(largest, 1_500, TRAINERS[settings.tokenizer_type](settings))) == \
        fingerprint(train_tokenizer(clinical, settings))


@pytest.mark.data
@pytest.mark.parametrize("tokenizer_type", TRAINERS)
def test_a_curve_on_real_text(tokenizer_type: str, clinical: list[str]) -> None:
    sizes = [800, 1_600, 3_200, 5_000, 90_000]
    choosing = SizeSearchConfig(candidates=",".join(map(str, sizes)), hidden_size=100)
    held_out, learned = clinical[:80], clinical[80:]
    tokenizer, found = search_size(
        iter(learned), held_out, ["diabete mellito", "dolore"],
        VocabularyConfig(tokenizer_type=tokenizer_type, size=0), choosing)
    assert [point["size"] for point in found["curve"]] == sizes[:4]  # the text supports no 90,000
    assert [point["parameters"] for point in found["curve"]] == [80_000, 160_000, 320_000, 500_000]
    falling = [point["pieces_per_word"] for point in found["curve"]]
    assert falling == sorted(falling, reverse=True) and falling[0] > falling[-1] > 1
    shares = [point["whole_share"] for point in found["curve"]]
    assert shares == sorted(shares)
    assert found["knee"] in sizes[1:3]
    assert found["term_knee"] in sizes[:4]
    assert found["chosen_size"] == max(found["knee"], found["term_knee"]) == len(tokenizer)
    point = next(point for point in found["curve"] if point["size"] == found["chosen_size"])
    assert point["tokens"] == sum(
        len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in held_out)
    assert found["curve"][-1]["relative_tokens"] == 1
    # What is chosen was learned from the rest alone.
    exact = VocabularyConfig(tokenizer_type=tokenizer_type, size=found["chosen_size"])
    assert fingerprint(tokenizer) == fingerprint(train_tokenizer(learned, exact))


def test_errors_name_the_way_out() -> None:
    settings = VocabularyConfig(size=0)
    with pytest.raises(DataError, match=r"candidates: found 1000,2000,3000, of which the text "
                                        "supports 0; expected 3 at least"):
        search_size(TEXTS, TEXTS, [], settings, SizeSearchConfig(candidates="1000,2000,3000"))
    with pytest.raises(DataError, match="no words in the held-out text"):
        search_size(TEXTS, [], [], settings, SizeSearchConfig())
