"""Duplicates and near duplicates, compared with brute force over all pairs."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.corpus.duplicates.dedup import deduplicate
from bmtools.corpus.duplicates.settings import Bands, DedupConfig
from bmtools.corpus.overlap import folded
from bmtools.errors import DataError, Reject, refuse
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import RecordShard, Shard
from bmtools.io.passes import opened_pass
from bmtools.io.workers import Workers

Write = Callable[..., Path]
VOCABULARY = [f"w{number}" for number in range(5000)]


def text_of(rng: random.Random, words: int = 120) -> list[str]:
    return rng.choices(VOCABULARY, k=words)


def changed(words: list[str], share: float, rng: random.Random) -> list[str]:
    """Replace a share of the words by other words."""
    places = set(rng.sample(range(len(words)), round(share * len(words))))
    return [rng.choice(VOCABULARY) + "x" if place in places else word
            for place, word in enumerate(words)]


def components(similar: Iterable[tuple[int, int]], count: int) -> set[frozenset[int]]:
    parents = list(range(count))
    for pair in similar:
        first, second = sorted(parents[one] for one in pair)
        parents = [first if parent == second else parent for parent in parents]
    return {frozenset(one for one in range(count) if parents[one] == parent) for parent in parents}


def records_of(texts: Iterable[str]) -> list[dict[str, str]]:
    return [{"id": str(number), "text": text} for number, text in enumerate(texts)]


def run(path: Path, against: list[str] | None = None,
        **settings: Any) -> tuple[list[str], list[dict[str, Any]], dict[str, int]]:
    """Return the kept ids, the duplicates and the counts."""
    dropped = BytesIO()
    with opened_pass(None, {}, Workers(1)) as own, deduplicate(
            RecordReader([str(path)]), own, DedupConfig(**settings), against or ()) as found:
        lines = b"".join(found.write(own, dropped)).splitlines()
    return ([json.loads(line)["id"] for line in lines],
            [json.loads(line) for line in dropped.getvalue().splitlines()], +own.counts)


@contextmanager
def found_in(path: Path, reject: Reject = refuse, **settings: Any) -> Iterator[tuple[Any, Any]]:
    with opened_pass(None, {}, Workers(1)) as own, deduplicate(
            RecordReader([str(path)], reject), own, DedupConfig(**settings)) as found:
        yield found, own


def test_case_and_white_space_are_folded(write_lines: Write) -> None:
    path = write_lines("a.jsonl", *records_of(["Asma grave.", "asma\n GRAVE.", "Asma grave!", "",
                                               " ", "...", "..."]))
    stay, dropped, counts = run(path, duplicates="exact")
    assert stay == ["0", "2", "3", "4", "5", "6"]
    assert [one["meta"]["dropped"] for one in dropped] == [
        {"rule": "exact-duplicate", "found": "0", "in": str(path), "similarity": 1.0}]
    assert counts == {"kept": 6, "exact-duplicate": 1}
    assert run(path)[0] == ["0", "3", "4", "5", "6"]  # punctuation is not a word


def test_near_duplicates_equal_brute_force(write_lines: Write) -> None:
    rng = random.Random(1)
    originals = [text_of(rng) for _ in range(30)]
    texts = originals + [changed(words, share, rng) for words in originals
                         for share in (0.01, 0.02, 0.04, 0.08, 0.2)]
    rng.shuffle(texts)
    path = write_lines("a.jsonl", *records_of(map(" ".join, texts)))
    with found_in(path, permutations=512) as (found, _):
        kept = found.kept.tolist()
    runs = [{tuple(words[start:start + 5]) for start in range(len(words) - 4)} for words in texts]
    similarity = {(one, other): len(runs[one] & runs[other]) / len(runs[one] | runs[other])
                  for one, other in combinations(range(len(texts)), 2)}
    # Estimates from 512 hashes are off by 0.02 on average.
    sure, likely = (components([pair for pair, one in similarity.items() if one >= least],
                               len(texts)) for least in (0.78, 0.62))
    assert len(texts) > len(sure) > len(likely)
    ours = {frozenset(one for one in range(len(kept)) if kept[one] == first) for first in kept}
    assert all(any(group <= whole for whole in ours) for group in sure)
    assert all(any(group <= whole for whole in likely) for group in ours)


def test_chains_of_duplicates_are_one_cluster(write_lines: Write) -> None:
    words = text_of(random.Random(2), 400)
    path = write_lines("a.jsonl", *records_of(
        " ".join(words[shift:shift + 200]) for shift in range(0, 200, 10)))
    stay, dropped, _ = run(path)
    assert stay == ["0"]
    assert dropped[-1]["meta"]["dropped"]["similarity"] < 0.1


def test_without_chains_duplicates_are_similar_to_the_kept_record(write_lines: Write) -> None:
    words = text_of(random.Random(2), 400)
    texts = [" ".join(words[shift:shift + 200]) for shift in range(0, 200, 10)]
    path = write_lines("a.jsonl", *records_of([*texts, texts[1]]))
    stay, dropped, _ = run(path, no_chains=True)
    found = [one["meta"]["dropped"] for one in dropped]
    assert min(one["similarity"] for one in found) >= 0.7
    # By brute force: a record is kept unless it is similar to a kept record.
    with found_in(path) as (deduplicated, _):
        kept: list[int] = []
        for number in range(len(texts)):
            if not kept or deduplicated.records.similarity(
                    np.full(len(kept), number), np.array(kept)).max() < 0.7:
                kept.append(number)
    assert stay == list(map(str, kept)) and 1 < len(stay) < len(texts)
    assert found[-1]["found"] == found[0]["found"] == "0"  # the copy of a duplicate
    # Records of other corpora are kept, even if they are similar to an earlier record.
    old = write_lines("old.jsonl", *records_of(texts))
    new = write_lines("new.jsonl", *({"id": f"n{number}", "text": f"{text} x"}
                                     for number, text in enumerate(texts)))
    stay, dropped, _ = run(new, against=[str(old)], no_chains=True)
    assert stay == [] and [one["meta"]["dropped"]["similarity"] > 0.9 for one in dropped]


def test_comparisons_of_many_equal_bands_are_limited(write_lines: Write) -> None:
    rng = random.Random(3)
    words = text_of(rng, 150)
    path = write_lines("a.jsonl", *records_of(
        " ".join(changed(words, 0.01, rng)) for _ in range(400)))
    assert run(path)[2] == {"kept": 1, "near-duplicate": 399}


def test_records_of_other_corpora_are_kept(write_lines: Write,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.io.parts._BLOCK_BYTES", 1000)  # several blocks
    rng = random.Random(4)
    texts = [" ".join(text_of(rng)) for _ in range(6)]
    old = write_lines("old.jsonl", *({"id": f"o{number}", "text": text}
                                     for number, text in enumerate(texts[:3])))
    new = write_lines("new.jsonl", *records_of([texts[3], texts[1], texts[3] + " x", texts[4]]))
    stay, dropped, _ = run(new, against=[str(old)])
    assert stay == ["0", "3"]
    assert [(one["id"], one["meta"]["dropped"]["found"], one["meta"]["dropped"]["in"])
            for one in dropped] == [("1", "o1", str(old)), ("2", "0", str(new))]


def test_shards_together_equal_the_complete_output(write_lines: Write,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.io.parts._BLOCK_BYTES", 300)
    files = [str(write_lines(f"{name}.jsonl", *({"id": f"{name}{number}", "text": f"{number % 9}"}
                                               for number in range(20)))) for name in "ab"]

    def written(reader: RecordReader) -> tuple[bytes, bytes, dict[str, int]]:
        dropped = BytesIO()
        with opened_pass(None, {}, Workers(1)) as own, deduplicate(reader, own) as found:
            return b"".join(found.write(own, dropped)), dropped.getvalue(), own.counts

    parts = [written(RecordShard(RecordReader(files), Shard(number, 3))) for number in (1, 2, 3)]
    lines, dropped, counts = written(RecordReader(files))
    assert b"".join(part[0] for part in parts) == lines
    assert b"".join(part[1] for part in parts) == dropped
    assert sum((part[2] for part in parts), Counter()) == +counts
    assert (counts["kept"], counts["exact-duplicate"]) == (9, 31)


def test_bad_records_are_rejected_and_left_out(write_lines: Write, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "0", "text": "uno due"}\n\n{"id": 1}\n{"id": "2", "text": "Uno due"}\n'
                    '{"id": "3", "text": "tre", "meta": {"year": 1}}\n'
                    '{"id": "4", "text": "uno"} {"id": "5", "text": "due"}\n')
    bad: list[str] = []
    with found_in(path, lambda error: bad.append(str(error)), duplicates="exact") as (found, own):
        lines = b"".join(found.write(own))
    assert lines == (b'{"id": "0", "text": "uno due"}\n'
                     b'{"id": "3", "text": "tre", "meta": {"year": 1}}\n')
    assert bad[0] == f"{path}:3: key 'id': found a whole number, expected text"
    assert bad[1].startswith(f"{path}:6: found ")


def test_changed_input_is_an_error(write_lines: Write) -> None:
    path = write_lines("a.jsonl", *records_of(["uno", "due"]))
    with found_in(path) as (found, own):
        path.write_text(path.read_text().replace("due", "tre"))
        with pytest.raises(DataError, match="the input changed while it was read"):
            list(found.write(own))


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0])
@pytest.mark.parametrize("permutations", [16, 128, 1024])
def test_bands_find_nearly_all_pairs_at_the_threshold(threshold: float, permutations: int) -> None:
    bands = Bands.of(threshold, permutations)
    assert bands.bands * bands.rows <= permutations
    assert bands.recall(threshold) >= 0.95 or bands.rows == 1
    more = Bands(permutations // (bands.rows + 1), bands.rows + 1)
    assert bands.rows == permutations or more.recall(threshold) < 0.95


@pytest.mark.data
def test_real_duplicates_are_found(data: Path) -> None:
    path = data / "it" / "corpus" / "native-clinical.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [record["text"] for record in records]
    assert len(texts) - len(set(texts)) == 292
    _, dropped, counts = run(path, duplicates="exact")
    assert counts["kept"] == len(set(map(folded, texts))) == 2003
    by_id = {record["id"]: folded(record["text"]) for record in records}
    assert all(folded(one["text"]) == by_id[one["meta"]["dropped"]["found"]] for one in dropped)
