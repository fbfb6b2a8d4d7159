"""Descriptions of models and studies: reports, cards, corpora, lineages, energy, suites."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.study.cards.card import make_card
    from bmtools.study.corpora.describe import describe as describe
    from bmtools.study.lineages.lineage import trace
    from bmtools.study.lineages.verify import verify as verify
    from bmtools.study.reports.compare_models import compare_models as compare_models
    from bmtools.study.reports.report import write_report
    from bmtools.study.suites.score_suite import suite_scores as suite_scores

    card, lineage, report = make_card, trace, write_report

export(__name__, card="bmtools.study.cards.card:make_card",
       compare_models="bmtools.study.reports.compare_models",
       describe="bmtools.study.corpora.describe", lineage="bmtools.study.lineages.lineage:trace",
       report="bmtools.study.reports.report:write_report",
       suite_scores="bmtools.study.suites.score_suite", verify="bmtools.study.lineages.verify")
