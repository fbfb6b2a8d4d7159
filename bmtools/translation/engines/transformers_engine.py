"""Engine on transformers: sequence-to-sequence models as published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM
from transformers.utils import logging

from bmtools.io.failures import reading
from bmtools.models.hardware import resolve_device
from bmtools.translation.engines.neural import TYPES, Generated, NeuralTranslator, Search
from bmtools.translation.settings import EngineConfig

_SCORES = 2**26  # of tokens by vocabulary, at once: 256 MB


def load_model(directory: Path, device: str, dtype: str = "float32") -> Any:
    """Load a sequence-to-sequence model; weights only as safetensors, no code from it."""
    logging.disable_progress_bar()
    with reading(directory, "no model for translation",
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
        # A forced end would make a loop look like a translation; limits are given with each call.
        self._model.generation_config.forced_eos_token_id = None
        self._model.generation_config.max_length = None

    def generate(self, sources: Sequence[list[str]], longest: int,
                 search: Search) -> list[Generated]:
        """Translate tokens in batches of similar length, and restore the order."""
        tokenizer, mark = self.subwords.tokenizer, self.subwords.target_token
        vocabulary = self.subwords.vocabulary
        ids = self._ids(sources)
        results: dict[int, list[str]] = {}
        for batch in batches_by_length([len(one) for one in ids], self.config.batch_tokens):
            inputs, mask = self._pad([ids[index] for index in batch])
            with torch.inference_mode():
                outputs = self._model.generate(
                    input_ids=inputs, attention_mask=mask, max_new_tokens=longest,
                    num_beams=search.beam_size, do_sample=False,
                    repetition_penalty=search.repetition_penalty,
                    no_repeat_ngram_size=search.no_repeat_ngram_size,
                    forced_bos_token_id=vocabulary[mark] if mark else None)
            for index, output in zip(batch, outputs.tolist(), strict=True):
                # The decoder's start goes, and what follows the end.
                tokens = list(tokenizer.convert_ids_to_tokens(output))[1:]
                end = tokens.index(tokenizer.eos_token) if tokenizer.eos_token in tokens else -1
                results[index] = tokens[:end + 1 or None]
        tokens_of = [results[index] for index in range(len(sources))]
        # A pass over whole translations costs little beside the search, and less memory than the
        # scores of all its steps.
        return [Generated(tokens, mean(scores[bool(mark):])) for tokens, scores in
                zip(tokens_of, self._score(ids, tokens_of), strict=True)]

    @torch.inference_mode()
    def _score(self, left: Sequence[list[int]],
               targets: Sequence[list[str]]) -> list[list[float]]:
        """Return the log-probability of each token of translations, in nats."""
        right = self._ids(targets)
        lengths = [len(one) + len(other) for one, other in zip(left, right, strict=True)]
        batch_tokens = min(self.config.batch_tokens, _SCORES // len(self.subwords.vocabulary))
        scores: dict[int, list[float]] = {}
        for batch in batches_by_length(lengths, batch_tokens):
            inputs, mask = self._pad([left[index] for index in batch])
            labels, kept = self._pad([right[index] for index in batch])
            logits = self._model(input_ids=inputs, attention_mask=mask, labels=labels).logits
            found = logits.float().log_softmax(-1).gather(-1, labels[..., None])[..., 0]
            for index, row, length in zip(batch, found.tolist(), kept.sum(1).tolist(), strict=True):
                scores[index] = row[:length]
        return [scores[index] for index in range(len(left))]

    def _ids(self, sentences: Sequence[list[str]]) -> list[list[int]]:
        unknown = self.subwords.tokenizer.unk_token_id
        return [[self.subwords.vocabulary.get(token, unknown) for token in sentence]
                for sentence in sentences]

    def _pad(self, sequences: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        return pad(sequences, self.subwords.tokenizer.pad_token_id, self._model.device)


def pad(sequences: Iterable[list[int]], pad_id: int, device: torch.device,
        ) -> tuple[torch.Tensor, torch.Tensor]:
    """Make a batch of ids, and its attention mask."""
    tensors = [torch.tensor(ids) for ids in sequences]
    inputs = pad_sequence(tensors, batch_first=True, padding_value=pad_id)
    mask = pad_sequence([torch.ones_like(one) for one in tensors], batch_first=True)
    return inputs.to(device), mask.to(device)


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Group indices, longest first, so that each padded batch holds `batch_tokens` at most.

    One that is longer by itself makes a batch of its own.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
