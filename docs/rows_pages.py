"""The pages of the papers' rows, from the table in tests/rows: `python docs/rows_pages.py`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from rows.table import PAPERS, read_paper  # noqa: E402

INTRODUCTION = """# The papers, row by row

These pages list {rows} things that five papers did: texts, settings, scores, tables and figures.
Each row has the commands that do it, and one of two states:

- **works**: the tests run its commands at toy size and check what they write.
- **part**: a part works, and the row names the missing part.

Published results are next to ours. Our models have a few million weights, unless the row says
otherwise; "not run" means that we have no result. Names such as `train.jsonl` stand for your files.
"""


def contents() -> dict[Path, str]:
    """Return the text of each page."""
    papers = {name: read_paper(name) for name in PAPERS}
    pages = {ROOT / f"docs/rows/{name}.md": "\n".join(paper_lines(paper)) + "\n"
             for name, paper in papers.items()}
    return {ROOT / "docs/rows.md": "\n".join(overview_lines(papers)) + "\n", **pages}


def overview_lines(papers: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the first page: counts, tables, and rows that work in part."""
    rows = [row for paper in papers.values() for row in paper["rows"]]
    yield INTRODUCTION.format(rows=len(rows))
    yield "| paper | rows | works | part |\n| --- | ---: | ---: | ---: |"
    for name, paper in papers.items():
        yield f"| [{paper['title']}](rows/{name}.md) | {counts(paper['rows'])} |"
    yield f"| all | {counts(rows)} |\n"
    yield "## Tables and figures\n"
    yield "Each command is linked to its line on the page of the paper.\n"
    yield "| paper | table or figure | rows | state | commands |\n| --- | --- | --- | --- | --- |"
    for name, paper in papers.items():
        for place, found in by_place(paper["rows"]).items():
            if re.match(r"(Table|Figure)s? ", place):
                ids = ", ".join(row["id"] for row in found)
                state = "part" if any("missing" in row for row in found) else "works"
                shown = command_links(paper["commands"], f"rows/{name}.md", [
                    one for row in found for one in row["run"]])
                yield (f"| [{paper['title']}](rows/{name}.md) | {place} | {ids} | {state} "
                       f"| {shown} |")
    part = [f"| [{row['id']}](rows/{name}.md) | {row['place']} | {row['missing']} |"
            for name, paper in papers.items() for row in paper["rows"] if "missing" in row]
    if part:
        yield "\n## Rows that work in part\n\n| row | place | missing |\n| --- | --- | --- |"
        yield from part


def paper_lines(paper: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a paper's page: its rows by place, then its commands by name."""
    rows, commands = paper["rows"], paper["commands"]
    works = sum("missing" not in row for row in rows)
    yield f"# {paper['title']}: {len(rows)} rows\n"
    yield f"{paper['source']}. {works} rows work, {len(rows) - works} work in part.\n"
    yield (f"[How to](../how-to/{paper['how_to']}.md) walks through the main steps. "
           "[All papers](../rows.md) explains the states.\n")
    yield "## Rows\n"
    yield "| row | place | what | commands | state | published | ours |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        links = ", ".join(f"[{one}](#{one})" for one in row["run"])
        state = f"part: {row['missing']}" if "missing" in row else "works"
        yield (f"| {row['id']} | {row['place']} | {row['what']} | {links} | {state} "
               f"| {row.get('published', '')} | {row.get('ours', '')} |")
    yield "\n## Commands\n\nThey run in this order in one folder.\n"
    for name, line in commands.items():
        yield f"### {name}\n\n```sh\n{wrapped(line)}\n```\n"


def command_links(commands: Mapping[str, str], page: str, names: Sequence[str]) -> str:
    """Return links to command lines on a page, grouped by the name of the command."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(short_name(commands[name]), []).append(f"[{name}]({page}#{name})")
    return "; ".join(f"`{name}` {', '.join(links)}" for name, links in found.items())


def counts(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of all rows, of working rows and of the others, as cells."""
    part = sum("missing" in row for row in rows)
    return f"{len(rows)} | {len(rows) - part} | {part}"


def by_place(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group rows by place. A row may have several, such as Table 1 and Figure 2."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        for place in row["place"].split(", "):
            found.setdefault(place, []).append(row)
    return dict(sorted(found.items(), key=lambda item: (item[0].split()[0], [
        int(number) for number in re.findall(r"\d+", item[0])])))


def short_name(line: str) -> str:
    """Return the name of the last command in a line, with its subcommand or study."""
    words = line.split("bmtools ")[-1].split()
    more = {"import": 2, "finetune": 2, "recipe": 2, "study": 2, "export": 2}.get(words[0], 1)
    return " ".join(words[:more])


def wrapped(line: str, width: int = 100) -> str:
    """Break a command line before options, or before files if these are many."""
    lines = [""]
    parts = re.split(r" (?=--?[a-z]|\| |> )", line)
    outside = r" (?=(?:[^']*'[^']*')*[^']*$)"  # spaces outside quotes
    for part in (word for one in parts for word in (
            [one] if len(one) < width - 4 else re.split(outside, one))):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)


if __name__ == "__main__":
    for path, text in contents().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
