"""Engine that uses Apertium, a program for rule-based translation, as packaged by Debian."""

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

# Apertium marks words with the first three signs and has its own use for the next two. Before a
# digit, it would read the minus as part of a file name and let it move. During translation,
# noncharacters replace these signs of the text.
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
# Rules that move the parts of a compound ("12-week study") do not add the space that the English
# text does not have: "studiodi12 settimane". A blank on each side of the hyphen becomes this space.
_HYPHEN = re.compile(r"\b(follow-up|x-ray|(?:twen|thir|for|fif|six|seven|eigh|nine)ty-[a-z]+)"
                     r"|(?<=\w)-(?=\w)", re.IGNORECASE)
_GAP = "[-]"
# Words that move away leave their space before a full stop or a comma.
_LOOSE = re.compile(r" (?=[.,](?: |$))")
_USELESS_GAP = re.compile(r"(?:\[-\])+(?=[\s.,;:!?)%]|\\\])")


class ApertiumTranslator(ProgramTranslator):
    """Translator that runs parts of a batch through chains of Apertium's modes.

    A mode is a pipe of about fifteen programs. They are started again for each part. Otherwise the
    tagger would remember earlier sentences, and translations would depend on them and on the number
    of chains.

    Args:
        config: languages, the intermediate language, the number of parallel chains, and the time
            without an answer after which a program is stopped.
    """

    marks_unknown = True
    part_sentences = 500  # starting a chain takes as long as about fifty sentences

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

    Each sentence is sent with a full stop, because Apertium's own reader of plain text adds one.
    Its number follows as an untranslatable blank, then NUL, which makes every program of the pipe
    flush. The number shows if a sentence is lost or an answer belongs to another sentence.
    """

    ending = b"\0"
    has_numbers = True

    def pack(self, number: int, sentence: str) -> str:
        """Escape signs, and let the parts of English compounds move unless dictionaries have them.
        """
        text = _RESERVED.sub(r"\\\g<0>", _MINUS.sub(_STAND_INS[-1], sentence.translate(_HIDE)))
        if self.arguments[-1].startswith("en"):
            text = _HYPHEN.sub(lambda found: found[1] or f"{_GAP}-{_GAP}", text)
        return f"{text} .[{number}]"

    def unpack(self, number: int, line: bytes) -> Answer | None:
        """Parse an answer and the words that Apertium marked as unknown."""
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
    """Hash the pipe of a mode and the data of its programs; empty if the pipe is not found."""
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
    """List the installed modes.

    Raises:
        BmtoolsError: Apertium is not installed.
    """
    if shutil.which("apertium") is None:
        raise BmtoolsError(f"{setting('engine')} apertium needs the program apertium; on Debian: "
                           "apt install apertium apertium-eng-cat apertium-cat-ita")
    return subprocess.run(["apertium", "-l"], capture_output=True, text=True,
                          check=False).stdout.split()


def _mode(source: str, target: str, modes: list[str]) -> str:
    """Find the mode that translates between two languages; older packages use two-letter codes."""
    for left in (three_letters(source), primary_language(source)):
        for right in (three_letters(target), primary_language(target)):
            if f"{left}-{right}" in modes:
                return f"{left}-{right}"
    left, right = three_letters(source), three_letters(target)
    after = {mode.partition("-")[2] for mode in modes if mode.startswith(f"{left}-")}
    before = {mode.partition("-")[0] for mode in modes if mode.endswith(f"-{right}")}
    bridges = sorted(after & before)
    hint = f"use {setting('via')} {' or '.join(bridges)}, or " if bridges else ""
    raise BmtoolsError(
        f"apertium has no mode {left}-{right} here; {hint}install it, on Debian: apt install "
        f"apertium-{left}-{right} (or apertium-{right}-{left}: one package, two directions)")
