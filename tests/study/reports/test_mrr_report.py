"""Plots of ranks over models."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bmtools.errors import BmtoolsError, DataError
from bmtools.installation import require_matplotlib
from bmtools.study.reports.drawing import ImageFormat
from bmtools.study.reports.mrr_report import write_mrr_report
from bmtools.study.reports.mrr_summary import MrrItem

MODELS = ["runs/start", "runs/middle", "runs/end"]
# Ranks under three models, and how many maskings have them.
RANKS: dict[tuple[int | None, ...], int] = {
    (1, 1, 1): 3, (None, None, None): 2, (8, 9, 70): 4, (8, 3, 1): 5, (2, 2, 2): 1, (1, 5, None): 2,
    (4, 2, 3): 1}
TOKENS = ("cuore", '<mask>"&\'', "$x$ _a_", "心臓", "\x07")


def maskings(models: int = 3, domain: str | None = "Cardiologia") -> list[MrrItem]:
    spelled = [ranks for ranks, count in RANKS.items() for _ in range(count)]
    return [MrrItem(f"{number}", "Il [MASK] <b>batte</b> & \x1b riposa.", "cuore", domain,
                    ranks[:models],
                    tuple(1 / rank if rank and rank <= 5 else 0.0 for rank in ranks[:models]),
                    tuple(_proposals(rank) for rank in ranks[:models]))
            for number, ranks in enumerate(spelled)]


def _proposals(rank: int | None) -> tuple[tuple[str, float], ...]:
    others = [token for token in TOKENS if token != "cuore"]
    if rank is not None and rank <= 5:
        others.insert(rank - 1, "cuore")
    return tuple((token, 0.4 / 2**place) for place, token in enumerate(others))


LINES = [{"model": model, "mrr": mrr, "interval": [mrr - 0.1, mrr + 0.1]}
         for model, mrr in zip(MODELS, (0.3, 0.4, 0.5), strict=True)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("plot") / "made" / "pictures"
    paths = write_mrr_report(maskings(), MODELS, LINES, directory)
    assert [path.name for path in paths] == [
        "progression.svg", "flow-1-2.svg", "flow-2-3.svg", "predictions.svg", "domains.svg",
        "index.html"]
    assert sorted(paths) == sorted(directory.iterdir())
    return directory


def words(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter()
            if node.tag.endswith("}text")]


def shapes(path: Path, gid: str) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Give the corners of the paths whose id begins in a certain way."""
    for group in ElementTree.parse(path).iter():
        if group.get("id", "").startswith(gid):
            drawn = next(node for node in group.iter() if node.tag.endswith("}path"))
            numbers = list(map(float, re.findall(r"-?[\d.]+", drawn.get("d", ""))))
            yield group.get("id", ""), list(zip(numbers[::2], numbers[1::2], strict=True))


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 2)])
def test_bands_are_as_wide_as_there_are_maskings(drawn: Path, before: int, after: int) -> None:
    """Whatever the scale, each band's share of all heights is its share of all maskings."""
    path = drawn / f"flow-{before + 1}-{after + 1}.svg"
    heights = {}
    for gid, corners in shapes(path, "band-"):
        (_, top), (_, bottom) = corners[0], corners[7]
        (_, top_right), (_, bottom_right) = corners[3], corners[4]
        assert bottom - top == pytest.approx(bottom_right - top_right, abs=1e-4)
        heights[gid] = bottom - top

    def step(rank: int | None) -> int:
        return rank if rank is not None and rank <= 5 else 6

    counted: Counter[str] = Counter()
    for ranks, count in RANKS.items():
        counted[f"band-{step(ranks[before])}-{step(ranks[after])}"] += count
    assert heights.keys() == counted.keys()
    for gid, height in heights.items():
        assert height / sum(heights.values()) == pytest.approx(counted[gid] / 18, abs=1e-4)
    blocks = Counter[str]()
    for gid, corners in shapes(path, "rank-"):
        ys = [y for _, y in corners]
        blocks[gid[:6]] += (max(ys) - min(ys)) * 18 / sum(heights.values())
    assert blocks == pytest.approx({"rank-1": 18, "rank-2": 18}, abs=1e-3)


