"""The site of the documents: complete, without broken links and without other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from chromium import PROGRAM, browser

from bmtools.cli.help import DocumentedCommand
from bmtools.cli.main import COMMANDS, bmtools

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Types a word as a user would, and returns the results that are then shown.
SEARCH = """(async () => {
  for (let tries = 0; tries < 200; tries++) {
    await new Promise(resolve => setTimeout(resolve, 100));
    const root = [...document.querySelectorAll("*")].map(one => one.shadowRoot).find(Boolean);
    const input = root?.querySelector("input");
    if (!input) continue;
    if (!input.value) {
      input.value = "chemprot";
      input.dispatchEvent(new Event("input", {bubbles: true}));
    }
    const links = [...root.querySelectorAll("a")].map(one => one.href);
    const marked = [...root.querySelectorAll("mark")].map(one => one.textContent.toLowerCase());
    if (links.length && (marked.length || tries > 50)) return JSON.stringify({links, marked});
  }
  return JSON.stringify({links: [], marked: []});
})()"""


@pytest.fixture(scope="module")
def build_site() -> ModuleType:
    pytest.importorskip("zensical")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        import build_site

        return build_site


@pytest.fixture(scope="module")
def site(build_site: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site.build(tmp_path_factory.mktemp("site"))


def test_no_link_is_broken_and_no_other_host_is_used(build_site: ModuleType, site: Path) -> None:
    assert list(build_site.faults(site)) == []


@pytest.mark.parametrize(("change", "fault"), [
    ("<a href='nowhere.html'>", "found no file for 'nowhere.html'"),
    ("<a href='scoring.html#nowhere'>", "found no anchor for 'scoring.html#nowhere'"),
    ("<script src='https://example.org/a.js'>", "loads https://example.org/a.js"),
    ("<link rel=stylesheet href='//example.org/a.css'>", "loads //example.org/a.css"),
])
def test_faults_are_found(build_site: ModuleType, site: Path, tmp_path: Path, change: str,
                          fault: str) -> None:
    for name in ("scoring.html", "page.html"):
        (tmp_path / name).write_text("<h2 id='label-bias'>" + change * (name == "page.html"))
    [found] = build_site.faults(tmp_path)
    assert found.startswith(f"page.html: {fault}")


def test_the_navigation_has_all_pages(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert {name for name in (str(path.relative_to(site)) for path in site.rglob("*.html"))
            if f'href="./{name}"' not in page} <= {"404.html", "index.html", "SECURITY.html"}


def test_the_search_finds_all_pages(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    found = {item["location"].partition("#")[0] for item in index["items"]}
    assert {"index.html", "docs/tutorial.html", "docs/reference/pretrain.html"} <= found
    assert (site / "search.js").is_file(), "the index for pages that are opened from a disk"


@pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt install chromium")
def test_the_search_works_from_a_disk(site: Path, tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        page.open(site / "index.html", 1200)
        page.run("document.querySelector('.md-search__button').click()")
        found = json.loads(page.call("Runtime.evaluate", awaitPromise=True, returnByValue=True,
                                     expression=SEARCH)["result"]["value"])
    names = [re.sub(r"(#.*)?$", "", link.rpartition("/")[2]) for link in found["links"]]
    assert "chemprot" in found["marked"]
    assert len(names) > 3 and all(name.endswith("?h=chemprot") for name in names)
    assert "import.html?h=chemprot" in names


def test_the_reference_has_all_commands_and_options(site: Path) -> None:
    context = click.Context(bmtools, info_name="bmtools")
    for name in COMMANDS:
        page = (site / "docs/reference" / f"{name}.html").read_text(encoding="utf-8")
        command: Any = bmtools.get_command(context, name)
        commands = [command.get_command(context, one) for one in command.list_commands(context)] \
            if isinstance(command, click.Group) else [command]
        for one in commands:
            assert all(example.split()[1] in page for example in one.examples)
            if isinstance(one, DocumentedCommand):
                shown = {option for parameter in one.params for option in parameter.opts
                         if option.startswith("--") and not getattr(parameter, "hidden", False)}
                missing = {option for option in shown - {"--help-all"}
                           if not re.search(rf"{option}\b", page)}
                assert not missing, f"{name}: {missing}"


def imports(package: Path) -> Callable[[str], set[str]]:
    """Return a function that scans a room's imports."""
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}

    def scan(room: str) -> set[str]:
        text = "\n".join(path.read_text(encoding="utf-8")
                         for path in (package / room).rglob("*.py"))
        return set(re.findall(r"^\s*(?:from|import) bmtools\.(\w+)", text, re.M)) & rooms - {room}

    return scan


def test_the_drawing_of_the_rooms_is_right() -> None:
    """Check that the arrows imply all imports, and that every arrow is an import."""
    drawing = (DOCS / "rooms.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'data-from="(\w+)" data-to="(\w+)"', drawing)
    scan = imports(ROOT / "bmtools")
    rooms = {path.parent.name for path in (ROOT / "bmtools").glob("*/__init__.py")}
    said = "draw it again: python docs/draw_rooms.py > docs/rooms.svg"
    assert {room for room in rooms if f">{room}</text>" in drawing} == rooms, said
    assert all(other in scan(room) for room, other in drawn), said

    def below(room: str) -> set[str]:
        return {one for begin, other in drawn if begin == room for one in {other, *below(other)}}

    for room in rooms:
        assert scan(room) <= below(room), f"{room}: {said}"
        assert room not in below(room), f"{room} is in a circle"
