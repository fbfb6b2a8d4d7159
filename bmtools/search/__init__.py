"""Search for many words in text, samples of the sentences that contain them, segmentation."""

from bmtools.lazy import export

export(__name__, find_contexts="bmtools.search.contexts:find_contexts")
