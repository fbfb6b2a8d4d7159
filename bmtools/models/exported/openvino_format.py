"""OpenVINO's own format."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bmtools.io.failures import reading
from bmtools.models.exported.formats import Run

if TYPE_CHECKING:
    from bmtools.models.exported.export import Source

FILE = "openvino_model.xml"


def _openvino() -> Any:
    """Import OpenVINO without its telemetry, which would report each conversion to Google Analytics
    without asking; OpenVINO and NNCF do without a package that cannot be imported."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    return openvino


def write(source: Source, directory: Path) -> None:
    """Write `openvino_model.xml` and `.bin`; in int8 products take rounded weights and states."""
    openvino = _openvino()
    model = openvino.convert_model(source.program)
    model.output(0).get_tensor().set_names({"logits"})
    if source.int8:
        import nncf

        model = nncf.quantize(model, nncf.Dataset(source.calibration),
                              model_type=nncf.ModelType.TRANSFORMER,
                              subset_size=len(source.calibration))
    openvino.save_model(model, directory / FILE, compress_to_fp16=False)


def load(directory: Path, threads: int, streams: int) -> Run:
    """Load the model for a CPU, in float32 where it is not int8.

    Without the hint OpenVINO computes in bfloat16 wherever the CPU can, and says nothing of it.
    """
    openvino = _openvino()
    with reading(directory / FILE, "OpenVINO could not load it", "export the model again"):
        compiled = openvino.Core().compile_model(directory / FILE, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": streams})
    own = threading.local()

    def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        return np.array(own.request.infer(dict(inputs))[0])

    return run
