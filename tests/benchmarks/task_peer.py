"""transformers' side of races of fine-tuning and prediction, run as a program.

`python task_peer.py finetune SETTINGS` and `python task_peer.py predict SETTINGS` take a JSON
object. Training is Trainer as run_ner.py, run_glue.py and run_qa.py set it up: their collators pad
to the longest of a batch, their metrics are computed after each epoch. Three things are in its
favour: inputs are plain lists instead of `datasets`, batches of evaluation are larger, and only the
last model is saved. Prediction is a pipeline over the records' texts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

IGNORED = -100
_WORD = re.compile(r"[^\W_]+|[^\w\s]|_")  # as BERT cuts ASCII text
_BEST_ANSWERS = 20  # run_qa's n_best_size, and below its max_answer_length
_ANSWER_TOKENS = 30
Features = list[dict[str, Any]]
Metrics = Callable[[Any], dict[str, float]]


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def words_of(record: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Cut a text into words with BIO tags."""
    spans = [match.span() for match in _WORD.finditer(record["text"])]
    tags = ["O"] * len(spans)
    for entity in record["entities"]:
        inside = [number for number, (start, end) in enumerate(spans)
                  if start < entity["end"] and end > entity["start"]]
        for number in inside:
            tags[number] = f"{'B' if number == inside[0] else 'I'}-{entity['type']}"
    return [record["text"][start:end] for start, end in spans], tags


class Ner:
    """Token classification as in run_ner.py."""

    auto_class = "AutoModelForTokenClassification"

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.labels: list[str] = []

    def features(self, records: Sequence[Mapping[str, Any]]) -> Features:
        """Encode words; a word's label is at its first token."""
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

    def collator(self) -> Any:
        from transformers import DataCollatorForTokenClassification

        return DataCollatorForTokenClassification(self.tokenizer)

    def metrics(self, features: Features, records: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score entities with seqeval."""
        from seqeval.metrics import f1_score

        def compute(found: Any) -> dict[str, float]:
            pairs = [(row[gold != IGNORED], gold[gold != IGNORED]) for row, gold
                     in zip(found.predictions.argmax(axis=-1), found.label_ids, strict=True)]
            predicted, gold = ([[self.labels[one] for one in pair[side]] for pair in pairs]
                               for side in (0, 1))
            return {"f1": f1_score(gold, predicted)}

        return compute


class Classification:
    """Sequence classification as in run_glue.py."""

    auto_class = "AutoModelForSequenceClassification"

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length
        self.labels: list[str] = []

    def features(self, records: Sequence[Mapping[str, Any]]) -> Features:
        """Encode texts."""
        self.labels = self.labels or sorted(
            {record["label"] for record in records}, key=lambda label: (label != "false", label))
        encoded = self.tokenizer([record["text"] for record in records], truncation=True,
                                 max_length=self.max_length)
        return [{"labels": self.labels.index(record["label"]),
                 **{name: encoded[name][number] for name in encoded}}
                for number, record in enumerate(records)]

    def collator(self) -> Any:
        from transformers import DataCollatorWithPadding

        return DataCollatorWithPadding(self.tokenizer)

    def metrics(self, features: Features, records: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score labels."""
        return lambda found: {"accuracy": float(
            (found.predictions.argmax(axis=-1) == found.label_ids).mean())}


class Qa:
    """Question answering as in run_qa.py."""

    auto_class = "AutoModelForQuestionAnswering"
    labels: Sequence[str] = ("LABEL_0", "LABEL_1")

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        self.tokenizer, self.max_length = tokenizer, max_length

    def features(self, records: Sequence[Mapping[str, Any]]) -> Features:
        """Encode windows of questions and texts, with the places of answers."""
        encoded = self.tokenizer(
            [record["question"].lstrip() for record in records],
            [record["text"] for record in records], truncation="only_second",
            max_length=self.max_length, stride=128, return_overflowing_tokens=True,
            return_offsets_mapping=True)
        numbers, offsets = (encoded.pop(name) for name in ("overflow_to_sample_mapping",
                                                           "offset_mapping"))
        found: Features = []
        for number, (record, places) in enumerate(zip(numbers, offsets, strict=True)):
            in_text = [one == 1 for one in encoded.sequence_ids(number)]
            answer = records[record]["answers"][0]
            first, last = answer["start"], answer["start"] + len(answer["text"])
            inside = [token for token, (start, end) in enumerate(places)
                      if in_text[token] and start < last and end > first]
            text = [place for place, own in zip(places, in_text, strict=True) if own]
            whole = bool(inside) and text[0][0] <= first and text[-1][1] >= last
            found.append({"start_positions": inside[0] if whole else 0,
                          "end_positions": inside[-1] if whole else 0, "record": record,
                          "places": [place if own else None
                                     for place, own in zip(places, in_text, strict=True)],
                          **{name: encoded[name][number] for name in encoded}})
        return found

    def collator(self) -> Any:
        from transformers import DataCollatorWithPadding

        pad = DataCollatorWithPadding(self.tokenizer)
        return lambda items: pad([{name: value for name, value in item.items()
                                   if name not in ("record", "places")} for item in items])

    def metrics(self, features: Features, records: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score the best spans of each record exactly."""
        def compute(found: Any) -> dict[str, float]:
            best: dict[int, tuple[float, str]] = {}
            for item, starts, ends in zip(features, *found.predictions, strict=True):
                places, number = item["places"], item["record"]
                text = records[number]["text"]
                for start in np.argsort(starts)[-1:-_BEST_ANSWERS - 1:-1].tolist():
                    for end in np.argsort(ends)[-1:-_BEST_ANSWERS - 1:-1].tolist():
                        if max(start, end) < len(places) and places[start] and places[end] \
                                and start <= end < start + _ANSWER_TOKENS:
                            score = float(starts[start] + ends[end])
                            span = text[places[start][0]:places[end][1]]
                            best[number] = max(best.get(number, (-1e9, "")), (score, span))
            right = sum(best.get(number, (0, ""))[1] in {one["text"] for one in record["answers"]}
                        for number, record in enumerate(records))
            return {"exact_match": right / len(records)}

        return compute


TASKS: Mapping[str, Any] = {"ner": Ner, "classification": Classification, "qa": Qa}


def finetune(settings: Mapping[str, Any]) -> None:
    """Train and save a model; print Trainer's log."""
    import transformers
    from transformers import AutoTokenizer, Trainer, TrainingArguments, set_seed

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    task = TASKS[settings["task"]](tokenizer, settings["max_length"])
    sets = {name: read(settings[name]) for name in ("train", "dev")}
    features = {name: task.features(records) for name, records in sets.items()}
    model = getattr(transformers, task.auto_class).from_pretrained(
        settings["model"], id2label=dict(enumerate(task.labels)),
        hidden_dropout_prob=settings["dropout"],
        attention_probs_dropout_prob=settings["dropout"])
    labels = ["start_positions", "end_positions"] if settings["task"] == "qa" else ["labels"]
    trainer = Trainer(
        model=model, processing_class=tokenizer, train_dataset=features["train"],
        eval_dataset=features["dev"], data_collator=task.collator(),
        compute_metrics=task.metrics(features["dev"], sets["dev"]),
        args=TrainingArguments(
            output_dir=settings["output"], num_train_epochs=settings["epochs"],
            per_device_train_batch_size=settings["batch_size"], learning_rate=5e-5,
            per_device_eval_batch_size=2 * settings["batch_size"], eval_strategy="epoch",
            save_strategy="no", logging_strategy="epoch", report_to="none", disable_tqdm=True,
            use_cpu=True, bf16=settings["precision"] == "bf16", label_names=labels,
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
