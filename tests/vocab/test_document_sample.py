"""Random samples of documents."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice

import pytest

from bmtools.vocab.document_sample import DocumentSample, is_held_out, random_key


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
