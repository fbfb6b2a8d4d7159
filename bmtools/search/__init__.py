"""Search for many words in text, and samples of the sentences that contain them."""

from bmtools.lazy import export

export(__name__, find_contexts="bmtools.search.contexts:find_contexts")
