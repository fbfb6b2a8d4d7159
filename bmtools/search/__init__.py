"""Search for many words in text, samples of the sentences that contain them, segmentation."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.search.contexts import find_contexts as find_contexts

export(__name__, find_contexts="bmtools.search.contexts:find_contexts")
