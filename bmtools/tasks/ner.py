"""Named entity recognition: one BIO tag a word, predicted at the word's first token."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from bmtools.errors import CheckpointError, DataError, Reject, refuse, setting
from bmtools.evaluation.spans import score_spans
from bmtools.masking.corruption import IGNORED
from bmtools.records import Record
from bmtools.tasks.settings import NerConfig
from bmtools.tasks.task import TRAIN, Evaluation, Example, Split, Task, annotated, mean_loss, pad
from bmtools.tasks.windows import Window, cut_into_windows

OUTSIDE = "O"
Span = tuple[int, int, str]
_DIGITS = 4
_FAULTS = {
    "repeated": "annotated twice",
    "discontinuous": "in several parts, taken as one",
    "unaligned": "with a border inside a word",
    "overlapping": "overlapping a longer one, not tagged",
}


@dataclass(frozen=True)
class TaggedText(Example[Window]):
    """A record's text as windows and words.

    Args:
        words: (words, 2) int64, start and end of each word in code points.
        gold: distinct annotated entities: start, end and type.
    """

    words: np.ndarray
    gold: frozenset[Span] = frozenset()


class NerTask(Task[TaggedText, Window]):
    """Named entity recognition with a linear layer over each word's first token.

    Source: Devlin et al. 2019, section 5.3. A word's later tokens have no label.
    """

    config: NerConfig
    config_class = NerConfig
    model_class = "AutoModelForTokenClassification"
    key = "entities"
    metrics = ("f1",)
    replaced: ClassVar[Mapping[str, str]] = {
        "entities": "{} entities of the input replaced",
        "relations": "{} relations of the input dropped, as their entities went"}

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[TaggedText]:
        """Read records with entities; `train` determines the types.

        Counts are `records`, `windows` that the model reads, `words`, distinct `entities` (the
        support of all scores), `repeated` annotations of one, `discontinuous` entities (taken as
        one, with what is between their parts), `unaligned` ones (they begin or end inside a word,
        or at no word), `overlapping` ones (they share a word with a longer or earlier one, which
        is tagged), `reachable` ones, which come back from their record's tags and bound recall,
        and entities by `types` and `unseen_types`.

        Raises:
            DataError: a set without entities.
        """
        kept = annotated(records, "entities", "a list, empty where the text names nothing", reject)
        merged = self.config.merge_types
        golds = [frozenset((entity["start"], entity["end"], merged or entity["type"])
                           for entity in record["entities"]) for record in kept]
        types = Counter(kind for gold in golds for _, _, kind in gold)
        if not types:
            raise DataError(f"{setting(name)}: found no entities in {len(kept)} records, "
                            "expected records whose key 'entities' names some")
        if name == TRAIN:
            self.labels = [OUTSIDE, *(f"{prefix}-{kind}" for kind in sorted(types)
                                      for prefix in "BI")]
        ids = {label: number for number, label in enumerate(self.labels)}
        counts: Counter[str] = Counter()
        examples = []
        for record, gold, text in zip(kept, golds, self.encode(kept), strict=True):
            tags, faults = tag_words(text.words, gold)
            label_ids = iter([ids.get(tag, IGNORED) for tag in tags])
            windows = [replace(window, label_ids=np.array(
                [*islice(label_ids, len(window.firsts))], dtype=np.int64))
                for window in text.inputs]
            if name == TRAIN:  # some windows are a part of an endless word and have no label
                windows = [window for window in windows if len(window.firsts)]
            examples.append(TaggedText(windows, text.words, gold))
            tagged = {(text.words[first, 0], text.words[after - 1, 1], kind)
                      for first, after, kind in tags_to_spans(tags)}
            counts.update(
                records=1, windows=len(text.inputs), words=len(tags), entities=len(gold),
                repeated=len(record["entities"]) - len(gold),
                discontinuous=sum(len(e.get("spans", ())) > 1 for e in record["entities"]),
                unaligned=faults["unaligned"], overlapping=faults["overlapping"],
                reachable=len(gold & tagged))
        unseen = {kind: types[kind] for kind in sorted(types) if f"B-{kind}" not in self.labels}
        of = f"of {counts['entities']} entities"
        notes = [f"{count} {of} are {kind}, which {setting(TRAIN)} lacks; they count as missed"
                 for kind, count in unseen.items()]
        found = [f"{counts[key]} {fault}" for key, fault in _FAULTS.items() if counts[key]]
        if found:
            notes.insert(0, f"{of}, {'; '.join(found)}; tags can give back {counts['reachable']}")
        return Split(examples, {**counts, "types": dict(sorted(types.items())),
                                "unseen_types": unseen},
                     [f"{setting(name)}: {note}" for note in notes])

    def encode(self, records: Sequence[Record]) -> Sequence[TaggedText]:
        """Cut texts into windows."""
        texts = [record["text"] for record in records]
        return [TaggedText(windows, words) for words, windows in cut_into_windows(
            self.checkpoint.tokenizer, texts, self.max_length)]

    def collate(self, inputs: Sequence[Window]) -> dict[str, np.ndarray]:
        """Put windows between special tokens and pad them; all (batch, tokens) int64."""
        tokenizer = self.checkpoint.tokenizer
        ids = [np.array([tokenizer.cls_token_id, *window.ids, tokenizer.sep_token_id])
               for window in inputs]
        return {"input_ids": pad(ids, tokenizer.pad_token_id),
                "attention_mask": pad([np.ones_like(item) for item in ids], 0)}

    def collate_labels(self, inputs: Sequence[Window],
                       batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Put label ids at the words' first tokens, (batch, tokens) int64."""
        labels = np.full_like(batch["input_ids"], IGNORED)
        for row, window in zip(labels, inputs, strict=True):
            row[window.firsts + 1] = window.label_ids
        return labels

    def trim(self, item: Window, output: np.ndarray) -> np.ndarray:
        """Keep the log probabilities at the words' first tokens, (words, labels)."""
        return output[item.firsts + 1]

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Take the tags of a loaded model.

        Raises:
            CheckpointError: labels that are not BIO tags.
        """
        if not all(re.match("O$|[BI]-.", label) for label in labels):
            raise CheckpointError(
                f"{self.checkpoint.path}: found labels {', '.join(labels[:5])}, expected O, B-TYPE "
                "and I-TYPE; train a model with bmtools finetune ner")
        self.labels = list(labels)

    def decode(self, words: np.ndarray,
               outputs: Sequence[np.ndarray]) -> list[tuple[int, int, str, float]]:
        """Read entities from each word's likeliest tag: start, end, type, mean probability."""
        log_probabilities = np.concatenate(
            [np.zeros((0, len(self.labels)), dtype=np.float32), *outputs])
        tags = [self.labels[best] for best in log_probabilities.argmax(axis=1)]
        probabilities = np.exp(log_probabilities.max(axis=1))
        return [(int(words[first, 0]), int(words[after - 1, 1]), kind,
                 float(probabilities[first:after].mean()))
                for first, after, kind in tags_to_spans(tags)]

    def predict(self, record: Record, example: TaggedText,
                outputs: Sequence[np.ndarray]) -> dict[str, Any]:
        """Make `entities`; a score is the mean probability of their tags."""
        return _entities(record["text"], self.decode(example.words, outputs))

    def vote(self, record: Record, predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Keep the entities that more than half of the models found; scores are their means.

        A model that did not find an entity gives it the score 0.
        """
        scores: dict[Span, list[float]] = defaultdict(list)
        for prediction in predictions:
            for entity in prediction["entities"]:
                scores[entity["start"], entity["end"], entity["type"]].append(entity["score"])
        return _entities(record["text"], (
            (*span, sum(given) / len(predictions)) for span, given in sorted(scores.items())
            if 2 * len(given) > len(predictions)))

    def score(self, examples: Sequence[TaggedText],
              outputs: Sequence[Sequence[np.ndarray]]) -> Evaluation:
        """Score entities strictly (borders and type), and the mean loss of words in nats."""
        gold = [(number, *span) for number, example in enumerate(examples)
                for span in example.gold]
        predicted = [(number, start, end, kind)
                     for number, (example, output) in enumerate(zip(examples, outputs, strict=True))
                     for start, end, kind, _ in self.decode(example.words, output)]
        scores, by_type = score_spans(gold, predicted)
        label_ids = [window.label_ids for example in examples for window in example.inputs]
        log_probabilities = [rows for output in outputs for rows in output]
        loss = mean_loss(np.concatenate(log_probabilities), np.concatenate(label_ids))
        return Evaluation(scores, {"by_type": by_type}, loss)


def _entities(text: str, found: Iterable[tuple[int, int, str, float]]) -> dict[str, Any]:
    return {"entities": [
        {"id": f"T{number}", "start": start, "end": end, "type": kind, "text": text[start:end],
         "score": round(score, _DIGITS)}
        for number, (start, end, kind, score) in enumerate(found, 1)]}


def tag_words(words: np.ndarray, entities: Iterable[Span]) -> tuple[list[str], Counter[str]]:
    """Tag words in the BIO scheme; of entities that share a word the longest is tagged.

    Args:
        words: (words, 2) start and end of each word.
        entities: start, end and type.

    Returns:
        a tag for each word, and how many entities are `unaligned` or `overlapping`.
    """
    tags = [OUTSIDE] * len(words)
    faults: Counter[str] = Counter()
    for start, end, kind in sorted(entities, key=lambda span: (span[0] - span[1], *span)):
        first = int(np.searchsorted(words[:, 1], start, side="right"))
        after = int(np.searchsorted(words[:, 0], end, side="left"))
        if first >= after or words[first, 0] != start or words[after - 1, 1] != end:
            faults["unaligned"] += 1
        if any(tag != OUTSIDE for tag in tags[first:after]):
            faults["overlapping"] += 1
        elif first < after:
            tags[first:after] = [f"B-{kind}"] + [f"I-{kind}"] * (after - first - 1)
    return tags, faults


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Read spans from tags, whatever a model made of them: first word, word after the last, type.

    An `I-` that continues nothing of its type opens a span, as in the CoNLL-2000 script and in
    seqeval's default mode.
    """
    spans: list[Span] = []
    start, open_kind = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, kind = tag.partition("-")
        if open_kind and (prefix != "I" or kind != open_kind):
            spans.append((start, index, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = index, kind
    return spans
