"""Scoring against minicons and the fill-mask pipeline: `pytest --benchmark-enable -s ...`.

Each side is a program of its own that starts, loads the same checkpoint, scores the same records
and ends: start-up counts, and each has its own peak memory. The sides take turns. All may use both
cores, minicons and the pipeline as torch's threads. Without that option each runs once on little
input, and only their agreement is checked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from texts import made_up_texts
from transformers import BertConfig, BertForMaskedLM

from bmtools.corpus.formats.sets.curated import curated_records
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.text.segment import sentence_spans
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.trainers import train_tokenizer

_ROUNDS = 3
_THREADS = 2
_PEER = Path(__file__).with_name("scoring_peer.py")


@dataclass(frozen=True)
class Run:
    """A finished program: seconds, peak resident megabytes, stdout, seconds on processors."""

    seconds: float
    megabytes: float
    out: str
    cpu_seconds: float


def run(*command: object, gpu: bool = False) -> Run:
    no_gpu = {} if gpu else {"CUDA_VISIBLE_DEVICES": ""}
    started = time.perf_counter()
    with subprocess.Popen(
            [sys.executable, *map(str, command)], stdout=subprocess.PIPE, text=True,
            env={**os.environ, **no_gpu, "OMP_NUM_THREADS": str(_THREADS), "HF_HUB_OFFLINE": "1",
                 "TOKENIZERS_PARALLELISM": "false"}) as process:
        assert process.stdout is not None
        with ThreadPoolExecutor(1) as watcher:
            peak = watcher.submit(peak_megabytes, process.pid)
            out = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Run(time.perf_counter() - started, peak.result(), out, used.ru_utime + used.ru_stime)


def peak_megabytes(process: int) -> float:
    """Watch a program's peak memory to its end; `ru_maxrss` begins with that of its parent."""
    peak = 0.0
    with contextlib.suppress(OSError, StopIteration):
        while True:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
            peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
            time.sleep(0.02)
    return peak


def build(directory: Path, texts: Sequence[str], layers: int, width: int, size: int,
          embeddings: int) -> Path:
    """Save a random BERT with a vocabulary trained here, and at least so many embeddings."""
    tokenizer = train_tokenizer(texts, VocabularyConfig(size=size, allow_fewer=True))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(BertConfig(
            vocab_size=max(embeddings, len(tokenizer)), hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=width // 64, intermediate_size=4 * width)).eval()
    save_checkpoint(directory, model, tokenizer, Manifest("bench", {}, fingerprint(tokenizer)))
    return directory


def write(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records),
                    encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def texts(data: Path) -> list[str]:
    """Clinical cases in Italian."""
    with (data / "it/corpus/native-clinical.jsonl").open(encoding="utf-8") as stream:
        return [json.loads(line)["text"] for line in itertools.islice(stream, 300)]


def alternate(*sides: Sequence[object], gpu: bool = False) -> list[list[Run]]:
    """Let sides take turns; the first turn warms up the system's file cache."""
    for side in sides:
        run(*side, gpu=gpu)
    turns = [[run(*side, gpu=gpu) for side in sides] for _ in range(_ROUNDS)]
    return [list(side) for side in zip(*turns, strict=True)]


def beginnings(path: Path, *sides: Sequence[object]) -> list[float]:
    """Measure each side's start-up: the seconds for a record of one word."""
    word = write(path.with_name("word.jsonl"), [{"id": "0", "text": "paziente"}])
    found = alternate(*([word if part == path else part for part in side] for side in sides))
    return [round(statistics.median(one.seconds for one in side), 2) for side in found]


def ratios(ours: Sequence[Run], theirs: Sequence[Run]) -> dict[str, float]:
    speeds = [other.seconds / one.seconds for one, other in zip(ours, theirs, strict=True)]
    spent = [other.cpu_seconds / one.cpu_seconds for one, other in zip(ours, theirs, strict=True)]
    return {"median": round(statistics.median(speeds), 2), "lowest": round(min(speeds), 2),
            "highest": round(max(speeds), 2), "processor": round(statistics.median(spent), 2),
            "memory": round(max(one.megabytes for one in ours)
                            / max(one.megabytes for one in theirs), 2)}


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
    starts = beginnings(path, theirs, ours)
    peer, exact = alternate(theirs, ours)
    benchmark.pedantic(lambda: run(*ours), rounds=1)
    without = round(statistics.median(
        (other.seconds - starts[0]) / (one.seconds - starts[1])
        for one, other in zip(exact, peer, strict=True)), 2)
    benchmark.extra_info.update(
        sentences=sentences, vocabulary=vocabulary, threads=_THREADS,
        without_start={"exact": without, "starts": starts}, times_faster=ratios(exact, peer),
        seconds={"minicons": round(statistics.median(one.seconds for one in peer), 2),
                 "bmtools": round(statistics.median(one.seconds for one in exact), 2)})
    print(f"\n{layers}x{width}, {sentences} sentences: {ratios(exact, peer)}; "
          f"without start-up {without}, {starts}")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_pppl_on_a_gpu(benchmark: Any, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """With clinical cases, or made-up texts of their length where there are no data."""
    pytest.importorskip("minicons")
    try:
        texts = request.getfixturevalue("texts")
    except pytest.skip.Exception:
        texts = made_up_texts(300, 80)
    model = build(tmp_path / "model", texts, 12, 768, 8_000, 30_000)
    path = write(tmp_path / "s.jsonl", [{"id": str(number), "text": text[:600]}
                                        for number, text in enumerate(texts[:200])])
    details = tmp_path / "d.jsonl"
    ours = ["-m", "bmtools", "score-pppl", path, "--model", model, "--details", details,
            "--overwrite"]
    theirs = [_PEER, "minicons", model, path]
    run(*ours, gpu=True)  # warms up the system's file cache
    # minicons takes most of the minutes that there are, so there is one turn of each.
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
    benchmark.pedantic(lambda: run(*ours, gpu=True), rounds=1)
    without = {name: round((peer.seconds - starts[0]) / max(one.seconds - starts[1], 0.1), 2)
               for name, one in (("exact", exact), ("bf16", half))}
    benchmark.extra_info.update(
        gpu=torch.cuda.get_device_name(), sentences=200, without_start=without,
        times_faster=ratios([exact], [peer])["median"], bf16=ratios([half], [peer]))
    print(f"\n12x768 on a GPU, 200 texts: {ratios([exact], [peer])}; bf16 "
          f"{ratios([half], [peer])}; without start-up {without}")


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
    # The pipeline takes minutes, so there is one turn of each.
    peer, exact, half = (run(*side) for side in (theirs, ours, [*ours, "--precision", "bf16"]))
    benchmark.pedantic(lambda: run(*ours), rounds=1)
    benchmark.extra_info.update(
        maskings=len(records), threads=_THREADS, seconds=round(exact.seconds, 1),
        times_faster=round(peer.seconds / exact.seconds, 2),
        bf16_seconds=round(half.seconds, 1),
        bf16_times_faster=round(peer.seconds / half.seconds, 2),
        memory=round(exact.megabytes / peer.megabytes, 2))
    print(f"\n897 maskings, 12x768: {exact.seconds:.1f} s, in bf16 {half.seconds:.1f} s, the "
          f"pipeline {peer.seconds:.1f} s")
