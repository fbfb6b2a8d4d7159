"""The side of transformers in races of fine-tuning and prediction, as a program.

`python task_peer.py finetune SETTINGS` and `python task_peer.py predict SETTINGS` accept a JSON
object. Training uses Trainer as set up in run_ner.py and run_glue.py: their collators pad to the
longest sequence of a batch, and their metrics are computed after each epoch. Three differences
favour this side: inputs are plain lists instead of `datasets`, evaluation batches are larger, and
only the last model is saved. Prediction is a pipeline over the records' texts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

IGNORED = -100
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")  # as BERT cuts ASCII text
Features = list[dict[str, Any]]


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def words_of(record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Split a text into words with BIO tags."""
    spans = [match.span() for match in _WORD.finditer(record["text"])]
    tags = ["O"] * len(spans)
    for entity in record["entities"]:
        inside = [number for number, (start, end) in enumerate(spans)
                  if start < entity["end"] and end > entity["start"]]
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{entity['type']}"
    return [record["text"][start:end] for start, end in spans], tags


@dataclass
class Ner:
    """Token classification as in run_ner.py."""

    tokenizer: Any
    max_length: int
    labels: list[str] = field(default_factory=list)
    auto_class, collator = "AutoModelForTokenClassification", "DataCollatorForTokenClassification"

    def features(self, records: Sequence[Mapping[str, Any]]) -> Features:
        """Encode words; the label of a word is on its first token."""
        words, tags = zip(*map(words_of, records), strict=True)
        if not self.labels:
            types = sorted({tag[2:] for own in tags for tag in own} - {""})
            self.labels = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BI")]
        ids = {tag: number for number, tag in enumerate(self.labels)}
        encoded = self.tokenizer(list(words), truncation=True, max_length=self.max_length,
                                 is_split_into_words=True)
        found: Features = []
        for number, own in enumerate(tags):
            numbers = encoded.word_ids(number)
            first = [place is not None and place != before
                     for place, before in zip(numbers, [None, *numbers], strict=False)]
            found.append({"labels": [ids[own[place]] if is_first else IGNORED
                                     for place, is_first in zip(numbers, first, strict=True)],
                          **{name: encoded[name][number] for name in encoded}})
        return found

    def metrics(self, found: Any) -> dict[str, float]:
        """Score entities with seqeval."""
        from seqeval.metrics import f1_score

        pairs = [(row[gold != IGNORED], gold[gold != IGNORED]) for row, gold
                 in zip(found.predictions.argmax(axis=-1), found.label_ids, strict=True)]
        predicted, gold = ([[self.labels[one] for one in pair[side]] for pair in pairs]
                           for side in (0, 1))
        return {"f1": f1_score(gold, predicted)}


@dataclass
class Classification:
    """Sequence classification as in run_glue.py."""

    tokenizer: Any
    max_length: int
    labels: list[str] = field(default_factory=list)
    auto_class, collator = "AutoModelForSequenceClassification", "DataCollatorWithPadding"

    def features(self, records: Sequence[Mapping[str, Any]]) -> Features:
        """Encode texts."""
        self.labels = self.labels or sorted(
            {record["label"] for record in records}, key=lambda label: (label != "false", label))
        encoded = self.tokenizer([record["text"] for record in records], truncation=True,
                                 max_length=self.max_length)
        return [{"labels": self.labels.index(record["label"]),
                 **{name: encoded[name][number] for name in encoded}}
                for number, record in enumerate(records)]

    def metrics(self, found: Any) -> dict[str, float]:
        """Score labels."""
        return {"accuracy": float((found.predictions.argmax(axis=-1) == found.label_ids).mean())}


TASKS: Mapping[str, Any] = {"ner": Ner, "classification": Classification}


def finetune(settings: Mapping[str, Any]) -> None:
    """Train and save a model; print Trainer's log."""
    import transformers
    from transformers import AutoTokenizer, Trainer, TrainingArguments, set_seed

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    task = TASKS[settings["task"]](tokenizer, settings["max_length"])
    features = {name: task.features(read(settings[name])) for name in ("train", "dev")}
    model = getattr(transformers, task.auto_class).from_pretrained(
        settings["model"], id2label=dict(enumerate(task.labels)),
        hidden_dropout_prob=settings["dropout"],
        attention_probs_dropout_prob=settings["dropout"])
    trainer = Trainer(
        model=model, processing_class=tokenizer, train_dataset=features["train"],
        eval_dataset=features["dev"], compute_metrics=task.metrics,
        data_collator=getattr(transformers, task.collator)(tokenizer),
        args=TrainingArguments(
            output_dir=settings["output"], num_train_epochs=settings["epochs"],
            per_device_train_batch_size=settings["batch_size"], learning_rate=5e-5,
            per_device_eval_batch_size=2 * settings["batch_size"], eval_strategy="epoch",
            save_strategy="no", logging_strategy="epoch", report_to="none", disable_tqdm=True,
            use_cpu=True, bf16=settings["precision"] == "bf16", label_names=["labels"],
            remove_unused_columns=False, dataloader_pin_memory=False, seed=0,
            train_sampling_strategy="group_by_length" if settings["grouped"] else "random"))
    trainer.train()
    trainer.save_model()
    print(json.dumps(trainer.state.log_history))


def predict(settings: Mapping[str, Any]) -> None:
    """Print each record's predictions as the pipeline makes them."""
    import transformers
    from transformers import pipeline

    transformers.logging.set_verbosity_error()
    records = read(settings["records"])
    dtype = "bfloat16" if settings["precision"] == "bf16" else "float32"
    shared = {"model": settings["model"], "device": "cpu", "dtype": dtype}
    size = settings["batch_size"]
    if settings["task"] == "ner":
        tagger = pipeline("token-classification", aggregation_strategy="first", **shared)
        found = tagger([record["text"] for record in records], batch_size=size)
        lines = [[[one["start"], one["end"], one["entity_group"]] for one in own] for own in found]
    else:
        classifier = pipeline("text-classification", **shared)
        lines = [one["label"] for one in classifier(
            [record["text"] for record in records], batch_size=size, truncation=True)]
    print(json.dumps(lines))


if __name__ == "__main__":
    {"finetune": finetune, "predict": predict}[sys.argv[1]](json.loads(sys.argv[2]))
