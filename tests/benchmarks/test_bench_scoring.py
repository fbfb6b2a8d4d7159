"""Scoring against minicons and the fill-mask pipeline: `pytest --benchmark-enable -s ...`.

Each side is a separate program that starts, loads the same checkpoint, scores the same records and
ends. So start-up counts, and each side has its own peak memory. The sides take turns. All sides may
use both cores, minicons and the pipeline with torch's threads. Without that option each side runs
once on little input, and only their agreement is checked.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from texts import made_up_texts
from timing import THREADS, alternate, note, ratios, run, summary, write
from toy_tokenizers import train_tokenizer
from transformers import BertConfig, BertForMaskedLM

from bmtools.corpus.formats.sets.curated import curated_records
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.text.segment import sentence_spans
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

_PEER = Path(__file__).with_name("scoring_peer.py")
# Number of sentences on a GPU: 200 took minicons more than two minutes on an H100.
_ON_GPU = 40


def build(directory: Path, texts: Sequence[str], layers: int, width: int, size: int,
          embeddings: int) -> Path:
    """Save a random BERT with a vocabulary trained here and a minimum number of embeddings."""
    tokenizer = train_tokenizer(texts, VocabularyConfig(size=size, allow_fewer=True))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(
            vocab_size=max(embeddings, len(tokenizer)), hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width)).eval()
    save_checkpoint(directory, model, tokenizer, Manifest("bench", {}, fingerprint(tokenizer)))
    return directory


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    """Return clinical cases in Italian."""
    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as stream:
        return [json.loads(line)["text"] for line in itertools.islice(stream, 300)]


@pytest.mark.data
@pytest.mark.parametrize(("layers", "width", "sentences"), [
    pytest.param(4, 256, 200, id="mini"), pytest.param(12, 768, 40, id="base")])
def test_pppl_against_minicons(benchmark: Any, texts: list[str], tmp_path: Path, layers: int,
                               width: int, sentences: int) -> None:
    pytest.importorskip("minicons")
    vocabulary = 30_000
    if benchmark.disabled:
        layers, width, vocabulary, sentences = 1, 64, 300, 2
    model = build(tmp_path / "model", texts[:3] if benchmark.disabled else texts, layers, width,
                  min(vocabulary, 8_000), vocabulary)
    spans = ((text, span) for text in texts for span in sentence_spans(text, "it"))
    cut = (text[start:end] for text, (start, end) in spans if 20 < end - start < 300)
    path = write(tmp_path / "s.jsonl", [{"id": str(number), "text": text} for number, text in
                                        enumerate(itertools.islice(cut, sentences))])
    details = tmp_path / "d.jsonl"
    ours = ["-m", "bmtools", "score-pppl", path, "--model", model, "--details", details,
            "--overwrite"]
    theirs = [_PEER, "minicons", model, path]
    expected = json.loads(run(*theirs).out)
    run(*ours)
    found = [-json.loads(line)["nats"] for line in details.read_text().splitlines()]
    assert found == pytest.approx(expected, rel=1e-4)
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    word = write(tmp_path / "word.jsonl", [{"id": "0", "text": "paziente"}])
    turns = alternate({"minicons": theirs, "bmtools": ours, **{
        f"start of {name}": [word if part == path else part for part in side]
        for name, side in (("minicons", theirs), ("bmtools", ours))}})
    without = [statistics.median(
        one.seconds - start.seconds for one, start in zip(turns[name], turns[f"start of {name}"],
                                                          strict=True))
        for name in ("minicons", "bmtools")]
    note(benchmark, sentences=sentences, vocabulary=vocabulary, threads=THREADS,
         without_start=round(without[0] / without[1], 2),
         times_faster=ratios(turns["bmtools"], turns["minicons"]), sides=summary(turns))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_pppl_on_a_gpu(benchmark: Any, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Use clinical cases, or made-up texts of their length if there are no data."""
    pytest.importorskip("minicons")
    try:
        texts = request.getfixturevalue("texts")
    except pytest.skip.Exception:
        texts = made_up_texts(300, 80)
    model = build(tmp_path / "model", texts, 12, 768, 8_000, 30_000)
    path = write(tmp_path / "s.jsonl", [{"id": str(number), "text": text[:600]}
                                        for number, text in enumerate(texts[:_ON_GPU])])
    details = tmp_path / "d.jsonl"
    ours = ["-m", "bmtools", "score-pppl", path, "--model", model, "--details", details,
            "--overwrite"]
    theirs = [_PEER, "minicons", model, path]
    run(*ours, gpu=True)  # warms up the system's file cache
    # minicons uses most of the available minutes, so each side has one turn.
    peer, exact = (run(*side, gpu=True) for side in (theirs, ours))
    found = [-json.loads(line)["nats"] for line in details.read_text().splitlines()]
    assert found == pytest.approx(json.loads(peer.out), rel=1e-3)
    if benchmark.disabled:
        benchmark(lambda: None)
        return
    word = write(tmp_path / "word.jsonl", [{"id": "0", "text": texts[0].split()[0]}])
    starts = [run(*(word if one == path else one for one in side), gpu=True).seconds
              for side in (theirs, ours)]
    half = run(*ours, "--precision", "bf16", gpu=True)
    without = {name: round((peer.seconds - starts[0]) / max(one.seconds - starts[1], 0.1), 2)
               for name, one in (("exact", exact), ("bf16", half))}
    note(benchmark, gpu=torch.cuda.get_device_name(), sentences=_ON_GPU, without_start=without,
         times_faster=ratios([exact], [peer])["median"], bf16=ratios([half], [peer]))


@pytest.mark.data
def test_mrr_against_fill_mask(benchmark: Any, texts: list[str], data: Path,
                               tmp_path: Path) -> None:
    shape = (1, 64, 300, 300) if benchmark.disabled else (12, 768, 8_000, 30_000)
    model = build(tmp_path / "model", texts[:3] if benchmark.disabled else texts, *shape)
    records = [dict(record) for record in curated_records([str(data / "it/mrr/mlm_data.json")])]
    path = write(tmp_path / "m.jsonl", records[:4] if benchmark.disabled else records)
    ours = ["-m", "bmtools", "score-mrr", path, "--model", model]
    theirs = [_PEER, "fill-mask", model, path]
    if benchmark.disabled:
        benchmark(lambda: None)
        expected = json.loads(run(*theirs).out)
        found = json.loads(run(*ours).out.splitlines()[0])
        assert found["mrr"] == pytest.approx(sum(expected) / len(expected), abs=1e-6)
        return
    # The pipeline takes minutes, so each side has one turn.
    peer, exact, half = (run(*side) for side in (theirs, ours, [*ours, "--precision", "bf16"]))
    note(benchmark, maskings=len(records), threads=THREADS, seconds=round(exact.seconds, 1),
         times_faster=round(peer.seconds / exact.seconds, 2),
         bf16_times_faster=round(peer.seconds / half.seconds, 2),
         memory=round(exact.megabytes / peer.megabytes, 2))
