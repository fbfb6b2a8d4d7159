"""Report of score-mrr: plots of ranks over models, and a page that contains them.

The page is one HTML file without scripts or links to a network.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from bmtools.errors import require
from bmtools.installation import require_matplotlib
from bmtools.io.directories import new_directory
from bmtools.records import MASK, JsonMapping
from bmtools.study.reports.drawing import ImageFormat, Plot, drawing_style
from bmtools.study.reports.labels import DASH, excerpt, ordinal, percent, printable
from bmtools.study.reports.mrr_plots import (
    plot_domains,
    plot_flow,
    plot_progression,
    plot_proposals,
)
from bmtools.study.reports.mrr_summary import (
    MrrItem,
    MrrSummary,
    matching_proposal,
    sort_by_agreement,
)
from bmtools.study.reports.pages import page_templates

if TYPE_CHECKING:
    from markupsafe import Markup

_MAX_ROWS = 1000
_CONTEXT_CHARACTERS = 60
_FONT_SIZE = 9.0
_COLUMNS = (("hits at 1", "hits_at_1"), ("hits at 5", "hits_at_5"), ("maskings", "maskings"),
            ("several tokens", "multi_token"), ("unknown", "unknown"))


def write_mrr_report(items: Sequence[MrrItem], models: Sequence[str],
                     lines: Sequence[JsonMapping], directory: Path,
                     image_format: ImageFormat = "svg", top: int = 5,
                     sentence: str | None = None, overwrite: bool = False) -> list[Path]:
    """Write plots of ranks over models, and a page with them; the same input, same bytes.

    Args:
        items: each under all models; at least one.
        models: names or paths, in the order to draw.
        lines: scores as the command prints them; missing numbers are left out or counted here.
        directory: to make, with its parents.
        image_format: svg or png. In png, letters that the fonts lack show as boxes.
        top: last rank that counts.
        sentence: id of the item whose proposals to show; None chooses one.
        overwrite: replace a directory that is not empty.

    Returns:
        the files: plots, then the page.

    Raises:
        BmtoolsError: matplotlib is missing, the directory is not empty, there are no items, or
            none has the id.
        ValueError: an unknown format.
    """
    require_matplotlib()
    require(image_format in get_args(ImageFormat), "plot_format", image_format,
            " or ".join(get_args(ImageFormat)))
    summary = MrrSummary.of(items, models, lines, top, sentence)
    with new_directory(directory, overwrite) as partial, \
            drawing_style({"font.size": _FONT_SIZE}):
        plots = [plot_progression(summary, image_format),
                 *(plot_flow(summary, before, image_format) for before in range(len(models) - 1)),
                 plot_proposals(summary, image_format)]
        if "domain" in summary.groups:
            plots.append(plot_domains(summary, image_format))
        for plot in plots:
            (partial / plot.file).write_bytes(plot.image)
        page = render_page(summary, plots)
        (partial / "index.html").write_text(page, encoding="utf-8", newline="\n")
    return [directory / name for name in [*(plot.file for plot in plots), "index.html"]]


def render_page(summary: MrrSummary, plots: Sequence[Plot]) -> str:
    """Render the whole page.

    Args:
        summary: numbers and words.
        plots: images to embed; proposals are a table on the page.
    """
    environment = page_templates()
    environment.filters |= {
        "printable": printable, "ordinal": ordinal, "percent": percent, "figure": _figure,
        "excerpt": lambda text: excerpt(text, MASK, _CONTEXT_CHARACTERS)}
    shown, parts = summary.shown, sort_by_agreement(summary.items)
    changing = sorted(parts.changing,
                      key=lambda item: item.reciprocal_ranks[0] - item.reciprocal_ranks[-1])
    return environment.get_template("mrr_page.html").render(
        summary=summary, plots={plot.name: plot for plot in plots},
        columns=[_breakable(name) for name in summary.names],
        score_columns=[(head, key) for head, key in _COLUMNS
                       if any(key in line for line in summary.lines)],
        proposal_rows=min(summary.top, max(map(len, shown.proposals), default=0)),
        matches=[matching_proposal(shown, model) for model in range(len(summary.models))],
        item_lists=[
            ("Changing between models", changing, "the greatest gains first"),
            ("Always found, at one rank", parts.steady, ""),
            ("Never found", parts.never, f"not among the first {summary.top} under any model")],
        signatures=[(model, line["signature"]) for model, line in
                    zip(summary.models, summary.lines, strict=True) if "signature" in line],
        mask=MASK, dash=DASH, max_rows=_MAX_ROWS)


def _breakable(name: str) -> Markup:
    """Allow line breaks after the separators of a path."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([/_.\-])", r"\1<wbr>", str(escape(name))))


def _figure(value: object) -> str:
    """Spell a number or word of a line; a dash where it is missing."""
    if value is None:
        return DASH
    return f"{value:.4f}" if isinstance(value, float) else printable(str(value))
