"""`bmtools import`: one subcommand for every source format, in modules by what they hold.

Each module adds its commands to the group when it is imported.
"""

from bmtools.commands.import_ import (
    annotations,
    articles,
    classes,
    columns,
    documents,
    questions,
    relations,
    texts,
)
from bmtools.commands.import_.importing import command

__all__ = ["annotations", "articles", "classes", "columns", "command", "documents", "questions",
           "relations", "texts"]
