"""Bar charts of pieces per word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bmtools.errors import BmtoolsError
from bmtools.installation import require_matplotlib
from bmtools.study.reports.vocab_report import plot_pieces

FIGURES = {"BERT": {"text": 1.36, "entities:Chemical": 2.94},
           "_own $30k$": {"text": 1.03}}
SIGNATURES = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", SIGNATURES)
def test_each_format_is_written_and_repeats(tmp_path: Path, suffix: str) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    for path in (one, other):
        plot_pieces(FIGURES, path)
    assert one.read_bytes() == other.read_bytes()
    assert one.read_bytes().startswith(SIGNATURES[suffix])
    assert sorted(path.name for path in tmp_path.iterdir()) == [one.name, other.name]


def test_the_plot_has_labels(tmp_path: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        plot_pieces(FIGURES, tmp_path / "p.svg")
    words = {"".join(node.itertext()).strip()
             for node in ElementTree.parse(tmp_path / "p.svg").iter()
             if node.tag.endswith("}text")}
    assert {"BERT", "_own $30k$", "text", "entities:Chemical", "1.36", "2.94", "1.03"} <= words


def test_no_display_is_needed_or_touched(tmp_path: Path) -> None:
    code = ("import sys\nfrom pathlib import Path\n"
            "from bmtools.study.reports.vocab_report import plot_pieces\n"
            "assert 'matplotlib' not in sys.modules\n"
            f"plot_pieces({FIGURES!r}, Path({str(tmp_path / 'p.png')!r}))\n"
            "assert 'matplotlib.pyplot' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", code], check=True, env={"DISPLAY": ""})


@pytest.mark.usefixtures("no_matplotlib")
def test_a_missing_matplotlib_is_one_clear_line() -> None:
    with pytest.raises(BmtoolsError, match=r"plot: .*install .*\[plot\]'"):
        require_matplotlib()
