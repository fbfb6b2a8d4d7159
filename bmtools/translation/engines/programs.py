"""Programs that answer line by line, and the engine that runs any of them."""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import IO, NamedTuple, TypeVar

from bmtools.errors import BmtoolsError, setting
from bmtools.io.output import temporary_file
from bmtools.translation.engines.engine import Translation
from bmtools.translation.settings import ProgramConfig

_PERSISTENT_SENTENCES = 32
_READ_BYTES = 1 << 16
_GRACE_SECONDS = 0.05  # in which a line too many shows up
_LAST_SECONDS = 5.0  # that a program may take to end after its last line
_STDERR_BYTES = 4096
Result = TypeVar("Result")


class Protocol(NamedTuple):
    """Settings of a program: its command, and how lines go to it.

    Args:
        arguments: of the program.
        name: of the program, for messages.
        ending: byte behind each line.
        is_persistent: it answers each line at once, and is kept running.
        pack: makes the line to send from a sentence and its number in the batch.
        unpack: reads a line that came back, with its number; None where it is no answer.
        has_numbers: `unpack` notices lines in a wrong place, and what follows is not read.
        test: sentence that the program must be able to answer.
        hint: a command to type, for messages.
    """

    arguments: Sequence[str]
    name: str
    ending: bytes
    is_persistent: bool
    pack: Callable[[int, str], str]
    unpack: Callable[[int, bytes], str | None]
    has_numbers: bool
    test: str
    hint: str


class _Run(NamedTuple):
    """Lines that came back; what was wrong with the run, if anything."""

    lines: list[bytes]
    fault: str = ""
    is_stalled: bool = False


class Program:
    """A program that answers sentences, and is started again where it fails.

    Args:
        protocol: how to start it and to speak to it.
        patience: seconds without an answer after which it is stopped.

    Attributes:
        restarts: runs that failed.
    """

    def __init__(self, protocol: Protocol, patience: float) -> None:
        self.restarts = 0
        self._protocol = protocol
        self._patience = patience
        self._is_closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._end: Callable[[], object] = lambda: None

    def ask(self, sentences: Sequence[str]) -> list[str | None]:
        """Get the answers to sentences; None where one leaves the program without an answer.

        A batch that fails is halved until the culprit is alone. Where lines have numbers, those
        before a standstill are kept; else nothing of the batch can be trusted.

        Raises:
            BmtoolsError: the program does not answer, whatever it is given.
        """
        if not sentences:
            return []
        run = self._run(sentences)
        answers = (self._protocol.unpack(number, line) for number, line in enumerate(run.lines))
        whole = list(takewhile(lambda one: one is not None, answers)
                     if self._protocol.has_numbers else answers)
        if len(whole) == len(sentences) and not run.fault:
            return whole
        self.restarts += 1
        self.stop()
        if len(sentences) == 1:
            if sentences[0] != self._protocol.test and self.ask([self._protocol.test]):
                return [None]
            raise BmtoolsError(f"{self._protocol.name} {run.fault or 'gives no text back'}; try: "
                               f"{self._protocol.hint}")
        if run.is_stalled and self._protocol.has_numbers:
            at = len(whole)
            return whole + self.ask(sentences[at:at + 1]) + self.ask(sentences[at + 1:])
        middle = len(sentences) // 2
        return self.ask(sentences[:middle]) + self.ask(sentences[middle:])

    def _run(self, sentences: Sequence[str]) -> _Run:
        """Send lines, and read as many."""
        protocol = self._protocol
        content = b"".join(protocol.pack(number, sentence).encode() + protocol.ending
                           for number, sentence in enumerate(sentences))
        process = self._process or self._start()
        received, is_stalled = self._exchange(process, content, len(sentences))
        *lines, rest = received.split(protocol.ending)
        if rest and not protocol.is_persistent:
            lines.append(rest)  # a last line without its ending
        if protocol.has_numbers:
            del lines[len(sentences):]  # what programs add at their end
        if is_stalled:
            fault = f"stood still for {self._patience:g} seconds"
        elif len(lines) < len(sentences):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LAST_SECONDS)
            fault = f"ended with code {process.returncode}: {self._said()}"
        elif len(lines) > len(sentences) or (rest and protocol.is_persistent):
            fault = f"gives {len(lines)} lines back for {len(sentences)}"
        else:
            fault = ""
        if not protocol.is_persistent:
            self.stop()
        return _Run(lines, fault, is_stalled)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise BmtoolsError(f"{self._protocol.name} was stopped")
        self._stderr = temporary_file()
        try:
            process = subprocess.Popen(
                self._protocol.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._stderr, bufsize=0, process_group=0,
                env={**os.environ, "LC_ALL": "C.UTF-8"})
        except OSError as error:
            self._stderr.close()
            raise BmtoolsError(f"{self._protocol.name} cannot be started ({error.strerror}); "
                               "install it, or name another program") from error
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process = process
        self._end = weakref.finalize(self, _end, process, self._stderr)
        return process

    def stop(self, for_good: bool = False) -> None:
        """Stop the program until it is asked again, or for good."""
        self._is_closed |= for_good
        self._process = None
        self._end()

    def _said(self) -> str:
        """Return the end of what the program wrote to stderr."""
        assert self._stderr is not None
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
        return " ".join(self._stderr.read().decode("utf-8", "replace").split())[-200:] \
            or "it said nothing"

    def _exchange(self, process: subprocess.Popen[bytes], content: bytes,
                  expected: int) -> tuple[bytes, bool]:
        """Write and read at once; tells whether nothing went in or out for too long."""
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None and stdout is not None
        received, missing, waiting = bytearray(), expected, memoryview(content)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stdin, selectors.EVENT_WRITE)
            while True:
                is_waiting = missing > 0 or not self._protocol.is_persistent
                if not is_waiting and self._protocol.has_numbers:
                    return bytes(received), False
                events = selector.select(self._patience if is_waiting else _GRACE_SECONDS)
                if not events:
                    return bytes(received), is_waiting
                for key, _ in events:
                    if key.fileobj is stdout:
                        part = os.read(stdout.fileno(), _READ_BYTES)
                        if not part:
                            return bytes(received), False
                        received += part
                        missing -= part.count(self._protocol.ending)
                        continue
                    try:
                        waiting = waiting[os.write(stdin.fileno(), waiting):]
                    except BrokenPipeError:  # what it wrote before its end is still read
                        waiting = waiting[:0]
                    if not waiting:
                        selector.unregister(stdin)
                        if not self._protocol.is_persistent:
                            stdin.close()


