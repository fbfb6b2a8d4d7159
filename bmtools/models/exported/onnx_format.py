"""ONNX, run by onnxruntime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bmtools.io.failures import reading
from bmtools.models.exported.formats import Run

if TYPE_CHECKING:
    from bmtools.models.exported.export import Source

FILE = "model.onnx"


def write(source: Source, directory: Path) -> None:
    """Write `model.onnx`; in int8 matrices are rounded row by row, states as they come."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    program = torch.onnx.export(source.program, dynamo=True, verbose=False,
                                output_names=["logits"])
    assert program is not None
    if not source.int8:
        program.save(directory / FILE)
        return
    with tempfile.TemporaryDirectory(prefix="bmtools-", dir=directory) as temporary:
        program.save(Path(temporary) / FILE)
        quantize_dynamic(Path(temporary) / FILE, directory / FILE, per_channel=True,
                         weight_type=QuantType.QInt8)


def load(directory: Path, threads: int, streams: int) -> Run:
    """Load `model.onnx`; the threads that call it divide the cores among them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(1, threads // streams)
    options.inter_op_num_threads = 1
    with reading(directory / FILE, "onnxruntime could not load it", "export the model again"):
        session = onnxruntime.InferenceSession(directory / FILE, options,
                                               providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, dict(inputs))[0]
