"""Writers of exported models, a function for each format that `models.exported` reads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from bmtools.errors import CheckpointError, setting
from bmtools.models.exported.engines import (
    ENCODER,
    HEAD,
    HEAD_CLASS,
    ONNX_FILE,
    OPENVINO_FILE,
    import_openvino,
    make_head,
)
from bmtools.models.int8 import supported_weights, write_encoder

if TYPE_CHECKING:
    from bmtools.export.export import Source


def write_onnx(source: Source, directory: Path) -> None:
    """Write `model.onnx`; in int8 matrices are rounded row by row, states as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    program = torch.onnx.export(source.program, dynamo=True, verbose=False,
                                output_names=["logits"])
    assert program is not None
    if not source.int8:
        program.save(directory / ONNX_FILE)
        return
    with tempfile.TemporaryDirectory(prefix="bmtools-", dir=directory) as temporary:
        program.save(Path(temporary) / ONNX_FILE)
        quantize_dynamic(Path(temporary) / ONNX_FILE, directory / ONNX_FILE, per_channel=True,
                         weight_type=QuantType.QInt8)


def write_openvino(source: Source, directory: Path) -> None:
    """Write `openvino_model.xml` and `.bin`; in int8 products take rounded weights and states."""
    openvino = import_openvino()
    model = openvino.convert_model(source.program)
    model.output(0).get_tensor().set_names({"logits"})
    if source.int8:
        import nncf

        model = nncf.quantize(model, nncf.Dataset(source.calibration),
                              model_type=nncf.ModelType.TRANSFORMER,
                              subset_size=len(source.calibration))
    openvino.save_model(model, directory / OPENVINO_FILE, compress_to_fp16=False)


def write_ctranslate2(source: Source, directory: Path) -> None:
    """Write `encoder/`, which `ctranslate2.Encoder` loads, and the head, `head.safetensors`.

    In int8 matrices are rounded row by row and states token by token; the head, which
    CTranslate2 has none of, is stored in float16 then, and computed in float32.
    """
    model = source.checkpoint.model
    weights = supported_weights(model, "in CTranslate2", f"leave out {setting('format')} "
                                "ctranslate2")
    inner = directory / ENCODER
    inner.mkdir()
    write_encoder(model.config, weights, "int8" if source.int8 else "float32", inner)
    encoder = tuple(f"{model.base_model_prefix}.{part}." for part in ("embeddings", "encoder"))
    state = {name: weight.detach().to(torch.float16 if source.int8 else torch.float32, copy=True)
             for name, weight in model.state_dict().items() if not name.startswith(encoder)}
    try:
        make_head(source.graph.model_class, state, model.config)
    except KeyError as error:
        raise CheckpointError(f"{source.checkpoint.path}: found a head without {error}, expected "
                              f"one of transformers; leave out {setting('format')} "
                              "ctranslate2") from error
    save_file(state, directory / HEAD, {HEAD_CLASS: source.graph.model_class})


WRITERS: dict[str, Callable[[Source, Path], None]] = {
    "onnx": write_onnx, "openvino": write_openvino, "ctranslate2": write_ctranslate2}
