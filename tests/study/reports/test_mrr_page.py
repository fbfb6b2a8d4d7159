"""The page of scores, plots and words."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from html.parser import HTMLParser

from bmtools.study.reports.drawing import ImageFormat, Plot
from bmtools.study.reports.mrr_report import render_page
from bmtools.study.reports.mrr_summary import MrrItem, MrrSummary

DASH = "\N{EN DASH}"
NASTY = '<mask>"\'&</td>'
MODELS = ["runs/a/<i>", "runs/b/x"]
# Two plots that have ids in common, as matplotlib's have.
SVG = b"""<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt">
 <metadata><a/></metadata><defs><style type="text/css">*{stroke-linejoin: round}</style>
 <clipPath id="p1"><rect/></clipPath><path id="m1"/></defs>
 <g id="band-1-2"><path clip-path="url(#p1)"/><use xlink:href="#m1"/></g>
 <text>url(#p1) &lt;mask&gt;</text></svg>"""
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 300, 150) + b"rest"


def plot(name: str, image_format: ImageFormat = "svg", image: bytes = SVG) -> Plot:
    return Plot(name, image_format, f"Title of {name}", "Says <this>", image, {"band-1-2": "1 < 2"})


def masking(name: str, *ranks: int | None, target: str = "cuore",
            tokens: Sequence[str] = ("cuore", NASTY)) -> MrrItem:
    return MrrItem(name, f"Il [MASK] {NASTY} batte.", target, "Cardio<logia>", ranks,
                   tuple(1 / rank if rank and rank <= 5 else 0.0 for rank in ranks),
                   tuple(tuple((token, 0.5 / (n + 1)) for n, token in enumerate(tokens))
                         for _ in ranks))


