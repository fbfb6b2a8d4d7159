"""Settings of format readers, and of sets published as tables.

They are separate from the readers, so that help does not load a reader.
"""

from __future__ import annotations

from typing import Literal

from bmtools.errors import require, require_names
from bmtools.settings import Settings, option

Genes = Literal["keep", "merge"]
"""Whether ChemProt's GENE-Y and GENE-N are kept or merged to GENE."""
RelationTypes = Literal["group", "label"]
"""Whether a ChemProt relation's type is its group or its label."""
MentionPairs = Literal["closest", "biobit", "all"]
"""Mentions that are related if their concepts are related."""
QuestionType = Literal["factoid", "list", "yesno", "summary"]
"""Type of BioASQ questions."""
Scheme = Literal["iob2", "io", "iobes", "bilou"]
"""Prefixes of CoNLL tags."""
Tokenization = Literal["whitespace", "punctuation"]
"""Whether white space separates the tokens of a text, or also punctuation."""
Unit = Literal["line", "paragraph", "file"]
"""Amount of plain text in a record."""


COLUMNS = ("text", "text_pair", "question", "label", "labels", "score", "id", "document")


def read_columns(columns: str) -> dict[str, str]:
    """Parse KEY=NAME,...: names of keys or columns in a source, by the record key that they fill.

    Raises:
        ValueError: the text has another form, or a key does not exist.
    """
    found = {key.strip(): name.strip() for key, _, name in (
        one.partition("=") for one in columns.split(","))}
    require(all(found.values()), "columns", repr(columns), "KEY=NAME, separated by commas")
    require_names("columns", found, COLUMNS)
    return found


class TableConfig(Settings, title="Columns of a table"):
    """Columns of a table."""

    columns: str = option(
        "text=text", f"Columns by the key that each fills: {', '.join(COLUMNS)} (for "
                     "meta.document). A column is its name in the first line, or its number, "
                     "counted from 1. Without an id column, ids are FILE:LINE.",
        metavar="KEY=COLUMN,...")
    labels_separator: str = option(
        ",", "Character between labels in the column `labels`.", metavar="CHARACTER")
    label_names: str = option("", "Labels by values of the column `label`, such as 0=no,1=yes; "
                                  "others are rejected.", metavar="VALUE=LABEL,...")
    header: bool = option(
        True, "The first line names the columns; columns not listed above go to `meta`.")
    delimiter: str = option("", "Character between columns, or tab. Default: found in the first "
                                "line.", metavar="CHARACTER|tab")
    quoting: Literal["auto", "on", "off"] = option(
        "auto", "on: a field in double quotes may contain delimiters and line breaks. off: quotes "
                "are ordinary characters. auto: off for columns separated by tabs, except for "
                "cells that pandas quoted because of a line break, tab or quote.")

    row: str = option("", "Read XML with each of these elements as a row: doc/paire for <paire> in "
                          "<doc>. Columns are its children and its attributes, such as @id.",
                      metavar="ROOT/ELEMENT")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.row or all(self.row.partition("/")), "row", repr(self.row), "ROOT/ELEMENT")
        read_columns(self.columns)
        require(bool(self.labels_separator), "labels_separator", "nothing", "a character")
        require(len(self.delimiter) <= 1 or self.delimiter == "tab", "delimiter",
                repr(self.delimiter), "one character, or tab")
        require(all("=" in one for one in self.label_names.split(",")) or not self.label_names,
                "label_names", repr(self.label_names), "VALUE=LABEL, separated by commas")

    @property
    def by_key(self) -> dict[str, str]:
        """The columns that are read, by the record key that each fills."""
        return {"text": "text", **read_columns(self.columns)}

    @property
    def labels(self) -> dict[str, str]:
        """Labels by their values in the table; empty if the values are the labels."""
        pairs = (one.partition("=") for one in self.label_names.split(",") if one)
        return {value.strip(): label.strip() for value, _, label in pairs}


GAD = TableConfig("text=sentence,label=label", label_names="0=0,1=1")
BIOSSES = TableConfig("text=sentence1,text_pair=sentence2,score=score")
BIOASQ_YESNO = TableConfig("text=ideal_answer,question=question,label=yesno_label",
                           label_names="0=no,1=yes")
HOC = TableConfig("text=text,labels=labels,id=index")


class ConllConfig(Settings, title="CoNLL columns"):
    """Layout of CoNLL columns."""

    token_column: int = option(1, "Column of the token, counted from 1.", least=1)
    tag_column: int = option(0, "Column of the tag, counted from 1; 0 for the last one.")
    default_type: str = option("ENTITY", "Type of entities with tags without type.", metavar="NAME")
    documents: bool = option(
        False, "One record for every -DOCSTART- line, with one line for each sentence.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.token_column != self.tag_column, "tag_column", self.tag_column,
                "another column than the token's")
        require(bool(self.default_type), "default_type", "nothing", "the type of an entity")


ARTICLE_PARTS = ("captions", "formulas", "back")


class JatsConfig(Settings, title="Parts of articles"):
    """Parts of articles."""

    include: str = option(
        "", "Parts to add: captions, formulas (on separate lines), back (acknowledgments, "
            "appendices).")

    def __post_init__(self) -> None:
        require_names("include", self.parts, ARTICLE_PARTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in `include`."""
        return tuple(name.strip() for name in self.include.split(",") if name.strip())
