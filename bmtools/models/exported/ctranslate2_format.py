"""CTranslate2's format, with the head in torch: BERT, RoBERTa and their kin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bmtools.errors import CheckpointError, setting
from bmtools.io.failures import reading
from bmtools.models.exported.formats import MASKED_LM, Run
from bmtools.models.inference_files import HEADS, read_model_config
from bmtools.models.int8 import supported_weights, write_encoder

if TYPE_CHECKING:
    from bmtools.models.exported.export import Source

ENCODER = "encoder"
HEAD = "head.safetensors"
_CLASS = "model_class"


def write(source: Source, directory: Path) -> None:
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
        _head(source.graph.model_class, state, model.config)
    except KeyError as error:
        raise CheckpointError(f"{source.checkpoint.path}: found a head without {error}, expected "
                              f"one of transformers; leave out {setting('format')} "
                              "ctranslate2") from error
    save_file(state, directory / HEAD, {_CLASS: source.graph.model_class})


def _head(model_class: str, state: Mapping[str, Tensor],
          config: Any) -> tuple[Callable[[Tensor], Tensor], bool]:
    """Make the head of its weights, and tell whether it reads the first token's state alone."""
    tokens = next((weight for name, weight in state.items() if name.endswith("decoder.weight")),
                  torch.empty(0))
    return HEADS[model_class](state, config, tokens)


def load(directory: Path, threads: int, streams: int) -> Run:
    """Load encoder and head; the threads that call it divide the cores among them."""
    import ctranslate2

    with reading(directory, "CTranslate2 could not load it", "export the model again"):
        encoder = ctranslate2.Encoder(
            str(directory / ENCODER), device="cpu", inter_threads=streams,
            intra_threads=max(1, threads // streams))
        with safe_open(directory / HEAD, "pt") as file:
            model_class = file.metadata()[_CLASS]
            state = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
        head, pooled = _head(model_class, state, read_model_config(directory))

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
