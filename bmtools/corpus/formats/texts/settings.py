"""Choice of what articles give beside their text."""

from __future__ import annotations

from bmtools.errors import require_names
from bmtools.settings import Settings, option

PARTS = ("captions", "formulas", "back", "sub-articles")


class JatsConfig(Settings, title="Parts of articles"):
    """Parts of articles."""

    include: str = option(
        "", "What is left out otherwise: captions, formulas (those on lines of their own), back "
            "(acknowledgments, appendices), sub-articles (responses, translations, as records).")
    drop_citations: bool = option(
        False, "Leave out numbers of references, and citations in brackets.")
    by_section: bool = option(False, "One record for every section of the highest level.")

    def __post_init__(self) -> None:
        require_names("include", self.parts, PARTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in `include`."""
        return tuple(name.strip() for name in self.include.split(",") if name.strip())
