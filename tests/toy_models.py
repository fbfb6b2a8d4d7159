"""Fixtures: a tiny tokenizer, model, corpus and batches; and tiny models of each family."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy_corpora import EncodedDocument, corpus_of
from toy_tokenizers import train_tokenizer
from transformers import (
    AutoModelForPreTraining,
    BertConfig,
    CamembertConfig,
    DebertaV2Config,
    ElectraConfig,
    EuroBertConfig,
    MegatronBertConfig,
    ModernBertConfig,
    RobertaConfig,
    XLMRobertaConfig,
)

from bmtools.data.batches import Collator, ScheduledBatches, SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.data.sampler import Sampler
from bmtools.data.shards import Corpus
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import save_checkpoint
from bmtools.recipes.phases import Phase, Schedule
from bmtools.recipes.settings import BatchConfig, ObjectiveConfig, PhaseLengthConfig
from bmtools.vocab.encoding import encode
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint, save_tokenizer

SUBJECTS = ("Il cuore", "Il polmone", "Il fegato", "Il rene", "La milza")
VERBS = ("pompa", "filtra", "regola", "trasporta", "accumula")
OBJECTS = ("il sangue", "la bile", "l'ossigeno", "il glucosio", "la linfa")
SENTENCES = [f"{' '.join(words)}." for words in itertools.product(SUBJECTS, VERBS, OBJECTS)]
FAMILIES = ("BERT", "RoBERTa", "XLM-R", "Megatron-BERT", "ModernBERT")
CONFIGS: dict[str, Any] = {
    "BERT": BertConfig, "RoBERTa": RobertaConfig, "XLM-R": XLMRobertaConfig,
    "Megatron-BERT": MegatronBertConfig, "ModernBERT": ModernBertConfig,
    "CamemBERT": CamembertConfig, "DeBERTa": DebertaV2Config, "ELECTRA": ElectraConfig,
    "EuroBERT": EuroBertConfig}


def tiny_config(family: str, **changes: Any) -> Any:
    """Return a model configuration with 60 tokens, 40 positions and three layers of width 32."""
    settings = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3,
                "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 40,
                "pad_token_id": 1}
    if family == "ModernBERT":
        settings |= {"local_attention": 8, "global_attn_every_n_layers": 2, "bos_token_id": 2,
                     "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    return CONFIGS[family](**settings | changes)


def save_random(directory: Path, tokenizer: Any, architecture: str = "bert-1x64") -> Path:
    """Save a masked language model with random weights, the same in each call."""
    torch.manual_seed(0)
    save_checkpoint(directory, build_model(build_config(architecture, tokenizer)), tokenizer,
                    Manifest("test", {}, fingerprint(tokenizer)))
    return directory


def learn_wordpiece(texts: Iterable[str], size: int) -> Any:
    """Learn a small WordPiece vocabulary."""
    return train_tokenizer(texts, VocabularyConfig(size=size, allow_fewer=True))


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Train WordPiece on the toy sentences."""
    return train_tokenizer(SENTENCES, VocabularyConfig(size=120, allow_fewer=True))


@pytest.fixture
def model(tokenizer: Any) -> Any:
    """Build a random model with two layers of width 64."""
    torch.manual_seed(0)
    return build_model(build_config("bert-2x64", tokenizer))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Write the toy sentences as records."""
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n"
                            for n, text in enumerate(SENTENCES)), encoding="utf-8")
    return path


@pytest.fixture
def vocabulary(tmp_path: Path, tokenizer: Any) -> Path:
    """Save the tokenizer."""
    save_tokenizer(tokenizer, tmp_path / "vocabulary")
    return tmp_path / "vocabulary"


@dataclass(frozen=True)
class Toy:
    """Makes corpora and batches of a small text as a run does."""

    tokenizer: Any

    def corpus(self, texts: Sequence[str]) -> Corpus:
        """Encode texts; a full stop ends a sentence."""
        documents = []
        for encoded in encode(self.tokenizer, texts):
            points = np.isin(encoded.ids, self.tokenizer.convert_tokens_to_ids(["."]))
            sentences = [0, *(np.nonzero(points[:-1])[0] + 1).tolist()]
            documents.append(EncodedDocument(encoded.ids, encoded.word_starts, sentences))
        return corpus_of(documents, fingerprint(self.tokenizer))

    def batches(self, texts: Sequence[str], *phases: Phase, packed: bool = False, seed: int = 0,
                micro_batch_size: int = 0,
                padded_lengths: Sequence[int] | None = None) -> ScheduledBatches:
        """Make the batches of phases."""
        corpora = {"text": self.corpus(texts)}
        schedule = Schedule(phases, [phase.length.steps for phase in phases])
        strategies = {name: make_strategy(name) for name in ("words", "tokens", "spans")}
        collator = Collator(list(corpora.values()), SpecialTokens.of(self.tokenizer), packed, seed,
                            strategies, padded_lengths)
        return ScheduledBatches(Sampler(corpora, schedule, packed, seed), collator,
                                dict.fromkeys((phase.name for phase in phases), micro_batch_size))


@pytest.fixture(scope="session")
def toy(tokenizer: Any) -> Toy:
    """Return a maker of batches with the toy tokenizer."""
    return Toy(tokenizer)


@pytest.fixture(scope="session")
def toy_phase() -> Callable[..., Phase]:
    """Return a maker of phases: `toy_phase(steps=4, objective="causal")`."""
    return make_phase


def make_phase(steps: int = 12, batch: BatchConfig | None = None, name: str = "main",
               **objective: Any) -> Phase:
    """Return a phase with sequences of 32 tokens and batches of 4."""
    return Phase(name, PhaseLengthConfig(steps=steps), batch or BatchConfig(32, 4),
                 ObjectiveConfig(**objective))


def join_nsp_head(model: Any, head: Any) -> Any:
    """Join copies of a masked language model and its NSP head in transformers' own class."""
    names = {"pooler": "bert.pooler.dense", "relationship": "cls.seq_relationship"}
    joined = AutoModelForPreTraining.from_config(model.config).train(model.training)
    joined.load_state_dict({**model.state_dict(), **{
        f"{theirs}.{part}": getattr(getattr(head, ours), part)
        for ours, theirs in names.items() for part in ("weight", "bias")}})
    return joined
