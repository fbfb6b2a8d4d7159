"""Choice of what articles give beside their text."""

from __future__ import annotations

from dataclasses import dataclass

from bmtools.errors import require_names

PARTS = ("captions", "formulas", "back", "sub-articles")


@dataclass(frozen=True)
class JatsConfig:
    """Parts of articles.

    Args:
        include: what is left out otherwise: captions, formulas (those on lines of their own), back
            (acknowledgments, appendices), sub-articles (responses, translations, as records).
        drop_citations: leave out numbers of references, and citations in brackets.
        by_section: one record for every section of the highest level.
    """

    include: str = ""
    drop_citations: bool = False
    by_section: bool = False

    def __post_init__(self) -> None:
        require_names("include", self.parts, PARTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in `include`."""
        return tuple(name.strip() for name in self.include.split(",") if name.strip())
