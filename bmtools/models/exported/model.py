"""Exported models, in place of torch's, and the engines that run them.

A loader gets the directory, the number of threads and the number of streams that call the model,
and returns a `Run`. The engines' packages are imported when a model is loaded.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from bmtools.io.failures import reading
from bmtools.models.exported.formats import MASKED_LM, Exported, Run
from bmtools.models.inference_files import HEADS, read_model_config

ENCODER = "encoder"
HEAD = "head.safetensors"
HEAD_CLASS = "model_class"
OPENVINO_FILE = "openvino_model.xml"
ONNX_FILE = "model.onnx"


class ExportedModel(nn.Module):
    """An exported model with what callers use of transformers' models, on the CPU.

    A masked language model is a `fast_encoder.Encoder`, too, whose states are logits.

    Args:
        directory: of the exported model.
        exported: what it holds.
        config: attributes of transformers' configuration.
    """

    implementation: ClassVar[str] = "exported"

    def __init__(self, directory: Path, exported: Exported, config: Any) -> None:
        super().__init__()
        self.exported, self.config = exported, config
        self.max_tokens, self.device = exported.max_tokens, torch.device("cpu")
        self._directory = directory
        self._run: Run | None = None
        self.eval()

    def load(self, threads: int, streams: int = 1) -> Run:
        """Load it, to be called by as many threads as there are streams, on as many cores."""
        self._run = LOADERS[self.exported.format](self._directory, threads, streams)
        return self._run

    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                **others: Tensor) -> SimpleNamespace:
        """Compute `logits` of a batch, (batch, tokens, labels) or (batch, labels)."""
        run = self._run or self.load(torch.get_num_threads())
        given = {"token_type_ids": torch.zeros_like(input_ids), **others,
                 "input_ids": input_ids, "attention_mask": attention_mask}
        found = run({name: np.ascontiguousarray(given[name]) for name in self.exported.inputs})
        return SimpleNamespace(logits=torch.from_numpy(found))

    def states_at(self, input_ids: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
        """Compute the logits at some positions, (queries, vocabulary); see `Encoder`."""
        logits: Tensor = self(input_ids, torch.ones_like(input_ids),
                              positions=sequences * input_ids.shape[1] + positions).logits
        return logits


def load_onnx(directory: Path, threads: int, streams: int) -> Run:
    """Load `model.onnx`; the threads that call it divide the cores among them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = max(1, threads // streams)
    options.inter_op_num_threads = 1
    with reading(directory / ONNX_FILE, "onnxruntime could not load it", "export the model again"):
        session = onnxruntime.InferenceSession(directory / ONNX_FILE, options,
                                               providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, dict(inputs))[0]


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry, which would report each conversion to Google Analytics
    without asking; OpenVINO and NNCF do without a package that cannot be imported."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    return openvino


def load_openvino(directory: Path, threads: int, streams: int) -> Run:
    """Load the model for a CPU, in float32 where it is not int8.

    Without the hint OpenVINO computes in bfloat16 wherever the CPU can, and says nothing of it.
    """
    openvino = import_openvino()
    with reading(directory / OPENVINO_FILE, "OpenVINO could not load it", "export the model again"):
        compiled = openvino.Core().compile_model(directory / OPENVINO_FILE, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": streams})
    own = threading.local()

    def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        return np.array(own.request.infer(dict(inputs))[0])

    return run


def make_head(model_class: str, state: Mapping[str, Tensor],
          config: Any) -> tuple[Callable[[Tensor], Tensor], bool]:
    """Make the head of its weights, and tell whether it reads the first token's state alone."""
    tokens = next((weight for name, weight in state.items() if name.endswith("decoder.weight")),
                  torch.empty(0))
    return HEADS[model_class](state, config, tokens)


def load_ctranslate2(directory: Path, threads: int, streams: int) -> Run:
    """Load encoder and head; the threads that call it divide the cores among them."""
    import ctranslate2

    with reading(directory, "CTranslate2 could not load it", "export the model again"):
        encoder = ctranslate2.Encoder(
            str(directory / ENCODER), device="cpu", inter_threads=streams,
            intra_threads=max(1, threads // streams))
        with safe_open(directory / HEAD, "pt") as file:
            model_class = file.metadata()[HEAD_CLASS]
            state = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        head, pooled = make_head(model_class, state, read_model_config(directory))

    @torch.inference_mode()
    def run(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        ids, lengths = (ctranslate2.StorageView.from_array(values.astype(np.int32)) for values in (
            inputs["input_ids"], inputs["attention_mask"].sum(axis=1)))
        segments = [inputs[name].tolist() for name in ("token_type_ids",) if name in inputs]
        found = encoder.forward_batch(ids, lengths, *segments).last_hidden_state
        states = torch.from_numpy(np.asarray(found))
        if model_class == MASKED_LM:
            states = states.flatten(0, 1)[torch.from_numpy(inputs["positions"])]
        return head(states[:, 0] if pooled else states).numpy()

    return run

LOADERS: dict[str, Callable[[Path, int, int], Run]] = {
    "onnx": load_onnx, "openvino": load_openvino, "ctranslate2": load_ctranslate2}
