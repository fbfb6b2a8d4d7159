"""Train a masked language model as transformers' run_mlm.py does, and record its losses.

    python trainer.py vocabulary vocab.txt DIRECTORY
    python trainer.py start TOKENIZER CHECKPOINT --architecture bert-mini
    python trainer.py train records.jsonl CHECKPOINT --model START --tokens 1500000

`metrics.jsonl` in the checkpoint contains tokens, loss and seconds, with a line for every few
steps. Sequences are made as in run_mlm: texts are encoded with special tokens, concatenated and cut
into sequences of equal length. The rest is dropped.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

MAX_LENGTH = 128
BATCH_SIZE = 32


def group_texts(encoded: Sequence[Sequence[int]], max_length: int) -> list[dict[str, list[int]]]:
    """Concatenate texts and cut them into full sequences, as run_mlm's group_texts does."""
    tokens = [token for text in encoded for token in text]
    return [{"input_ids": tokens[start:start + max_length]}
            for start in range(0, len(tokens) - max_length + 1, max_length)]


class Curve(TrainerCallback):
    """Callback that collects the losses that Trainer logs."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._begun = time.monotonic()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self._begun = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Record a loss, which is the mean since the last record."""
        if logs and "loss" in logs:
            self.lines.append({"step": state.global_step, "loss": float(logs["loss"]),
                               "tokens_seen": state.global_step * BATCH_SIZE * MAX_LENGTH,
                               "seconds": round(time.monotonic() - self._begun, 3)})


def train(given: argparse.Namespace) -> None:
    """Train, and save the model, its tokenizer and its curve."""
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    texts = [json.loads(line)["text"] for line in
             given.records.read_text(encoding="utf-8").splitlines()]
    sequences = group_texts(tokenizer(texts)["input_ids"], MAX_LENGTH)
    model = AutoModelForMaskedLM.from_pretrained(given.model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.1
    steps = max(1, math.ceil(given.tokens / (BATCH_SIZE * MAX_LENGTH)))
    curve = Curve()
    trainer = Trainer(
        model=model, train_dataset=sequences, callbacks=[curve],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        args=TrainingArguments(
            output_dir=str(given.output.with_name(given.output.name + ".partial")),
            max_steps=steps, per_device_train_batch_size=BATCH_SIZE, learning_rate=5e-4,
            lr_scheduler_type="linear", warmup_steps=round(0.1 * steps), weight_decay=0.0,
            adam_epsilon=1e-8, max_grad_norm=1.0, logging_steps=given.every,
            save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
            dataloader_pin_memory=False, seed=given.seed))
    trainer.train()
    aside = Path(trainer.args.output_dir)
    model.save_pretrained(aside)
    tokenizer.save_pretrained(aside)
    (aside / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in curve.lines), encoding="utf-8")
    aside.rename(given.output)


def start(given: argparse.Namespace) -> None:
    """Save random initial weights by transformers, from which Trainer would start."""
    from bmtools.models.architectures import build_config

    tokenizer = AutoTokenizer.from_pretrained(given.tokenizer)
    set_seed(given.seed)
    model = AutoModelForMaskedLM.from_config(build_config(given.architecture, tokenizer))
    model.save_pretrained(given.output)
    tokenizer.save_pretrained(given.output)


def vocabulary(given: argparse.Namespace) -> None:
    """Make a tokenizer directory from BERT's vocabulary file."""
    from bmtools.vocab.tokenizer import save_tokenizer

    words = given.words.read_text(encoding="utf-8").splitlines()
    save_tokenizer(BertTokenizer(vocab={word: number for number, word in enumerate(words)},
                                 do_lower_case=True), given.output)


def main() -> None:
    """Run the subcommand in the first argument."""
    parser = argparse.ArgumentParser(description="Train as run_mlm.py does.")
    commands = parser.add_subparsers(required=True)
    words = commands.add_parser("vocabulary")
    words.add_argument("words", type=Path)
    words.set_defaults(do=vocabulary)
    fresh = commands.add_parser("start")
    fresh.add_argument("tokenizer", type=Path)
    fresh.set_defaults(do=start)
    training = commands.add_parser("train")
    training.add_argument("records", type=Path)
    training.set_defaults(do=train)
    for command in (words, fresh, training):
        command.add_argument("output", type=Path)
        command.add_argument("--seed", type=int, default=0)
    fresh.add_argument("--architecture", required=True)
    training.add_argument("--model", type=Path, required=True)
    training.add_argument("--tokens", type=int, required=True)
    training.add_argument("--every", type=int, default=10)
    given = parser.parse_args()
    given.do(given)


if __name__ == "__main__":
    main()
