"""Interrupted and resumed translation into a file."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import CheckpointError
from bmtools.io import passes
from bmtools.io.passes import opened_run, run_directory
from bmtools.records import Record
from bmtools.translation import run as run_module
from bmtools.translation.cache import DATABASE, SentenceCache
from bmtools.translation.documents import translate_records
from bmtools.translation.projection.project import project_translated
from bmtools.translation.projection.settings import ProjectionConfig
from bmtools.translation.run import TranslationRun
from bmtools.translation.settings import DocumentConfig

NUMBERS = [f"Number {number}." for number in range(40)]
RECORDS = [Record(id=str(number), text="  ".join(NUMBERS[number:number + 4]),
                  lang="fr" if number % 7 == 3 else "en", place=f"in:{number}")
           for number in range(30)]
EN_IT = DocumentConfig("en", "it")
SETTINGS = {"source_lang": "en", "engine": "dictionary"}


class _Killed(BaseException):
    pass


def _write(output: Path, dictionary: Callable[..., Any], stop: int = 0,
           records: list[Record] = RECORDS, rejects: list[str] | None = None,
           config: DocumentConfig = EN_IT, finish: Any = None, **settings: Any,
           ) -> Counter[str]:
    """Translate into a file, resuming an earlier run; stop at a batch."""
    engine = dictionary({one: one.replace("Number", "Numero") for one in NUMBERS[:-1]}, 3)
    translate, found = engine.translate, [] if rejects is None else rejects

    def stopping(sentences: list[str], attempt: int = 0) -> Any:
        if len(engine.calls) == stop - 1:
            raise _Killed
        engine.counts["restarts"] += 1
        return translate(sentences)

    engine.translate = stopping
    with opened_run(TranslationRun(str(output)), resume=True, overwrite=True) as run:
        run.finish = finish
        name, rest, reject = run.begin_translating(
            {**SETTINGS, **settings}, records, lambda error: found.append(error.reason))
        run.write(translate_records(rest, engine, config, reject, run.counts,
                                    SentenceCache("x", run.directory / DATABASE, name)))
        return run.counts


@pytest.fixture
def all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record progress after each record, and keep even short runs."""
    monkeypatch.setattr(run_module, "COMMIT_SECONDS", -1.0)
    monkeypatch.setattr(passes, "_WORTH_KEEPING_SECONDS", -1.0)


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:finished work is")
@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"])
def test_resumed_run_writes_the_same_bytes(
        name: str, dictionary: Callable[..., Any], tmp_path: Path) -> None:
    whole, output = tmp_path / f"whole-{name}", tmp_path / name
    rejects: list[str] = []
    counts = _write(whole, dictionary, rejects=rejects)
    assert counts["distinct"] == len({one for record in RECORDS if record["lang"] == "en"
                                   for one in record["text"].split("  ")})
    assert any("fr" in one for one in rejects)
    for stop in (1, 2, 5, 1, 3):
        with pytest.raises(_Killed):
            _write(output, dictionary, stop)
        with (run_directory(str(output)) / "records.jsonl").open("ab") as stream:
            stream.write(b'{"id": "half a li')
        assert not output.exists()
    again: list[str] = []
    assert _write(output, dictionary, rejects=again) == counts
    assert output.read_bytes() == whole.read_bytes()
    assert again == rejects
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, whole.name])


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:finished work is")
def test_annotations_are_projected_after_all_records_are_translated(
        dictionary: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record.replace(lang="en", entities=[{"start": 7, "end": 8, "type": "N"}])
               for record in RECORDS[:8]]
    config = DocumentConfig("en", "it", project=True)
    finish = partial(project_translated, config=ProjectionConfig())
    interrupted, whole = tmp_path / "out", tmp_path / "whole"

    def dying(records: Iterable[Record]) -> Iterator[Record]:
        yield from list(finish(records))[:3]
        raise _Killed

    _write(whole, dictionary, records=records, config=config, finish=finish)
    with pytest.raises(_Killed):
        _write(interrupted, dictionary, 2, records, config=config, finish=finish)
    for _ in range(2):
        with pytest.raises(_Killed):
            _write(interrupted, dictionary, 0, records, config=config, finish=dying)
    assert not interrupted.exists()
    _write(interrupted, dictionary, 1, records, config=config, finish=finish)
    assert interrupted.read_bytes() == whole.read_bytes()
    found = [json.loads(line) for line in whole.read_bytes().splitlines()]
    assert [one["entities"][0]["text"] for one in found] == [str(number) for number in range(8)]


