"""Settings of the search for contexts; fast to import."""

from __future__ import annotations

from bmtools.errors import LAST_SEED, require
from bmtools.settings import Settings, option


class ContextConfig(Settings, title="The sample of sentences"):
    """Settings of the sample."""

    max_sentences: int = option(20, "Maximum of sentences for a word (BIOptimus: 1 to 20).",
                                least=1)
    lang: str = option(
        "en", "Language of records without one; it decides how text is split.", metavar="CODE")
    seed: int = option(0, "Seed of the sample.", most=LAST_SEED)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(bool(self.lang), "lang", "nothing", "a language code such as en")
