"""Machine translation of records: engines behind one interface, a sentence at a time."""

from bmtools.lazy import export

export(__name__, translate="bmtools.translation.translate:translate")
