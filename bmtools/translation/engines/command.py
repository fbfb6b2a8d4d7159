"""Engine on any program that reads sentences and writes translations, line by line."""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bmtools.errors import BmtoolsError, setting
from bmtools.translation.engines.engine import Translation
from bmtools.translation.engines.programs import Pool, Program, Protocol
from bmtools.translation.settings import ProgramConfig

_PERSISTENT_SENTENCES = 32


class CommandTranslator:
    """Runs a program without a shell: once for each batch, or all the time.

    Args:
        config: the command, how many of it work at once, and how long a silence may be.
        source: ISO 639-1 code.
        target: ISO 639-1 code.
    """

    name = "command"
    marks_unknown = False
    batch_sentences = 2000
    attempts = 1
    licence = ""

    def __init__(self, config: ProgramConfig, source: str, target: str) -> None:
        command = (config.command or "").replace("{source}", source).replace(
            "{target}", target)
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

    @property
    def counts(self) -> Counter[str]:
        return self._pool.counts

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
