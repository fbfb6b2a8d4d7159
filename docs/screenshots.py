"""Take the screenshots of the documentation in headless Chromium (Debian: chromium).

    examples/quickstart/run.sh
    PYTHONPATH=tests python docs/screenshots.py examples/quickstart/out
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import tempfile
import termios
from pathlib import Path

from chromium import Browser, browser
from PIL import Image
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI
from rich.text import Text

from bmtools.study.reports.report import write_report

IMAGES = Path(__file__).parent / "images"
BMTOOLS = (sys.executable, "-m", "bmtools")
WIDE = 100
PIXELS = 8.45  # of a character
COLOURS = 128
PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<body style="background:{background};color:{foreground};margin:12px">
<pre style="font:14px/1.25 'DejaVu Sans Mono',monospace;margin:0">{code}</pre>"""


def take(page: Browser, path: Path, name: str, width: int, dark: bool, section: str = "",
         height: int = 0) -> None:
    """Take a picture of a whole page, or of a page from a section to its end."""
    page.open(path, width, dark)
    top = page.run(f"document.getElementById('{section}').closest('section, body')"
                   ".getBoundingClientRect().top + scrollY") if section else 0
    image = IMAGES / f"{name}.png"
    page.picture(image, height or page.run("document.body.offsetHeight + 24"), top)
    with Image.open(image) as taken:
        taken.convert("RGB").quantize(COLOURS).save(image, optimize=True)


def take_terminal(page: Browser, folder: Path, name: str, columns: int, dark: bool,
                  *command: str) -> None:
    """Take a picture of the output of a command on a terminal."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ bmtools {' '.join(command)}\n"
                                 + on_terminal(folder, columns, *BMTOOLS, *command)))
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as file:
        file.write(console.export_html(theme=MONOKAI if dark else DEFAULT_TERMINAL_THEME,
                                       code_format=PAGE, inline_styles=True))
        file.flush()
        take(page, Path(file.name), name, round(columns * PIXELS) + 24, dark)


def on_terminal(folder: Path, columns: int, *command: str) -> str:
    """Return what a command prints on stdout, which is a terminal."""
    pid, stream = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 40, columns, 0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)
    printed = b""
    try:
        while more := os.read(stream, 1 << 16):
            printed += more
    except OSError:  # the command has ended
        os.waitpid(pid, 0)
    return printed.decode().replace("\r\n", "\n")


def main(study: Path) -> None:
    """Take all pictures of a study."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_report([study], folder / "page.html", "Quickstart")
        with browser(folder / "profile") as page:
            take(page, folder / "page.html", "report", 1280, False, height=1000)
            take(page, folder / "page.html", "report-phone", 400, True, height=1100)
            # From the folder with the sources, so that no place of this machine is shown.
            example, out = study.resolve().parent, study.name
            take_terminal(page, example, "lineage", WIDE, False, "lineage",
                          f"{out}/tagger-pretrained")
            take_terminal(page, example, "score-tasks", WIDE, False, "score-tasks",
                          f"{out}/test.jsonl", f"{out}/predicted.jsonl")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
