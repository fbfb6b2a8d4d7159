"""Model cards, evaluation results and bills of materials."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.cards.card import make_card as card

    __all__ = ["card"]

export(__name__, card="bmtools.cards.card:make_card")
