"""Pretraining against transformers' Trainer: `pytest --benchmark-enable -s tests/benchmarks`.

Both sides train models with equal weights on the same abstracts, with about the same number of
useful tokens per step, on all cores. Useful tokens are text. Padding is not counted on either side,
and neither are special tokens, although bmtools adds more of them. Trainer runs as in run_mlm.py,
with dropout 0.1, and in another race without dropout. bmtools has no dropout by default, and its
documents do not attend to each other. Each side is a process with OMP_NUM_THREADS threads, by
default one per core. The sides take turns, and ratios are medians over turns. Peak memory is
measured for the process (VmHWM), including interpreter, libraries and text.

Without that option no time is measured, and only the losses of both sides are compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import peers
import pytest
import side
import torch
from race import Race, Side, note
from texts import encode_abstracts, encode_sentences

from bmtools.io.system import usable_cores
from bmtools.models.hardware import describe_hardware
from bmtools.models.precision import choose_precision, multiply

_THREADS = int(os.environ.get("OMP_NUM_THREADS") or usable_cores())
_ROUNDS = 4
_TURN_SECONDS = 2.0
_LARGE = 2_048
_SHOWN = {"no": "float32", "bf16": "bf16"}


@pytest.fixture(scope="module")
def timed(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("benchmark_enable"):
        pytest.skip("timed by --benchmark-enable")


@pytest.fixture
def threads() -> Iterator[None]:
    """Give this process the same number of threads as each side."""
    before = torch.get_num_threads()
    torch.set_num_threads(_THREADS)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def abstracts(timed: None, data: Path,
              tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """7,752 abstracts with 380 tokens on average, as shards, and their tokenizer."""
    return encode_abstracts(data, tmp_path_factory.mktemp("abstracts"))


@pytest.fixture(scope="module")
def sentences(timed: None, data: Path,
              tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Sentences of abstracts with 36 tokens on average, each as a document."""
    return encode_sentences(data, tmp_path_factory.mktemp("sentences"))


@pytest.mark.data
@pytest.mark.parametrize(("architecture", "max_length", "step_tokens"), [
    ("bert-4x256", 128, 4_000), ("bert-4x256", 512, 4_000),
    ("bert-6x512", 128, 2_000), ("bert-6x512", 512, 2_000)])
def test_pretrain_against_trainer(benchmark: Any, abstracts: tuple[str, str], architecture: str,
                                  max_length: int, step_tokens: int) -> None:
    ours = Side("bmtools", architecture, max_length, step_tokens, "padded", 0.0, "no", False,
                "cpu", *abstracts)
    peer = replace(ours, program="trainer", layout="grouped", dropout=0.1)
    run(benchmark, {"padded": ours, "packed": replace(ours, layout="packed"), "trainer": peer,
                    "trainer without dropout": replace(peer, dropout=0.0)})


@pytest.mark.data
@pytest.mark.parametrize("kind", ["abstracts", "sentences"])
def test_pretrain_against_padded_documents(benchmark: Any, request: pytest.FixtureRequest,
                                           kind: str) -> None:
    batch_size, useful = (8, {"abstracts": 350, "sentences": 36}[kind])
    ours = Side("bmtools", "bert-4x256", 512, batch_size * useful, "padded", 0.0, "no", False,
                "cpu", *request.getfixturevalue(kind))
    run(benchmark, {"padded": ours, "packed": replace(ours, layout="packed"),
                    "trainer": replace(ours, program="trainer", layout="lines", dropout=0.1)})


@pytest.mark.data
@pytest.mark.parametrize(("architecture", "step_tokens"), [
    ("bert-4x256", 4_000), ("bert-12x768", 1_000)])
