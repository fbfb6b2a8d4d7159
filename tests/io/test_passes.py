"""Passes over records: the output does not depend on workers or interruptions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pass_steps import TwoOutcomes, make_odd

from bmtools.errors import BmtoolsError, CheckpointError, DataError, RecordError
from bmtools.io import parts, passes
from bmtools.io.jsonl import RecordReader
from bmtools.io.parts import InputFile, Part, RecordShard, Shard, groups_of, read_blocks
from bmtools.io.passes import opened_pass, run_directory
from bmtools.io.workers import Outcome, RecordWorker, Workers, _GroupWorker

ONE = Workers(1)
ODD_WORKER = partial(RecordWorker, make_odd)


class _Killed(BaseException):
    pass


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 200)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    lines = [json.dumps({"id": str(number), "text": f"number {number}\u2028"}) + "\n"
             for number in range(90)]
    lines[31] = '{"id": "31"}\n'
    (tmp_path / "a").write_text("".join(lines[:40]))
    (tmp_path / "b.gz").write_bytes(gzip.compress("".join(lines[40:60]).encode()))
    (tmp_path / "c").write_text("\ufeff" + "".join(lines[60:]).replace("\n", "\r\n"))
    return [str(tmp_path / name) for name in ("a", "b.gz", "c")]


def work(records: RecordReader, workers: Workers = ONE, output: str | None = None,
         die_at: int = -1, **settings: Any) -> tuple[bytes, bytes, list[str], dict[str, int]]:
    """Pass records through the step; die at the n-th line that is written."""
    rejects: list[str] = []
    aside = BytesIO()

    def dying(parts: Iterator[Part]) -> Iterator[Part]:
        for number, part in enumerate(parts):
            if number == die_at:
                raise _Killed
            yield part

    def reject(error: RecordError) -> None:
        rejects.append(str(error))

    with opened_pass(output, settings, workers, resume=True) as run:
        lines = b"".join(run.lines(dying(read_blocks(records)), ODD_WORKER, reject, aside))
        return lines, aside.getvalue(), rejects, {"records": run.records, **run.counts}


def test_one_process_writes_the_records_of_the_step(files: list[str]) -> None:
    lines, aside, rejects, counts = work(RecordReader(files))
    assert [json.loads(line)["text"] for line in lines.splitlines()] == [
        f"NUMBER {number}\u2028" for number in range(90) if number % 2 and number != 31]
    assert [json.loads(line)["dropped"] for line in aside.splitlines()] == ["even"] * 45
    assert rejects == [f"{files[0]}:32: key 'text' is missing"]
    assert counts == {"records": 44, "even": 45}


@pytest.mark.parametrize("jobs", [2, 3])
def test_any_number_of_processes_writes_the_same(files: list[str], jobs: int) -> None:
    assert work(RecordReader(files), Workers(jobs)) == work(RecordReader(files))


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_joined_outputs_of_parts_are_complete(files: list[str], parts: int) -> None:
    whole = work(RecordReader(files))
    found = [work(RecordShard(RecordReader(files), Shard(number, parts)))
             for number in range(1, parts + 1)]
    for number in range(2):
        assert b"".join(one[number] for one in found) == whole[number]  # type: ignore[misc]
    assert [reason for one in found for reason in one[2]] == whole[2]
    assert sum(one[3]["records"] for one in found) == 44
    sizes = [len(one[0]) for one in found]
    assert max(sizes) - min(sizes) < 400


def test_blocks_for_a_cluster_are_read_again_unchanged(files: list[str]) -> None:
    whole = work(RecordReader(files))
    groups = list(groups_of(read_blocks(RecordReader(files))))
    assert [len(group) for group in groups if group[0].name == files[1]] == [
        len({part.number for part in read_blocks(RecordReader([files[1]]))})]
    assert all(not part.lines for group in groups for part in group)  # type: ignore[union-attr]
    worker = _GroupWorker(ODD_WORKER)
    from bmtools.io.workers import _decode

    found = [_decode(encoded) for group in groups for encoded in worker(group)]
    assert b"".join(outcome.lines for outcome in found) == whole[0]
    assert b"".join(outcome.aside for outcome in found) == whole[1]
    assert sum((outcome.counts for outcome in found), start=found[0].counts - found[0].counts) == \
        {"even": 45}


@pytest.fixture
def all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the progress after each part, and keep even the shortest runs."""
    monkeypatch.setattr(passes, "COMMIT_SECONDS", -1.0)
    monkeypatch.setattr(passes, "_WORTH_KEEPING_SECONDS", -1.0)


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:what is done")
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_continues_to_the_same_bytes(files: list[str], tmp_path: Path,
                                                  jobs: int) -> None:
    whole, output = work(RecordReader(files)), str(tmp_path / "out")
    for number in (0, 7, 8, 13):
        with pytest.raises(_Killed):
            work(RecordReader(files), Workers(jobs), output, number)
        with (run_directory(output) / "records.jsonl").open("ab") as stream:
            stream.write(b'{"id": "half a li')
    assert work(RecordReader(files), Workers(jobs), output) == whole
    assert not run_directory(output).exists()


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:what is done")
def test_other_input_and_other_settings_are_rejected(files: list[str], tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    with pytest.raises(_Killed):
        work(RecordReader(files), ONE, output, 7, least=3)
    with pytest.raises(CheckpointError, match=r"unfinished run has least 3, found 4; resume with"):
        work(RecordReader(files), ONE, output, least=4)
    for other in (files[1:], files[1:2]):
        with pytest.raises(CheckpointError, match="run read other input; resume with"):
            work(RecordReader(other), ONE, output, least=3)
    with pytest.raises(BmtoolsError, match="contains an unfinished run; use resume to continue"), \
            opened_pass(output, {}, ONE):
        pass


@pytest.mark.filterwarnings("ignore:what is done")
@pytest.mark.parametrize("is_written", [False, True])
def test_a_short_run_is_kept_only_if_its_file_exists(tmp_path: Path, is_written: bool) -> None:
    """Otherwise --resume would find a finished run, and its second file would never be written."""
    output = tmp_path / "out"
    output.write_text("of an earlier run")
    with pytest.raises(_Killed), opened_pass(str(output), {}, ONE):
        if is_written:
            output.write_text("of this run")
        raise _Killed
    assert run_directory(str(output)).exists() is is_written


@pytest.mark.usefixtures("all_kept")
@pytest.mark.filterwarnings("ignore:what is done")
def test_results_of_a_first_pass_are_kept(files: list[str], tmp_path: Path) -> None:
    def collect(stop: bool) -> bytes:
        with opened_pass(str(tmp_path / "out"), {}, ONE, resume=True) as run:
            path = run.collect("signatures", read_blocks(RecordReader(files)),
                               ODD_WORKER, lambda error: None)
            if stop:
                raise _Killed
            return path.read_bytes()

    with pytest.raises(_Killed):
        collect(True)
    assert collect(False) == work(RecordReader(files))[0]
    with pytest.raises(RecordError, match="key 'text' is missing"), \
            opened_pass(None, {}, ONE) as run:
        run.collect("signatures", read_blocks(RecordReader(files)), ODD_WORKER)


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_of_files_come_in_order(tmp_path: Path, jobs: int) -> None:
    parts = []
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"%d" % number * (10 - number))
        parts.append(InputFile(number, str(tmp_path / str(number)), str(number)))
    with opened_pass(None, {}, Workers(jobs)) as run:
        found = list(run.lines(iter(parts), TwoOutcomes))
    assert b"".join(found) == b"".join(b"%d" % number * (10 - number) for number in range(5))
    assert (len(found), run.records) == (10, 5)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_before_any_outcome_is_raised_unchanged(files: list[str], jobs: int) -> None:
    def fail(part: Part) -> list[Outcome]:
        raise DataError(f"{part.name}: the last line is cut off")

    blocks = islice(read_blocks(RecordReader(files)), 1)
    with pytest.raises(DataError, match="the last line is cut off"), \
            opened_pass(None, {}, Workers(jobs)) as run:
        list(run.lines(blocks, lambda: fail))
