"""Tables on terminals of several widths: no heading and no value is cut."""

from __future__ import annotations

import os
import re
import sys
from io import StringIO
from typing import Any

import pytest

from bmtools.cli.tables import print_lines

LINE = {"model": "frequency of corpus.jsonl", "mrr": 0.153387, "interval": [0.10215, 0.205475],
        "hits_at_1": 0.101604, "hits_at_5": 0.262032, "hits_at_10": 0.374332, "maskings": 187,
        "mean_rank": 51.774566, "ranked": 173, "sentences": 56}


class Terminal(StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


@pytest.mark.parametrize("width", range(80, 132, 4))
def test_nothing_is_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown: Any = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((width, 40)))
    print_lines([LINE, {**LINE, "model": "model"}])
    heading, _, *rows = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).splitlines()
    names = re.split(r" {2,}", heading.strip())
    assert set(names) <= {name.replace("_", " ") for name in LINE}
    assert [len(re.split(r" {2,}", row.strip())) for row in rows[:2]] == [len(names)] * 2
    assert all(len(line) <= width for line in (heading, *rows))
