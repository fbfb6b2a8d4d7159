"""Public functions of the room, each compared with the command of its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bmtools.corpus
from bmtools.errors import RecordError
from bmtools.records import Record

TEXT = ("il paziente ha la febbre e la tosse da tre giorni e prende un farmaco per il cuore che "
        "il medico ha scelto")
WORDS = TEXT.split()
NAMES = ["clean", "decontaminate", "dedup", "mix", "sample", "split"]


def make(number: int) -> dict[str, Any]:
    words = WORDS[number % 7:] + [f"n{number}"] * 12 if number % 3 else WORDS
    return {"id": str(number), "text": " ".join(words) + "  ", "lang": "it"}


RECORDS = [make(number) for number in range(30)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))
    return str(path)


@pytest.fixture
def printed(run: Callable[..., Any]) -> Callable[..., list[dict[str, Any]]]:
    def call(*arguments: object) -> list[dict[str, Any]]:
        outcome = run(*arguments)
        assert outcome.code == 0, outcome.err
        return [json.loads(line) for line in outcome.out.splitlines()]

    return call


@pytest.mark.parametrize(("name", "settings"), [
    ("clean", {"min_words": 20, "repairs": "all"}), ("dedup", {}),
    ("sample", {"words": "90", "by": "lang", "seed": 2})], ids=str)
def test_a_function_yields_what_its_command_prints(
        name: str, settings: dict[str, Any], file: str, printed: Callable[..., Any]) -> None:
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    expected = printed(name, *flags, file)
    function: Callable[..., Iterator[Record]] = getattr(bmtools.corpus, name)
    for source in (file, Path(file), [file], RECORDS, iter(map(dict, RECORDS))):
        assert list(function(source, **settings)) == expected
    assert 0 < len(expected) <= len(RECORDS) and expected != RECORDS


def test_decontaminate_yields_what_its_command_writes(
        file: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    evaluation = [{"id": "e", "text": " ".join(["n4"] * 12)}]
    (tmp_path / "test.jsonl").write_text(json.dumps(evaluation[0]))
    outcome = run("decontaminate", file, "--evaluation", tmp_path / "test.jsonl", "-o",
                  tmp_path / "kept.jsonl")
    assert outcome.code == 0, outcome.err
    expected = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    hits: list[Any] = []
    assert list(bmtools.corpus.decontaminate(RECORDS, evaluation, on_hit=hits.append)) == expected
    assert [(hit.id, hit.evaluation) for hit in hits] == [("4", "e")]
    assert [record["id"] for record in RECORDS if record not in expected] == ["4"]
    report = bmtools.corpus.decontaminate(file, str(tmp_path / "test.jsonl"), action="report")
    assert list(report) == RECORDS


def test_mix_yields_what_its_command_prints(file: str, tmp_path: Path,
                                            printed: Callable[..., Any]) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "text": "Altro testo"}\n')
    expected = printed("mix", "--corpus", f"a={file}", "--corpus", f"b={other}", "--seed", 3)
    assert list(bmtools.corpus.mix({"a": RECORDS, "b": str(other)}, seed=3)) == expected
    assert len(expected) == len(RECORDS) + 1


def test_split_returns_what_its_command_writes(file: str, tmp_path: Path,
                                               printed: Callable[..., Any]) -> None:
    printed("split", file, "-o", tmp_path / "parts", "--ratios", "0.5,0.2,0.3")
    expected = {name: [json.loads(line) for line in
                       (tmp_path / "parts" / f"{name}.jsonl").read_text().splitlines()]
                for name in ("train", "dev", "test")}
    assert bmtools.corpus.split(RECORDS, ratios="0.5,0.2,0.3") == expected
    again = bmtools.corpus.split(file, by=str(tmp_path / "parts" / "split.tsv"))
    assert again == expected
    folds = bmtools.corpus.split(RECORDS, folds=3)
    assert {name: len(own) for name, own in folds.items()} == {"0": 10, "1": 10, "2": 10}


def test_omitted_and_bad_records_are_passed_to_callbacks() -> None:
    dropped: list[Record] = []
    rejected: list[RecordError] = []
    found = bmtools.corpus.clean([*RECORDS[:2], {"id": 1}, {"id": "short", "text": "a"}],
                                 min_words=2, on_drop=dropped.append, reject=rejected.append)
    assert len(list(found)) == 2
    assert dropped[0]["meta"]["dropped"] == {"rule": "min-words", "found": 1}
    assert [error.place for error in rejected] == ["record 3"]
    assert [record["text"] for record in bmtools.corpus.clean(
        [{"id": "a", "text": "x 12 y"}], remove=[r" \d+"])] == ["x y"]


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_setting_is_named(name: str) -> None:
    source: Any = {"a": RECORDS} if name == "mix" else RECORDS
    more = [RECORDS] if name == "decontaminate" else []
    with pytest.raises(TypeError, match="found tresholt, expected some of"):
        list(getattr(bmtools.corpus, name)(source, *more, tresholt=1))
