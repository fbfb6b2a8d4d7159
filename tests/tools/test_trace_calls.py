"""The tracer counts functions of the package, in all threads of a process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.trace_calls import RUNS, Traces, listing, table, trace

PROGRAM = """
import sys, threading
from bmtools.cli.words import Word

def main(arguments):
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    train(arguments) if arguments else Word("a").length()
    sys.exit(0)

def in_thread():
    return [(lambda: number)() for number in range(3)]

def never():
    pass

def train(arguments):
    import torch
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight])
    for number in range(6):
        forward(weight) if number < 4 else never()
        optimizer.step()

def forward(weight):
    weight.sum().backward()
"""
WORDS = """
class Word:
    size = len("class body")
    def __init__(self, text): self.text = text
    def length(self): return len(self.text)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Write a package with the entry point of bmtools."""
    folder = tmp_path / "bmtools" / "cli"
    folder.mkdir(parents=True)
    for path in (folder.parent / "__init__.py", folder / "__init__.py"):
        path.touch()
    (folder / "main.py").write_text(PROGRAM)
    (folder / "words.py").write_text(WORDS)
    return tmp_path


def test_functions_and_methods_are_counted(checkout: Path) -> None:
    main, words = "bmtools/cli/main.py", "bmtools/cli/words.py"
    assert trace([], checkout, checkout) == {
        (main, "main"), (main, "in_thread"), (words, "Word.__init__"), (words, "Word.length")}


@pytest.mark.slow
def test_a_step_begins_after_one_optimizer_step_and_ends_after_the_next(checkout: Path) -> None:
    assert trace(["train"], checkout, checkout, part="step") == {("bmtools/cli/main.py", "forward")}


def test_unexpected_exit_code_is_an_error(checkout: Path) -> None:
    with pytest.raises(RuntimeError, match="exit 0, expected 75"):
        trace([], checkout, checkout, code=75)


def test_table_shows_goals_and_listing_shows_files() -> None:
    functions = {("bmtools/a.py", "f"), ("bmtools/a.py", "g"), ("bmtools/b.py", "C.h")}
    lines = table(Traces({"dedup": functions}, {"dedup": 9})).splitlines()
    assert lines[2:] == ["| dedup | 3 | 2 | {}/{} |".format(*(RUNS["dedup"].goal or ()))]
    assert listing(functions) == "bmtools/a.py (2)\n    f, g\nbmtools/b.py (1)\n    C.h"
