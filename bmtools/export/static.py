"""Writer of static models: a vector for each token, made of an encoder's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bmtools.errors import CheckpointError
from bmtools.models.families import STATIC
from bmtools.models.mlm import encode
from bmtools.models.static import StaticConfig, StaticModel
from bmtools.status import set_status

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint

_SIF = 1e-4  # coefficient of smooth inverse frequency (Arora et al. 2017), as in Model2Vec
_TOKENS_AT_ONCE = 256


def distill_static(teacher: Checkpoint, dimensions: int) -> StaticModel:
    """Make a static model of an encoder's outputs for single tokens.

    A token's vector is the mean output for the token between those that begin and end a text,
    reduced to its principal components, and weighted by the frequency that Zipf's law gives its
    rank, which its id stands for.

    Source: Tulkens and van Dongen 2024 (Model2Vec 0.10, whose vectors these are).

    Args:
        teacher: the encoder; trained heads are of no use here.
        dimensions: of the vectors, at most; fewer where the teacher's are.

    Raises:
        CheckpointError: the teacher is a static model itself.
    """
    if teacher.model.config.model_type == STATIC:
        raise CheckpointError(f"{teacher.path}: found a static model, expected an encoder to make "
                              "one of")
    tokenizer = teacher.tokenizer
    outer = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id}
    ids = torch.tensor([id_ for id_ in range(len(tokenizer)) if id_ not in outer])
    vectors = _principal_components(_outputs(teacher, ids), dimensions)
    frequencies = 1 / np.arange(2, len(ids) + 2)
    vectors *= (_SIF / (_SIF + frequencies / frequencies.sum()))[:, None]
    model = StaticModel(StaticConfig(len(tokenizer), vectors.shape[1],
                                     pad_token_id=tokenizer.pad_token_id,
                                     unk_token_id=tokenizer.unk_token_id))
    with torch.no_grad():
        model.embeddings.weight[ids] = torch.from_numpy(vectors).float()
        model.embeddings.weight[tokenizer.all_special_ids] = 0
    return model


@torch.inference_mode()
def _outputs(teacher: Checkpoint, ids: Tensor) -> np.ndarray:
    """Compute the teacher's mean output for each token alone, (tokens, hidden size)."""
    found, tokenizer = [], teacher.tokenizer
    for done, some in enumerate(ids.split(_TOKENS_AT_ONCE)):
        set_status("encoding tokens", done * _TOKENS_AT_ONCE, len(ids))
        inputs = torch.stack([torch.full_like(some, tokenizer.cls_token_id), some,
                              torch.full_like(some, tokenizer.sep_token_id)], dim=1)
        found.append(encode(teacher.model, inputs, torch.ones_like(inputs)).mean(dim=1))
    return torch.cat(found).double().numpy()


def _principal_components(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """Reduce vectors; a component's largest value is positive. Fewer tokens than that: as is."""
    kept = min(dimensions, vectors.shape[1])
    if kept >= len(vectors):
        return vectors
    centred = vectors - vectors.mean(axis=0)
    found = centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :kept]
    reduced: np.ndarray = found * np.sign(found[np.abs(found).argmax(axis=0), range(kept)])
    return reduced
