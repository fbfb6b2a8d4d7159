"""Page of a run or a whole study: one HTML file without scripts or links to a network."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from bmtools.errors import without_controls
from bmtools.installation import require_matplotlib
from bmtools.io.output import open_output
from bmtools.study.reports.drawing import page_image
from bmtools.study.reports.labels import figure
from bmtools.study.reports.pages import page_templates
from bmtools.study.reports.sections import Section, make_sections
from bmtools.study.reports.study import nothing_found, read_study

_TEMPLATE = "report_page.html"


def write_report(paths: Sequence[str | PathLike[str]], output: str | PathLike[str], title: str = "",
                 ) -> dict[str, Any]:
    """Write the page of what is found in files and directories; the same input, same bytes.

    Args:
        paths: as for `read_study`.
        output: file to write.
        title: of the page; by default the names of the paths.

    Returns:
        titles of `sections`, numbers of `charts`, of `bytes`, and of files that were `skipped`.

    Raises:
        BmtoolsError: matplotlib is missing, or a file holds neither models nor scores.
    """
    require_matplotlib()
    study = read_study(paths)
    sections = list(make_sections(study))
    if not sections:
        raise nothing_found(paths)
    title = title or ", ".join(Path(path).resolve().name for path in paths)
    page = render_report(title, sections).encode("utf-8", "replace")
    with open_output(str(output)) as stream:
        stream.write(page)
    return {"sections": [section.title for section in sections],
            "charts": sum(len(section.charts) for section in sections), "bytes": len(page),
            "skipped": len(study.skipped)}


def render_report(title: str, sections: Sequence[Section]) -> str:
    """Render the page."""
    environment = page_templates()
    environment.filters |= {"safe_text": without_controls, "image": page_image, "figure": figure}
    return environment.get_template(_TEMPLATE).render(
        title=without_controls(title), sections=sections)
