"""Engine on Apertium: rule-based translation by Debian's program."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

from bmtools.errors import BmtoolsError, setting
from bmtools.io.provenance.manifest import hash_file
from bmtools.text.languages import primary_language, three_letters
from bmtools.translation.engines.programs import Answer, Program, ProgramTranslator
from bmtools.translation.settings import EngineConfig

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
_DATA_FILE = re.compile(r"'(/[^']+)'")
_WORD = re.compile(r"\w(?:.*\w)?", re.DOTALL)
# Rules that move the parts of a compound ("12-week study") leave no space where the English had
# none: "studiodi12 settimane". A blank on either side of the hyphen becomes that space.
_HYPHEN = re.compile(r"\b(follow-up|x-ray|(?:twen|thir|for|fif|six|seven|eigh|nine)ty-[a-z]+)"
                     r"|(?<=\w)-(?=\w)", re.IGNORECASE)
_GAP = "[-]"
# Words that move away leave their space before a full stop or a comma.
_LOOSE = re.compile(r" (?=[.,](?: |$))")
_USELESS_GAP = re.compile(r"(?:\[-\])+(?=[\s.,;:!?)%]|\\\])")


class ApertiumTranslator(ProgramTranslator):
    """Runs chains of Apertium's modes, each over parts of a batch.

    One mode is a pipe of some fifteen programs. They are started anew for each part: its tagger
    remembers what it read, so that translations would depend on all sentences before, and on how
    many chains there are.

    Args:
        config: languages, the one in between, how many chains work at once, and how long a silence
            may be.
    """

    marks_unknown = True
    part_sentences = 500  # an answer to the first takes as long as some fifty sentences

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config, **({"via": config.via} if config.via else {}))
        modes = installed_modes()
        steps = [one for one in (config.source_lang, config.via, config.target_lang) if one]
        chain = [_mode(left, right, modes) for left, right in pairwise(steps)]
        self.fingerprint = " ".join(["apertium", *steps, *map(_hash_mode, chain)])
        self.programs = [ApertiumMode(
            ("apertium", "-z", "-f", "none", mode), f"apertium {mode}", config.timeout_seconds)
            for mode in chain]


class ApertiumMode(Program):
    """A mode of Apertium.

    Each sentence goes in with a full stop, as Apertium's own reader of plain text adds one, and
    with its number as an untranslatable blank, then NUL, at which every program of the pipe
    flushes. So one that crashes or shifts is noticed.
    """

    ending = b"\0"
    has_numbers = True

    def pack(self, number: int, sentence: str) -> str:
        """Escape signs; let parts of English compounds move, but not those in dictionaries."""
        text = _RESERVED.sub(r"\\\g<0>", _MINUS.sub(_STAND_INS[-1], sentence.translate(_HIDE)))
        if self.arguments[-1].startswith("en"):
            text = _HYPHEN.sub(lambda found: found[1] or f"{_GAP}-{_GAP}", text)
        return f"{text} .[{number}]"

    def unpack(self, number: int, line: bytes) -> Answer | None:
        """Read an answer, and the words that Apertium marked as unknown."""
        text, _, found = line.decode("utf-8", "replace").rpartition(".[")
        return shown(text) if found == f"{number}]" else None


def shown(line: str) -> Answer:
    """Return the text of an answer, and the words that Apertium marked as unknown."""
    line = _USELESS_GAP.sub("", line.replace(f"{_GAP}-{_GAP}", "-")).replace(_GAP, " ")
    words = [core[0] if (core := _WORD.search(word)) else ""
             for word in _MARKED.findall(line) if word]
    plain = _ESCAPED.sub(r"\1", _MARKED.sub(r"\1", line))
    return Answer(_LOOSE.sub("", " ".join(plain.split())).translate(_SHOW), words)


def _hash_mode(mode: str) -> str:
    """Hash the pipe of a mode and the data of its programs; empty where they are not found."""
    program = Path(shutil.which("apertium") or "")
    data = Path(os.environ.get("APERTIUM_DATADIR")
                or program.resolve().parents[1] / "share" / "apertium")
    pipe = data / "modes" / f"{mode}.mode"
    if not pipe.is_file():
        return ""
    digest = hashlib.sha256()
    for file in (pipe, *map(Path, _DATA_FILE.findall(pipe.read_text("utf-8")))):
        digest.update(hash_file(file).encode() if file.is_file() else b"-")
    return digest.hexdigest()


def installed_modes() -> list[str]:
    """List the directions that are installed.

    Raises:
        BmtoolsError: there is no Apertium.
    """
    if shutil.which("apertium") is None:
        raise BmtoolsError(f"{setting('engine')} apertium needs the program apertium; on Debian: "
                           "apt install apertium apertium-eng-cat apertium-cat-ita")
    return subprocess.run(["apertium", "-l"], capture_output=True, text=True,
                          check=False).stdout.split()


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
