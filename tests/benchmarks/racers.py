"""Pretraining side by side: each side in a process of its own, a few steps in turn.

Processes are set up and warmed up at the same time, then take turns, so that whatever else the
machine does meets all alike, and each one's peak memory is its own. This file is the coordinator,
and, run as a program, a side.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Side:
    """What one process trains, and how.

    Args:
        name: ours or trainer.
        architecture: of the model, such as bert-4x256.
        row_tokens: longest row, special tokens included.
        step_tokens: tokens a step, padding and special tokens left out; rows are chosen so that
            both sides come near it.
        layout: padded or packed (ours), grouped or lines (Trainer's).
        dropout: probability everywhere.
        precision: no or bf16.
        compile: compile the model.
        device: cpu or cuda.
        text: directory of shards; empty for made-up ids of real lengths.
        tokenizer: its directory; empty for a stand-in of that many tokens.
    """

    name: str
    architecture: str
    row_tokens: int
    step_tokens: int
    layout: str
    dropout: float = 0.0
    precision: str = "no"
    compile: bool = False
    device: str = "cpu"
    text: str = ""
    tokenizer: str = ""


class Pace:
    """A side's end of the line: does as many steps as it is told, then says how long they took.

    Args:
        cuda: wait for the GPU before clocks are read.
        warm_steps: before the first turn.
    """

    def __init__(self, cuda: bool, warm_steps: int) -> None:
        self._cuda = cuda
        self._left = warm_steps
        self._tokens = 0
        self._started = time.perf_counter()
        self._cpu = time.process_time()

    def after_step(self, tokens: int) -> bool:
        """Count a step; at the end of a turn report it and wait for the next one."""
        self._tokens += tokens
        self._left -= 1
        if self._left:
            return True
        self._settle()
        seconds = time.perf_counter() - self._started
        print(json.dumps({"seconds": seconds, "cpu": time.process_time() - self._cpu, "tokens": self._tokens, "peak_bytes": self._peak()}),
              flush=True)
        self._left = int(sys.stdin.readline() or 0)
        self._tokens, self._started = 0, time.perf_counter()
        self._cpu = time.process_time()
        return self._left > 0

    def _settle(self) -> None:
        if self._cuda:
            import torch
            torch.cuda.synchronize()

    def _peak(self) -> int:
        """Most memory so far: of the process with all it holds, or of what lies on the GPU."""
        if self._cuda:
            import torch
            return torch.cuda.max_memory_allocated()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


def train_ours(side: Side, pace: Pace) -> None:
    import torch

    from bmtools.masking.strategies import make_pick
    from bmtools.models.packed import prepare_packed
    from bmtools.training.batches import Maker, RowBatches, Words
    from bmtools.training.lengths import measure
    from bmtools.training.loop import Course, Trainer, start_processes
    from bmtools.training.objectives import MaskedObjective
    from bmtools.training.phases import Phase
    from bmtools.training.settings import LengthSettings, LoopSettings, RowSettings
    from bmtools.training.stream import Stream
    corpora, tokenizer, model = load(side)
    packed = side.layout == "packed"
    lengths = corpora["text"].lengths.astype(float)
    if packed:
        per_row = side.row_tokens * (1 - 2 / (2 + min(side.row_tokens - 2, lengths.mean())))
    else:
        from bmtools.training.stream import count_pieces
        per_row = lengths.sum() / count_pieces(lengths.astype(int), side.row_tokens - 2).sum()
    rows = max(1, round(side.step_tokens / per_row))
    phase = Phase("main", LengthSettings(steps=100_000),
                  RowSettings(row_tokens=side.row_tokens, batch_size=rows, layout=side.layout))
    timeline = measure([phase], corpora, packed)
    settings = LoopSettings(dropout=side.dropout, precision=side.precision, compile=side.compile)
    accelerator = start_processes(settings)
    if packed:
        prepare_packed(model)
    trainer = Trainer(MaskedObjective(model), Course(timeline.steps, lambda n: 5e-5), settings,
                      accelerator)
    maker = Maker(list(corpora.values()), Words.of(tokenizer), packed, 0,
                  {"words": make_pick("words")})
    batches = RowBatches(Stream(corpora, timeline, packed, 0), timeline, maker)
    for step in trainer.run(batches):
        if not pace.after_step(step.counts["maskable"]):
            return


def load(side: Side) -> tuple[Any, Any, Any]:
    import torch

    from bmtools.corpus.shards import Corpus
    from bmtools.models.architectures import build_config, build_model
    from bmtools.vocab.tokenizer import load_tokenizer
    tokenizer = load_tokenizer(Path(side.tokenizer))
    torch.manual_seed(0)
    config = build_config(side.architecture, tokenizer, side.row_tokens)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        if hasattr(config, name): setattr(config, name, side.dropout)
    return {"text": Corpus.open(Path(side.text))}, tokenizer, build_model(config)


def train_peer(side: Side, pace: Pace) -> None:
    import peers
    corpora, tokenizer, model = load(side)
    documents = peers.documents_of(corpora["text"], tokenizer)
    if side.layout == "grouped":
        rows = peers.group_texts(documents, side.row_tokens)
        per_row = side.row_tokens * (1 - 2 * len(documents) / sum(map(len, documents)))
    else:
        rows = peers.line_by_line(documents, side.row_tokens, tokenizer.pad_token_id)
        import numpy as np
        per_row = float(np.minimum(corpora["text"].lengths, side.row_tokens - 2).mean())
    del documents
    with tempfile.TemporaryDirectory() as directory:
        peers.train(model, tokenizer, rows, max(1, round(side.step_tokens / per_row)),
                    Path(directory), pace.after_step, use_cpu=side.device == "cpu",
                    dataloader_pin_memory=side.device != "cpu", bf16=side.precision == "bf16", torch_compile=side.compile)


def main() -> None:
    side = Side(**json.loads(sys.argv[1]))
    pace = Pace(side.device == "cuda", int(sys.argv[2]))
    (train_ours if side.name == "ours" else train_peer)(side, pace)


class Racer:
    def __init__(self, side: Side, warm=2, threads=2, python=sys.executable, env={}):
        self.side = side
        self.p = subprocess.Popen([python, __file__, json.dumps(asdict(side)), str(warm)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
           env={**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **env})
        self.turns = []
    def read(self):
        while True:
            line = self.p.stdout.readline()
            if not line: raise SystemExit(f"{self.side} died")
            if line.startswith('{"seconds"'): return json.loads(line)
    def turn(self, steps):
        print(steps, file=self.p.stdin, flush=True)
        r = self.read(); r["rate"] = r["tokens"] / r["seconds"]; r["steps"]=steps
        self.turns.append(r); return r
    def end(self):
        self.p.communicate("0\n")

if __name__ == "__main__":
    main()