def test_a_flow_labels_ranks_and_changes(drawn: Path) -> None:
    found = words(drawn / "flow-1-2.svg")
    assert found.index("1st: 5") < found.index("2nd: 1") < found.index("beyond: 11")
    assert {"4th: 1", "3rd: 5", "beyond: 6", "5th: 2", "start", "middle"} <= set(found)
    assert {"better 6", "same 10", "worse 2"} <= set(found)


def test_the_progression_shows_means_and_omits_unchanging_items(drawn: Path) -> None:
    path = drawn / "progression.svg"
    assert {"0.300", "[0.200, 0.400]", "0.500", "start", "middle", "end"} <= set(words(path))
    caption = " ".join(words(path))
    assert "Faint: 9 single maskings" in caption
    assert "3 that all models put first and 6 that none finds" in caption
    assert len(list(shapes(path, "word-"))) == 9


def test_the_mean_is_drawn_at_its_height(drawn: Path) -> None:
    """On the scale that the ticks at 1 and 0 span."""
    path = drawn / "progression.svg"
    (_, mean), = shapes(path, "mean")
    ticks = {label.partition(":")[0]: y for label, y in _labels(path)}
    span = ticks["beyond"] - ticks["1st"]
    for (_, y), line in zip(mean, LINES, strict=True):
        assert (mean[0][1] - y) / span == pytest.approx(line["mrr"] - 0.3, abs=1e-3)


def _labels(path: Path) -> Iterator[tuple[str, float]]:
    for node in ElementTree.parse(path).iter():
        if node.tag.endswith("}text") and ":" in "".join(node.itertext()):
            yield "".join(node.itertext()), float(node.get("y", "nan"))


def test_predictions_name_the_tokens_and_mark_the_word(drawn: Path) -> None:
    path = drawn / "predictions.svg"
    found = words(path)
    # The masking of ranks 8, 3, 1: the greatest spread with the most values.
    assert "The first 5 proposals for the masking 9; the right word is marked." in " ".join(found)
    shown = ["<mask>\"&'", "$x$ _a_", "心臓", "\ufffd"]
    starts = [found.index("start"), found.index("middle"), found.index("end"), len(found)]
    columns = [[word for word in found[first:last] if word in {*shown, "cuore"}]
               for first, last in pairwise(starts)]
    assert columns == [shown, [*shown[:2], "cuore", *shown[2:]], ["cuore", *shown]]
    assert [gid for gid, _ in shapes(path, "marked-")] == ["marked-2", "marked-3"]
    assert {"40%", "5.0%", "0.33", "1.00", "8th", "3rd", "[MASK] = cuore"} <= set(found)


def test_domains_are_bars_with_their_figures(drawn: Path) -> None:
    found = words(drawn / "domains.svg")
    means = [sum(masking.reciprocal_ranks[model] for masking in maskings()) / 18
             for model in range(3)]
    assert {"Cardiologia (18)", *(f"{mean:.2f}" for mean in means)} <= set(found)
    lengths = {gid: max(x for x, _ in corners) - min(x for x, _ in corners)
               for gid, corners in shapes(drawn / "domains.svg", "bar-")}
    assert list(lengths) == ["bar-1-1", "bar-2-1", "bar-3-1"]
    for length, mean in zip(lengths.values(), means, strict=True):
        assert length / lengths["bar-1-1"] == pytest.approx(mean / means[0], abs=1e-4)


def test_the_page_embeds_the_plots_and_shares_no_id(drawn: Path) -> None:
    page = (drawn / "index.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert {"progression-mean", "flow-1-2-band-6-3", "flow-2-3-rank-1-beyond",
            "domains-bar-3-1"} <= set(ids)
    assert page.count("<svg") == 4
    assert "<title>cuore: 8th, 3rd, 1st</title>" in page
    assert "<title>beyond to 3rd: 5</title>" in page


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, kind: ImageFormat) -> None:
    one, other = (write_mrr_report(maskings(1), MODELS[:1], LINES, tmp_path / name, kind)
                  for name in ("one", "other"))
    assert [path.name for path in one] == [path.name for path in other]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other, strict=True))
    assert {path.suffix for path in one} == {f".{kind}", ".html"}
    for path in one[:-1]:
        assert _tells_nothing(path)


