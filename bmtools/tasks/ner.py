"""Named entity recognition: one BIO tag a word, predicted at the word's first token."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bmtools.errors import CheckpointError, DataError, Reject, refuse, require, setting
from bmtools.masking.corruption import IGNORED
from bmtools.records import Record
from bmtools.tasks.metrics import Mention, score_spans, score_spans_by_type
from bmtools.tasks.settings import TaskConfig
from bmtools.tasks.tag_schemes import Span, is_bio, label_names, spans_to_tags, tags_to_spans
from bmtools.tasks.task import TRAIN, Evaluation, Example, Split, Task, annotated
from bmtools.tasks.windows import Window, cut_into_windows, pad_windows

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_DIGITS = 4
_NOTES = {
    "repeated": "annotated twice",
    "discontinuous": "in several parts, taken as one",
    "unaligned": "with a border inside a word",
    "overlapping": "overlapping a longer one, not tagged",
}


@dataclass(frozen=True)
class NerConfig(TaskConfig):
    """Settings of named entity recognition.

    Args:
        max_length: longest window in tokens, special tokens included; shorter where the model
            reads less.
        merge_types: one name for entities of every type; empty keeps the types apart.
    """

    merge_types: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.merge_types == self.merge_types.strip(), "merge_types",
                repr(self.merge_types), "a name without spaces around it")


@dataclass
class EntityCounts:
    """Counts of a set, and of entities that tags of words cannot express.

    Args:
        records: texts read.
        windows: sequences that the model reads.
        words: words, each with one tag.
        entities: distinct entities (start, end and type), the support of all scores.
        repeated: annotations of an entity that the record has already.
        discontinuous: entities with several parts; taken as one, with what is between.
        unaligned: entities that begin or end inside a word, or at no word.
        overlapping: entities that share a word with a longer or earlier one, which is tagged.
        reachable: entities that come back from their record's tags; bounds recall.
        types: entities by type.
    """

    records: int = 0
    windows: int = 0
    words: int = 0
    entities: int = 0
    repeated: int = 0
    discontinuous: int = 0
    unaligned: int = 0
    overlapping: int = 0
    reachable: int = 0
    types: Counter[str] = field(default_factory=Counter)

    def report(self) -> dict[str, Any]:
        """Counts by name, types in alphabetical order."""
        return {**vars(self), "types": dict(sorted(self.types.items()))}

    def notes(self, name: str, known: Mapping[str, int]) -> list[str]:
        """Describe in one line each what tags cannot express and types outside the training set."""
        of = f"of {self.entities} entities"
        faults = [f"{count} {meaning}" for key, meaning in _NOTES.items()
                  if (count := getattr(self, key))]
        notes = []
        if faults:
            notes.append(f"{of}, {'; '.join(faults)}; tags can give back {self.reachable}")
        notes += [f"{count} {of} are {kind}, which {setting(TRAIN)} lacks; they count as missed"
                  for kind, count in self.unseen(known).items()]
        return [f"{setting(name)}: {note}" for note in notes]

    def unseen(self, known: Mapping[str, int]) -> dict[str, int]:
        """Count entities of types that the training set lacks."""
        return {kind: count for kind, count in sorted(self.types.items()) if kind not in known}


@dataclass(frozen=True, slots=True)
class TaggedWindow(Window):
    """A window and its words' tags.

    Args:
        label_ids: (words,) int64, IGNORED where the training set lacks the tag.
    """

    label_ids: np.ndarray


@dataclass(frozen=True)
class TaggedText(Example[TaggedWindow]):
    """A record's text with its words' tags.

    Args:
        words: (words, 2) int64, start and end of each word in code points.
        tags: one tag a word; none in prediction.
        gold: distinct annotated entities: start, end and type.
    """

    words: np.ndarray
    tags: Sequence[str] = ()
    gold: frozenset[Span] = frozenset()

    def entities(self, tags: Sequence[str]) -> list[Span]:
        """Read entities in code points from a tag for each word."""
        return [(int(self.words[first, 0]), int(self.words[after - 1, 1]), kind)
                for first, after, kind in tags_to_spans(tags)]


class NerTask(Task[TaggedText, TaggedWindow]):
    """Named entity recognition with a linear layer over each word's first token.

    Source: Devlin et al. 2019, section 5.3. A word's later tokens have no label.
    """

    config: NerConfig
    config_class = NerConfig
    model_class = "AutoModelForTokenClassification"
    metrics = ("f1",)
    replaced: ClassVar[Mapping[str, str]] = {
        "entities": "{} entities of the input replaced",
        "relations": "{} relations of the input dropped, as their entities went"}
    _train_types: Mapping[str, int]

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[TaggedText]:
        """Read records with entities; `train` determines the types.

        Raises:
            DataError: a set without entities.
        """
        examples, counts = read_examples(records, self.checkpoint.tokenizer, self.max_length,
                                         self.config.merge_types, reject)
        if not counts.entities:
            raise DataError(f"{setting(name)}: found no entities in {counts.records} records, "
                            "expected records whose key 'entities' names some")
        if name == TRAIN:
            self._train_types = counts.types
            self.labels = label_names(counts.types)
        return Split(list(self._with_label_ids(examples)),
                     {**counts.report(), "unseen_types": counts.unseen(self._train_types)},
                     counts.notes(name, self._train_types))

    def _with_label_ids(self, examples: Iterable[TaggedText]) -> Iterator[TaggedText]:
        numbers = {label: number for number, label in enumerate(self.labels)}
        for example in examples:
            ids = np.array([numbers.get(tag, IGNORED) for tag in example.tags], dtype=np.int64)
            ends = np.cumsum([len(window.firsts) for window in example.inputs])
            yield replace(example, inputs=[
                replace(window, label_ids=part)
                for window, part in zip(example.inputs, np.split(ids, ends[:-1]),
                                        strict=False)])

    def encode(self, records: Sequence[Record]) -> Sequence[TaggedText]:
        """Cut texts into windows."""
        return list(_windowed(records, self.checkpoint.tokenizer, self.max_length))

    def training_inputs(self, examples: Iterable[TaggedText]) -> list[TaggedWindow]:
        """List windows; those without a word, parts of endless ones, are left out."""
        return [window for window in super().training_inputs(examples) if len(window.firsts)]

    def collate(self, inputs: Sequence[TaggedWindow]) -> dict[str, np.ndarray]:
        """Pad windows; all (batch, tokens) int64."""
        return pad_windows(inputs, self.checkpoint.tokenizer)

    def collate_labels(self, inputs: Sequence[TaggedWindow],
                       batch: Mapping[str, np.ndarray]) -> np.ndarray:
        """Put label ids at the words' first tokens, (batch, tokens) int64."""
        labels = np.full_like(batch["input_ids"], IGNORED)
        for row, window in zip(labels, inputs, strict=True):
            row[window.firsts + 1] = window.label_ids
        return labels

    def loss(self, model: PreTrainedModel, batch: Mapping[str, Tensor], labels: Tensor) -> Tensor:
        """Sum the cross-entropy over words, in nats."""
        from torch.nn.functional import cross_entropy

        labelled = labels != IGNORED
        return cross_entropy(model(**batch).logits[labelled].float(), labels[labelled],
                             reduction="sum")

    def trim(self, item: TaggedWindow, output: np.ndarray) -> np.ndarray:
        """Keep the log probabilities at the words' first tokens, (words, labels)."""
        return output[item.firsts + 1]

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Take the tags of a loaded model.

        Raises:
            CheckpointError: labels that are not BIO tags.
        """
        if not is_bio(labels):
            raise CheckpointError(
                f"{self.checkpoint.path}: found labels {', '.join(labels[:5])}, expected O, B-TYPE "
                "and I-TYPE; train a model with bmtools finetune ner")
        super().accept_labels(labels)

    def annotate(self, record: Record, example: TaggedText,
                 outputs: Sequence[np.ndarray]) -> Record:
        """Replace `entities` by predicted ones; a score is the mean probability of their tags.

        Relations are dropped, as they name entities that are no longer there.
        """
        log_probabilities = self._by_word(outputs)
        best = np.exp(log_probabilities.max(axis=1))
        spans = tags_to_spans(self._tags(log_probabilities))
        entities = []
        for number, (first, after, kind) in enumerate(spans, 1):
            start, end = int(example.words[first, 0]), int(example.words[after - 1, 1])
            entities.append({"id": f"T{number}", "start": start, "end": end, "type": kind,
                             "text": record["text"][start:end],
                             "score": round(float(best[first:after].mean()), _DIGITS)})
        return record.without("relations").replace(entities=entities)

    def score(self, examples: Sequence[TaggedText],
              outputs: Sequence[Sequence[np.ndarray]]) -> Evaluation:
        """Score entities strictly (borders and type), and the mean loss of words in nats."""
        gold: list[Mention] = []
        predicted: list[Mention] = []
        losses: list[np.ndarray] = []
        for number, (example, output) in enumerate(zip(examples, outputs, strict=True)):
            log_probabilities = self._by_word(output)
            gold += [(number, *span) for span in example.gold]
            predicted += [(number, *span)
                          for span in example.entities(self._tags(log_probabilities))]
            for window, rows in zip(example.inputs, output, strict=True):
                [known] = np.nonzero(window.label_ids != IGNORED)
                losses.append(-rows[known, window.label_ids[known]])
        by_type = {kind: counts.report()
                   for kind, counts in score_spans_by_type(gold, predicted).items()}
        all_losses = np.concatenate(losses)
        loss = float(all_losses.mean(dtype=np.float64)) if len(all_losses) else math.inf
        return Evaluation(score_spans(gold, predicted).report(), {"by_type": by_type}, loss)

    def _by_word(self, outputs: Sequence[np.ndarray]) -> np.ndarray:
        """Join the windows of a text: log probabilities (words, labels)."""
        return np.concatenate([np.zeros((0, len(self.labels)), dtype=np.float32), *outputs])

    def _tags(self, log_probabilities: np.ndarray) -> list[str]:
        return [self.labels[best] for best in log_probabilities.argmax(axis=1)]


def read_examples(records: Iterable[Record], tokenizer: PreTrainedTokenizerBase, max_length: int,
                  merge_types: str = "",
                  reject: Reject = refuse) -> tuple[list[TaggedText], EntityCounts]:
    """Read annotated records into memory and count what tags cannot express.

    Args:
        records: with the key `entities`.
        tokenizer: of the model.
        max_length: longest window in tokens, special tokens included.
        merge_types: one type for all entities, or empty.
        reject: receives records without the key `entities`.
    """
    kept = annotated(records, "entities", "a list, empty where the text names nothing", reject)
    counts = EntityCounts()
    examples = []
    for record, text in zip(kept, _windowed(kept, tokenizer, max_length), strict=True):
        entities = record["entities"]
        gold = frozenset((entity["start"], entity["end"], merge_types or entity["type"])
                         for entity in entities)
        tags = spans_to_tags(len(text.words), _taggable(text.words, gold, counts))
        examples.append(replace(text, tags=tags, gold=gold))
        counts.records += 1
        counts.windows += len(text.inputs)
        counts.words += len(text.words)
        counts.entities += len(gold)
        counts.repeated += len(entities) - len(gold)
        counts.discontinuous += sum(len(entity.get("spans", ())) > 1 for entity in entities)
        counts.reachable += len(gold.intersection(text.entities(tags)))
        counts.types.update(kind for _, _, kind in gold)
    return examples, counts


def _windowed(records: Iterable[Record], tokenizer: PreTrainedTokenizerBase,
              max_length: int) -> Iterator[TaggedText]:
    for text in cut_into_windows(tokenizer, (record["text"] for record in records), max_length):
        yield TaggedText([TaggedWindow(window.ids, window.firsts, np.empty(0, dtype=np.int64))
                          for window in text.windows], text.words)


def _taggable(words: np.ndarray, gold: Iterable[Span], counts: EntityCounts) -> list[Span]:
    """Choose entities that share no word, longest first, as spans of words."""
    taken = np.zeros(len(words), dtype=bool)
    chosen = []
    for start, end, kind in sorted(gold, key=lambda span: (span[0] - span[1], *span)):
        first = int(np.searchsorted(words[:, 1], start, side="right"))
        after = int(np.searchsorted(words[:, 0], end, side="left"))
        if first >= after or words[first, 0] != start or words[after - 1, 1] != end:
            counts.unaligned += 1
        if taken[first:after].any():
            counts.overlapping += 1
        elif first < after:
            taken[first:after] = True
            chosen.append((first, after, kind))
    return chosen
