"""Models as graphs with plain inputs and one output, and inputs to test them."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from bmtools.errors import DataError, setting
from bmtools.models.architectures import has_segment_embeddings, max_tokens
from bmtools.models.checkpoint import Checkpoint
from bmtools.models.exported.formats import MASKED_LM
from bmtools.models.mlm import encode, lm_head
from bmtools.records import JsonObject, Record
from bmtools.vocab.encoding import encode as encode_texts
from bmtools.vocab.unknown_tokens import MOST_UNKNOWN

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Inputs = dict[str, np.ndarray]
# Maximum length of a test sequence: attention over ModernBERT's 8,192 tokens needs 3 GB.
_LONGEST = 2_048
_SHORT, _MIDDLE = 3, 24
_POSITIONS = 64  # positions of a batch whose logits are compared
_TEXTS, _TEXT_TOKENS = 320, 256
_MASKED_EVERY = 7  # mask every seventh token, as in training


class Graph(nn.Module):
    """A model whose only output is logits.

    A masked language model also takes positions, so that its head runs only at masked tokens. The
    head is a third of the work of a small model with a large vocabulary. The graph stays complete
    for other users, and int8 also covers the head.

    Args:
        checkpoint: checkpoint on the CPU, in evaluation mode.
        model_class: auto class of its head.
    """

    def __init__(self, checkpoint: Checkpoint, model_class: str) -> None:
        super().__init__()
        model: PreTrainedModel = checkpoint.model
        self.model: Any = model
        self.model_class, self.tokenizer = model_class, checkpoint.tokenizer
        self.head = lm_head(model) if model_class == MASKED_LM else None
        # Whether the model has bmtools' head for relations, which reads two mentions.
        self.pairs = any(getattr(one, "reads_mentions", False) for one in model.modules())
        self.segments = has_segment_embeddings(model)
        if model.config.model_type == "modernbert":
            model.base_model.register_forward_pre_hook(_let_tokens_see_themselves, with_kwargs=True)
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                token_type_ids: Tensor | None = None, positions: Tensor | None = None,
                mentions: Tensor | None = None) -> Tensor:
        """Compute logits; see `formats.Run`."""
        if self.head is not None:
            states = encode(self.model, input_ids, attention_mask, token_type_ids=token_type_ids)
            logits: Tensor = self.head(states.flatten(0, 1)[positions])
            return logits
        others = {"token_type_ids": token_type_ids, "mentions": mentions}
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, **{
            name: value for name, value in others.items() if value is not None})
        return torch.stack([found.start_logits, found.end_logits], dim=-1) \
            if hasattr(found, "start_logits") else found.logits

    def inputs(self, ids: Sequence[np.ndarray], second: int = 0) -> Inputs:
        """Pad sequences to a batch.

        Args:
            ids: ids of each sequence, including special tokens.
            second: segment id of the tokens after the first four, if the model has segments.
        """
        shape = len(ids), max(map(len, ids))
        inputs = {"input_ids": np.full(shape, self.tokenizer.pad_token_id),
                  "attention_mask": np.zeros(shape, np.int64)}
        for row, mask, sequence in zip(*inputs.values(), ids, strict=True):
            row[:len(sequence)], mask[:len(sequence)] = sequence, 1
        if self.segments:
            inputs["token_type_ids"] = second * (np.arange(shape[1]) > 3) * inputs["attention_mask"]
        if self.head is not None:
            kept = np.flatnonzero(inputs["attention_mask"])
            inputs["positions"] = kept[::1 + len(kept) // _POSITIONS]
        if self.pairs:
            inputs["mentions"] = np.stack([np.arange(shape[1]) < 2, np.arange(shape[1]) == 2])[
                None].repeat(len(ids), axis=0)
        return inputs

    def random(self, *lengths: int) -> Inputs:
        """Make a batch of random tokens from the vocabulary between special tokens."""
        rng = np.random.default_rng(sum(lengths))
        tokens = np.setdiff1d(np.arange(len(self.tokenizer)), self.tokenizer.all_special_ids)
        longest = min(_LONGEST, max_tokens(self.model))
        return self.inputs([self._whole(rng.choice(tokens, min(length, longest) - 2))
                            for length in lengths], second=1)

    def shapes(self) -> list[Inputs]:
        """Make random batches: a single word, several lengths, and the model's maximum length."""
        return [self.random(_SHORT), self.random(_MIDDLE // 3, _MIDDLE, _MIDDLE // 2),
                self.random(_LONGEST, _MIDDLE)]

    def texts(self, records: Iterable[Record]) -> list[np.ndarray]:
        """Encode the first texts.

        Raises:
            DataError: if there is no text, or it is in another script.
        """
        tokenizer = self.tokenizer
        ids = [text.ids for text in encode_texts(
            tokenizer, (record["text"] for record in islice(records, _TEXTS))) if len(text.ids)]
        tokens = sum(map(len, ids))
        if not tokens:
            raise DataError(f"{setting('calibration')}: found no text, expected records with text")
        unknown = sum(np.count_nonzero(one == tokenizer.unk_token_id) for one in ids)
        if unknown > MOST_UNKNOWN * tokens:
            raise DataError(f"{setting('calibration')}: {unknown:,} of {tokens:,} tokens are "
                            "unknown to the model; expected text in the language and script that "
                            "its vocabulary covers")
        return [self._whole(one[:min(_TEXT_TOKENS, max_tokens(self.model)) - 2]) for one in ids]

    def _whole(self, tokens: np.ndarray) -> np.ndarray:
        """Put special tokens around a text, and insert masks for a masked language model."""
        if self.head is not None:
            tokens[_MASKED_EVERY // 2::_MASKED_EVERY] = self.tokenizer.mask_token_id
        return np.array([self.tokenizer.cls_token_id, *tokens, self.tokenizer.sep_token_id])

    def trace(self) -> Any:
        """Export the graph by torch.export for batches of any shape."""
        inputs = self.shapes()[1]
        dynamic = {name: dict.fromkeys(range(value.ndim), torch.export.Dim.DYNAMIC)
                   for name, value in inputs.items()}
        if self.pairs:
            dynamic["mentions"].pop(1)
        with torch.no_grad(), silenced():
            return torch.export.export(self, (), as_tensors(inputs), dynamic_shapes=dynamic,
                                       strict=False)


def _let_tokens_see_themselves(encoder: Any, args: Any, inputs: JsonObject) -> Any:
    """Make attention masks in which padding sees itself.

    In OpenVINO a token that sees no token is NaN, which spreads to the text in the next global
    layer.
    """
    seen = inputs["attention_mask"].bool()[:, None, None]
    positions = torch.arange(seen.shape[-1])
    distances = (positions[:, None] - positions).abs()
    near = seen & (distances <= encoder.config.sliding_window)
    return args, {**inputs, "attention_mask": {
        "full_attention": seen.expand_as(near), "sliding_attention": near | (distances == 0)}}


def as_tensors(inputs: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Turn inputs into tensors."""
    return {name: torch.from_numpy(value) for name, value in inputs.items()}


@contextmanager
def silenced() -> Iterator[None]:
    """Hide log messages, warnings and output of libraries from users."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
