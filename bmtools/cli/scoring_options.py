"""What the scoring commands share: their options and the way scores are written."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bmtools.cli.launcher import launch
from bmtools.cli.options import existing_directory, writes_records
from bmtools.cli.progress import tracked
from bmtools.cli.settings import takes_settings
from bmtools.distributed import is_main_process
from bmtools.errors import BmtoolsError, Reject
from bmtools.io.jsonl import (
    STDIN,
    RecordReader,
    encode_line,
    open_output,
    read_records,
    write_records,
)
from bmtools.scoring.settings import InferenceConfig, StatisticsConfig

if TYPE_CHECKING:
    from bmtools.scoring.predictor import Predictor

Function = TypeVar("Function", bound=Callable[..., Any])


takes_models = click.option(
    "--model", "models", type=existing_directory, multiple=True, required=True, metavar="CKPT",
    help="Checkpoint to score; repeat it to compare several.")
takes_groups = click.option(
    "--by", multiple=True, metavar="KEY",
    help="Also score by the values of this key; repeat it for more. Dots reach into objects: "
         "meta.year.")


def shares_records(function: Function) -> Function:
    """Add `--processes`: the command runs several times at once. Put it first."""

    @click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True,
                  help="Processes of this machine that share the records, one for each GPU; on a "
                       "CPU --threads does the same in less memory.")
    @functools.wraps(function)
    def wrapper(*args: Any, processes: int, files: tuple[str, ...], **options: Any) -> Any:
        if processes > 1 and (not files or STDIN in files):
            raise click.UsageError("--processes: found stdin, which processes cannot share, "
                                   "expected names of files")
        launch(processes)
        return function(*args, files=files, **options)

    return wrapper  # type: ignore[return-value]


@dataclass(frozen=True)
class Scoring:
    """What is scored, by whom, and where the scores go.

    Args:
        records: of the input; each process of a launcher reads all of them.
        reject: receives bad ones.
        models: checkpoints.
        baseline: file whose token frequencies are scored too.
        by: keys to tell records apart by.
        passes: how checkpoints run.
        statistics: of intervals and comparisons.
        details: file for the parts of each score.
        output: file for the scores.
    """

    records: RecordReader
    reject: Reject
    models: tuple[Path, ...]
    baseline: str | None
    by: tuple[str, ...]
    passes: InferenceConfig
    statistics: StatisticsConfig
    details: str | None
    output: str

    def load(self) -> list[Predictor]:
        """Load what is asked: checkpoints, then frequencies."""
        from bmtools.scoring.checkpoint_predictor import load_predictor
        from bmtools.scoring.unigram_predictor import count_frequencies

        predictors: list[Predictor] = [load_predictor(path, self.passes) for path in self.models]
        if self.baseline is not None:
            predictors += count_frequencies(read_records(self.baseline, reject=self.reject),
                                            predictors, self.baseline)
        return predictors

    def count(self, scores: Iterable[Any], tallies: Sequence[Any],
              *watchers: Callable[[Any], None]) -> list[dict[str, Any]]:
        """Write details as scores come, and show all who count each of them.

        On other processes than the first of a launcher none come, and the command is over.

        Returns:
            the predictors' lines, checkpoints first; details appear only where there are some.
        """
        if not is_main_process():
            deque(scores, maxlen=0)
            raise click.exceptions.Exit(0)
        with _details(self.details) as write:
            for score in tracked(scores, "scoring"):
                tally = tallies[score.predictor]
                tally.add(score)
                for watch in watchers:
                    watch(score)
                write({"model": tally.predictor.name, **score.line()})
            return [tally.line() for tally in tallies]

    def report(self, lines: Sequence[dict[str, Any]], tallies: Sequence[Any],
               more: Callable[[Sequence[Any]], list[dict[str, Any]]] = lambda _: [],
               ) -> None:
        """Write a line for each predictor, then what comparing checkpoints gives.

        Args:
            lines: of the predictors.
            tallies: one for each predictor.
            more: makes further lines of those of checkpoints.
        """
        from bmtools.scoring.comparison import compare_models

        checkpoints = [tally for tally in tallies if "baseline" not in tally.predictor.kind]
        write_records([*lines, *compare_models(checkpoints, self.statistics), *more(checkpoints)],
                      self.output)


def scores_checkpoints(function: Function) -> Function:
    """Add what is scored, how checkpoints run, how sure scores are and where they go.

    The function gets `scoring`.
    """

    @takes_models
    @click.option("--baseline", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
                  help="Also score the token frequencies of these records.")
    @takes_groups
    @click.option("--details", metavar="FILE", help="Write the parts of each score here.")
    @writes_records
    @takes_settings(StatisticsConfig, "statistics")
    @takes_settings(InferenceConfig, "passes")
    @functools.wraps(function)
    def wrapper(*args: Any, details: str | None, output: str, records: RecordReader,
                **options: Any) -> Any:
        if details == output:
            raise click.UsageError("--details and --output are the same; name another file for "
                                   "one of them")
        shared = {name: options.pop(name) for name in
                  ("reject", "models", "baseline", "by", "passes", "statistics")}
        scoring = Scoring(records, details=details, output=output, **shared)
        return function(*args, scoring=scoring, **options)

    return wrapper  # type: ignore[return-value]


@contextmanager
def _details(name: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    if name is None:
        yield lambda line: None
        return
    with open_output(name) as stream:

        def write(line: dict[str, Any]) -> None:
            stream.write(encode_line(line))

        yield write


def fail_where(worse: Callable[[float], bool], lines: Iterable[dict[str, Any]], metric: str,
               expected: str) -> None:
    """Fail where a checkpoint's score is worse than what was asked for.

    Raises:
        BmtoolsError: names the checkpoints and their scores.
    """
    failed = [f"{line[metric]} of {line['model']}" for line in lines if worse(line[metric])]
    if failed:
        raise BmtoolsError(f"{metric}: found {', '.join(failed)}, expected {expected}")
