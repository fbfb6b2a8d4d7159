"""Tiny random models with different tokenizer families, and a model with known probabilities."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from toy_tokenizers import train_tokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import Checkpoint, save_checkpoint
from bmtools.records import Record
from bmtools.scoring.checkpoint_predictor import CheckpointPredictor
from bmtools.scoring.settings import InferenceConfig
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

TEXTS = [
    "La malattia di Parkinson riduce la dopamina nel cervello.",
    "Il paziente riferisce dolore all'addome e nausea da tre giorni.",
    "L'articolazione della spalla è dolente; perché la Malattia è cronica?",
    "La dopamina manca già al 60% dei neuroni, più che nel sonno.",
    "Il cuore batte.",
    "Un farmaco riduce la pressione arteriosa del paziente anziano.",
]
_ROLES = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>",
          "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
_SHAPE: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "initializer_range": 0.3}


def predictor(model: Any, tokenizer: Any, name: str = "model",
              **passes: Any) -> CheckpointPredictor:
    """Make a predictor from a model that was never saved."""
    checkpoint = Checkpoint(Path(name), model.eval(), tokenizer, fingerprint(tokenizer))
    return CheckpointPredictor(checkpoint, InferenceConfig(**passes))


def byte_bpe(trimmed: bool, texts: Sequence[str] = TEXTS,
             size: int = 700) -> PreTrainedTokenizerFast:
    """Train byte-level BPE; its offsets exclude or include the space before words."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = list(dict.fromkeys(_ROLES.values()))
    backend.train_from_iterator([*texts] * 3, trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    ends = [(token, backend.token_to_id(token)) for token in ("<s>", "</s>")]
    backend.post_processor = (
        processors.RobertaProcessing(ends[1], ends[0], trim_offsets=True, add_prefix_space=False)
        if trimmed else processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=ends))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **_ROLES)


def metaspace() -> PreTrainedTokenizerFast:
    """Train a Unigram vocabulary with SentencePiece's mark for spaces."""
    backend = Tokenizer(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    special = list(dict.fromkeys(_ROLES.values()))
    backend.train_from_iterator(TEXTS * 3, trainers.UnigramTrainer(
        vocab_size=150, special_tokens=special, unk_token="<unk>", show_progress=False))
    ends = [(token, backend.token_to_id(token)) for token in ("<s>", "</s>")]
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **_ROLES)


def _roberta(tokenizer: Any, tokens: int = 64) -> Any:
    return RobertaForMaskedLM(RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=tokens + 2, type_vocab_size=1,
        pad_token_id=tokenizer.pad_token_id, **_SHAPE))


def _modern(tokenizer: Any) -> Any:
    # The embedding has more rows than there are tokens, as in ModernBERT.
    return ModernBertForMaskedLM(ModernBertConfig(
        vocab_size=len(tokenizer) + 5, max_position_embeddings=64, local_attention=8,
        global_attn_every_n_layers=2, pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
        cls_token_id=tokenizer.cls_token_id, sep_token_id=tokenizer.sep_token_id, **_SHAPE))


def bert(tokenizer: Any, tokens: int = 64) -> Any:
    """Make a small random BERT for a vocabulary, using torch's global generator."""
    return BertForMaskedLM(BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=tokens, **_SHAPE))


@pytest.fixture(scope="session")
def wordpiece() -> CheckpointPredictor:
    tokenizer = train_tokenizer(TEXTS * 3,
                                VocabularyConfig(size=140, allow_fewer=True, uncased=False))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return predictor(bert(tokenizer), tokenizer, "wordpiece")


@pytest.fixture(scope="session")
def roberta() -> CheckpointPredictor:
    tokenizer = byte_bpe(trimmed=True)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return predictor(_roberta(tokenizer), tokenizer, "roberta")


@pytest.fixture(scope="session")
def modernbert() -> CheckpointPredictor:
    tokenizer = byte_bpe(trimmed=False)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return predictor(_modern(tokenizer), tokenizer, "modernbert")


@pytest.fixture(scope="session")
def unigram() -> CheckpointPredictor:
    tokenizer = metaspace()
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return predictor(_roberta(tokenizer), tokenizer, "unigram")


@pytest.fixture(params=["wordpiece", "roberta", "modernbert", "unigram"])
def any_model(request: pytest.FixtureRequest) -> CheckpointPredictor:
    return request.getfixturevalue(request.param)


@pytest.fixture
def records() -> list[Record]:
    return [Record(id=str(number), text=text, place=f"s.jsonl:{number + 1}")
            for number, text in enumerate(TEXTS)]


@pytest.fixture
def known() -> Callable[..., CheckpointPredictor]:
    """Make a model that proposes tokens with given weights for any input.

    `known({"cuore": 8, "mano": 4})` assigns `cuore` 8 parts of the sum of weights, and so on. Ids
    follow the order of the dictionary, after the five special tokens, which have weight 0.
    """

    def make(weights: Mapping[str, float], **settings: Any) -> CheckpointPredictor:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *weights]
        tokenizer = BertTokenizer(vocab={word: number for number, word in enumerate(words)},
                                  do_lower_case=False)
        tokenizer.backend_tokenizer.encode_special_tokens = True  # as loading sets it
        model = bert(tokenizer, tokens=settings.pop("tokens", 64))
        head = model.cls.predictions
        with torch.no_grad():
            head.transform.LayerNorm.weight.zero_()
            head.transform.LayerNorm.bias.zero_()
            # Weights must be finite; the resulting probability is 0.
            head.bias.copy_(torch.tensor([0.0] * 5 + list(weights.values())).log().clamp(-1e4))
        return predictor(model, tokenizer, settings.pop("name", "known"), **settings)

    return make


@pytest.fixture
def save(tmp_path: Path) -> Callable[[CheckpointPredictor], Path]:
    """Save a predictor's checkpoint under its name."""

    def saved(model: CheckpointPredictor) -> Path:
        save_checkpoint(tmp_path / model.name, model.checkpoint.model, model.tokenizer,
                        Manifest("test", {}, model.vocabulary))
        return tmp_path / model.name

    return saved


@pytest.fixture(scope="session")
def sentences(data: Path) -> list[str]:
    """Two hundred sentences of original clinical Italian."""
    from bmtools.text.segment import sentence_spans

    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in itertools.islice(stream, 80)]
    found = (text[start:end] for text in texts for start, end in sentence_spans(text, "it"))
    return list(itertools.islice((one for one in found if 20 < len(one) < 160), 200))


@pytest.fixture(scope="session")
def clinical(sentences: list[str]) -> CheckpointPredictor:
    """A random BERT with a WordPiece vocabulary of these sentences."""
    tokenizer = train_tokenizer(sentences, VocabularyConfig(size=900, allow_fewer=True))
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return predictor(bert(tokenizer, tokens=128), tokenizer, "clinical")


@pytest.fixture(scope="session")
def clinical_bytes(sentences: list[str]) -> CheckpointPredictor:
    """A random RoBERTa with a byte-level BPE vocabulary of these sentences."""
    tokenizer = byte_bpe(trimmed=True, texts=sentences, size=900)
    with torch.random.fork_rng():
        torch.manual_seed(6)
        return predictor(_roberta(tokenizer, tokens=130), tokenizer, "bytes")
