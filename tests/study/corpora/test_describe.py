"""Descriptions of corpora, compared with plain Python, with several processes and on real text."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bmtools.errors import DataError
from bmtools.io import parts
from bmtools.io.workers import Workers
from bmtools.records import full_text
from bmtools.study.corpora.describe import Statistics, describe, histogram, quantiles
from bmtools.vocab.words import find_words

WORDS = ("asma", "Asma", "febbre", "l'artrosi", "x-ray", "tosse;", "è", "0.5 mg", "-", "\n")
BANDS = "3,10,100"


@pytest.fixture
def records() -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [{"id": f"r{number}", "text": " ".join(draw.choices(WORDS, k=draw.randrange(1, 60))),
             **({"title": "Titolo breve"} if number % 3 else {}), "lang": "it",
             **({"licence": draw.choice(["CC BY", "CC0"])} if number % 2 else {}),
             "source": f"rivista {number % 30}",
             "meta": {"document": f"d{number // 2}", "year": 2000 + number % 7}}
            for number in range(200)]


@pytest.fixture
def source(records: list[dict[str, Any]], tmp_path: Path) -> Path:
    return write(tmp_path / "corpus.jsonl", records)


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_counts_equal_plain_python(records: list[dict[str, Any]], source: Path) -> None:
    [line] = describe({"corpus": str(source)}, bands=BANDS)
    texts = [full_text(record) for record in records]
    lengths = [len(find_words(text)) for text in texts]
    words = Counter(word for text in texts for word in find_words(text))
    assert (line["corpus"], line["records"], line["documents"]) == ("corpus", 200, 100)
    assert line["megabytes"] == sum(len(text.encode()) for text in texts) / 1e6
    assert line["characters"] == sum(map(len, texts))
    assert (line["words"], line["distinct_words"]) == (sum(lengths), len(words))
    assert line["frequency_bands"] == {
        "1-2": 0, "3-9": 0, "10-99": sum(10 <= count < 100 for count in words.values()),
        "100+": sum(count >= 100 for count in words.values())}
    assert line["words_per_record"]["median"] == np.quantile(lengths, 0.5, method="inverted_cdf")
    assert sum(line["length_histogram"].values()) == 200
    assert line["languages"] == {"it": 200}
    assert line["licences"] == dict(Counter(
        one["licence"] for one in records if "licence" in one).most_common()) | {"unstated": 100}
    assert line["years"] == {str(year): 29 - (year > 2003) for year in range(2000, 2007)}
    assert len(line["sources"]) == 21
    assert line["sources"]["others"] == 200 - sum(
        count for name, count in line["sources"].items() if name != "others")


@pytest.mark.parametrize("jobs", [1, 2])
def test_processes_and_blocks_do_not_change_the_result(
        source: Path, monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    def lines(jobs: int) -> list[str]:
        return [json.dumps(line) for line in describe(
            {"a": str(source), "b": str(source)}, keys="meta.document", most=5,
            topics={"Lung": ["asma", "toss*"]}, total=True, workers=Workers(jobs))]

    expected = lines(1)
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 3_000)
    assert lines(jobs) == expected


def test_total_describes_all_files_together(
        records: list[dict[str, Any]], tmp_path: Path, source: Path) -> None:
    halves = {name: str(write(tmp_path / name, own)) for name, own in (
        ("a", records[:101]), ("b", records[101:]))}
    first, second, total = describe(halves, bands=BANDS, total=True)
    [whole] = describe({"total": str(source)}, bands=BANDS)
    assert total == whole
    assert first["records"] + second["records"] == 200
    assert total["documents"] == first["documents"] + second["documents"] - 1


def test_case_may_be_ignored(source: Path) -> None:
    [kept] = describe({"corpus": str(source)})
    [folded] = describe({"corpus": str(source)}, uncased=True)
    assert folded["distinct_words"] == kept["distinct_words"] - 1
    assert folded["words"] == kept["words"]


def test_files_with_the_same_name_keep_their_paths(run: Any, tmp_path: Path) -> None:
    paths = [tmp_path / name / "train.jsonl" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        write(path, [{"id": "1", "text": "asma"}])
    assert [line["corpus"] for line in run("describe", *paths).records] == [*map(str, paths)]


def test_corpus_without_records_is_an_error(source: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(DataError, match=r"empty: found no records, expected at least one$"):
        list(describe({"a": str(source), "b": str(tmp_path / "empty")}))


def test_number_of_values_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.study.corpora.describe._MOST_VALUES", 3)
    statistics = Statistics()
    for values in (["a", "b"], ["b", "c", "d", "e"], ["d", "a"]):
        statistics.merge(Statistics(values={"key": Counter(values)}))
    assert statistics.values["key"] == {"a": 2, "b": 2, "c": 1, "others": 3}


def test_documents_are_counted_once_over_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmtools.study.corpora.describe._UNIQUE_FIRST", 2)
    statistics = Statistics()
    for own in ([1, 2, 3], [3, 4], [1, 5], [5], [6, 7]):
        statistics.merge(Statistics(documents=[np.array(own, dtype="u8")]))
    assert sum(map(len, statistics.documents)) < 9
    assert statistics.count_documents() == 7


@pytest.mark.parametrize("numbers", [[0], [3], [0, 1, 2, 3, 4, 9], [7, 7, 7, 1]])
def test_quantiles_and_histograms(numbers: list[int]) -> None:
    found = quantiles(Counter(numbers))
    for name, share in (("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p95", 0.95), ("max", 1)):
        assert found[name] == np.quantile(numbers, share, method="inverted_cdf")
    assert found["mean"] == pytest.approx(np.mean(numbers), abs=0.005)
    steps = [*map(int, histogram(Counter(numbers)))]
    for step, count in histogram(Counter(numbers)).items():
        low, high = int(step), 2 * int(step) or 1
        assert count == sum(low <= number < high for number in numbers)
    assert steps == sorted(steps)


def test_tables_are_printed_on_a_terminal(run: Any, source: Path) -> None:
    outcome = run("describe", source, "--topics", "medicine", "--table")
    assert outcome.code == 0, outcome.err
    for part in ("Corpora\n", "| corpus |     200 |", " kB |", "Frequency bands\n", "Topics\n",
                 "| Pneumology   |", "| 2006  |     28 |\n| 2005  |"):
        assert part in outcome.out
    assert outcome.err.startswith("bmtools: described 200 records, ")


@pytest.mark.slow
@pytest.mark.data
def test_a_real_corpus(data: Path) -> None:
    """Compare the description of the drug reviews with counts by plain Python."""
    import gzip

    path = data / "en/corpus/pubmed-drug-reviews.jsonl.gz"
    [line] = describe({"drugs": str(path)}, keys="topic")
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        records = [json.loads(row) for row in stream]
    words = Counter(word for record in records for word in find_words(full_text(record)))
    assert line["records"] == len(records) == 7752
    assert (line["words"], line["distinct_words"]) == (words.total(), len(words))
    assert line["topic"] == dict(Counter(record["topic"] for record in records).most_common())
