"""Take the screenshots of the documentation in headless Chromium (Debian: chromium).

    examples/quickstart/run.sh
    PYTHONPATH=tests python docs/screenshots.py examples/quickstart/out
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from chromium import Browser, browser
from PIL import Image

from bmtools.reports.report import write_report

IMAGES = Path(__file__).parent / "images"


def take(page: Browser, path: Path, name: str, width: int, dark: bool, section: str,
         height: int) -> None:
    """Take a picture of a page from a section on."""
    page.open(path, width, dark)
    top = page.run(f"document.getElementById('{section}').closest('section, body')"
                   ".getBoundingClientRect().top + scrollY") if section else 0
    image = IMAGES / f"{name}.png"
    page.picture(image, height, top)
    with Image.open(image) as taken:
        taken.convert("RGB").save(image, optimize=True)


def main(study: Path) -> None:
    """Take all pictures of a study."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        write_report([study], path, "Quickstart")
        with browser(Path(folder) / "profile") as page:
            take(page, path, "report", 1400, dark=False, section="predictions", height=860)
            take(page, path, "report-phone", 380, dark=True, section="loss", height=1000)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