def _end(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    """Kill a program and its children, where it runs, and close its pipes."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()


class Pool:
    """Chains of programs that share lists of sentences, each used by one thread at a time.

    Args:
        chains: each of one program or several.
    """

    def __init__(self, chains: Sequence[Sequence[Program]]) -> None:
        self.chains = chains

    def map(self, work: Callable[[Sequence[Program], Sequence[str]], list[Result]],
            sentences: Sequence[str], chunk: int = 0) -> list[Result]:
        """Let chains work on parts, and join the results in order.

        Args:
            work: on a part.
            sentences: all of them.
            chunk: maximum number of sentences of a part; by default, a quarter of a chain's
                share, or all for a single chain.
        """
        parts_each = 4 if len(self.chains) > 1 else 1
        size = chunk or max(1, ceil(len(sentences) / (parts_each * len(self.chains))))
        parts = [sentences[at:at + size] for at in range(0, len(sentences), size)]
        free: SimpleQueue[Sequence[Program]] = SimpleQueue()
        for chain in self.chains:
            free.put(chain)

        def run(part: Sequence[str]) -> list[Result]:
            chain = free.get()
            try:
                return work(chain, part)
            finally:
                free.put(chain)

        threads = ThreadPoolExecutor(len(self.chains))
        try:
            return [one for results in threads.map(run, parts) for one in results]
        except BaseException:
            for chain in self.chains:
                for program in chain:
                    program.stop(for_good=True)
            raise
        finally:
            threads.shutdown(cancel_futures=True)


class ProgramTranslator:
    """Translator that a pool of programs does the work of."""

    batch_sentences = 2000
    attempts = 1
    licence = ""
    _pool: Pool

    @property
    def counts(self) -> Counter[str]:
        """Count the programs that were started again."""
        return Counter(restarts=sum(program.restarts for chain in self._pool.chains
                                    for program in chain))


class CommandTranslator(ProgramTranslator):
    """Runs a program without a shell: once for each batch, or all the time.

    Args:
        config: the command, how many of it work at once, and how long a silence may be.
        source: ISO 639-1 code.
        target: ISO 639-1 code.
    """

    name = "command"
    marks_unknown = False

    def __init__(self, config: ProgramConfig, source: str, target: str) -> None:
        command = (config.command or "").replace("{source}", source).replace("{target}", target)
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise BmtoolsError(f"{setting('command')} {command!r}: {error}; expected a program "
                               "and its arguments as in a shell") from error
        if not arguments or shutil.which(arguments[0]) is None:
            raise BmtoolsError(f"{setting('command')} {command!r}: found no program "
                               f"{''.join(arguments[:1])!r}; install it, or give its whole path")
        self._program = Path(arguments[0]).name
        self.details = {"command": self._program}
        self.fingerprint = f"command {command} {source} {target}"
        self._chunk = _PERSISTENT_SENTENCES if config.persistent else 0
        flushes = "; it must write each line at once" if config.persistent else ""
        protocol = Protocol(
            arguments, self._program, b"\n", config.persistent, pack=lambda _, text: text,
            unpack=_text, has_numbers=False, test="test", hint=f"echo test | {command}{flushes}")
        programs = [Program(protocol, config.patience) for _ in range(config.processes)]
        self._pool = Pool([[program] for program in programs])
        if config.persistent:
            programs[0].ask(["test"])  # what it says at its start would shift all answers

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, one a line."""
        return [Translation(line, engine=self.name) if line else Translation(
            "", fault=f"{self._program} gives no text back; change the sentence")
            for line in self._pool.map(
                lambda chain, part: chain[0].ask(part), sentences, self._chunk)]


def _text(_number: int, line: bytes) -> str | None:
    """Read a line; None where it is not UTF-8, and an empty one stays so."""
    try:
        return " ".join(line.decode("utf-8").split())
    except UnicodeDecodeError:
        return None
