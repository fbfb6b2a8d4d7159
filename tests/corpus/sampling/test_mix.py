"""Mixtures: sizes by weight, number of copies of each record, and an order that depends on ids."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.sampling import mix as mixing
from bmtools.corpus.sampling.settings import MixConfig
from bmtools.errors import DataError, refuse
from bmtools.io import parts
from bmtools.io.workers import Workers


@pytest.fixture
def corpora(tmp_path: Path) -> dict[str, str]:
    draw = random.Random(3)
    return {name: write(tmp_path / name, [
        {"id": f"{name[:shared]}{number}", "text": "asma " * draw.randrange(1, 30)}
        for number in range(count)])
        for name, count, shared in (("large", 400, 9), ("small", 100, 9), ("twin", 100, 0))}


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return str(path)


def mixed(corpora: dict[str, str], jobs: int = 1, **settings: Any) -> list[dict[str, Any]]:
    with mixing.opened_mixture(corpora, MixConfig(**settings), refuse, Workers(jobs)) as mixture:
        found = [json.loads(line) for line in mixture.lines()]
        assert len(found) == sum(part["records"] for part in mixture.parts)
        return found


def size(records: Any) -> int:
    return sum(len(record["text"]) for record in records)


def own(corpora: dict[str, str], name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(corpora[name]).read_text().splitlines()]


def only(corpora: dict[str, str], *names: str) -> dict[str, str]:
    return {name: corpora[name] for name in names}


def test_a_mixture_of_all_records_is_shuffled(corpora: dict[str, str]) -> None:
    found = mixed(corpora)
    assert sorted(record["id"] for record in found) == sorted(
        record["id"] for name in corpora for record in own(corpora, name))
    places = [place for place, record in enumerate(found) if record["id"].startswith("small")]
    assert 250 < sum(places) / len(places) < 350
    ids = [record["id"] for record in found if record["id"].startswith("large")]
    assert ids != sorted(ids)
    assert mixed(corpora, seed=1) != found


def test_mixture_does_not_depend_on_processes_buckets_or_order(
        corpora: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"weights": "large=1,small=2,twin=1", "size": "20kB", "repeat": True}
    expected = mixed(corpora, **settings)
    monkeypatch.setattr(mixing, "_BUCKET_BYTES", 1_000)
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 2_000)
    assert mixed(corpora, **settings, jobs=2) == expected
    for name in corpora:
        write(Path(corpora[name]), own(corpora, name)[::-1])
    assert mixed(dict(reversed(corpora.items())), **settings) == expected


def test_parts_have_their_weights_and_sizes(corpora: dict[str, str]) -> None:
    two = only(corpora, "large", "small")
    found = mixed(two, weights="large=3,small=1", size="8kB")
    for name, bound in (("large", 6_000), ("small", 2_000)):
        part = size(one for one in found if one["id"].startswith(name))
        assert bound - 150 < part <= bound


def test_default_size_is_the_largest_without_repeats(corpora: dict[str, str]) -> None:
    two = only(corpora, "large", "small")
    found = mixed(two, weights="large=1,small=1")
    parts = {name: [one for one in found if one["id"].startswith(name)] for name in two}
    assert len(parts["small"]) == 100
    whole = size(own(two, "small"))
    assert whole - 150 < size(parts["large"]) <= whole


def test_a_small_corpus_is_repeated_or_an_error(corpora: dict[str, str]) -> None:
    two, whole = only(corpora, "large", "small"), size(own(corpora, "small"))
    settings = {"weights": "large=1,small=2", "size": f"{3 * whole}B"}
    with pytest.raises(DataError, match=r"^small: found [\d.]+ MB of text, expected [\d.]+ for its "
                                        "part; set a smaller size, or set repeat to repeat its "):
        mixed(two, **settings)
    found = mixed(two, **settings, repeat=True)
    counts = Counter(one["id"] for one in found if one["id"].startswith("small"))
    assert len(counts) == 100 and set(counts.values()) == {2}
    one_and_a_half = mixed(only(corpora, "small"), size=f"{whole * 3 // 2}B", repeat=True)
    counts = Counter(one["id"] for one in one_and_a_half)
    assert set(counts.values()) == {1, 2}
    assert 1.5 * whole - 150 < size(one_and_a_half) <= 1.5 * whole


def test_larger_mixtures_contain_smaller_ones(run: Any, corpora: dict[str, str]) -> None:
    """A larger mixture and `sample` contain the records of a smaller mixture."""
    small = {one["id"] for one in mixed(only(corpora, "large"), size="5kB")}
    sampled = {one["id"] for one in run("sample", corpora["large"], "--size", "5kB").records}
    assert small == sampled < {one["id"] for one in mixed(only(corpora, "large"), size="9kB")}
