"""Settings of the search for contexts; importing this costs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bmtools.errors import check_choices, require, require_seed


@dataclass(frozen=True)
class ContextConfig:
    """Settings of the sample of sentences.

    Args:
        max_sentences: most sentences sampled for a word (BIOptimus: 1 to 20).
        unit: sentence, or record for records that are sentences already and are not split.
        lang: language of records that name none; sentences are split by it.
        seed: seed of the sample.
    """

    max_sentences: int = 20
    unit: Literal["sentence", "record"] = "sentence"
    lang: str = "en"
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.max_sentences >= 1, "max_sentences", self.max_sentences, "1 or more")
        require_seed(self.seed)
        check_choices(self)
        require(bool(self.lang), "lang", "nothing", "a language code such as en")
