"""Static models: a vector for each token, and a text's the mean of its tokens' (Model2Vec).

transformers finds them by its auto classes once this module is imported, so they are fine-tuned,
saved and run as other checkpoints are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from bmtools.errors import CheckpointError
from bmtools.models.checkpoint_files import STATIC
from bmtools.models.mlm import encode
from bmtools.status import set_status

if TYPE_CHECKING:
    from bmtools.models.checkpoint import Checkpoint

_SIF = 1e-4  # coefficient of smooth inverse frequency (Arora et al. 2017), as in Model2Vec
_TOKENS_AT_ONCE = 256
_LONGEST = 1_000_000


class StaticConfig(PretrainedConfig):
    """Configuration of a static model.

    Args:
        vocab_size: tokens.
        hidden_size: dimensions of a vector.
        others: attributes of every configuration.
    """

    model_type = STATIC

    def __init__(self, vocab_size: int = 1, hidden_size: int = 256, **others: Any) -> None:
        self.vocab_size, self.hidden_size = vocab_size, hidden_size
        self.max_position_embeddings, self.num_hidden_layers = _LONGEST, 0
        self.initializer_range = 0.02
        self.normalize = True
        super().__init__(**others)


class StaticModel(PreTrainedModel):
    """Vectors of tokens; those of special ones are 0.

    Args:
        config: gives their number and size.
    """

    config_class = StaticConfig
    base_model_prefix = "static"
    _input_embed_layer = "embeddings"

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Compute the vectors of texts, of length 1, (batch, dimensions)."""
        summed = (self.embeddings(input_ids) * attention_mask[..., None]).sum(dim=1)
        return functional.normalize(summed, dim=-1)


class StaticForSequenceClassification(PreTrainedModel):
    """A linear layer over the vectors of texts.

    Args:
        config: of the vectors, and the labels.
    """

    config_class = StaticConfig
    base_model_prefix = "static"

    def __init__(self, config: StaticConfig) -> None:
        super().__init__(config)
        self.static = StaticModel(config)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label or ()))
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                **_others: Any) -> SequenceClassifierOutput:
        """Compute `logits`, (batch, labels)."""
        vectors = self.static(input_ids, attention_mask)
        return SequenceClassifierOutput(logits=self.classifier(vectors))


AutoConfig.register(STATIC, StaticConfig)
AutoModel.register(StaticConfig, StaticModel)
AutoModelForSequenceClassification.register(StaticConfig, StaticForSequenceClassification)


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
