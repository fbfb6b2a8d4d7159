"""Descriptions of models and studies: reports, cards, corpora, lineage, energy, suites."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.study.cards.card import make_card

    card = make_card
    from bmtools.study.suites.suite_scores import suite_scores as suite_scores

export(__name__, card="bmtools.study.cards.card:make_card",
       suite_scores="bmtools.study.suites.suite_scores")
