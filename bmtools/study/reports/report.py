"""Page of a run or a whole study: one HTML file, without scripts or links to the network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from bmtools.errors import DataError, setting, without_controls
from bmtools.installation import require_matplotlib
from bmtools.io.output import open_output
from bmtools.records import JsonMapping, JsonObject
from bmtools.study.reports.charts import Chart, Section, Table, write_picture
from bmtools.study.reports.labels import Best, short
from bmtools.study.reports.pages import page_templates
from bmtools.study.reports.sections import make_sections
from bmtools.study.reports.study import Study, kind_of, nothing_found, read_study
from bmtools.study.reports.verdict import find_verdict
from bmtools.values import format_cell, format_duration


def write_report(paths: Sequence[str | PathLike[str]], output: str | PathLike[str], title: str = "",
                 ) -> JsonObject:
    """Write the page of some files and directories. The same input always produces the same bytes.

    Args:
        paths: files and directories, see `read_study`.
        output: file to write.
        title: title of the page; by default the names of the paths.

    Returns:
        `sections`, the titles of the sections, and the numbers of `charts` and `bytes`.

    Raises:
        BmtoolsError: matplotlib is missing, or the files contain no models and no scores.
    """
    require_matplotlib()
    study = read_study(paths)
    sections = list(make_sections(study))
    if not sections:
        raise nothing_found(paths)
    title = title or ", ".join(Path(path).resolve().name for path in paths)
    return {"sections": [section.title for section in sections],
            "charts": sum(len(section.charts) for section in sections),
            "bytes": _write_page(find_verdict(study), sections, title, output)}


def plot_lines(lines: Iterable[JsonMapping], path: Path, spaces: Iterable[Chart] = ()) -> None:
    """Write the charts of a report on some lines as a picture, or the report as a page.

    Args:
        lines: lines that a command wrote.
        path: file to write; its suffix is .png, .svg, .pdf or .html.
        spaces: charts of embedding spaces.

    Raises:
        DataError: no chart can be drawn from the lines.
    """
    study = _study_of(lines, spaces)
    sections = list(make_sections(study))
    charts = [chart for section in sections for chart in section.charts]
    if path.suffix.lower() == ".html":
        _write_page(find_verdict(study), sections, path.stem, path)
    elif charts:
        write_picture(charts, path)
    else:
        raise DataError(f"{setting('plot')}: found nothing to draw, expected several models or "
                        "values; write a page in .html to see the tables")


def tables_of(lines: Iterable[JsonMapping]) -> list[Table]:
    """Return the tables of a report on some lines."""
    return [table for section in make_sections(_study_of(lines)) for table in section.tables]


def _study_of(lines: Iterable[JsonMapping], spaces: Iterable[Chart] = ()) -> Study:
    study = Study(spaces=list(spaces))
    for line in lines:
        study.lines[kind_of(line)].append(dict(line))
    return study


def _write_page(verdict: JsonObject, sections: Sequence[Section], title: str,
                output: str | PathLike[str]) -> int:
    """Write a page, and return its size in bytes."""
    environment = page_templates()
    environment.filters |= {"safe_text": without_controls, "spelled": format_cell, "short": short,
                            "duration": format_duration}
    environment.tests["best"] = lambda value: isinstance(value, Best)
    page = environment.get_template("report_page.html").render(
        title=without_controls(title), verdict=verdict, sections=sections,
        ).encode("utf-8", "replace")
    with open_output(str(output)) as stream:
        stream.write(page)
    return len(page)
