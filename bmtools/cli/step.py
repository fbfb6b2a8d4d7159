"""The step of a command line: the phases of every command, in order."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain
from pathlib import Path

import click

from bmtools.cli.outputs import UNNAMED, DeclaredPath, check_outputs, declared_paths
from bmtools.cli.progress import Display
from bmtools.cli.step_records import SWITCH, Redirected, record_outputs
from bmtools.cli.streams import StdoutDigest, hash_stdout, say
from bmtools.distributed import SUPERVISED, is_main_process
from bmtools.errors import BmtoolsError, BmtoolsWarning
from bmtools.io.failures import is_url, with_urls
from bmtools.io.remote import prepare, upload
from bmtools.io.sources import STDIN
from bmtools.io.step import Step
from bmtools.io.system import interruption
from bmtools.status import Status, watching_status


class CommandStep(Step):
    """A running command: check, open, work, close, record.

    Args:
        context: context of the command.

    Attributes:
        display: shows the status on stderr; None in processes other than the main one.
    """

    def __init__(self, context: click.Context) -> None:
        super().__init__(context.command_path.partition(" ")[2])
        self.context = context
        self.display: Display | None = None
        self.paths: list[DeclaredPath] = []

    def check(self, may_exist: bool) -> None:
        """Check inputs and outputs before anything heavy loads, and lock the outputs.

        Raises:
            UsageError: two outputs, or an input and an output, are the same.
            BmtoolsError: an input is not suitable for the command, or an output exists.
        """
        self.paths = list(declared_paths(self.context))
        check_outputs(self.paths, may_exist, self.context)
        for path in self.paths:
            path.kind.check(path.name)
        for target in self._staged():
            prepare(target, bool(self.context.params.get("resume")), may_exist)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Measure the command's energy and show its status until the block ends."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.metered())
            except ValueError as error:
                raise click.UsageError(str(error), self.context) from error
            if is_main_process():
                self.display = stack.enter_context(Display(self.command))
            if any(path.name == STDIN and path.flag != UNNAMED and not path.kind.is_output
                   for path in self.paths):
                self._announce_terminal()
            stack.enter_context(watching_status(self._follow))
            yield

    def _follow(self, status: Status) -> None:
        interruption.check()
        if self.display is not None:
            self.display.view.update(status)

    def _staged(self) -> list[Path]:
        """List the outputs that this process uploads; processes of a launcher upload no outputs."""
        is_own = os.environ.get(SUPERVISED) != "1" and is_main_process()
        return [Path(path.name) for path in self.paths
                if is_own and path.kind.is_output and is_url(with_urls(path.name))]

    @contextmanager
    def uploaded(self) -> Iterator[None]:
        """Upload the outputs that have URLs, once the block has succeeded or was stopped."""
        stopped = None
        try:
            yield
        except click.exceptions.Exit as error:
            stopped = error
        for url in chain.from_iterable(map(upload, self._staged())):
            say(f"uploaded {url}")
        if stopped:
            raise stopped

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record how the outputs were made, once the block has succeeded."""
        if os.environ.get(SWITCH) == "0" or not is_main_process():
            yield
            return
        outputs = [path for path in self.paths if path.kind.is_output]
        left_out = {path.parameter for path in outputs} | {"files", "overwrite"}
        self.settings = {name: value for name, value in self.context.params.items()
                         if name not in left_out and value not in (None, ())}
        before = {path: path.state() for path in outputs}
        redirected = Redirected.find()
        with hash_stdout() as stdout:
            try:
                yield
            except click.exceptions.Exit:
                self._record(before, stdout, redirected)
                raise
            except BaseException:
                if redirected and stdout.size:
                    redirected.forget()
                raise
            self._record(before, stdout, redirected)

    def _record(self, before: Mapping[DeclaredPath, object], stdout: StdoutDigest,
                redirected: Redirected | None) -> None:
        """Write the records. If that fails, warn and leave the command's result as it is."""
        try:
            sys.stdout.flush()
        except (BmtoolsError, OSError, ValueError):
            return  # the main program gets the same error again and reports it
        written = [path for path, state in before.items() if path.state() != state]
        try:
            record_outputs(self, [path for path in self.paths if not path.kind.is_output], written,
                           stdout, redirected)
        except (BmtoolsError, OSError) as error:
            warnings.warn(BmtoolsWarning(f"no record of how the output was made ({error}); set "
                                         f"{SWITCH}=0 to write no records"), stacklevel=2)

    def sources(self, files: Sequence[str]) -> tuple[str, ...]:
        """Return the names of inputs to read, by default stdin; print a note on a terminal."""
        if not files:
            self._announce_terminal()
        return tuple(map(self.source, files or (STDIN,)))

    def _announce_terminal(self) -> None:
        if sys.stdin.isatty():
            self.hide_status()  # it would appear between the lines that the user types
            say("reading from the terminal; end with Ctrl-D")

    def hide_status(self) -> None:
        """Stop showing the status, because other output uses the terminal."""
        if self.display is not None:
            self.display.close()

    def paused(self) -> AbstractContextManager[None]:
        """Remove the live block from the terminal while stdout is written there."""
        return self.display.paused() if self.display and sys.stdout.isatty() else nullcontext()
