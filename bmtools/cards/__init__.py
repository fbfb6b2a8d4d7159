"""Model cards, evaluation results and bills of materials."""

from bmtools.lazy import export

export(__name__, card="bmtools.cards.card:make_card")
