"""Sentences, languages, segmentation, matching of many words and their contexts."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.text.find_contexts import find_contexts as find_contexts

export(__name__, find_contexts="bmtools.text.find_contexts:find_contexts")
