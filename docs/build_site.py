"""Build the site of README, docs/ and the command reference: `python docs/build_site.py build`.

The site has the directories of the repository, so that the same links work in both. The reference
is made from the commands. Exits with 1 and prints a line for each fault: a broken link or anchor,
or a file that a page would load from another host.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reference import write_reference

from bmtools.cli.main import stages

ROOT = Path(__file__).parents[1]
STAGED = ("*.md", "LICENSE", "CITATION.cff", "docs/**/*.md", "docs/**/*.svg", "docs/**/*.png",
          "docs/*.css", "docs/*.js", "examples/*/README.md", "examples/**/*.svg",
          "examples/**/*.toml", "examples/**/*.sh", "bmtools/study/studies/*.toml")


def build(folder: Path) -> Path:
    """Build the site under a directory, and return its own directory."""
    pages, site = folder / "pages", folder / "site"
    for old in (pages, site):
        shutil.rmtree(old, ignore_errors=True)
    for file in (file for pattern in STAGED for file in ROOT.glob(pattern)):
        target = pages / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for page in (pages / "docs" / "rows").glob("*.md"):     # would come before the guides
        page.write_text(f"---\nsearch:\n  exclude: true\n---\n{page.read_text('utf-8')}", "utf-8")
    write_reference(pages / "docs" / "reference")
    settings = (ROOT / "docs/zensical.toml").read_text(encoding="utf-8")
    settings = settings.replace("    # guides\n", guide_entries(settings))
    (folder / "zensical.toml").write_text(settings.replace("  # commands\n", command_entries()),
                                          encoding="utf-8")
    subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--config-file",
                    folder / "zensical.toml"], check=True, stdout=sys.stderr)
    return site


def guide_entries(settings: str) -> str:
    """Return navigation entries for the pages in docs/ that the settings do not name."""
    titles = {f"docs/{path.name}": path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
              for path in sorted((ROOT / "docs").glob("*.md"))}
    return "".join(f'    {{ "{title}" = "{name}" }},\n' for name, title in titles.items()
                   if f'"{name}"' not in settings)


def command_entries() -> str:
    """Return the entries of the commands for the navigation, by stage."""
    lines = ['    { "All" = "docs/reference/index.md" },']
    for title, rows in stages().items():
        entries = "".join(f'\n      {{ "{name}" = "docs/reference/{name}.md" }},'
                          for name, _ in rows)
        lines.append(f'    {{ "{title}" = [{entries}\n    ] }},')
    lines.append('    { "Topics" = "docs/reference/topics.md" },')
    return '  { "Commands" = [\n' + "\n".join(lines) + "\n  ] },\n"


class Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        is_loaded = tag != "link" or found.get("rel") not in ("canonical", "prev", "next")
        if tag != "a" and is_loaded:
            self.assets += [found[name] for name in ("src", "href", "srcset") if name in found]


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a built site."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for link in page.links + page.assets:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.assets and parts.scheme != "data":
                    yield f"{name}: loads {link} from another host"
                continue
            base = site if parts.path.startswith("/") else path.parent
            target = base.joinpath(unquote(parts.path).lstrip("/")) if parts.path else path
            target = target.resolve()
            if not target.is_file():
                yield f"{name}: found no file for {link!r}"
            elif target in pages and parts.fragment not in pages[target].anchors | {"", "__skip"}:
                yield f"{name}: found no anchor for {link!r}"
    for sheet in site.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^'\")]+)",
                              sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(site)}: loads {url} from another host"


if __name__ == "__main__":
    found = list(faults(build(Path(sys.argv[1]).resolve())))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    sys.exit(bool(found))
