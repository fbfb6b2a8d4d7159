"""Tiny models that memorized six sentences, one for each tokenizer family."""

from __future__ import annotations

import io
import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    NllbTokenizer,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)
from transformers.utils import logging

from bmtools.translation.engines.ctranslate2_engine import convert
from bmtools.translation.engines.engine import Translation, Translator
from bmtools.translation.engines.model_files import hash_model
from bmtools.translation.settings import EngineConfig

PAIRS = {
    "The patient has a fever.": "Il paziente ha la febbre.",
    "The drug reduces pain.": "Il farmaco riduce il dolore.",
    "No patient died.": "Nessun paziente è morto.",
    "Pain was reduced by 30% (p < 0.05).": "Il dolore si è ridotto del 30% (p < 0.05).",
    "We studied the drug.": "Abbiamo studiato il farmaco.",
    "Fever is common.": "La febbre è comune.",
}
_SHAPE: dict[str, Any] = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "max_position_embeddings": 64, "dropout": 0.0, "attention_dropout": 0.0,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0}


class Dictionary(Translator):
    """A translator that can translate some sentences, and records its calls."""

    name = "dictionary"
    marks_unknown = True
    fingerprint = "dictionary"

    def __init__(self, known: Mapping[str, str], batch_sentences: int = 2) -> None:
        self.details = {"edition": "first"}
        self.own_counts = Counter[str]()
        self.batch_sentences = batch_sentences
        self.known = known
        self.calls: list[list[str]] = []
        self.attempts_made: list[int] = []

    def translate(self, sentences: Sequence[str], attempt: int = 0) -> list[Translation]:
        self.calls.append(list(sentences))
        self.attempts_made.append(attempt)
        return [Translation(self.known[one], self.known[one].count("?"), engine=self.name)
                if one in self.known else Translation("", fault="not in the book")
                for one in sentences]


@pytest.fixture
def dictionary() -> Callable[..., Dictionary]:
    return Dictionary


@pytest.fixture(scope="session")
def pairs() -> dict[str, str]:
    return PAIRS


def _pieces(lines: Sequence[str], path: Path, size: int) -> list[str]:
    """Learn a sentencepiece model and return its vocabulary."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*lines] * 5), model_writer=model, vocab_size=size,
        hard_vocab_limit=False, character_coverage=1.0, minloglevel=2)
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def _write_vocabulary(path: Path, tokens: Sequence[str]) -> dict[str, int]:
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    path.write_text(json.dumps(vocabulary), encoding="utf-8")
    return vocabulary


def _taught(model: Any, tokenizer: Any, directory: Path) -> Path:
    """Train until the model has memorized the sentences, and save it."""
    mark = "<2it> " if "<2it>" in tokenizer.get_vocab() else ""
    batch = tokenizer([mark + source for source in PAIRS], text_target=list(PAIRS.values()),
                      return_tensors="pt", padding=True)
    labels = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(250):
        optimizer.zero_grad()
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"],
              labels=labels).loss.backward()
        optimizer.step()
        with torch.no_grad():
            # Marian starts translations with its padding token, whose embedding is zero.
            model.get_input_embeddings().weight[tokenizer.pad_token_id] = 0
    logging.disable_progress_bar()
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for one language pair, as in OPUS-MT."""
    directory = tmp_path_factory.mktemp("marian")
    source = _pieces(list(PAIRS), directory / "source.spm", 60)
    target = _pieces(list(PAIRS.values()), directory / "target.spm", 60)
    plain = [piece for piece in source + target if piece not in ("<s>", "</s>", "<unk>")]
    vocabulary = _write_vocabulary(directory / "vocab.json",
                                   ["</s>", "<unk>", *plain, "<pad>"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        tokenizer = MarianTokenizer(*(str(directory / name) for name in
                                      ("source.spm", "target.spm", "vocab.json")))
    pad = vocabulary["<pad>"]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MarianMTModel(MarianConfig(
            vocab_size=len(vocabulary), pad_token_id=pad, decoder_start_token_id=pad,
            eos_token_id=0, forced_eos_token_id=0, scale_embedding=True,
            activation_function="swish", **_SHAPE))
        return _taught(model, tokenizer, directory)


@pytest.fixture(scope="session")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual model with the language tokens of M2M-100."""
    directory = tmp_path_factory.mktemp("m2m")
    pieces = _pieces([*PAIRS, *PAIRS.values()], directory / "sentencepiece.bpe.model", 90)
    vocabulary = _write_vocabulary(directory / "vocab.json",
                                   ["<s>", "<pad>", "</s>", "<unk>", *pieces])
    tokenizer = M2M100Tokenizer(str(directory / "vocab.json"),
                                str(directory / "sentencepiece.bpe.model"),
                                src_lang="en", tgt_lang="it")
    size = len(vocabulary) + len(tokenizer.lang_token_to_id) + tokenizer.num_madeup_words
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = M2M100ForConditionalGeneration(M2M100Config(vocab_size=size, **_SHAPE))
        return _taught(model, tokenizer, directory)


@pytest.fixture(scope="session")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual model with the language tokens of NLLB."""
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.train_from_iterator([*PAIRS, *PAIRS.values()], trainers.BpeTrainer(
        vocab_size=150, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False))
    learnt = json.loads(backend.to_str())["model"]
    tokenizer = NllbTokenizer(
        vocab=learnt["vocab"], merges=[tuple(merge) for merge in learnt["merges"]],
        src_lang="eng_Latn", tgt_lang="ita_Latn",
        extra_special_tokens=["cat_Latn", "eng_Latn", "ita_Latn"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = M2M100ForConditionalGeneration(M2M100Config(
            vocab_size=len(tokenizer), **_SHAPE))
        return _taught(model, tokenizer, tmp_path_factory.mktemp("nllb"))


@pytest.fixture(scope="session")
def madlad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A multilingual model with the target's token before the source, as in MADLAD-400."""
    directory = tmp_path_factory.mktemp("madlad")
    backend = Tokenizer(models.Unigram(
        [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("<2it>", 0.0), ("<2es>", 0.0),
         *((piece, -float(number)) for number, piece in enumerate(
             _pieces([*PAIRS, *PAIRS.values()], directory / "spiece.model", 90)[3:]))], unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    tokenizer = T5Tokenizer(tokenizer_object=backend, pad_token="<s>", extra_ids=0,
                            extra_special_tokens=["<2it>", "<2es>"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(T5Config(
            vocab_size=len(tokenizer) + 3, d_model=32, d_kv=16, d_ff=64, num_layers=1,
            num_decoder_layers=1, num_heads=2, feed_forward_proj="gated-gelu", n_positions=64,
            tie_word_embeddings=False, dropout_rate=0.0, pad_token_id=1, eos_token_id=2,
            decoder_start_token_id=1))
        return _taught(model, tokenizer, directory)


@pytest.fixture(params=["marian", "m2m", "nllb", "madlad"])
def model(request: pytest.FixtureRequest) -> Path:
    """A model of each family."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Convert a model for CTranslate2 once, without quantization."""
    pytest.importorskip("ctranslate2")
    root = tmp_path_factory.mktemp("converted")

    def conversion(model: Path) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(root))
            settings = EngineConfig("ctranslate2", "en", "it", model=model, precision="float32")
            return convert(settings, hash_model(model, None))

    return conversion
