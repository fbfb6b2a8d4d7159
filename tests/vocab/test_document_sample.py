"""Drawing documents."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice

import pytest

from bmtools.vocab.document_sample import DocumentSample, draw, is_held_out


def drawn(texts: list[str], most_bytes: int, seed: int = 0) -> DocumentSample:
    sample = DocumentSample(most_bytes, seed)
    sample.add(texts)
    return sample


def test_what_fits_is_taken_whole_and_in_order() -> None:
    texts = ["il cuore", "è", "", "\u03b2"]
    sample = drawn(texts, 1_000)
    assert list(sample) == list(enumerate(texts))
    assert sample.figures() == {"documents": 4, "of_documents": 4, "bytes": 12, "of_bytes": 12}


def test_the_first_places_of_the_draw_are_taken() -> None:
    texts = [f"{number:04}" for number in range(500)]
    sample = drawn(texts, 400)
    ranked = sorted(range(500), key=lambda number: draw(0, "sample", number))
    assert [number for number, _ in sample] == sorted(ranked[:100])
    assert sample.figures() == {"documents": 100, "of_documents": 500, "bytes": 400,
                                "of_bytes": 2_000}


def test_batches_do_not_matter_and_seeds_do() -> None:
    texts = ["x" * (number % 9 + 1) for number in range(300)]
    bit_by_bit = DocumentSample(200, 0)
    for start in range(0, 300, 7):
        bit_by_bit.add(texts[start:start + 7])
    assert list(bit_by_bit) == list(drawn(texts, 200))
    assert list(drawn(texts, 200, seed=1)) != list(drawn(texts, 200))


def test_every_document_has_the_same_chance() -> None:
    texts = ["four"] * 20
    found = Counter(number for seed in range(2_000) for number, _ in drawn(texts, 20, seed))
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
    assert 900_000 < sample.drawn_bytes <= 1_000_000
    assert peak < 3_000_000


def test_passing_on_counts_without_holding() -> None:
    sample = DocumentSample(10, 0)
    assert list(islice(sample.passed(["è", "abc"]), 5)) == ["è", "abc"]
    assert sample.figures() == {"documents": 2, "of_documents": 2, "bytes": 5, "of_bytes": 5}


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_held_out_share_is_met_and_independent_of_the_draw(share: float) -> None:
    sample = drawn(["four"] * 8_000, 16_000)
    held = [is_held_out(0, number, share) for number, _ in sample]
    assert abs(sum(held) / 4_000 - share) < 4 * (share * (1 - share) / 4_000) ** 0.5
