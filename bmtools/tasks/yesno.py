"""Yes/no questions: one label for a question and the text that answers it."""

from __future__ import annotations

from collections.abc import Iterable

from bmtools.errors import Reject, refuse
from bmtools.records import Record
from bmtools.tasks.classification import ClassificationTask
from bmtools.tasks.settings import YesNoConfig
from bmtools.tasks.task import with_question


class YesNoTask(ClassificationTask):
    """Classification of a question beside its text: yes or no (BioASQ), or maybe too (PubMedQA).

    Source: Jin et al. 2019, section 4; Gu et al. 2021, section 4.6 (BLURB).
    """

    config_class = YesNoConfig

    def texts(self, record: Record) -> tuple[str, str | None]:
        """Name the question of a record and its text."""
        return record["question"], record["text"] or None

    def readable(self, records: Iterable[Record], reject: Reject = refuse) -> Iterable[Record]:
        """Yield the records that have a question; others are rejected."""
        return with_question(records, reject)
