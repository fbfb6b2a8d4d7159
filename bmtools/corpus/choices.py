"""Values of the readers' settings, apart from them so that help loads none."""

from typing import Literal

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