class Reader(HTMLParser):
    """Reads tags, ids and the cells of tables as a browser would."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[str]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in {"meta", "br", "wbr", "img"}:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def page_of(items: Sequence[MrrItem], models: Sequence[str], shown: MrrItem,
            lines: Sequence[dict[str, object]] = (), plots: Sequence[Plot] = ()) -> str:
    return render_page(MrrSummary.of(items, models, lines, 5, shown.name), plots)


def read(maskings: Sequence[MrrItem], lines: Sequence[dict[str, object]] = (),
         plots: Sequence[Plot] = (), models: Sequence[str] = MODELS) -> Reader:
    page = page_of(maskings, models, maskings[0], lines, plots)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    reader = Reader(page)
    assert not reader.open
    return reader


def test_predictions_are_a_table_with_the_tokens_in_order() -> None:
    shown = masking("a", 1, 2, tokens=("cuore", NASTY, " "))
    reader = read([shown])
    assert reader.tables[1] == [
        ["rank", *[model.removeprefix("runs/a/").removeprefix("runs/b/") for model in MODELS]],
        ["1st", "cuore 50%", "cuore 50%"],
        ["2nd", f"{NASTY} 25%", f"{NASTY} 25%"],
        ["3rd", "\u2423 17%", "\u2423 17%"],
        ["reciprocal rank", "1.00", "0.50"],
        ["rank", "1st", "2nd"]]
    # The mask of the sentence, and the word under the first model; under the second the token at
    # its rank is not the word.
    assert reader.tags.count("mark") == 2


def test_scores_show_what_lines_have_and_a_dash_for_the_rest() -> None:
    lines = [{"model": MODELS[0], "mrr": 0.25, "interval": [0.2, 0.3], "hits_at_1": 0.125,
              "signature": NASTY}, {"model": MODELS[1], "hits_at_5": 0.5}]
    table, *_ = read([masking("a", 1, 2)], lines).tables
    assert table == [["model", "mean reciprocal rank", "interval", "hits at 1", "hits at 5"],
                     ["<i>runs/a/<i>", "0.2500", "[0.200, 0.300]", "0.1250", DASH],
                     ["xruns/b/x", "0.5000", DASH, DASH, "0.5000"]]
    assert read([masking("a", 1, 2)], lines).tables[-1][1] == [MODELS[0], NASTY]


def test_words_are_listed_by_whether_models_agree() -> None:
    maskings = [masking("same", 2, 2), masking("lost", 1, None), masking("never", 900, 6),
                masking("gain", 5, 1, target=NASTY)]
    tables = read(maskings).tables[3:]
    around = f"Il [MASK] {NASTY} batte."
    assert [[row[0] for row in table[1:]] for table in tables] == [
        [NASTY, "cuore"], ["cuore"], ["cuore"]]
    assert tables[0][1] == [NASTY, around, "Cardio<logia>", "gain", "5th", "1st"]
    assert tables[0][2][-2:] == ["1st", DASH]
    assert [table[1][3] for table in tables] == ["gain", "same", "never"]
    assert tables[2][1][-2:] == ["900th", "6th"]


def test_long_lists_are_folded_and_cut() -> None:
    reader = read([masking(str(n), None, 7) for n in range(1003)])
    assert len(reader.tables[-1]) == 1001
    texts = "".join(reader.texts)
    assert "Never found: 1003 maskings" in texts
    assert "3 more are not listed." in texts
    assert reader.tags.count("details") == reader.tags.count("summary") == 2


def test_groups_have_a_table_each() -> None:
    lines = [{"model": MODELS[0], "by": {"<length>": {"1": {"mrr": 0.5, "count": 3}}}}]
    tables = read([masking("a", 1, 2)], lines).tables
    assert [["<length>", "<i>", "x"], ["1", "0.500 (3)", DASH]] in tables
    assert [["domain", "<i>", "x"], ["Cardio<logia>", "1.000 (1)", "0.500 (1)"]] in tables


def test_plots_share_no_ids_in_the_page() -> None:
    reader = read([masking("a", 1, 2)], plots=[
        plot("progression"), plot("flow-1-2"), plot("domains"), plot("predictions")])
    ids = reader.values("id")
    assert len(ids) == len(set(ids)) == 9
    assert reader.values("clip-path") == [f"url(#{name}-p1)"
                                          for name in ("progression", "domains", "flow-1-2")]
    assert reader.values("href") == [f"#{name}-m1"
                                     for name in ("progression", "domains", "flow-1-2")]
    assert reader.values("aria-label") == ["Says <this>"] * 3
    assert reader.texts.count("1 < 2") == 3
    assert "".join(reader.texts).count("url(#p1) <mask>") == 3
    # One rule for the page, none that came with a plot.
    assert reader.tags.count("style") == 1
    assert "metadata" not in reader.tags


def test_a_png_is_embedded_at_the_size_it_was_drawn() -> None:
    reader = read([masking("a", 1, 2)], plots=[plot("progression", "png", PNG)])
    source, = reader.values("src")
    assert base64.b64decode(source.removeprefix("data:image/png;base64,")) == PNG
    assert (reader.values("width"), reader.values("height")) == (["192"], ["96"])
    assert reader.values("alt") == ["Says <this>"]


def test_nothing_comes_from_elsewhere_and_nothing_runs() -> None:
    reader = read([masking("a", 1, 2)], plots=[plot("progression")])
    assert not {"script", "link", "iframe", "object", "base"} & set(reader.tags)
    assert not [key for key, _ in reader.attributes if key.startswith("on")]
    assert all(link.startswith("#") for link in reader.values("href") + reader.values("src"))
    assert "default-src 'none'" in "".join(reader.values("content"))
    assert not {"mask>", "i"} & set(reader.tags)
    assert "http://" not in "".join(reader.texts).replace("http://www.w3.org", "")


def test_the_page_explains_the_choice_of_the_masking() -> None:
    picked, other = masking("a", 1, 9), masking("b", 1, 2)
    assert "differ most" in page_of([other, picked], MODELS, picked)
    assert "differ most" not in page_of([other, picked], MODELS, other)
    alone = masking("c", 1)
    assert "differ most" not in page_of([alone], MODELS[:1], alone)


def test_no_text_turns_the_page_around_it() -> None:
    turning = "\u202ab\u202bc\u202cd\u202de\u202ef\u2066g\u2067h\u2068i\u2069"
    item = MrrItem(f"id{turning}", f"Il [MASK]{turning}", f"cuore{turning}", f"area{turning}",
                   (1, 2), (1.0, 0.5), (((f"cuore{turning}", 0.5),),) * 2)
    page = page_of([item], [f"m{turning}", "n"], item, [
        {"model": "n", "mrr": 0.5, "signature": turning,
         "by": {f"kind{turning}": {f"group{turning}": {"mrr": 0.1}}}}])
    assert "\ufffdb\ufffdc" in page
    assert not set(page) & set(turning) - set("bcdefghi")
