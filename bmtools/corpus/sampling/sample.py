"""Samples of a corpus by size, words, records or share; larger samples contain smaller ones.

Every record has a priority, which is a hash of its id and the seed. A sample is the longest
beginning of this order that is not larger than requested. So a sample contains all smaller samples,
and the order of files and the number of processes make no difference. A translation with the same
ids yields the same sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

import msgspec
import numpy as np

from bmtools.corpus.record_files import record_files
from bmtools.corpus.sampling.measures import Measures, measure, selected_lines
from bmtools.corpus.sampling.settings import Rung, SampleConfig
from bmtools.errors import DataError, Reject, refuse, setting
from bmtools.io.directories import new_directory
from bmtools.io.jsonl import RecordReader, refuse_empty
from bmtools.io.output import open_output
from bmtools.io.parts import rereadable
from bmtools.io.provenance.manifest import Manifest
from bmtools.io.record_size import MEGABYTE
from bmtools.io.sources import source_name
from bmtools.io.step import Step
from bmtools.io.workers import ONE_WORKER, Workers
from bmtools.records import JsonObject, Record, RecordSource
from bmtools.settings import split_settings

REST = 254
"""Level of records that are not in any sample."""
_NO_RECORD = 255


@dataclass(frozen=True)
class Sample:
    """Samples chosen from files, whose lines are read again unchanged.

    Args:
        reader: reader of the files, which must not change in the meantime.
        levels: (lines,) uint8, number of the smallest sample that contains the line; `REST` for a
            record that is not in any sample.
        rungs: facts about each sample, the smallest first.
    """

    reader: RecordReader
    levels: np.ndarray
    rungs: list[JsonObject]

    def lines(self, rest: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of the largest sample, each with its level; see `selected_lines`.

        Args:
            rest: also yield the other records.
        """
        for number, line in selected_lines(self.reader, self.levels < REST + rest):
            yield int(self.levels[number]), line


def sample(records: RecordSource, /, *, workers: int = 1, reject: Reject = refuse,
           **settings: object) -> Iterator[Record]:
    """Yield a sample of records: `sample("corpus.jsonl", size="100MB", by="lang")`.

    Args:
        records: one or several files, or dictionaries with `id` and `text`, which are copied to a
            temporary file.
        workers: number of processes; 0 for one per core.
        reject: receives bad records.
        settings: fields of `SampleConfig`; of several amounts, the largest is used.

    Raises:
        DataError: the corpus is smaller than the sample, or its first record is larger.
        ValueError: a setting is out of range.
    """
    [config] = split_settings(settings, SampleConfig)
    with record_files(records, reject) as names, \
            opened_sample(RecordReader(names, reject), config, Workers(workers)) as chosen:
        for _, line in chosen.lines():
            yield Record(msgspec.json.decode(line))


@contextmanager
def opened_sample(records: RecordReader, config: SampleConfig,
                  workers: Workers = ONE_WORKER) -> Iterator[Sample]:
    """Choose samples of records, which can be read until the block ends.

    Memory contains some 30 bytes per line. The records are read twice. Input from a pipe is kept in
    a temporary file.

    Args:
        records: records of the corpus; `reject` of the reader receives bad records.
        config: settings of the samples.
        workers: processes that read the records.

    Raises:
        DataError: the corpus is smaller than a sample, or its first record is larger.
    """
    rungs = config.rungs()
    with rereadable(records.names) as names:
        reader = RecordReader(names, records.reject)
        measures = measure(reader, records.reject, config.seed, by=config.by, workers=workers,
                           count_words=bool(config.words))
        levels, found = choose(measures, names, rungs, config.allow_fewer)
        records.hashes.update(reader.hashes)
        yield Sample(reader, levels, found)


def choose(measures: Measures, names: Sequence[str], rungs: Sequence[Rung],
           allow_fewer: bool = False) -> tuple[np.ndarray, list[JsonObject]]:
    """Choose the records of each sample.

    Returns:
        the level of each line, and facts about each sample.
    """
    order = measures.order()
    if not len(order):
        refuse_empty(names)
    sizes = np.cumsum(measures.lines["size"][order], dtype="u8")
    words = np.cumsum(measures.lines["words"][order], dtype="u8") \
        if rungs[0].unit == "words" else None
    totals = {"size": sizes, "words": words}.get(rungs[0].unit)
    levels = np.full(len(measures.lines), _NO_RECORD, dtype="u1")
    levels[order] = REST
    found = []
    for level, rung in reversed(list(enumerate(rungs))):
        count = _count(rung, len(order), totals, allow_fewer)
        levels[order[:count]] = level
        found.append({"sample": rung.name, "records": count,
                      "megabytes": round(int(sizes[count - 1]) / MEGABYTE, 6),
                      **({} if words is None else {"words": int(words[count - 1])}),
                      "share": round(count / len(order), 6)})
    return levels, found[::-1]


def _count(rung: Rung, records: int, totals: np.ndarray | None, allow_fewer: bool) -> int:
    """Return the maximum number of records that are not larger than a sample."""
    if rung.unit == "share":
        count = int(rung.amount * records + 0.5)
    else:
        most = records if totals is None else int(totals[-1]) if records else 0
        if rung.amount > most and not allow_fewer:
            raise DataError(
                f"{setting(rung.unit)}: found {_spelled(most, rung.unit)} in total, expected "
                f"{rung.name.partition('-')[0]} or more; set a smaller amount, or set "
                f"{setting('allow_fewer')} to take all records")
        count = int(min(rung.amount, records)) if totals is None else \
            int(np.searchsorted(totals, rung.amount, side="right"))
    if not count:
        first = "" if totals is None else \
            f"; the first record has {_spelled(int(totals[0]), rung.unit)}"
        raise DataError(f"{setting(rung.unit)}: found no record for a sample of "
                        f"{rung.name.partition('-')[0]}{first}; set a larger amount")
    return count


def _spelled(amount: int, unit: str) -> str:
    if unit == "size":
        return f"{amount / MEGABYTE:,.6g} MB of text"
    return f"{amount:,} {unit}"


def write_ladder(records: RecordReader, output: Path, config: SampleConfig, *,
                 workers: Workers = ONE_WORKER, overwrite: bool = False,
                 step: Step | None = None) -> JsonObject:
    """Write a directory with a file for each sample: `100MB.jsonl`, `300MB.jsonl` ...

    Args:
        records: records of the corpus.
        output: directory to write.
        config: settings of the samples.
        workers: processes that read the records.
        overwrite: replace a directory that is not empty.
        step: the command, if one runs.

    Returns:
        the report: the directory, and for each sample its file, records and megabytes.
    """
    started = monotonic()
    with new_directory(output, overwrite) as directory, \
            opened_sample(records, config, workers) as chosen, ExitStack() as stack:
        rungs = [{**rung, "file": f"{rung['sample']}.jsonl"} for rung in chosen.rungs]
        streams = [stack.enter_context(open_output(str(directory / rung["file"])))
                   for rung in rungs]
        for level, line in chosen.lines():
            for stream in streams[level:]:
                stream.write(line)
        stack.close()
        report = {"samples": rungs}
        Manifest("sample", asdict(config), "", config.seed,
                 {source_name(name): own for name, own in records.hashes.items()},
                 wall_seconds=monotonic() - started, results=report, step=step).write(directory)
    return {"output": str(output), **report}
