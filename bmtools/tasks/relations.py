"""Relation extraction: one label for each pair of a record's entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bmtools.errors import (
    CheckpointError,
    DataError,
    RecordError,
    Reject,
    refuse,
    setting,
    suggestion,
)
from bmtools.models.checkpoint import Checkpoint
from bmtools.records import Entity, JsonObject, Record
from bmtools.tasks.entity_pairs import (
    Candidate,
    Ends,
    PairInput,
    encode_pairs,
    find_candidates,
    label_candidates,
    mark,
    names_in_text,
)
from bmtools.tasks.heads import add_tokens, draw_embeddings
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.settings import RelationsConfig, split_names
from bmtools.tasks.task import (
    TRAIN,
    Evaluation,
    Example,
    Outputs,
    Split,
    Task,
    encode_texts,
    mean_loss,
    pad_ids,
    unseen_labels,
    with_keys,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_DIGITS = 4


@dataclass(frozen=True)
class PairsExample(Example[PairInput]):
    """A record, with an input for each candidate pair.

    Args:
        ends: ids of head and tail of each pair.
        gold: label of each pair; empty in prediction.
        missed: types of gold relations that no label represents.
    """

    ends: Sequence[Ends]
    gold: Sequence[str] = ()
    missed: Sequence[str] = ()


class RelationsTask(Task[PairsExample, PairInput]):
    """Classification of entity pairs, marked and pooled according to the settings.

    With pooling `cls` and a linear head, the head is the classification head of transformers.
    Otherwise it is a `StatesHead` on the first token's state or on both entities' joined states.

    Source: Gu et al. 2021, sections 5.2 and 6.5.
    """

    config: RelationsConfig
    model_class = "AutoModelForSequenceClassification"
    key = "relations"
    metrics = ("micro_f1", "macro_f1", "weighted_f1")

    def __init__(self, config: RelationsConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self._new_ids: Sequence[int] = ()

    # Data

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[PairsExample]:
        """Read records with entities and relations; `train` determines the types.

        Counts are `records`, `entities`, candidate `pairs`, pairs by `labels`, `relations` of the
        learned types (the support of all scores), `missed` relations, which no pair's label
        represents, and `truncated` pairs.

        Raises:
            DataError: if the set has no related pairs.
        """
        found: list[tuple[Record, list[Candidate]]] = []
        for record in with_keys(records, {"relations": "a list, empty without relations"},
                                reject):
            try:
                found.append((record, find_candidates(record, record.get("entities", ()),
                                                      self.config)))
            except RecordError as error:
                reject(error)
        labelled = [label_candidates(candidates, record["relations"], self.config)
                    for record, candidates in found]
        labels = Counter(label for own, _ in labelled for label in own)
        missed = sum(len(own) for _, own in labelled)
        types = sorted(labels.keys() - {self.config.no_relation_label})
        if not types:
            self._raise_unrelated(name, [record for record, _ in found], labels.total())
        if name == TRAIN:
            self.labels = [self.config.no_relation_label, *types]
            self._add_tokens(candidate for _, candidates in found for candidate in candidates)
        ids = {label: np.array(number) for number, label in enumerate(self.labels)}
        examples = [replace(one, gold=gold, missed=lost, inputs=[
            replace(item, target=ids.get(label, item.target))
            for item, label in zip(one.inputs, gold, strict=True)])
            for one, (gold, lost) in zip(self._encode(found), labelled, strict=True)]
        relations = sum(labels[kind] for kind in types) + missed
        unseen, notes = unseen_labels({kind: labels[kind] for kind in types}, ids,
                                      f"of {relations} relations are")
        counts: JsonObject = {
            "records": len(found), "entities": sum(len(record.get("entities", ()))
                                                   for record, _ in found),
            "pairs": labels.total(), "labels": dict(sorted(labels.items())),
            "relations": relations, "missed": missed,
            "truncated": sum(bool(item.truncated) for one in examples for item in one.inputs),
            "unseen_types": unseen}
        if missed:
            notes.append(f"{missed} of {relations} relations count as missed, because their "
                         "entities are not paired or their pair has another type")
        if counts["truncated"]:
            notes.append(f"{counts['truncated']} of {labels.total()} pairs are in texts longer "
                         f"than {self.max_length} tokens, which were cut around both entities")
        return Split(examples, counts, notes)

    def _raise_unrelated(self, name: str, records: Sequence[Record], pairs: int) -> None:
        """Raise an error for a set without related pairs; name the setting that excludes them."""
        for fields, key in ((("head_types", "tail_types"), "entities"), (("types",), "relations")):
            known = sorted({one["type"] for record in records for one in record.get(key, ())})
            for field in fields:
                lacking = {*split_names(getattr(self.config, field))}.difference(known)
                for kind in sorted(lacking if known else ()):
                    raise DataError(f"{setting(name)}: found no {key} with the type {kind!r}, set "
                                    f"in {setting(field)}; {suggestion(kind, known)}")
        raise DataError(f"{setting(name)}: found {pairs} pairs of entities in {len(records)} "
                        "records, but no related ones; expected records with a key 'relations' "
                        "that is not empty")

    def _add_tokens(self, candidates: Iterable[Candidate]) -> None:
        """Add tokens for markers in brackets and for names that the vocabulary cannot represent."""
        tokenizer = self.checkpoint.tokenizer
        names = dict.fromkeys(name for candidate in candidates
                              for name in names_in_text(candidate, self.config))
        spelled = encode_texts(tokenizer, names)
        self.checkpoint, self._new_ids = add_tokens(self.checkpoint, [
            name for name, encoding in zip(names, spelled, strict=True)
            if name[0] + name[-1] in ("[]", "<>") or tokenizer.unk_token_id in encoding.ids])

    def encode(self, records: Sequence[Record]) -> Sequence[PairsExample]:
        """Encode all pairs of each record's entities; predicted entities are preferred.

        Raises:
            RecordError: if there are no entities, or an entity has no id.
        """
        return self._encode([(record, find_candidates(record, self._entities(record),
                                                      self.config)) for record in records])

    def _entities(self, record: Record) -> Sequence[Entity]:
        """Return the entities to pair."""
        predicted = record.get(self.into, {}) if self.into != self.key else {}
        entities = predicted.get("entities", record.get("entities")) \
            if isinstance(predicted, dict) else record.get("entities")
        if entities is None:
            raise RecordError(record.place, "key 'entities' is missing; expected a list, or "
                              f"entities that bmtools predict added under {self.into!r}", record)
        return entities

    def _encode(self, found: Sequence[tuple[Record, Sequence[Candidate]]]) -> list[PairsExample]:
        texts = [mark(record["text"], candidate, self.config)
                 for record, candidates in found for candidate in candidates]
        inputs = encode_pairs(self.checkpoint.tokenizer, texts, self.max_length)
        return [PairsExample([next(inputs) for _ in candidates], record,
                             [candidate.ends for candidate in candidates])
                for record, candidates in found]

    def collate(self, inputs: Sequence[PairInput]) -> dict[str, np.ndarray]:
        """Pad inputs, (batch, tokens) int64; `mentions` are (batch, 2, tokens) bool."""
        batch = pad_ids([item.ids for item in inputs], self.checkpoint.tokenizer.pad_token_id)
        if self.config.pooling != "cls":
            batch["mentions"] = np.zeros((len(inputs), 2, batch["input_ids"].shape[1]), dtype=bool)
            for row, item in zip(batch["mentions"], inputs, strict=True):
                for mask, tokens in zip(row, item.mentions, strict=True):
                    mask[tokens] = True
        return batch

    # Model

    def new_model(self, seed: int) -> PreTrainedModel:
        """Copy the encoder, add a head, and initialize embeddings of new markers from the seed."""
        model = super().new_model(seed)
        if self._new_ids:
            draw_embeddings(model, self._new_ids, seed)
        return model

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Set the types of a loaded model.

        Raises:
            CheckpointError: if there is no label for pairs without a relation.
        """
        if self.config.no_relation_label not in labels:
            raise CheckpointError(
                f"{self.checkpoint.path}: found labels {', '.join(labels[:5])}, expected "
                f"{self.config.no_relation_label!r} among them; train a model with bmtools "
                "finetune relations")
        self.labels = list(labels)

    # Predictions

    def predict(self, example: PairsExample, outputs: Outputs) -> JsonObject:
        """Return `relations`, each with the probability of its type as score."""
        best = [(self.labels[row.argmax()], float(np.exp(row.max()))) for row in outputs]
        return {"relations": [
            {"head": head, "tail": tail, "type": label, "score": round(score, _DIGITS)}
            for (head, tail), (label, score) in zip(example.ends, best, strict=True)
            if label != self.config.no_relation_label]}

    def score(self, examples: Sequence[PairsExample], outputs: Sequence[Outputs]) -> Evaluation:
        """Score pairs by type, and average the loss of labels that are in the training set.

        Relations that no pair represents count as pairs that were predicted to be unrelated.
        """
        rows = np.array([row for output in outputs for row in output]).reshape(
            -1, len(self.labels))
        negative = self.config.no_relation_label
        missed = [kind for example in examples for kind in example.missed]
        gold = [*(label for example in examples for label in example.gold), *missed]
        found = [*(self.labels[best] for best in rows.argmax(axis=1)), *[negative] * len(missed)]
        scores, by_type = measure("classification", [{"label": label} for label in gold],
                                  [{"label": label} for label in found], negative)
        scores = {name: scores[name] for name in (*self.metrics, "precision", "recall")} | {
            name: sum(one[name] for one in by_type.values())
            for name in ("support", "predicted", "correct")}
        ids = np.array([item.target for example in examples for item in example.inputs], dtype=int)
        return Evaluation(scores, {"by_type": by_type}, mean_loss(rows, ids))
