"""Static models: a vector for each token, and a text's the mean of its tokens' (Model2Vec).

transformers finds them by its auto classes once this module is imported, so they are fine-tuned,
saved and run as other checkpoints are.
"""

from __future__ import annotations

from typing import Any

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

from bmtools.models.families import STATIC

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
                **_others: object) -> SequenceClassifierOutput:
        """Compute `logits`, (batch, labels)."""
        vectors = self.static(input_ids, attention_mask)
        return SequenceClassifierOutput(logits=self.classifier(vectors))


AutoConfig.register(STATIC, StaticConfig)
AutoModel.register(StaticConfig, StaticModel)
AutoModelForSequenceClassification.register(StaticConfig, StaticForSequenceClassification)

