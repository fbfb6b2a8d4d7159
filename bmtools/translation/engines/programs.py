"""Programs that answer line by line, and the engine that runs any of them."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bmtools.errors import BmtoolsError, setting
from bmtools.io.output import temporary_file
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import EngineConfig

_STDERR_BYTES = 4096
TEST = "test"
"""Sentence that every program must be able to answer."""


class Protocol(NamedTuple):
    """Way to speak to a program.

    Args:
        arguments: of the program.
        name: of the program, for messages.
        ending: byte behind each line.
        pack: makes the line to send from a sentence and its number in the batch.
        unpack: reads a line that came back, with its number; None where it is no answer.
        has_numbers: `unpack` notices lines in a wrong place, and what follows is not read.
        hint: a command to type, for messages.
    """

    arguments: Sequence[str]
    name: str
    ending: bytes
    pack: Callable[[int, str], str]
    unpack: Callable[[int, bytes], str | None]
    has_numbers: bool
    hint: str


class Program:
    """A program that is started for each batch of sentences, in several threads at once.

    Args:
        protocol: how to start it and to speak to it.
        timeout_seconds: time without an answer after which it is stopped.

    Attributes:
        restarts: runs that failed.
    """

    def __init__(self, protocol: Protocol, timeout_seconds: float) -> None:
        self.restarts = 0
        self._protocol, self._timeout = protocol, timeout_seconds
        self._is_closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def ask(self, sentences: Sequence[str]) -> list[str | None]:
        """Get the answers to sentences; None where one leaves the program without an answer.

        A batch that fails is halved until the culprit is alone. Where lines have numbers, those
        before a standstill are kept; else nothing of the batch can be trusted.

        Raises:
            BmtoolsError: the program does not answer, whatever it is given.
        """
        if not sentences:
            return []
        lines, fault, is_stalled = self._run(sentences)
        found = (self._protocol.unpack(number, line) for number, line in enumerate(lines))
        answers = list(takewhile(lambda one: one is not None, found)
                       if self._protocol.has_numbers else found)
        if len(answers) == len(sentences) and not fault:
            return answers
        self.restarts += 1
        if len(sentences) == 1:
            if sentences[0] != TEST and self.ask([TEST]):
                return [None]
            raise BmtoolsError(f"{self._protocol.name} {fault or 'gives no text back'}; try: "
                               f"{self._protocol.hint}")
        if is_stalled and self._protocol.has_numbers:
            at = len(answers)
            return answers + self.ask(sentences[at:at + 1]) + self.ask(sentences[at + 1:])
        middle = len(sentences) // 2
        return self.ask(sentences[:middle]) + self.ask(sentences[middle:])

    def _run(self, sentences: Sequence[str]) -> tuple[list[bytes], str, bool]:
        """Send lines; return those that came back, the fault, and whether it is a standstill."""
        protocol = self._protocol
        content = b"".join(protocol.pack(number, sentence).encode() + protocol.ending
                           for number, sentence in enumerate(sentences))
        with temporary_file() as stderr:
            process = self._start(stderr)
            try:
                received, is_stalled = self._exchange(process, content)
            finally:
                self._kill(process)
                self._running.discard(process)
                with suppress(OSError), process:  # closes its pipes
                    pass
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
            said = " ".join(stderr.read().decode("utf-8", "replace").split())
        *lines, rest = received.split(protocol.ending)
        lines += [rest] if rest else []  # a last line without its ending
        if protocol.has_numbers:
            del lines[len(sentences):]  # what programs add at their end
        fault = ""
        if is_stalled:
            fault = f"stood still for {self._timeout:g} seconds"
        elif len(lines) < len(sentences):
            fault = f"ended with code {process.returncode}: {said or 'it said nothing'}"
        elif len(lines) > len(sentences):
            fault = f"gives {len(lines)} lines back for {len(sentences)}"
        return lines, fault, is_stalled

    def _start(self, stderr: BinaryIO) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise BmtoolsError(f"{self._protocol.name} was stopped")
        try:
            process = subprocess.Popen(
                self._protocol.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=stderr, process_group=0,
                env={**os.environ, "LC_ALL": "C.UTF-8"})
        except OSError as error:
            raise BmtoolsError(f"{self._protocol.name} cannot be started ({error.strerror}); "
                               "install it, or name another program") from error
        self._running.add(process)
        return process

    def _exchange(self, process: subprocess.Popen[bytes],
                  content: bytes | None) -> tuple[bytes, bool]:
        """Write and read; tells whether nothing came out for too long."""
        received = 0
        while True:
            try:
                return process.communicate(content, self._timeout)[0], False
            except subprocess.TimeoutExpired as expired:
                answers = expired.output or b""
                if len(answers) == received:
                    return answers, True
                received, content = len(answers), None

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a program and its children, where it runs."""
        with suppress(ProcessLookupError):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """Kill the runs of all threads, and start no others."""
        self._is_closed = True
        for process in list(self._running):
            self._kill(process)


class ProgramTranslator(Translator):
    """Translator that runs a chain of programs on parts of a batch, several parts at once."""

    programs: Sequence[Program]

    def map_parts(self, work: Callable[[Sequence[str]], list[Translation]],
                  sentences: Sequence[str], size: int = 0) -> list[Translation]:
        """Let programs work on parts, and join the results in order.

        Args:
            work: on a part.
            sentences: all of them.
            size: sentences of a part; by default, an equal share for each worker.
        """
        workers = self.config.workers or 1
        size = size or max(1, ceil(len(sentences) / workers))
        threads = ThreadPoolExecutor(workers)
        try:
            return [one for found in threads.map(work, (
                sentences[at:at + size] for at in range(0, len(sentences), size))) for one in found]
        except BaseException:
            for program in self.programs:
                program.stop()
            raise
        finally:
            threads.shutdown(cancel_futures=True)
            self.counts["restarts"] = sum(program.restarts for program in self.programs)


class CommandTranslator(ProgramTranslator):
    """Runs a program for each part of a batch, without a shell.

    Args:
        config: the command, how many of it work at once, and how long a silence may be.
    """

    def __init__(self, config: EngineConfig) -> None:
        command = (config.command or "").replace("{source}", config.source_lang).replace(
            "{target}", config.target_lang)
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise BmtoolsError(f"{setting('command')} {command!r}: {error}; expected a program "
                               "and its arguments as in a shell") from error
        if not arguments or shutil.which(arguments[0]) is None:
            raise BmtoolsError(f"{setting('command')} {command!r}: found no program "
                               f"{''.join(arguments[:1])!r}; install it, or give its whole path")
        super().__init__(config, command=Path(arguments[0]).name)
        self.fingerprint = f"command {command} {config.source_lang} {config.target_lang}"
        self.programs = [Program(Protocol(
            arguments, self.details["command"], b"\n", pack=lambda _, text: text, unpack=_text,
            has_numbers=False, hint=f"echo test | {command}"), config.timeout_seconds)]

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, one a line."""
        return self.map_parts(self._translated, sentences)

    def _translated(self, sentences: Sequence[str]) -> list[Translation]:
        return [Translation(line, engine=self.name) if line else Translation(
            "", fault=f"{self.details['command']} gives no text back; change the sentence")
            for line in self.programs[0].ask(sentences)]


def _text(_number: int, line: bytes) -> str | None:
    """Read a line; None where it is not UTF-8, and an empty one stays so."""
    try:
        return " ".join(line.decode("utf-8").split())
    except UnicodeDecodeError:
        return None
