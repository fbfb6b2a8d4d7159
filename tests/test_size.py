"""A ratchet: the package does not grow unnoticed.

`python tests/test_size.py` prints the values of this checkout. Lower a limit when its value falls.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

LIMITS = {
    "code lines": 41_268,  # without docstrings, comments and blank lines
    "functions": 3342,  # including methods and nested functions
    "files": 399,
    "options": 254,  # distinct long options
    "options of one command": 48,  # of the command with most options
    "rooms": 16,
    "floors": 8,  # rooms in the longest chain of imports between rooms
    "import depth": 12,  # modules in the longest chain of imports that loading runs
    "modules in circles": 0,  # of imports, including imports in functions and for types
    "Any": 296,  # occurrences of this word
}
ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "bmtools"
Edges = Mapping[str, set[str]]
_OPTIONS = """
import json, sys
import click
from bmtools.cli.main import bmtools

def options(command, context):
    yield [[*parameter.opts, *parameter.secondary_opts] for parameter in command.params
           if isinstance(parameter, click.Option) and parameter.opts]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from options(command.get_command(context, name), context)

json.dump([*options(bmtools, click.Context(bmtools, info_name="bmtools"))], sys.stdout)
"""
"""Program that prints the names of each option of each command and subcommand."""
MAY_IMPORT = {
    "tasks": "training export corpus models data recipes text vocab statistics",
    "scoring": "export models data recipes text vocab statistics",
    "translation": "corpus models text",
    "training": "corpus models data recipes text vocab",
    "export": "models vocab",
    "corpus": "text vocab",
    "models": "text vocab",
    "data": "recipes text vocab",
    "text": "vocab",
    "vocab": "",
    "recipes": "",
}
"""The rooms that each room may import, beside io."""


def code_lines(source: str) -> int:
    """Count the lines with code, without docstrings."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
              tokenize.ENDMARKER}
    lines = {line for token in tokenize.generate_tokens(io.StringIO(source).readline)
             if token.type not in silent for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) \
                and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def imports(tree: ast.AST, modules: Collection[str], is_loaded: bool) -> Iterator[str]:
    """Yield the modules that a module imports.

    Args:
        tree: syntax tree of a whole module or a part.
        modules: modules of the package.
        is_loaded: leave out imports in functions and for types, which loading does not run.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "modules are imported by their full names"
            names = [f"{node.module}.{one.name}" for one in node.names]
            yield from (name if name in modules else node.module or "" for name in names
                        if name in modules or node.module in modules)
        elif is_loaded and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from imports(ast.Module(node.orelse, []), modules, is_loaded)
        elif not is_loaded or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imports(node, modules, is_loaded)


def longest_chain(edges: Edges) -> int:
    """Return the number of nodes on the longest path; raise an error that names a circle."""
    lengths: dict[str, int] = {}
    for node in TopologicalSorter(edges).static_order():
        lengths[node] = 1 + max((lengths[one] for one in edges[node]), default=0)
    return max(lengths.values())


def in_circles(edges: Edges) -> int:
    """Count the nodes that lie on a circle."""
    found = 0
    for start in edges:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = edges[waiting.pop()] - seen
            seen |= new
            waiting += new
        found += start in seen
    return found


@cache
def parsed() -> dict[str, tuple[str, ast.Module]]:
    """Return the source and the syntax tree of each module of the package."""
    sources = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"):
               path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return {name: (source, ast.parse(source)) for name, source in sources.items()}


def import_graph(is_loaded: bool) -> dict[str, set[str]]:
    """Return the modules that each module imports; see `imports`."""
    modules = parsed()
    return {name: {*imports(tree, modules, is_loaded)} - {name}
            for name, (_, tree) in modules.items()}


def room_graph() -> dict[str, set[str]]:
    """Return the rooms that each room imports, including imports in functions and for types."""
    graph: dict[str, set[str]] = {path.parent.name: set() for path in PACKAGE.glob("*/__init__.py")}
    for name, imported in import_graph(is_loaded=False).items():
        [room] = name.split(".")[1:2] or [""]
        if room in graph:
            graph[room] |= {other for one in imported for other in one.split(".")[1:2]
                            if other in graph.keys() - {room}}
    return graph


@cache
def measure() -> dict[str, int]:
    """Measure the package."""
    sources, trees = zip(*parsed().values(), strict=True)
    commands = json.loads(subprocess.run([sys.executable, "-c", _OPTIONS], check=True, cwd=ROOT,
                                         capture_output=True, text=True).stdout)
    return {
        "code lines": sum(map(code_lines, sources)),
        "functions": sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                         for tree in trees for node in ast.walk(tree)),
        "files": sum(bool(source.strip()) for source in sources),
        "options": len({name for command in commands for option in command for name in option
                        if name.startswith("--")}),
        "options of one command": max(map(len, commands)),
        "rooms": len(room_graph()),
        "floors": longest_chain(room_graph()),
        "import depth": longest_chain(import_graph(is_loaded=True)),
        "modules in circles": in_circles(import_graph(is_loaded=False)),
        "Any": sum(len(re.findall(r"\bAny\b", source)) for source in sources),
    }


def test_rooms_import_only_allowed_rooms() -> None:
    """Every room may import io, and the single modules."""
    every = room_graph().keys()
    may = {room: set(others.split()) | {"io"} for room, others in MAY_IMPORT.items()}
    may |= {"commands": {*every}, "cli": every - {"commands", "study"},
            "study": every - {"commands", "cli"}, "io": set(), "statistics": set()}
    assert {room: others - may[room] for room, others in room_graph().items()
            if others - may[room]} == {}


@pytest.mark.parametrize("name", LIMITS)
def test_the_package_does_not_grow(name: str) -> None:
    found, limit = measure()[name], LIMITS[name]
    assert found <= limit, (
        f"{name}: found {found:,}, expected at most {limit:,}; reduce it, or raise the value in "
        "LIMITS in this commit and give the reason in its message")


def test_chains_and_circles_are_found() -> None:
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": set(), "e": {"d"}}
    assert (longest_chain(edges), in_circles(edges)) == (4, 0)
    assert in_circles({**edges, "d": {"b"}}) == 3
    with pytest.raises(CycleError):
        longest_chain({**edges, "d": {"b"}})


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name}: {value:,}, limit {LIMITS[name]:,}")
