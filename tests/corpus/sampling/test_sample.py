"""Samples: exact and nested, for any order and number of processes."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bmtools.corpus.sampling import sample as sampling
from bmtools.corpus.sampling.settings import SampleConfig, parse_amount
from bmtools.errors import DataError
from bmtools.io import parts
from bmtools.io.jsonl import RecordReader
from bmtools.io.workers import Workers

WORDS = ("asma", "febbre", "l'artrosi", "x-ray", "tosse;", "è", "0.5 mg", "e", "\u00a0", "-")


@pytest.fixture
def records() -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [{"id": f"r{number}", "text": " ".join(draw.choices(WORDS, k=draw.randrange(1, 40))),
             **({"title": "Titolo"} if number % 3 else {}), "meta": {"kind": "ab"[number % 4 == 0]}}
            for number in range(300)]


@pytest.fixture
def source(records: list[dict[str, Any]], tmp_path: Path) -> Path:
    return write(tmp_path / "corpus.jsonl", records)


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))
    return path


def size(record: dict[str, Any]) -> int:
    title = record.get("title")
    return len((f"{title}\n" if title else "").encode()) + len(record["text"].encode())


def ladder(*paths: Path, jobs: int = 1, **settings: Any) -> list[list[dict[str, Any]]]:
    """Read the samples of a ladder, the smallest first."""
    with sampling.opened_sample(RecordReader([*map(str, paths)]), SampleConfig(**settings),
                         Workers(jobs)) as found:
        lines = [(level, json.loads(line)) for level, line in found.lines()]
        samples = [[record for level, record in lines if level <= number]
                   for number in range(len(found.rungs))]
        assert [len(one) for one in samples] == [rung["records"] for rung in found.rungs]
        return samples


def ids(samples: list[list[dict[str, Any]]]) -> list[set[str]]:
    return [{record["id"] for record in sample} for sample in samples]


def test_sizes_are_exact_to_a_record(records: list[dict[str, Any]], source: Path) -> None:
    """Compare with plain Python: hash, sort, add up."""
    def key(record: dict[str, Any]) -> int:
        digest = hashlib.blake2b(f"7 {record['id']}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    ordered = sorted(records, key=key)
    for bound, found in zip((1_000, 5_000, 20_000), ladder(source, size="5kB,1kB,20kB", seed=7),
                            strict=True):
        count = next(number for number in range(len(ordered) + 1)
                     if sum(map(size, ordered[:number + 1])) > bound)
        expected = {record["id"] for record in ordered[:count]}
        assert [record for record in records if record["id"] in expected] == found
    total = sum(map(size, records))
    assert len(ladder(source, size=f"{total}B")[0]) == 300
    assert len(ladder(source, size=f"{total - 1}B")[0]) == 299


@pytest.mark.parametrize("settings", [
    {"size": "2kB,6kB,20kB"}, {"words": "100,1k,2k"}, {"records": "10,100,250"},
    {"share": "0.1,0.5,1"}, {"share": "0.1,0.5", "by": "meta.kind"}])
def test_samples_are_nested_for_any_order(records: list[dict[str, Any]], source: Path,
                                          tmp_path: Path, settings: dict[str, str]) -> None:
    samples = ids(ladder(source, **settings))
    assert all(small < large for small, large in pairwise(samples))
    random.Random(2).shuffle(records)
    parts = [write(tmp_path / f"{number}.jsonl", records[number::3]) for number in range(3)]
    assert ids(ladder(*parts, **settings)) == samples
    assert ids(ladder(source, **settings, seed=1)) != samples


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_and_blocks_change_nothing(source: Path, tmp_path: Path, jobs: int,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"words": "100,1k,2k", "by": "meta.kind"}
    expected = ladder(source, **settings)
    lines = source.read_text().splitlines(keepends=True)
    spaced = tmp_path / "spaced.jsonl"  # with blocks without a record
    spaced.write_text("".join([*lines[:150], "\n" * 9_000, *lines[150:]]))
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 2_000)
    assert ladder(source, **settings, jobs=jobs) == expected
    assert ladder(spaced, **settings, jobs=jobs) == expected


def test_words_equal_compare_vocab(records: list[dict[str, Any]], source: Path) -> None:
    from bmtools.records import full_text
    from bmtools.vocab.words import find_words

    [found] = ladder(source, words="500")
    counts = [len(find_words(full_text(record))) for record in records]
    longest = max(counts)
    assert 500 - longest < sum(len(find_words(full_text(one))) for one in found) <= 500


def test_values_keep_their_shares_in_each_sample(records: list[dict[str, Any]],
                                                 source: Path) -> None:
    """A quarter of the bytes is of kind b, as in the corpus, up to one record."""
    whole = Counter[str]()
    for record in records:
        whole[record["meta"]["kind"]] += size(record)
    for bound, sample in zip((5_000, 20_000), ladder(source, size="5kB,20kB", by="meta.kind"),
                             strict=True):
        own = sum(size(record) for record in sample if record["meta"]["kind"] == "b")
        assert abs(own - bound * whole["b"] / whole.total()) < max(map(size, records))


def test_records_with_the_same_id_are_distinguished_by_text(tmp_path: Path) -> None:
    records = [{"id": "1", "text": f"text {number}"} for number in range(20)]
    found = ladder(write(tmp_path / "a", records), records="3,7")
    assert [len(one) for one in found] == [3, 7]
    again = ladder(write(tmp_path / "b", records[::-1]), records="3,7")
    assert [sorted(one["text"] for one in sample) for sample in again] == [
        sorted(one["text"] for one in sample) for sample in found]


def test_a_sample_larger_than_the_corpus_is_an_error(source: Path) -> None:
    with pytest.raises(DataError, match=r"^words: found [\d,]+ words in total, expected 10M or "
                                        "more; set a smaller amount, or set allow_fewer to take "):
        ladder(source, words="10,10M")
    small, whole = ladder(source, words="100,10M", allow_fewer=True)
    assert len(whole) == 300 > len(small)
    with pytest.raises(DataError, match="for a sample of 1B; the first record has"):
        ladder(source, size="1B")
    with pytest.raises(DataError, match=r"found no record for a sample of 0\.001; set a larger"):
        ladder(source, share="0.001")


def test_a_file_changed_between_reads_is_an_error(source: Path) -> None:
    with sampling.opened_sample(RecordReader([str(source)]), SampleConfig(records="2")) as found:
        source.write_text(source.read_text().replace("asma", "tosse"))
        with pytest.raises(DataError, match="the input changed while it was read"):
            list(found.lines())


@pytest.mark.parametrize(("text", "unit", "amount"), [
    ("100MB", "size", 10 ** 8), ("0.3 gb", "size", 3 * 10 ** 8), ("28GB", "size", 28 * 10 ** 9),
    ("1KiB", "size", 1024), ("7B", "size", 7), ("3.2B", "words", 3_200_000_000),
    ("500k", "words", 500_000), ("12", "records", 12), (".5", "share", 0.5)])
def test_amounts_are_parsed(text: str, unit: str, amount: float) -> None:
    assert parse_amount(text, unit) == amount


def test_a_ladder_is_written_as_files(run: Any, records: list[dict[str, Any]], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are written unchanged, except for blank and bad lines."""
    lines = [json.dumps(record).replace(", ", " , ") for record in records]
    source, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    source.write_bytes(("\r\n\n".join([*lines, '{"id": 1}'])).encode())
    outcome = run("sample", source, "--records", "10,20", "--ladder", out,
                  "--rejects", tmp_path / "bad.jsonl")
    assert outcome.code == 0, outcome.err
    assert "bmtools: 10-records: 10 records, " in outcome.err
    [report] = outcome.records
    files = [rung["file"] for rung in report["samples"]]
    assert files == ["10-records.jsonl", "20-records.jsonl"]
    small, large = ([record["id"] for record in RecordReader([str(out / name)])] for name in files)
    assert set(small) < set(large) and len(large) == 20
    plain = run("sample", source, "--records", "20", "--rejects", tmp_path / "bad2.jsonl")
    assert plain.out.splitlines() == [line for line in lines if json.loads(line)["id"] in large]
    assert json.loads((out / "bmtools.json").read_text())["results"]["samples"][0]["records"] == 10


def test_the_rest_contains_the_records_not_sampled(run: Any, records: list[dict[str, Any]],
                                                   source: Path, tmp_path: Path) -> None:
    rest = tmp_path / "rest.jsonl.gz"
    held_out = run("sample", source, "--share", "0.1", "--rest", rest).records
    others = [dict(record) for record in RecordReader([str(rest)])]
    assert len(held_out) == 30
    assert [one for one in records if one in held_out] == held_out
    assert [one for one in records if one not in held_out] == others
