"""Engine on Apertium: rule-based translation by Debian's program."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import NamedTuple

from bmtools.corpus.languages import primary_language, three_letters
from bmtools.errors import BmtoolsError, setting
from bmtools.translation.engines.engine import Translation

# Apertium marks words with the first three and reads the other two as its own. In texts,
# noncharacters replace them on the way through, and the minus before a figure, which would make
# it the name of a file and let it move.
_SIGNS = "*#@~_-"
_STAND_INS = "".join(chr(0xFDD0 + number) for number in range(len(_SIGNS)))
_HIDE = str.maketrans(_SIGNS[:-1] + _STAND_INS, _STAND_INS[:-1] + "\ufffd" * len(_SIGNS))
_SHOW = str.maketrans(_STAND_INS, _SIGNS)
_MINUS = re.compile(r"(?<![\w)\]])-(?=\d)")
_RESERVED = re.compile(r"[\[\]{}^$@\\/<>]")
_MARKED = re.compile(r"(?:[*#@]|\\@)((?:\\.|[^\s*#@\\])*)")
_ESCAPED = re.compile(r"\\(.)")
_WORD = re.compile(r"\w(?:.*\w)?", re.DOTALL)
# Rules that move the parts of a compound ("12-week study") leave no space where the English had
# none: "studiodi12 settimane". A blank on either side of the hyphen becomes that space.
_HYPHEN = re.compile(r"\b(follow-up|x-ray|(?:twen|thir|for|fif|six|seven|eigh|nine)ty-[a-z]+)"
                     r"|(?<=\w)-(?=\w)", re.IGNORECASE)
_GAP = "[-]"
# Words that move away leave their space before a full stop or a comma.
_LOOSE = re.compile(r" (?=[.,](?: |$))")
_PATIENCE_SECONDS = 60
_TEST = "test .[0]"
_USELESS_GAP = re.compile(r"(?:\[-\])+(?=[\s.,;:!?)%]|\\\])")


@dataclass(frozen=True)
class _Passed:
    """A sentence after one stage; `unknown` lists the words that the stage did not know."""

    text: str
    unknown: tuple[str, ...] = ()
    is_lost: bool = False


class _Run(NamedTuple):
    """Lines that came back, and perhaps an empty one; how the program ended."""

    lines: list[str]
    ending: str
    is_stalled: bool


class ApertiumTranslator:
    """Runs a chain of Apertium's modes, each over a whole batch of sentences.

    One mode is a pipe of some fifteen programs and keeps two cores busy by itself.

    Args:
        source: ISO 639-1 code.
        target: ISO 639-1 code.
        via: language in between, for a pair that Apertium lacks.
    """

    name = "apertium"
    marks_unknown = True
    batch_sentences = 2000
    attempts = 1
    licence = ""

    def __init__(self, source: str, target: str, via: str | None = None) -> None:
        modes = installed_modes()
        steps = [source, via, target] if via else [source, target]
        self.details = {"via": via} if via else {}
        self.counts: Counter[str] = Counter()
        self.fingerprint = " ".join(["apertium", *filter(None, steps)])
        self._modes = [_mode(left, right, modes) for left, right in pairwise(steps)]

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        """Translate sentences, and count the words that some stage did not know."""
        passed = [_Passed(sentence) for sentence in sentences]
        for mode in self._modes:
            stage = self._stage(mode, [one.text for one in passed])
            # A word that two stages do not know counts once.
            passed = [_Passed(after.text,
                              before.unknown + tuple(word for word in after.unknown
                                                     if word not in before.unknown),
                              before.is_lost or after.is_lost)
                      for before, after in zip(passed, stage, strict=True)]
        return [Translation("", fault="apertium gives nothing back; change the sentence")
                if one.is_lost else Translation(one.text, len(one.unknown), engine=self.name)
                for one in passed]

    def _stage(self, mode: str, sentences: list[str]) -> list[_Passed]:
        """Run sentences through one mode.

        Each goes in with a full stop, as Apertium's own reader of plain text adds one, and with its
        number as an untranslatable blank, then NUL, at which every program of the pipe flushes. So
        one that crashes or shifts is noticed; the input is then halved until the culprit is alone.
        One at which the pipe stalls is tried again alone, and what follows it after that.

        Raises:
            BmtoolsError: the program gives nothing back whatever it is given.
        """
        if not sentences:
            return []
        run = _run(mode, [f"{_hidden(sentence, mode.startswith('en'))} .[{number}]"
                          for number, sentence in enumerate(sentences)])
        self.counts["restarts"] += run.is_stalled
        whole = [_shown(line.rpartition(".[")[0]) for _, line in takewhile(
            lambda item: item[1].endswith(f".[{item[0]}]"),
            enumerate(run.lines[:len(sentences)]))]
        if len(whole) == len(sentences):
            return whole
        if len(sentences) == 1:
            test = _run(mode, [_TEST])
            if not test.lines[0].endswith(".[0]"):
                raise BmtoolsError(f"apertium {mode} {test.ending}; try: echo test | "
                                   f"apertium {mode}")
            return [_Passed("", is_lost=True)]
        if run.is_stalled:
            at = len(whole)
            return (whole + self._stage(mode, sentences[at:at + 1])
                    + self._stage(mode, sentences[at + 1:]))
        middle = len(sentences) // 2
        return self._stage(mode, sentences[:middle]) + self._stage(mode, sentences[middle:])


def installed_modes() -> list[str]:
    """List the directions that are installed.

    Raises:
        BmtoolsError: there is no Apertium.
    """
    if shutil.which("apertium") is None:
        raise BmtoolsError(f"{setting('engine')} apertium needs the program apertium; on Debian: "
                           "apt install apertium apertium-eng-cat apertium-cat-ita")
    try:
        listed = subprocess.run(["apertium", "-l"], capture_output=True, text=True, check=False,
                                timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BmtoolsError(f"apertium -l stood still for {_PATIENCE_SECONDS} seconds; try it "
                           "yourself") from error
    return listed.stdout.split()


def _mode(source: str, target: str, modes: list[str]) -> str:
    """Find the mode of a direction; older packages have names of two letters."""
    for left in (three_letters(source), primary_language(source)):
        for right in (three_letters(target), primary_language(target)):
            if f"{left}-{right}" in modes:
                return f"{left}-{right}"
    left, right = three_letters(source), three_letters(target)
    after = {mode.partition("-")[2] for mode in modes if mode.startswith(f"{left}-")}
    before = {mode.partition("-")[0] for mode in modes if mode.endswith(f"-{right}")}
    bridges = sorted(after & before)
    hint = f"or go {setting('via')} {' or '.join(bridges)}, " if bridges else ""
    raise BmtoolsError(
        f"apertium has no mode {left}-{right} here; {hint}or install it, on Debian: apt install "
        f"apertium-{left}-{right} (or apertium-{right}-{left}: one package, two directions)")


def _run(mode: str, lines: list[str]) -> _Run:
    """Send lines through a mode, and stop it where nothing comes back for a while."""
    stream: bytes | None = "".join(f"{line}\0" for line in lines).encode()
    received, is_stalled = 0, False
    with subprocess.Popen(
            ["apertium", "-z", "-f", "none", mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C.UTF-8"},
            process_group=0) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(stream, _PATIENCE_SECONDS)
                    break
                except subprocess.TimeoutExpired as waiting:
                    stream, before = None, received
                    received = len(waiting.output or b"")
                    if received == before:
                        is_stalled = True
                        _kill(process)
        except BaseException:
            _kill(process)
            raise
    said = " ".join(err.decode("utf-8", "replace").split())[:200] or "it said nothing"
    ending = f"stood still for {_PATIENCE_SECONDS} seconds" if is_stalled else \
        f"ended with code {process.returncode}: {said}"
    return _Run(out.decode("utf-8", "replace").split("\0"), ending, is_stalled)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and the others of its pipe."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _hidden(text: str, is_english: bool) -> str:
    """Escape signs; let parts of English compounds move, but not those in the dictionaries."""
    text = _RESERVED.sub(r"\\\g<0>", _MINUS.sub(_STAND_INS[-1], text.translate(_HIDE)))
    return _HYPHEN.sub(lambda found: found[1] or f"{_GAP}-{_GAP}", text) if is_english else text


def _shown(line: str) -> _Passed:
    line = _USELESS_GAP.sub("", line.replace(f"{_GAP}-{_GAP}", "-")).replace(_GAP, " ")
    words = tuple(core[0] if (core := _WORD.search(word)) else ""
                  for word in _MARKED.findall(line) if word)
    plain = _ESCAPED.sub(r"\1", _MARKED.sub(r"\1", line))
    text = _LOOSE.sub("", " ".join(plain.split())).translate(_SHOW)
    return _Passed(text, words)
