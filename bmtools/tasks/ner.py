"""Named entity recognition: tags for words, predicted at each word's first token, or for tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from torch import Tensor
from torch.nn import functional

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError, DataError, Reject, refuse, setting
from bmtools.models.checkpoint import Checkpoint
from bmtools.records import JsonObject, Record
from bmtools.tasks.heads import StateIndex, crf_loss, crf_outputs
from bmtools.tasks.inputs import Window, cut_into_windows, with_labels
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.settings import NerConfig, PicoConfig, split_names
from bmtools.tasks.tagging import (
    OUTSIDE,
    SUBTOKEN_F1,
    SUBTOKENS,
    Span,
    group_labels,
    tag_words,
    tags_to_spans,
)
from bmtools.tasks.task import (
    TRAIN,
    Arrays,
    Evaluation,
    Example,
    Outputs,
    Split,
    Task,
    mean_loss,
    pad_ids,
    unseen_labels,
    with_keys,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WORDS = "words"
_DIGITS = 4
_STATES_STEP = 16
_SCORES = ("macro_f1", "precision", "recall", "f1", "support", "predicted", "correct")
_FAULTS = {
    "repeated": "annotated twice",
    "discontinuous": "in several parts, read as one",
    "unaligned": "that begin or end inside a {}",
    "overlapping": "overlapping a longer entity and not tagged",
}


@dataclass(frozen=True)
class TaggedText(Example[Window]):
    """A record's text as windows and words.

    Args:
        words: (words, 2) int64, start and end of each word, or token with a tag, in code points.
        gold: distinct annotated entities: start, end and type.
    """

    words: np.ndarray
    gold: frozenset[Span] = frozenset()


class NerTask(Task[TaggedText, Window]):
    """Named entity recognition: a tag for each word, read at its first token.

    Source: Devlin et al. 2019, section 5.3: a linear layer, and only a word's first token has a
    label. A word has one tag, or one tag per group if types may overlap. With `tags` tokens,
    "word" means token here.

    Attributes:
        groups: tags of each group; a label's id is its position in the group.
        scored_as: task whose metrics score the entities.
    """

    config: NerConfig
    model_class = "AutoModelForTokenClassification"
    key = "entities"
    metrics: tuple[str, ...] = ("f1",)
    scored_as: ClassVar[str] = "ner"
    dependent = ("relations",)

    def __init__(self, config: NerConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self.groups: list[list[str]] = []
        if config.scores_subtokens:
            self.metrics = (*self.metrics, SUBTOKEN_F1)

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[TaggedText]:
        """Read records with entities; `train` determines the types.

        Counts are:
        - `records`, and `windows` that the model reads
        - `words`, or `tokens` if tokens have tags
        - distinct `entities`, which are the support of all scores, by `types` and `unseen_types`
        - `repeated` annotations of the same entity
        - `discontinuous` entities, which are read as one together with the text between their parts
        - `unaligned` entities, which begin or end inside a word, or contain no word
        - `overlapping` entities, which share a word with a longer or earlier one that is tagged
        - `reachable` entities, which can be recovered from their record's tags and limit recall

        Raises:
            DataError: if the set has no entities of the types to find.
        """
        kept = [*with_keys(records, {"entities": "a list, empty without entities"},
                           reject)]
        chosen, merged = split_names(self.config.types), self.config.merge_types
        entities = [[entity for entity in record["entities"]
                     if not chosen or entity["type"] in chosen] for record in kept]
        golds = [frozenset((entity["start"], entity["end"], merged or entity["type"])
                           for entity in own) for own in entities]
        types = Counter(kind for gold in golds for _, _, kind in gold)
        self._require_types(name, kept)
        if name == TRAIN:
            self.groups = group_labels(self.config.scheme, sorted(types), self.config.overlapping)
            # If types may overlap, each type has its own O.
            self.labels = [f"{OUTSIDE}-{kind}" if tag == OUTSIDE else tag for kind, tags
                           in zip(sorted(types), self.groups, strict=True) for tag in tags] \
                if self.config.overlapping else self.groups[0]
        counts: Counter[str] = Counter()
        examples = []
        for own, gold, text in zip(entities, golds, self.encode(kept), strict=True):
            label_ids, tagged, faults = self._tag(text.words, gold)
            windows = [*with_labels(text.inputs, label_ids)]
            if name == TRAIN:  # windows inside a very long word have no label
                windows = [window for window in windows if len(window.firsts)]
            examples.append(replace(text, inputs=windows, gold=gold))
            counts.update(
                {"records": 1, "windows": len(text.inputs), self.config.tags: len(text.words)},
                entities=len(gold), repeated=len(own) - len(gold),
                discontinuous=sum(len(e.get("spans", ())) > 1 for e in own),
                unaligned=faults["unaligned"], overlapping=faults["overlapping"],
                reachable=len(gold & tagged))
        known = {tag.partition("-")[2] for group in self.groups for tag in group}
        of = f"of {counts['entities']} entities"
        unseen, notes = unseen_labels(types, known, f"{of} are")
        unit = self.config.tags.removesuffix("s")
        found = [f"{counts[key]} {fault.format(unit)}" for key, fault in _FAULTS.items()
                 if counts[key]]
        if self.config.scheme == "io" and counts["reachable"] < counts["entities"]:
            found.append("scheme io joins adjacent entities of one type")
        if found:
            hint = f"; use {setting('tags', 'tokens')} to tag parts of words" \
                if counts["unaligned"] and unit == "word" else ""
            notes.insert(0, f"{of}, {'; '.join(found)}; tags can represent {counts['reachable']}"
                            f"{hint}")
        return Split(examples, {**counts, "types": dict(sorted(types.items())),
                                "unseen_types": unseen}, notes)

    def _require_types(self, name: str, records: Sequence[Record]) -> None:
        """Raise an error for a set without entities to find, or without a type to learn."""
        types = {entity["type"] for record in records for entity in record["entities"]}
        chosen = split_names(self.config.types)
        lacking = [kind for kind in chosen if kind not in types]
        if types and lacking and (name == TRAIN or len(lacking) == len(chosen)):
            raise DataError(f"{setting(name)}: found no entities of the type {lacking[0]} in "
                            f"{len(records)} records, expected {setting('types')} among "
                            f"{', '.join(sorted(types))}")
        if not types:
            raise DataError(f"{setting(name)}: found no entities in {len(records)} records, "
                            "expected records with a key 'entities' that is not empty")

    def _tag(self, words: np.ndarray,
             gold: Collection[Span]) -> tuple[np.ndarray, set[Span], Counter[str]]:
        """Tag a text's words in each group.

        Returns:
            label ids, (words, groups), IGNORED for types that are not in the training set, the
            entities that can be recovered from the tags, and counts of faulty entities.
        """
        columns, tagged, faults = [], set[Span](), Counter[str]()
        for tags in self.groups:
            own = gold if len(self.groups) == 1 else \
                [span for span in gold if f"I-{span[2]}" in tags]
            found, own_faults = tag_words(words, own, self.config.scheme)
            ids = {tag: number for number, tag in enumerate(tags)}
            columns.append(np.array([ids.get(tag, IGNORED) for tag in found], dtype=np.int64))
            tagged |= {(words[first, 0], words[after - 1, 1], kind)
                       for first, after, kind in tags_to_spans(found)}
            faults += own_faults
        return np.stack(columns, axis=1), tagged, faults

    def encode(self, records: Sequence[Record]) -> Sequence[TaggedText]:
        """Cut texts into windows."""
        cut = cut_into_windows(self.checkpoint.tokenizer, [record["text"] for record in records],
                               self.max_length, self.config.tags == "tokens",
                               self.config.stride)
        return [TaggedText(windows, record, words)
                for record, (words, windows) in zip(records, cut, strict=True)]

    def collate(self, inputs: Sequence[Window]) -> dict[str, np.ndarray]:
        """Put windows between special tokens and pad them; all (batch, tokens) int64.

        With a CRF, `words` has 1 at first tokens; it is not an argument of the model.
        """
        tokenizer = self.checkpoint.tokenizer
        ids = [np.array([tokenizer.cls_token_id, *window.ids, tokenizer.sep_token_id])
               for window in inputs]
        batch = pad_ids(ids, tokenizer.pad_token_id)
        if self.config.crf:
            batch[WORDS] = np.zeros_like(batch["input_ids"])
            for row, window in zip(batch[WORDS], inputs, strict=True):
                row[window.firsts + 1] = 1
        return batch

    def collate_labels(self, inputs: Sequence[Window], batch: Arrays) -> np.ndarray:
        """Put label ids at the words' first tokens or all tokens, (batch, tokens, groups) int64."""
        labels = np.full((*batch["input_ids"].shape, len(self.groups)), IGNORED)
        for row, window in zip(labels, inputs, strict=True):
            if self.config.label_pieces == "all":
                row[1:len(window) + 1] = self._piece_labels(window)
            else:
                row[window.firsts + 1] = window.target
        return labels

    def _piece_labels(self, window: Window) -> np.ndarray:
        """Label all tokens of a window, (tokens, groups), for `label_pieces` all.

        White space, context and words that began in another window have no labels.
        """
        words = np.searchsorted(window.firsts, np.arange(len(window)), side="right") - 1
        labels = np.full((len(window), len(self.groups)), IGNORED)
        labels[words >= 0] = window.target[words[words >= 0]]
        inside = np.array([[tags.index(re.sub("^[A-Z]-", "I-", tag)) for tag in tags]
                           for tags in self.groups])
        later = labels != IGNORED
        later[window.firsts] = False
        columns = np.broadcast_to(np.arange(len(self.groups)), labels.shape)
        labels[later] = inside[columns[later], labels[later]]
        labels[window.blanks] = IGNORED
        labels[window.after:] = IGNORED
        return labels

    def logits(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute logits, (batch, tokens, groups, labels)."""
        found = super().logits(model, {key: value for key, value in batch.items() if key != WORDS})
        return found.unflatten(-1, (len(self.groups), -1))

    def states_read(self, batch: dict[str, Tensor],
                    labels: Tensor) -> tuple[StateIndex | None, Tensor]:
        """Find the states of tokens with labels, (1, tokens), concatenated over all texts.

        Their number is padded with first tokens, because a CPU compiles its products again for each
        shape.
        """
        if self.config.head == "bilstm" or self.config.crf:
            return None, labels
        rows, positions = (labels != IGNORED).any(dim=-1).nonzero(as_tuple=True)
        missing = -len(rows) % _STATES_STEP
        read = labels[rows, positions][None]
        return ((functional.pad(rows, (0, missing))[None],
                 functional.pad(positions, (0, missing))[None]),
                functional.pad(read, (0, 0, 0, missing), value=IGNORED))

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the loss over labels in nats; with a CRF, the negative log likelihood of tags."""
        return crf_loss(model, logits, labels) if self.config.crf \
            else super().loss(model, logits, labels)

    def outputs(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute log probabilities; with a CRF, marginals and then the most probable label id."""
        return crf_outputs(model, self.logits(model, batch), batch[WORDS]) if self.config.crf \
            else super().outputs(model, batch)

    def trim(self, item: Window, output: np.ndarray) -> np.ndarray:
        """Keep the outputs at the words' first tokens, (words, ...), or at all scored tokens."""
        return output[1:len(item) + 1] if self.config.scores_subtokens \
            else output[item.firsts + 1]

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Set the tags of a loaded model, in any scheme.

        Raises:
            CheckpointError: if the labels are not tags.
        """
        pattern = "[OBILU]-." if self.config.overlapping else "O$|[BILUES]-."
        if not all(re.match(pattern, label) for label in labels):
            raise CheckpointError(
                f"{self.checkpoint.path}: found labels {', '.join(labels[:5])}, expected O, B-TYPE "
                "and I-TYPE, or tags of the schemes BIOUL (IOBES) or IO; train a model with "
                "bmtools finetune ner")
        self.labels = list(labels)
        apart = [number for number, label in enumerate(labels) if label.startswith("O-")]
        self.groups = [[OUTSIDE, *labels[start + 1:after]] for start, after in pairwise(
            [*apart, len(labels)])] if self.config.overlapping else [self.labels]

    def _at_words(self, example: TaggedText, outputs: Outputs) -> np.ndarray:
        """Concatenate the outputs of windows at first tokens, (words, groups, ...)."""
        kept = [rows[window.firsts] for window, rows in zip(
            example.inputs, outputs, strict=True)] if self.config.scores_subtokens else outputs
        shape = len(self.groups), len(self.groups[0]) + self.config.crf
        return np.concatenate([np.zeros((0, *shape), dtype=np.float32), *kept])

    def _split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Split outputs into log probabilities, (words, groups, labels), and best label ids."""
        return (rows[..., :-1], rows[..., -1].astype(np.int64)) if self.config.crf \
            else (rows, rows.argmax(axis=2))

    def predict(self, example: TaggedText, outputs: Outputs) -> JsonObject:
        """Return `entities` from the most probable tags; their score is the mean probability."""
        log_probabilities, best = self._split(self._at_words(example, outputs))
        likeliest = np.take_along_axis(log_probabilities, best[..., None], axis=2)[..., 0]
        words, text = example.words, example.record["text"]
        found = []
        for tags, ids, column in zip(self.groups, best.T, np.exp(likeliest).T, strict=True):
            found += [(int(words[first, 0]), int(words[after - 1, 1]), kind,
                       float(column[first:after].mean()))
                      for first, after, kind in tags_to_spans([tags[number] for number in ids])]
        tokens = {SUBTOKENS: [*self._subtokens(example, outputs)]} \
            if self.config.scores_subtokens and self.into != self.key else {}
        return {"entities": [
            {"id": f"T{number}", "start": start, "end": end, "type": kind,
             "text": text[start:end], "score": round(score, _DIGITS)}
            for number, (start, end, kind, score) in enumerate(
                sorted(found) if len(self.groups) > 1 else found, 1)], **tokens}

    def _subtokens(self, example: TaggedText, outputs: Outputs) -> Iterator[list[object]]:
        """Yield start and end of each word, and the most probable tags of its tokens."""
        words = iter(example.words.tolist())
        for window, rows in zip(example.inputs, outputs, strict=True):
            best = np.delete(rows.argmax(axis=2)[:, 0], window.blanks)
            kept = np.delete(np.arange(len(window)), window.blanks)
            for first, after in pairwise([*window.firsts, window.after]):
                ids = best[(kept >= first) & (kept < after)]
                yield [*next(words), [self.labels[one] for one in ids]]

    def score(self, examples: Sequence[TaggedText], outputs: Sequence[Outputs]) -> Evaluation:
        """Score entities strictly (boundaries and type), and average the loss of words in nats."""
        pairs = [*zip(examples, outputs, strict=True)]
        gold = [{"text": example.record["text"], "entities": [
            {"start": start, "end": end, "type": kind} for start, end, kind in example.gold]}
            for example in examples]
        predicted = [self.predict(*pair) for pair in pairs]
        found, by_type = measure(self.scored_as, gold, predicted)
        scores, *own = ({name: one[name] for name in _SCORES if name in one}
                        for one in (found, *by_type.values()))
        if self.config.scores_subtokens:
            scores[SUBTOKEN_F1] = measure("ner", gold, predicted)[0][SUBTOKEN_F1]
        label_ids = np.concatenate([window.target.reshape(-1) for example in examples
                                    for window in example.inputs])
        log_probabilities, _ = self._split(np.concatenate([self._at_words(*pair)
                                                           for pair in pairs]))
        loss = mean_loss(log_probabilities.reshape(-1, len(self.groups[0])), label_ids)
        return Evaluation(scores, {"by_type": dict(zip(by_type, own, strict=True))}, loss)


class PicoTask(NerTask):
    """Tagging of evidence elements, scored by words.

    Source: Nye et al. 2018 (EBM-NLP); Gu et al. 2021, section 4.2 (BLURB).
    """

    config: PicoConfig
    metrics: tuple[str, ...] = ("macro_f1",)
    scored_as = "pico"