@pytest.mark.usefixtures("all_kept")
def test_finished_records_are_not_translated_or_joined_again(
        dictionary: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(match="finished work is saved in"), pytest.raises(_Killed):
        _write(tmp_path / "out", dictionary, 5)
    done = json.loads((tmp_path / "out.run" / "progress.json").read_bytes())
    assert done["inputs"] >= 8
    lines = (tmp_path / "out.run" / "records.jsonl").read_bytes()[:done["sizes"]["records.jsonl"]]
    assert lines.endswith(b"\n") and len(lines.splitlines()) == done["counts"]["records"]
    seen: list[str] = []

    def rest(records: list[Record]) -> Iterator[Record]:
        with opened_run(TranslationRun(str(tmp_path / "out")), resume=True) as run:
            for record in run.begin_translating(SETTINGS, records, [].append)[1]:
                seen.append(record["id"])
                yield record

    list(rest(RECORDS))
    assert seen == [record["id"] for record in RECORDS[done["inputs"]:]]


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:finished work is")
def test_other_settings_and_records_are_rejected(
        dictionary: Callable[..., Any], tmp_path: Path) -> None:
    output = tmp_path / "out"
    with pytest.raises(_Killed):
        _write(output, dictionary, 5)
    with pytest.raises(CheckpointError, match=(
            rf"^{output}.run: the unfinished run has engine dictionary, found oracle; resume with "
            "the original settings, or start again with overwrite instead of resume$")):
        _write(output, dictionary, engine="oracle")
    other = [*RECORDS[:2], RECORDS[2].replace(text="Number 1."), *RECORDS[3:]]
    for records in (other, RECORDS[:3], []):
        with pytest.raises(CheckpointError, match="run read other input; resume"):
            _write(output, dictionary, records=records)
    # Records after the finished ones may change.
    _write(output, dictionary, records=[*RECORDS[:-1], RECORDS[0].replace(id="new")])
    assert json.loads(output.read_bytes().splitlines()[-1])["id"] == "new"


def test_a_short_run_that_fails_leaves_nothing(
        dictionary: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(_Killed):
        _write(tmp_path / "out", dictionary, 5)
    assert list(tmp_path.iterdir()) == []


def test_resumed_run_is_kept_after_an_error(
        dictionary: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.warns(match="finished work is saved in"), \
            pytest.raises(_Killed):
        patch.setattr(run_module, "COMMIT_SECONDS", -1.0)
        patch.setattr(passes, "_WORTH_KEEPING_SECONDS", -1.0)
        _write(tmp_path / "out", dictionary, 5)
    before = (tmp_path / "out.run" / "progress.json").read_bytes()
    with pytest.warns(match="finished work is saved in"), pytest.raises(CheckpointError):
        _write(tmp_path / "out", dictionary, engine="oracle")
    assert (tmp_path / "out.run" / "progress.json").read_bytes() == before


@pytest.mark.filterwarnings("ignore:finished work is")
def test_damaged_run_is_reported(tmp_path: Path) -> None:
    with opened_run(TranslationRun(str(tmp_path / "out"))) as run:
        run.begin(SETTINGS)
    (tmp_path / "out.run" / "settings.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"settings.json: cannot be read .*; the unfinished "
                       "run is damaged, start again with overwrite instead of resume"), \
            opened_run(TranslationRun(str(tmp_path / "out")), resume=True) as run:
        run.begin(SETTINGS)


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:finished work is")
def test_lost_records_are_reported(
        dictionary: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(_Killed):
        _write(tmp_path / "out", dictionary, 5)
    (tmp_path / "out.run" / "records.jsonl").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"records.jsonl: found fewer than [\d,]+ bytes; the "
                       "unfinished run is damaged"):
        _write(tmp_path / "out", dictionary)


@pytest.fixture
def memory(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "memory.tsv"
    path.write_text("en\tit\nPain.\tDolore.\nFever.\tFebbre.\n", encoding="utf-8")
    return ("translate", "--source-lang", "en", "--target-lang", "it", "--engine", "memory",
            "--memory", str(path))


def test_command_resumes_and_reports(
        run: Callable[..., Any], memory: tuple[str, ...], write_lines: Callable[..., Path],
        tmp_path: Path) -> None:
    source = write_lines("in.jsonl", {"id": "a", "text": "Pain. Fever."},
                         {"id": "b", "text": "Pain."})
    output, cache = tmp_path / "out.jsonl.gz", tmp_path / "cache"
    command = (*memory, source, "-o", output, "--cache", cache)
    first = run(*command)
    assert first.code == 0, first.err
    assert "known from the cache" not in first.err
    whole = output.read_bytes()
    again = run(*command, "--resume")
    assert (again.code, output.read_bytes()) == (0, whole)
    assert again.err.startswith(f"bmtools: {output} exists already and is left unchanged in ")
    again = run(*command, "--overwrite")
    assert (again.code, output.read_bytes()) == (0, whole)
    assert "bmtools: 3 sentences found in the cache\n" in again.err
    assert "2 records, 3 sentences (0 different ones)" in again.err
    assert len(gzip.decompress(whole).splitlines()) == 2
    outcome = run(*memory, source, "--resume")
    assert outcome.code == 2
    assert "--resume: found no file to continue, expected --output FILE" in outcome.err


def test_concatenated_parts_equal_the_complete_output(
        run: Callable[..., Any], memory: tuple[str, ...], write_lines: Callable[..., Path],
        tmp_path: Path) -> None:
    source = write_lines("in.jsonl", *({"id": str(number), "text": "Pain. " * (number % 5)}
                                       for number in range(4)))
    assert run(*memory, source, "-o", tmp_path / "whole").code == 0
    parts = []
    for number in range(1, 7):
        command = (*memory, source, "--part", f"{number}/6", "-o", tmp_path / f"{number}")
        outcome = run(*command)
        assert outcome.code == 0, outcome.err
        parts.append((tmp_path / f"{number}").read_bytes())
    assert run(*command, "--resume").code == 0
    assert b"" in parts
    assert b"".join(parts) == (tmp_path / "whole").read_bytes()
    for shard, fault in (("0/3", "found 0/3, expected 1/3 to 3/3"), ("4/3", "expected 1/3 to 3/3"),
                         ("3", "found '3', expected a part and the number of parts: 2/8")):
        outcome = run(*memory, source, "--part", shard)
        assert outcome.code == 2
        assert fault in outcome.err
    outcome = run(*memory, "-", "--part", "1/2")
    assert outcome.code == 2
    assert "--part 1/2: found a pipe, expected files" in outcome.err


def test_translations_are_kept_if_a_bad_record_ends_a_run(
        run: Callable[..., Any], memory: tuple[str, ...], write_lines: Callable[..., Path],
        tmp_path: Path, all_kept: None) -> None:
    records = [{"id": "a", "text": "Pain."}, {"id": "b", "text": "Cough."}]
    source = write_lines("in.jsonl", *records)
    output = tmp_path / "out.jsonl"
    outcome = run(*memory, source, "-o", output)
    assert outcome.code == 1
    assert outcome.err.splitlines()[0] == (
        f"bmtools: finished work is saved in {output}.run; use --resume to continue")
    assert outcome.err.splitlines()[1].startswith(f"bmtools: {source}:2: no translation of")
    rejects = tmp_path / "bad.jsonl"
    outcome = run(*memory, source, "-o", output, "--resume", "--rejects", rejects)
    assert outcome.code == 0, outcome.err
    assert [json.loads(line)["id"] for line in output.read_bytes().splitlines()] == ["a"]
    assert json.loads(rejects.read_text())["record"]["id"] == "b"
