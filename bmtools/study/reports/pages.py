"""Pages of reports: HTML templates of this room, whose values are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmtools.study.reports.drawing import COLOURS

if TYPE_CHECKING:
    from jinja2 import Environment


def page_templates() -> Environment:
    """Return the templates; a value that a page lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(loader=PackageLoader("bmtools.study", "reports"), autoescape=True,
                              trim_blocks=True, undefined=StrictUndefined,
                              keep_trailing_newline=True)
    environment.globals["colours"] = COLOURS
    return environment
