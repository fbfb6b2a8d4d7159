"""Programs that answer line by line, and the engine that runs such a program."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from math import ceil
from pathlib import Path
from typing import NamedTuple

from bmtools.errors import BmtoolsError, setting
from bmtools.io.output import temporary_file
from bmtools.io.provenance.manifest import hash_file
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.settings import EngineConfig

_STDERR_BYTES = 4096
_WRITTEN = re.compile(r">+ *\S+")  # files that a shell writes
_SEPARATOR = re.compile(r"[\s=;|&<()'\"`]+")
TEST = "test"
"""Sentence that every working program can answer."""


class Answer(NamedTuple):
    """A program's answer to a sentence, and the words that the program did not know."""

    text: str
    unknown: list[str]


class Program:
    """A program that is started for each batch of sentences, in several threads at once.

    Args:
        arguments: the program and its arguments.
        name: name of the program, for messages.
        timeout_seconds: time without an answer after which the program is stopped.

    Attributes:
        ending: byte after each line.
        has_numbers: whether lines have numbers, so that `unpack` recognizes misplaced lines;
            reading stops at such a line.
        restarts: number of failed runs.
        most_sentences: maximum batch size; halved if the program stops answering.
    """

    ending = b"\n"
    has_numbers = False

    def __init__(self, arguments: Sequence[str], name: str, timeout_seconds: float) -> None:
        self.arguments, self.name = arguments, name
        self.restarts, self.most_sentences = 0, sys.maxsize
        self._timeout = timeout_seconds
        self._is_closed = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def pack(self, _number: int, sentence: str) -> str:
        """Convert a sentence and its number in the batch to the line to send."""
        return sentence

    def unpack(self, _number: int, line: bytes) -> Answer | None:
        """Parse the answer with this number; None if the line is not an answer."""
        with suppress(UnicodeDecodeError):
            return Answer(" ".join(line.decode("utf-8").split()), [])
        return None

    def ask(self, sentences: Sequence[str]) -> list[Answer | None]:
        """Return the answers to sentences; None for a sentence that the program cannot answer.

        A batch that fails is halved until the sentence that causes the failure is found. If lines
        have numbers and the program stops answering, the answers before that are kept. Otherwise
        no answer of the batch can be trusted.

        Raises:
            BmtoolsError: the program does not answer any sentence.
        """
        if len(sentences) > (most := self.most_sentences):
            return [one for at in range(0, len(sentences), most)
                    for one in self.ask(sentences[at:at + most])]
        if not sentences:
            return []
        lines, fault, is_stalled = self._run(sentences)
        found = (self.unpack(number, line) for number, line in enumerate(lines))
        answers = list(takewhile(lambda one: one is not None, found)
                       if self.has_numbers else found)
        if len(answers) == len(sentences) and not fault:
            return answers
        self.restarts += 1
        if len(sentences) == 1:
            if sentences[0] != TEST and self.ask([TEST]):
                if is_stalled:  # this sentence is the cause, not the batch size
                    self.most_sentences = sys.maxsize
                return [None]
            raise BmtoolsError(f"{self.name} {fault or 'returned no text'}; try: echo test | "
                               f"{shlex.join(self.arguments)}")
        if is_stalled and self.has_numbers:
            at = len(answers)
            return answers + self.ask(sentences[at:at + 1]) + self.ask(sentences[at + 1:])
        middle = len(sentences) // 2
        if is_stalled:
            self.most_sentences = len(sentences) - middle
        return self.ask(sentences[:middle]) + self.ask(sentences[middle:])

    def _run(self, sentences: Sequence[str]) -> tuple[list[bytes], str, bool]:
        """Send lines; return the answers, the fault, and whether the program stopped answering."""
        content = b"".join(self.pack(number, sentence).encode() + self.ending
                           for number, sentence in enumerate(sentences))
        with temporary_file() as stderr:
            try:
                process = subprocess.Popen(
                    self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=stderr, process_group=0, env={**os.environ, "LC_ALL": "C.UTF-8"})
            except OSError as error:
                raise BmtoolsError(f"{self.name} cannot be started ({error.strerror}); install "
                                   "it, or use another program") from error
            self._running.add(process)
            try:
                received, is_stalled = self._exchange(process, content)
            finally:
                _kill(process)
                self._running.discard(process)
                with suppress(OSError), process:  # closes its pipes
                    pass
            stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - _STDERR_BYTES))
            said = " ".join(stderr.read().decode("utf-8", "replace").split())
        *lines, rest = received.split(self.ending)
        lines += [rest] if rest else []  # a last line without its ending
        if self.has_numbers:
            del lines[len(sentences):]  # output that programs add at the end
        fault = ""
        if is_stalled:
            fault = f"did not answer for {self._timeout:g} seconds"
        elif len(lines) < len(sentences):
            fault = f"ended with code {process.returncode}: {said or 'no message'}"
        elif len(lines) > len(sentences):
            fault = f"returned {len(lines)} lines for {len(sentences)}"
        return lines, fault, is_stalled

    def _exchange(self, process: subprocess.Popen[bytes],
                  content: bytes | None) -> tuple[bytes, bool]:
        """Write and read; also return whether the output stopped for too long."""
        received = 0
        while not self._is_closed:
            try:
                return process.communicate(content, self._timeout)[0], False
            except subprocess.TimeoutExpired as expired:
                answers = expired.output or b""
                if len(answers) == received:
                    return answers, True
                received, content = len(answers), None
        raise BmtoolsError(f"{self.name} was stopped")

    def stop(self) -> None:
        """Kill the runs of all threads and prevent new ones."""
        self._is_closed = True
        for process in list(self._running):
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children, if it is running."""
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


class ProgramTranslator(Translator):
    """Translator that runs a chain of programs on parts of a batch, several parts at once.

    Attributes:
        programs: programs in order; each reads the answers of the program before it.
        part_sentences: sentences per part; by default an equal share for each worker.
    """

    programs: Sequence[Program]
    part_sentences: int | None = None

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, and count the words that any of the programs did not know."""
        workers = self.config.workers or 1
        size = self.part_sentences or max(1, ceil(len(sentences) / workers))
        parts = [sentences[at:at + size] for at in range(0, len(sentences), size)]
        threads = ThreadPoolExecutor(workers)
        try:
            return [one for found in threads.map(self._passed, parts) for one in found]
        except BaseException:
            for program in self.programs:
                program.stop()
            raise
        finally:
            threads.shutdown(cancel_futures=True)
            self.counts["restarts"] = sum(program.restarts for program in self.programs)

    def _passed(self, sentences: Sequence[str]) -> list[Translation]:
        """Run sentences through the programs."""
        passed: list[Answer | None] = [Answer(sentence, []) for sentence in sentences]
        for program in self.programs:
            answers = program.ask([one.text if one else "" for one in passed])
            # A word that two programs do not know counts once.
            passed = [Answer(new.text, old.unknown + [
                one for one in new.unknown if one not in old.unknown]) if old and new else None
                for old, new in zip(passed, answers, strict=True)]
        fault = f"{self.programs[0].name} returned no text; change the sentence"
        return [Translation(one.text, len(one.unknown), engine=self.name)
                if one and (one.text or not sentence) else Translation("", fault=fault)
                for sentence, one in zip(sentences, passed, strict=True)]


def _which(name: str) -> str:
    return shutil.which(name) or name


class CommandTranslator(ProgramTranslator):
    """Translator that runs a program for each part of a batch, without a shell.

    The fingerprint includes hashes of the programs, scripts and models that the command names.

    Args:
        config: the command, the number of parallel programs, and the time without an answer after
            which a program is stopped.
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
                               f"{''.join(arguments[:1])!r}; install it, or give its full path")
        name = Path(arguments[0]).name
        super().__init__(config, command=name)
        files = map(Path, map(_which, _SEPARATOR.split(_WRITTEN.sub("", command))))
        self.fingerprint = " ".join((
            "command", command, config.source_lang, config.target_lang,
            *(hash_file(file) for file in files if file.is_file())))
        if size := config.batch_sentences:
            self.part_sentences, self.batch_sentences = size, size * (config.workers or 1)
        self.programs = [Program(arguments, name, config.timeout_seconds)]
