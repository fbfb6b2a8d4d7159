"""Tables of scores on a suite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bmtools.errors import without_controls
from bmtools.records import JsonMapping
from bmtools.study.reports.labels import DASH, model_names
from bmtools.study.suites.suite import Suite

Table = tuple[str, list[str], list[list[str]]]
"""Title, header, rows."""
_ESCAPES = str.maketrans({"\\": r"\textbackslash{}", "~": r"\textasciitilde{}",
                          "^": r"\textasciicircum{}", "\N{EN DASH}": "--",
                          **{sign: f"\\{sign}" for sign in "&%$#_{}"}})
_COLUMN = 14  # minimum width of a model's column in a terminal
_COMPARISON = ("difference", "p", "p_holm", "p_over_seeds", "p_over_seeds_holm")
_OTHER_METRIC = "*"


def suite_tables(lines: Sequence[JsonMapping], suite: Suite, width: int) -> Iterator[Table]:
    """Yield a table for each table of the paper, with sets as rows and models, own ones first, as
    columns.

    Args:
        lines: lines from `suite_scores`.
        suite: suite of the lines.
        width: width of the terminal; wider tables are split, and each part has the own models.
    """
    own = [line for line in lines if "model" in line and "table" not in line]
    tables = list(dict.fromkeys(line["table"] for line in lines if "table" in line))
    for table in tables or [""]:
        others = [line for line in lines if table and line.get("table") == table]
        rows = _row_names(others or own, suite)
        title = f"{suite.title} ({suite.source.partition(', ')[0]}, {table})" if table \
            else suite.title
        if others_taken := sorted({metric for line in own
                                   for metric in line.get("other_metrics", {}).values()}):
            title += f"; {_OTHER_METRIC}: {', '.join(others_taken)} instead of the paper's metric"
        columns = [[name, *(_cell(line, row, suite.digits) for row in rows)] for name, line in
                   zip(model_names([*own, *others]), [*own, *others], strict=True)]
        letters = max([_COLUMN, *(len(cell) + 3 for column in columns for cell in column[1:])])
        step = max(1, (width - max(map(len, rows))) // letters - len(own))
        for start in range(len(own), max(len(columns), len(own) + 1), step):
            part = [*columns[:len(own)], *columns[start:start + step]]
            yield title, ["set", *(column[0] for column in part)], [
                [row, *(column[number] for column in part)] for number, row in enumerate(rows, 1)]
    if compared := [line for line in lines if "compared" in line]:
        keys = [key for key in _COMPARISON if any(key in line for line in compared)]
        yield "Own models, p-values adjusted over sets (Holm)", ["set", "models", *(
            key.replace("_", " ") for key in keys)], [
            [line["set"], " - ".join(line["compared"]), *(_compared(line, key) for key in keys)]
            for line in compared]


def _compared(line: JsonMapping, key: str) -> str:
    if key not in line:
        return DASH
    if key != "difference":
        return f"{line[key]:.4f}"
    bounds = ", ".join(f"{bound:.2f}" for bound in line.get("interval", ()))
    return f"{line[key]:+.2f}{bounds and f' [{bounds}]'}"


def _row_names(lines: Sequence[JsonMapping], suite: Suite) -> list[str]:
    """List the rows of all models: scores, then averages."""
    scores = [row for row in suite.rows() if any(row in line.get("scores", ()) for line in lines)]
    averages = dict.fromkeys(row for line in lines for row in line.get("averages", ()))
    names = [one.name for one in suite.averages]
    return [*scores, *sorted(averages, key=lambda row: (row not in names, *(
        number for number, name in enumerate(names) if row.startswith(name))))]


def _cell(line: JsonMapping, row: str, digits: int) -> str:
    """Format a score, its deviation and its difference from the baseline, in points and percent."""
    score = {**line.get("scores", {}), **line.get("averages", {})}.get(row)
    if score is None:
        return DASH
    cell = f"{score:.{digits}f}{_OTHER_METRIC * (row in line.get('other_metrics', ()))}"
    for key, form in (("deviations", f" ({{:.{digits}f}})"), ("points", f" {{:+.{digits}f}}"),
                      ("differences", " ({:+.1f}%)")):
        if (value := line.get(key, {}).get(row)) is not None:
            cell += form.format(value)
    return cell


def latex_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in LaTeX, for the package booktabs."""
    def spelled(cells: Sequence[str]) -> str:
        return " & ".join(without_controls(cell).translate(_ESCAPES) for cell in cells) + r" \\"

    return "\n".join([
        r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\toprule", spelled(header), r"\midrule", *map(spelled, rows), r"\bottomrule",
        r"\end{tabular}", rf"\caption{{{title.translate(_ESCAPES)}}}", r"\end{table}", ""])
