"""Engine that runs published sequence-to-sequence models with transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM
from transformers.utils import logging

from bmtools.io.failures import reading
from bmtools.models.hardware import resolve_device
from bmtools.translation.engines.neural import TYPES, Generated, NeuralTranslator, Search
from bmtools.translation.settings import EngineConfig


def load_model(directory: Path, device: str, dtype: str = "float32") -> Any:
    """Load a sequence-to-sequence model from safetensors, without running code from it."""
    logging.disable_progress_bar()
    with reading(directory, "found no translation model",
                 "expected config.json and model.safetensors"):
        model: Any = AutoModelForSeq2SeqLM.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False, use_safetensors=True,
            dtype=getattr(torch, dtype))
    return model.to(resolve_device(device)).eval()


class TransformersTranslator(NeuralTranslator):
    """Translator with a local checkpoint."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self._model = load_model(config.directory, config.device,
                                 TYPES.get(config.precision, "float32"))
        # A forced end would make a loop look like a translation. Each call states its limits.
        self._model.generation_config.forced_eos_token_id = None
        self._model.generation_config.max_length = None

    def generate(self, sources: Sequence[list[str]], longest: int,
                 search: Search) -> list[Generated]:
        """Translate tokens in batches of similar length, and restore the order."""
        tokenizer, mark = self.subwords.tokenizer, self.subwords.target_token
        ids = cast("list[list[int]]", list(map(tokenizer.convert_tokens_to_ids, sources)))
        results: dict[int, Generated] = {}
        for batch in batches_by_length(list(map(len, ids)), self.config.batch_tokens):
            inputs, mask = pad([ids[index] for index in batch], tokenizer.pad_token_id,
                               self._model.device)
            with torch.inference_mode():
                outputs = self._model.generate(
                    input_ids=inputs, attention_mask=mask, max_new_tokens=longest,
                    num_beams=search.beam_size, do_sample=False,
                    repetition_penalty=search.repetition_penalty,
                    no_repeat_ngram_size=search.no_repeat_ngram_size,
                    forced_bos_token_id=self.subwords.vocabulary[mark] if mark else None)
            for index, output in zip(batch, outputs.tolist(), strict=True):
                # Remove the decoder's start and the tokens after the end.
                tokens = list(tokenizer.convert_ids_to_tokens(output))[1:]
                end = tokens.index(tokenizer.eos_token) if tokenizer.eos_token in tokens else -1
                results[index] = Generated(tokens[:end + 1 or None])
        return [results[index] for index in range(len(sources))]


def pad(sequences: Iterable[list[int]], pad_id: int, device: torch.device,
        ) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch of padded ids and its attention mask."""
    tensors = [torch.tensor(ids) for ids in sequences]
    inputs = pad_sequence(tensors, batch_first=True, padding_value=pad_id)
    mask = pad_sequence([torch.ones_like(one) for one in tensors], batch_first=True)
    return inputs.to(device), mask.to(device)


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Group indices, longest first, so that each padded batch has at most `batch_tokens` tokens.

    A sequence that is longer than this gets a separate batch.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
