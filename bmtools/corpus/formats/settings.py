"""Settings of the readers of source formats, and the sets that come as tables.

They are apart from the readers, so that help loads no reader.
"""

from __future__ import annotations

from typing import Literal

from bmtools.errors import check_choices, require, require_names
from bmtools.settings import Settings, option

Genes = Literal["keep", "merge"]
"""Whether ChemProt's GENE-Y and GENE-N stay apart or are GENE."""
RelationTypes = Literal["group", "label"]
"""Whether the type of ChemProt's relations is their group or their label."""
MentionPairs = Literal["closest", "biobit", "all"]
"""Mentions that make a relation of two concepts that are related."""
QuestionType = Literal["factoid", "list", "yesno", "summary"]
"""Type of BioASQ's questions."""
Scheme = Literal["iob2", "io", "iobes", "bilou"]
"""Prefixes of CoNLL's tags."""
Tokenization = Literal["whitespace", "punctuation"]
"""What separates the tokens of a text: white space, or punctuation too."""
Unit = Literal["line", "paragraph", "file"]
"""Text of one record of plain text."""


class TableConfig(Settings, title="Columns of a table"):
    """Columns of a table.

    A column is the name that the first line gives it, or its number, counted from 1.
    """

    text_column: str = option("text", "Column of the text.", metavar="COLUMN")
    text_pair_column: str = option("", "Column of a second text.", metavar="COLUMN")
    question_column: str = option("", "Column of a question to the text.", metavar="COLUMN")
    label_column: str = option("", "Column of the label.", metavar="COLUMN")
    labels_column: str = option("", "Column of a list of labels.", metavar="COLUMN")
    score_column: str = option("", "Column of a number.", metavar="COLUMN")
    id_column: str = option(
        "", "Column of the id; without one ids are FILE:LINE.", metavar="COLUMN")
    document_column: str = option(
        "", "Column of the document that a text comes from, for `meta.document`.", metavar="COLUMN")
    labels_separator: str = option(
        ",", "Character between the labels of `labels_column`.", metavar="CHARACTER")
    label_names: str = option("", "Labels by the values of `label_column`, as 0=no,1=yes; others "
                                  "are refused.", metavar="VALUE=LABEL,...")
    header: bool = option(
        True, "The first line names the columns; others than those above go to `meta`.")
    delimiter: str = option("", "Character between columns, or tab; found in the first line if not "
                                "given.", metavar="CHARACTER|tab")
    quoting: Literal["auto", "on", "off"] = option(
        "auto", "on: a field in double quotes may contain delimiters and line breaks. off: quotes "
                "are letters. auto: off where tabs delimit the columns.")

    def __post_init__(self) -> None:
        check_choices(self)
        require(bool(self.text_column), "text_column", "nothing", "a column")
        require(bool(self.labels_separator), "labels_separator", "nothing", "a character")
        require(len(self.delimiter) <= 1 or self.delimiter == "tab", "delimiter",
                repr(self.delimiter), "one character, or tab")
        require(all("=" in one for one in self.label_names.split(",")) or not self.label_names,
                "label_names", repr(self.label_names), "VALUE=LABEL, separated by commas")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that are read, by the key of records that each fills."""
        keys = ("text", "text_pair", "question", "label", "labels", "score", "id", "document")
        given = {key: getattr(self, f"{key}_column") for key in keys}
        return {key: column for key, column in given.items() if column}

    @property
    def labels(self) -> dict[str, str]:
        """Labels by their values in the table; empty where these are the labels."""
        pairs = (one.partition("=") for one in self.label_names.split(",") if one)
        return {value.strip(): label.strip() for value, _, label in pairs}


GAD = TableConfig("sentence", label_column="label", label_names="0=0,1=1")
BIOSSES = TableConfig("sentence1", "sentence2", score_column="score")
BIOASQ_YESNO = TableConfig("ideal_answer", question_column="question", label_column="yesno_label",
                           label_names="0=no,1=yes")
HOC = TableConfig("text", labels_column="labels", id_column="index")
ARTICLE_PARTS = ("captions", "formulas", "back")


class JatsConfig(Settings, title="Parts of articles"):
    """Parts of articles."""

    include: str = option(
        "", "What is left out otherwise: captions, formulas (those on lines of their own), back "
            "(acknowledgments, appendices).")
    drop_citations: bool = option(
        False, "Leave out numbers of references, and citations in brackets.")

    def __post_init__(self) -> None:
        require_names("include", self.parts, ARTICLE_PARTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names in `include`."""
        return tuple(name.strip() for name in self.include.split(",") if name.strip())
