"""Exported models, run by OpenVINO, which is imported when a model is loaded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from bmtools.io.failures import reading
from bmtools.models.exported.formats import Exported, Run

OPENVINO_FILE = "openvino_model.xml"


class ExportedModel(nn.Module):
    """An exported model on the CPU, with the interface of transformers' models that callers use.

    A masked language model is also a `fast_encoder.Encoder` whose states are logits.

    Args:
        directory: directory of the exported model.
        exported: its description.
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
        """Load the model with streams for concurrent calls, on this number of cores."""
        self._run = load_openvino(self._directory, threads, streams)
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


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry, which would report each conversion to Google Analytics
    without asking. OpenVINO and NNCF work without this package if it cannot be imported."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    import openvino

    return openvino


def load_openvino(directory: Path, threads: int, streams: int) -> Run:
    """Load the model for a CPU, in float32 or int8.

    Without the hint OpenVINO silently computes in bfloat16 on CPUs that support it.
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
