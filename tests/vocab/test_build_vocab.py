"""Vocabularies from Python."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import bmtools.vocab
from bmtools.errors import BmtoolsError, DataError
from bmtools.vocab.build_vocab import (
    DocumentSample,
    find_knee,
    is_held_out,
    random_key,
    search_size,
    truncate,
)
from bmtools.vocab.settings import SizeSearchConfig, VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.trainers import TRAINERS, train_tokenizer

RECORDS = [{"id": "1", "title": "Cuore", "text": "il cuore batte e il sangue scorre"}] * 3


def test_a_vocabulary_is_built_compared_and_extended_in_a_line_each(tmp_path: Path) -> None:
    config = VocabularyConfig(size=100, uncased=True, allow_fewer=True)
    built = bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    assert built.results["vocab_size"] == len(built.tokenizer)
    assert AutoTokenizer.from_pretrained(tmp_path / "tok").get_vocab() == \
        built.tokenizer.get_vocab()
    manifest = json.loads((tmp_path / "tok/bmtools.json").read_text(encoding="utf-8"))
    assert (manifest["vocabulary"], manifest["results"]) == (built.fingerprint, built.results)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in RECORDS))
    same = bmtools.vocab.build_vocab(str(tmp_path / "texts.jsonl"), output=str(tmp_path / "same"),
                                     size=100, uncased=True, allow_fewer=True)
    assert same.fingerprint == built.fingerprint
    with pytest.raises(TypeError, match="found sise, expected some of "):
        bmtools.vocab.build_vocab(RECORDS, sise=100)
    more = VocabularyConfig(size=len(built.tokenizer) + 100, allow_fewer=True)
    larger = bmtools.vocab.build_vocab([{"text": "aritmia, aritmia ventricolare"}] * 9, more,
                                       extend=tmp_path / "tok")
    assert larger.results["kept_tokens"] == len(built.tokenizer) < len(larger.tokenizer)
    lines = list(bmtools.vocab.compare_vocab({"old": tmp_path / "tok"}, RECORDS))
    assert [line["scope"] for line in lines] == ["text"]
    with pytest.raises(BmtoolsError, match="or overwrite to replace it"):
        bmtools.vocab.build_vocab(RECORDS, config, tmp_path / "tok")
    with pytest.raises(DataError, match="size: found 5000, but the text supports"):
        bmtools.vocab.build_vocab(RECORDS, VocabularyConfig(size=5_000))


def sampled(texts: list[str], max_bytes: int, seed: int = 0) -> DocumentSample:
    sample = DocumentSample(max_bytes, seed)
    sample.add(texts)
    return sample


def test_what_fits_is_taken_whole_and_in_order() -> None:
    texts = ["il cuore", "è", "", "\u03b2"]
    sample = sampled(texts, 1_000)
    assert list(sample) == list(enumerate(texts))
    assert sample.summary() == {"documents": 4, "total_documents": 4, "bytes": 12,
                                "total_bytes": 12}


def test_the_lowest_keys_are_sampled() -> None:
    texts = [f"{number:04}" for number in range(500)]
    sample = sampled(texts, 400)
    ranked = sorted(range(500), key=lambda number: random_key(0, "sample", number))
    assert [number for number, _ in sample] == sorted(ranked[:100])
    assert sample.summary() == {"documents": 100, "total_documents": 500, "bytes": 400,
                                "total_bytes": 2_000}


def test_batches_do_not_matter_and_seeds_do() -> None:
    texts = ["x" * (number % 9 + 1) for number in range(300)]
    bit_by_bit = DocumentSample(200, 0)
    for start in range(0, 300, 7):
        bit_by_bit.add(texts[start:start + 7])
    assert list(bit_by_bit) == list(sampled(texts, 200))
    assert list(sampled(texts, 200, seed=1)) != list(sampled(texts, 200))


def test_a_document_larger_than_the_bound_leaves_room_for_others() -> None:
    texts = [f"{number:04}" for number in range(50)]
    for place in (0, 25, 50):
        found = dict(sampled([*texts[:place], "x" * 101, *texts[place:]], 100))
        assert len(found) == 25 and place not in found


def test_every_document_has_the_same_chance() -> None:
    texts = ["four"] * 20
    found = Counter(number for seed in range(2_000) for number, _ in sampled(texts, 20, seed))
    assert sum(found.values()) == 10_000
    # Standard deviation of each count: square root of 2,000 x 1/4 x 3/4.
    assert all(abs(found[number] - 500) < 4.5 * 19.4 for number in range(20))


def test_memory_is_bounded_by_the_sample() -> None:
    def texts() -> object:
        return ("x" * 10_000 + str(number) for number in range(3_000))

    tracemalloc.start()
    sample = DocumentSample(1_000_000, 0)
    sample.add(texts())  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sample.total_bytes > 30_000_000
    assert 900_000 < sample.sampled_bytes <= 1_000_000
    assert peak < 3_000_000


def test_passing_on_counts_without_holding() -> None:
    sample = DocumentSample(10, 0)
    assert list(islice(sample.passed(["è", "abc"]), 5)) == ["è", "abc"]
    assert sample.summary() == {"documents": 2, "total_documents": 2, "bytes": 5, "total_bytes": 5}


@pytest.mark.parametrize("ratio", [0.05, 0.5])
def test_the_held_out_ratio_is_met_and_independent_of_the_sample(ratio: float) -> None:
    sample = sampled(["four"] * 8_000, 16_000)
    held = [is_held_out(0, number, ratio) for number, _ in sample]
    assert abs(sum(held) / 4_000 - ratio) < 4 * (ratio * (1 - ratio) / 4_000) ** 0.5


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
