"""Export of models to OpenVINO."""

from typing import TYPE_CHECKING

from bmtools.lazy import export

if TYPE_CHECKING:
    from bmtools.export.export import export_model as export_model

export(__name__, export_model="bmtools.export.export:export_model")