def _tells_nothing(path: Path) -> bool:
    """Whether a picture holds no date and no name of a program."""
    data, chunks, place = path.read_bytes(), set(), 8
    if path.suffix == ".svg":
        return b"<dc:date>" not in data and b"<dc:creator>" not in data
    while place < len(data):
        size, name = struct.unpack(">I4s", data[place:place + 8])
        chunks.add(name)
        place += 12 + size
    return chunks == {b"IHDR", b"pHYs", b"IDAT", b"IEND"}


def test_one_model_alone_has_no_flow(tmp_path: Path) -> None:
    paths = write_mrr_report(maskings(1, domain=None), MODELS[:1], [], tmp_path / "p")
    assert [path.name for path in paths] == ["progression.svg", "predictions.svg", "index.html"]
    mean = sum(masking.reciprocal_ranks[0] for masking in maskings()) / 18
    assert f"{mean:.3f}" in words(paths[0])


def test_a_word_that_no_model_has_is_drawn_too(tmp_path: Path) -> None:
    absent = [MrrItem("a", "Il [MASK].", "w" * 99, "d" * 99, (None, None), (0.0, 0.0), ((), ()))]
    paths = write_mrr_report(absent, ["m" * 120, "n/" * 40], [], tmp_path / "p", top=1)
    assert {"1st: 0", "beyond: 1", "same 1"} <= set(words(paths[1]))


def test_eight_long_names_are_broken_to_fit(tmp_path: Path) -> None:
    models = [f"/data/size-{n}/experiments/biobit-italian/seed/model" for n in range(8)]
    some = [MrrItem("a", "Il [MASK].", "x", None, (n, *range(1, 8)), (1.0 / n,) * 8, ((),) * 8)
            for n in range(1, 4)]
    paths = write_mrr_report(some, models, [], tmp_path / "p", top=20)
    assert len(paths) == 2 + 7 + 1
    rows = [word for word in words(paths[0]) if re.search("experiments|italian|seed", word)]
    assert len(rows) > 16 and max(map(len, rows)) <= 18
    assert "6th\N{EN DASH}10th: 3" in words(paths[7])


def test_another_masking_can_be_named(tmp_path: Path) -> None:
    paths = write_mrr_report(maskings(), MODELS, LINES, tmp_path / "p", sentence="0")
    assert any("masking 0;" in word for word in words(tmp_path / "p" / "predictions.svg"))
    assert "differ most" not in paths[-1].read_text()
    with pytest.raises(DataError, match="sentence: found 'none'"):
        write_mrr_report(maskings(), MODELS, LINES, tmp_path / "q", sentence="none")
    assert not (tmp_path / "q").exists()


def test_what_is_there_is_kept_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine").write_text("x")
    with pytest.raises(BmtoolsError, match="is not empty"):
        write_mrr_report(maskings(), MODELS, LINES, tmp_path / "p")
    assert [path.name for path in tmp_path.rglob("*")] == ["p", "mine"]
    write_mrr_report(maskings(1), MODELS[:1], LINES, tmp_path / "p", overwrite=True)
    assert not (tmp_path / "p" / "mine").exists()
    with pytest.raises(DataError, match="no masked words"):
        write_mrr_report([], MODELS, LINES, tmp_path / "q")
    with pytest.raises(ValueError, match="plot_format: found pdf"):
        write_mrr_report(maskings(), MODELS, LINES, tmp_path / "q", image_format="pdf")


def test_no_display_is_needed_or_touched(tmp_path: Path) -> None:
    code = ("import sys\nfrom pathlib import Path\n"
            "from bmtools.study.reports.mrr_report import write_mrr_report\n"
            "from bmtools.study.reports.mrr_summary import MrrItem\n"
            "assert not {'matplotlib', 'torch', 'numpy'} & sys.modules.keys()\n"
            "masking = MrrItem('a', '[MASK].', 'x', None, (1,), (1.0,), ((('x', 0.5),),))\n"
            f"write_mrr_report([masking], ['m'], [], Path({str(tmp_path / 'p')!r}), 'png')\n"
            "assert 'matplotlib.pyplot' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", code], check=True, env={"DISPLAY": ""})


@pytest.mark.usefixtures("no_matplotlib")
def test_a_missing_matplotlib_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BmtoolsError, match=r"plot: .*install .*\[plot\]'"):
        require_matplotlib()
    with pytest.raises(BmtoolsError, match=r"install .*\[plot\]'"):
        write_mrr_report(maskings(), MODELS, LINES, tmp_path / "p")
