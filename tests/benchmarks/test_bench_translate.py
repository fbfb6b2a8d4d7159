"""`translate` compared with transformers' `generate`.

`pytest tests/benchmarks/test_bench_translate.py -s --benchmark-enable` uses a random Marian with 6
+ 6 layers of width 512 and a vocabulary of OPUS-MT's size, on two cores. Random models do not learn
when to stop, so on all sides every batch is forced to the length of its longest source. The sides
take turns. Without that option models are tiny, and only agreement is checked.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from timing import ROUNDS, THREADS, in_turns, note
from transformers import MarianConfig, MarianMTModel

from bmtools.translation.engines.ctranslate2_engine import CTranslate2Translator
from bmtools.translation.engines.neural import Generated
from bmtools.translation.engines.transformers_engine import batches_by_length
from bmtools.translation.settings import EngineConfig

ctranslate2 = pytest.importorskip("ctranslate2")
_VOCABULARY = 58_101  # about the size in opus-mt-en-it and most other models
# Token counts of sentences in abstracts: quantiles and their shares of sentences.
_LENGTHS, _SHARES = (5, 9, 17, 26, 36, 58, 90), (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
_BIOBIT_WORDS = 4.5e9  # words of PubMed's abstracts, by the authors of PubMedBERT
_TOKENS_PER_WORD = 1.35


def forced(model: Any, sources: Sequence[list[str]], beam_size: int,
           batch_tokens: int) -> list[Generated]:
    """Translate batches of similar length, each to its longest length."""
    under_way = []
    for batch in batches_by_length([len(one) for one in sources], batch_tokens):
        longest = len(sources[batch[0]])
        under_way += zip(batch, model.translate_batch(
            [sources[index] for index in batch], beam_size=beam_size, asynchronous=True,
            min_decoding_length=longest, max_decoding_length=longest, max_input_length=0,
            return_scores=True), strict=True)
    found = {index: one.result() for index, one in under_way}
    return [Generated([*found[index].hypotheses[0], "</s>"], found[index].scores[0])
            for index in range(len(sources))]


def generate(model: Any, sources: Sequence[list[int]], batches: Sequence[Sequence[int]],
             beam_size: int) -> None:
    """Translate with transformers, each batch to its longest length."""
    pad = model.config.pad_token_id
    for batch in batches:
        rows = [sources[index] for index in batch]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
        with torch.inference_mode():
            model.generate(input_ids=ids, attention_mask=(ids != pad).long(), do_sample=False,
                           num_beams=beam_size, min_new_tokens=longest, max_new_tokens=longest)


def build(directory: Path, layers: int, width: int, size: int) -> Path:
    """Save a random Marian with subwords of made-up text, filled up to the vocabulary's size."""
    directory.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(made_up_texts(300)), model_prefix=str(directory / "source"),
        vocab_size=400, hard_vocab_limit=False, minloglevel=2)
    (directory / "source.model").rename(directory / "source.spm")
    shutil.copy(directory / "source.spm", directory / "target.spm")
    words = sentencepiece.SentencePieceProcessor(model_file=str(directory / "source.spm"))
    pieces = [words.id_to_piece(number) for number in range(3, words.get_piece_size())]
    filling = [f"more{number}" for number in range(size - len(pieces) - 3)]
    tokens = ["</s>", "<unk>", *pieces, *filling, "<pad>"]
    (directory / "vocab.json").write_text(json.dumps(
        {token: number for number, token in enumerate(tokens)}))
    (directory / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "it"}))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = MarianMTModel(MarianConfig(
            vocab_size=len(tokens), d_model=width, encoder_layers=layers, decoder_layers=layers,
            encoder_attention_heads=width // 64, decoder_attention_heads=width // 64,
            encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, max_position_embeddings=512,
            activation_function="swish", scale_embedding=True, pad_token_id=len(tokens) - 1,
            decoder_start_token_id=len(tokens) - 1, eos_token_id=0, forced_eos_token_id=None))
        model.save_pretrained(directory)
    return directory


def made_up_texts(count: int) -> list[str]:
    """Make texts of eight sentences with 5 to 40 words."""
    rng = random.Random(0)
    syllables = [first + second for first in "bcdfglmnprst" for second in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 2))) for _ in range(300)]
    return [" ".join(f"{' '.join(rng.choices(words, k=rng.randint(5, 40))).capitalize()}."
                     for _ in range(8)) for _ in range(count)]


def drawn(count: int) -> list[list[int]]:
    """Sample ids for sentences of real lengths; 0 ends each sentence."""
    rng = np.random.default_rng(0)
    return [[*map(int, rng.integers(2, 300, length)), 0] for length in
            np.interp(rng.random(count), _SHARES, _LENGTHS).astype(int)]


def faster(turns: dict[str, list[float]], own: str, peer: str) -> float:
    return round(statistics.median(other / one for one, other in
                                   zip(turns[own], turns[peer], strict=True)), 2)


def model_of(benchmark: Any, tmp_path: Path) -> tuple[Path, EngineConfig]:
    os.environ["XDG_CACHE_HOME"] = str(tmp_path)
    shape = (1, 64, 500) if benchmark.disabled else (6, 512, _VOCABULARY)
    directory = build(tmp_path / "marian", *shape)
    return directory, EngineConfig("ctranslate2", "en", "it", model=directory, beam_size=1,
                                   workers=THREADS)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_ctranslate2_against_generate(benchmark: Any, tmp_path: Path, beam_size: int) -> None:
    directory, settings = model_of(benchmark, tmp_path)
    engine = CTranslate2Translator(settings)
    tokens = list(json.loads((directory / "vocab.json").read_text()))
    ids = drawn(3 if benchmark.disabled else 96 if beam_size == 1 else 32)
    sources = [[tokens[one] for one in row] for row in ids]
    peer = MarianMTModel.from_pretrained(directory).eval()
    peer.generation_config.forced_eos_token_id = peer.generation_config.max_length = None
    order = range(len(ids))
    by_length = sorted(order, key=lambda index: -len(ids[index]))

    def batches(of: Sequence[int], size: int) -> list[Sequence[int]]:
        return [of[at:at + size] for at in range(0, len(of), size)]

    sides: dict[str, Callable[[], object]] = {
        "bmtools": lambda: forced(
            engine._model, sources, beam_size, engine._batch_tokens(sources)),
        "file order": lambda: generate(peer, ids, batches(order, 8), beam_size),
        "sorted": lambda: generate(peer, ids, batches(by_length, 16), beam_size)}
    if benchmark.disabled:
        for side in sides.values():
            side()
        benchmark(lambda: None)
        return
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    turns = in_turns(sides, ROUNDS, time.perf_counter)
    torch.set_num_threads(before)
    rate = sum(map(len, ids)) / statistics.median(turns["bmtools"])
    note(benchmark, threads=THREADS, sentences=len(ids), tokens_per_second=round(rate),
         times_faster={name: faster(turns, "bmtools", name) for name in ("file order", "sorted")},
         biobit_days=round(_BIOBIT_WORDS * _TOKENS_PER_WORD / rate / 86_400))
