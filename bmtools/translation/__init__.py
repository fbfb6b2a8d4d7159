"""Machine translation of records: engines behind one interface, a sentence at a time."""

from bmtools.lazy import export

export(__name__, project="bmtools.translation.projection.project:project",
       score_translation="bmtools.translation.quality:score_translation",
       translate="bmtools.translation.translate:translate")