def test_pretrain_by_precision(benchmark: Any, abstracts: tuple[str, str], threads: None,
                               architecture: str, step_tokens: int) -> None:
    """Compare each side with its defaults, and bmtools with each precision.

    Between turns, the time of a large matrix product is measured in each precision with the same
    threads. The result is the share of this speed that training reaches.
    """
    ours = Side("bmtools", architecture, 128, step_tokens, "padded", 0.0, "auto", False, "cpu",
                *abstracts)
    peer = replace(ours, program="trainer", layout="grouped", dropout=0.1, precision="no")
    sides = {"default": ours, "float32": replace(ours, precision="no"), "trainer": peer}
    if describe_hardware().bf16:
        sides |= {"bf16": replace(ours, precision="bf16"),
                  "trainer bf16": replace(peer, precision="bf16")}
    _, model = side.load(ours)[1:]
    default = choose_precision(model.config, torch.device("cpu")).precision
    products: dict[str, list[float]] = {"float32": [], "bf16": []}

    def between_turns() -> None:
        for name, dtype in (("float32", torch.float32), ("bf16", torch.bfloat16)):
            if name in sides:
                products[name].append(speed_of_products(dtype))

    found = race_of(benchmark, sides, between_turns)
    speeds = {name: median(one) for name, one in products.items() if one}
    flops = side.flops_per_token(ours)
    shares = {name: {"gigaflops": round(speed / 1e9), **{
        program: round(flops * found["sides"][one]["tokens_per_second"] / speed, 3)
        for program, one in (("bmtools", name), ("trainer", _peer_in(name)))}}
        for name, speed in speeds.items()}
    note(benchmark, ours, found, threads=_THREADS, default=_SHOWN[default], matrix_share=shares)


def speed_of_products(dtype: torch.dtype) -> float:
    """Return the operations per second of a large product on all threads, best of five calls.

    It uses the library that bmtools uses on this processor.
    """
    matrix, seconds = torch.ones(_LARGE, _LARGE, dtype=dtype), []
    for _ in range(6):
        start = time.perf_counter()
        multiply(matrix, matrix)
        seconds.append(time.perf_counter() - start)
    return 2 * _LARGE**3 / min(seconds[1:])


def _peer_in(precision: str) -> str:
    return "trainer" if precision == "float32" else f"trainer {precision}"


def run(benchmark: Any, sides: dict[str, Side]) -> None:
    """Run a race, and record its result."""
    note(benchmark, next(iter(sides.values())), race_of(benchmark, sides), threads=_THREADS)


def race_of(benchmark: Any, sides: dict[str, Side],
            between_turns: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run a race; the benchmark measures the turns of the first side."""
    first, *others = sides

    def prepare() -> None:
        between_turns()
        running.turn(*others)

    with Race(sides, _TURN_SECONDS, _THREADS) as running:
        benchmark.pedantic(running.turn, (first,), setup=prepare, rounds=_ROUNDS)
        return running.summary(*(name for name in others if name.startswith("trainer")))


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give sides without text a few documents of real lengths."""
    corpus = side.made_up_corpus(side.stand_in_tokenizer(), 40)
    monkeypatch.setattr(side, "made_up_corpus", lambda _: corpus)


@pytest.mark.usefixtures("made_up", "one_thread")
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_both_sides_have_the_same_loss(layout: str) -> None:
    """transformers' loss for our documents, one by one, adds up to our loss."""
    trainer, batches = side.set_up(Side("bmtools", "bert-2x64", 128, 400, layout))
    inputs, = batches.batch(0).micro_batches
    found = trainer.objective(**inputs)["mlm"]
    sequences, labels = (
        inputs[name].split(inputs["lengths"].tolist()) if layout == "packed"
        else [values[mask] for values, mask in zip(inputs[name], inputs["attention_mask"],
                                                   strict=True)]
        for name in ("input_ids", "labels"))
    model = side.load(Side("trainer", "bert-2x64", 128, 400, "grouped"))[2].eval()
    with torch.no_grad():
        expected = sum(model(input_ids=ids[None], labels=targets[None]).loss
                       * (targets != peers.IGNORED).sum()
                       for ids, targets in zip(sequences, labels, strict=True)
                       if (targets != peers.IGNORED).any())
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
