"""Machine translation of records: engines behind one interface, a sentence at a time."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.translation.projection.project import project as project
    from bmtools.translation.score_translation import score_translation as score_translation
    from bmtools.translation.translate import translate as translate

export(__name__, project="bmtools.translation.projection.project:project",
       score_translation="bmtools.translation.score_translation:score_translation",
       translate="bmtools.translation.translate:translate")
