"""Draw the rooms of the package and their imports: `python docs/draw_rooms.py > docs/rooms.svg`.

`python docs/draw_rooms.py --count` prints the rooms by floor instead: a room is on the floor above
the highest room that it imports.

Edges that others imply are left out. If reports import scoring and scoring imports data, no edge
is drawn from reports to data. Single modules of the package, such as errors, are not drawn.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "bmtools"
WIDTH, TOP, STEP, LEFT, BOX = 880, 30, 42, 110, 100


def room_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    """Return the rooms that each room imports, also inside of functions."""
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    graph: dict[str, set[str]] = {room: set() for room in sorted(rooms)}
    for path in (path for room in rooms for path in (package / room).rglob("*.py")):
        room = path.relative_to(package).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = ([node.module or ""] if isinstance(node, ast.ImportFrom)
                     else [one.name for one in node.names] if isinstance(node, ast.Import) else [])
            parts = [name.split(".") for name in names if name.startswith("bmtools.")]
            graph[room] |= {part[1] for part in parts} & rooms - {room}
    return graph


def in_order(graph: dict[str, set[str]]) -> list[str]:
    """Return the rooms, each after all that it imports, in the same order every time."""
    return [*TopologicalSorter({room: sorted(graph[room]) for room in graph}).static_order()]


def floors(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the rooms of each floor, from the lowest."""
    floor: dict[str, int] = {}
    for room in in_order(graph):
        floor[room] = 1 + max((floor[one] for one in graph[room]), default=0)
    return [[room for room in sorted(floor) if floor[room] == number]
            for number in range(1, max(floor.values()) + 1)]


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out the edges that a way over other rooms implies."""
    below: dict[str, set[str]] = {}
    for room in in_order(graph):
        below[room] = graph[room].union(*(below[one] for one in graph[room]))
    return {room: {one for one in ones if not any(one in below[other] for other in ones)}
            for room, ones in graph.items()}


def drawing(graph: dict[str, set[str]], sentences: dict[str, str]) -> str:
    """Return the graph as an SVG: a room a line, each above all that it imports."""
    edges = reduced(graph)
    rooms = in_order(graph)[::-1]
    middle = {room: TOP + STEP * number for number, room in enumerate(rooms)}
    height = TOP + STEP * len(rooms)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
             'role="img" font-family="system-ui, sans-serif" font-size="13">',
             "<title>The rooms of bmtools and what they import</title>",
             '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3.5" '
             'orient="auto"><path d="M0,0 L7,3.5 L0,7 z" fill="#6b7f99"/></marker></defs>',
             f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#f5f7fa"/>']
    for room in rooms:
        for other in sorted(edges[room], key=middle.__getitem__):
            away = LEFT - 26 * (middle[other] - middle[room]) ** 0.5 / STEP ** 0.5
            lines.append(
                f'<path data-from="{room}" data-to="{other}" fill="none" stroke="#6b7f99" '
                f'stroke-width="1.3" marker-end="url(#tip)" d="M{LEFT},{middle[room] + 5} '
                f'C{away:.0f},{middle[room] + 5} {away:.0f},{middle[other] - 5} '
                f'{LEFT},{middle[other] - 5}"/>')
    for room in rooms:
        lines.append(f'<rect x="{LEFT}" y="{middle[room] - 14}" width="{BOX}" height="28" rx="6" '
                     f'fill="#ffffff" stroke="#33475b"/><text x="{LEFT + BOX / 2}" '
                     f'y="{middle[room] + 4}" text-anchor="middle" fill="#1c2733">{room}</text>'
                     f'<text x="{LEFT + BOX + 14}" y="{middle[room] + 4}" fill="#44546a" '
                     f'font-size="12">{escape(sentences[room])}</text>')
    return "\n".join([*lines, "</svg>"])


def first_lines(rooms: Iterable[str], package: Path = PACKAGE) -> dict[str, str]:
    """Return the first line of each room's docstring."""
    modules = {room: ast.parse((package / room / "__init__.py").read_text("utf-8"))
               for room in rooms}
    return {room: (ast.get_docstring(module) or "").partition("\n")[0]
            for room, module in modules.items()}


if __name__ == "__main__":
    found = room_graph()
    if sys.argv[1:] == ["--count"]:
        for number, rooms in [*enumerate(floors(found), 1)][::-1]:
            print(f"floor {number}: {', '.join(rooms)}")
        print(f"{len(found)} rooms on {len(floors(found))} floors, "
              f"{sum(map(len, found.values()))} of {len(found) * (len(found) - 1) // 2} arrows")
        sys.exit()
    print(drawing(found, first_lines(found)))
