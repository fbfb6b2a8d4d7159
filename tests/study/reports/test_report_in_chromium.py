"""The page of a study in a browser without a network: themes, widths, keyboard, print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import PROGRAM, Browser, browser
from toy_study import write_study

from bmtools.study.reports.report import write_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium: apt install chromium")]
# Words of charts: their size as shown, whether they are inside, and those that cover another.
CHARTS = """
(() => {
  const small = [], outside = [], covered = [];
  for (const svg of [...document.querySelectorAll("figure svg")].filter(
      one => one.checkVisibility())) {
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    const boxes = [...svg.querySelectorAll("text")].map(
      text => [text, text.getBoundingClientRect()]);
    for (const [text, box] of boxes) {
      if (parseFloat(getComputedStyle(text).fontSize) * scale < 11) small.push(text.textContent);
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
          || box.bottom > frame.bottom + 1) outside.push(text.textContent);
      for (const [other, its] of boxes) {
        const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (text !== other && wide > 2 && high > 5 && !text.closest("[transform]"))
          covered.push(text.textContent + " | " + other.textContent);
      }
    }
  }
  return {small, outside, covered, width: document.documentElement.scrollWidth};
})()
"""
# The least contrast of words with their paper, as WCAG 2 computes it, and whose.
CONTRAST = """
(() => {
  const light = colour => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
      .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const hasWords = one => [...one.childNodes].some(
    node => node.nodeType === 3 && node.textContent.trim());
  const found = [...document.querySelectorAll("body :not(title)")].filter(hasWords).map(one => {
      const style = getComputedStyle(one);
      const ink = light(one.closest("svg") ? style.fill : style.color);
      return [(Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05), one.textContent];
    });
  return found.sort((one, other) => one[0] - other[0])[0];
})()
"""
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    path = tmp_path_factory.mktemp("page") / "page.html"
    write_report([folder], path)
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_is_readable_in_both_themes_and_widths(chromium: Browser, page: Path, width: int,
                                                  dark: bool) -> None:
    chromium.open(page, width, dark)
    found: dict[str, Any] = chromium.run(CHARTS)
    assert found == {"small": [], "outside": [], "covered": [], "width": width}
    contrast, words = chromium.run(CONTRAST)
    assert contrast >= 4.5, words
    assert (chromium.run(PAPER) == "rgb(20, 24, 29)") == dark


def test_it_sends_no_request_and_logs_no_message(chromium: Browser, page: Path) -> None:
    chromium.requests.clear()
    chromium.open(page, 1400)
    assert chromium.requests == [page.resolve().as_uri()]
    assert chromium.messages == []
    # What somebody may slip into a page cannot run, and cannot call home.
    chromium.run("""document.body.insertAdjacentHTML("beforeend",
        "<img src='http://127.0.0.1:9/x'><p onclick='document.title=1'>a</p>");
        document.querySelector("p[onclick]").click()""")
    assert chromium.run("document.title") != "1"
    assert chromium.requests[1:] == ["http://127.0.0.1:9/x"] and chromium.blocked == ["csp"]


def test_the_theme_can_be_chosen(chromium: Browser, page: Path) -> None:
    chromium.open(page, 1400)
    papers = [chromium.run(f"document.getElementById('theme-{name}').click(); {PAPER}")
              for name in ("dark", "light", "system")]
    assert papers == ["rgb(20, 24, 29)", "rgb(255, 255, 255)", "rgb(255, 255, 255)"]


def test_the_keyboard_leads_to_everything(chromium: Browser, page: Path) -> None:
    chromium.open(page, 380)

    def press(key: str) -> Any:
        for kind in ("rawKeyDown", "keyUp"):
            chromium.call("Input.dispatchKeyEvent", type=kind, key=key,
                          windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key],
                          text="\r" if key == "Enter" and kind == "rawKeyDown" else "")
        return chromium.run("""(() => { const at = document.activeElement, style =
            getComputedStyle(at); return [at.tagName, at.textContent.trim(), style.outlineStyle,
            at.getBoundingClientRect().top >= 0] })()""")

    reached = [press("Tab") for _ in range(24)]
    assert reached[0] == ["A", "To the content", "solid", True]
    assert all(outline == "solid" and on_screen for _, _, outline, on_screen in reached)
    assert {"A", "INPUT", "DIV", "SUMMARY"} <= {tag for tag, *_ in reached}


def test_it_prints_light_with_all_tables_open(chromium: Browser, page: Path) -> None:
    chromium.open(page, 720, dark=True, medium="print")  # A4
    assert chromium.run("document.documentElement.scrollWidth") == 720
    assert chromium.run(PAPER) == "rgb(255, 255, 255)"
    hidden = chromium.run("""[...document.querySelectorAll("td")].filter(
        cell => cell.textContent && !cell.checkVisibility({contentVisibilityAuto: true}))
        .map(cell => cell.textContent)""")
    assert hidden == [], json.dumps(hidden[:5])
