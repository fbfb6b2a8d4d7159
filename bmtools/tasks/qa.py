"""Extractive question answering: the span of a text that answers a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bmtools.data.masking.corruption import IGNORED
from bmtools.errors import CheckpointError, DataError, Reject, refuse, setting
from bmtools.models.checkpoint import Checkpoint
from bmtools.records import JsonObject, Record
from bmtools.tasks.inputs import (
    AnswerWindow,
    PairEncoder,
    TokenizedText,
    cut_into_answer_windows,
    score_spans,
    tokenize_each,
)
from bmtools.tasks.metrics.answers import language_of, match_answer, question_of
from bmtools.tasks.metrics.samples import measure
from bmtools.tasks.settings import QaConfig
from bmtools.tasks.task import (
    IMPOSSIBLE,
    QUESTION,
    TRAIN,
    Evaluation,
    Example,
    Outputs,
    Split,
    Task,
    with_keys,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_DIGITS = 4
_FAULTS = {
    "not_found": "without the answer in the text",
    "unaligned": "with an answer that begins or ends inside a token",
    "too_long": "with an answer longer than the maximum",
    "truncated": "with a question that was truncated",
}


@dataclass(frozen=True)
class QuestionedText(Example[AnswerWindow]):
    """A record: windows with its question and text, and the tokens of the text."""

    tokens: TokenizedText


class Span(NamedTuple):
    """An answer: its position in the text, and its probability among all spans."""

    start: int
    end: int
    probability: float


class Answers(NamedTuple):
    """The best spans of a text, and the margin of the no-answer score over the best span."""

    spans: list[Span]
    null_score_diff: float


class QaTask(Task[QuestionedText, AnswerWindow]):
    """Extractive question answering with start and end logits for each token.

    Long texts are read in overlapping windows; in windows without the answer, the target is the
    first token. A span's score is the sum of its logits, the maximum over its windows. Its
    probability is over all spans of the text, and also over no answer if the model predicts it.

    Source: Devlin et al. 2019, sections 4.2 and 4.3.
    """

    config: QaConfig
    model_class = "AutoModelForQuestionAnswering"
    key = "answers"
    normalized = False
    metrics = ("f1", "exact_match", "strict_accuracy", "lenient_accuracy", "mrr")
    fixed_labels = True

    def __init__(self, config: QaConfig, checkpoint: Checkpoint) -> None:
        super().__init__(config, checkpoint)
        self.labels = ["start", "end"]
        self._encoder = PairEncoder(checkpoint.tokenizer, checkpoint.model.config, self.max_length)

    # Data

    def read(self, name: str, records: Iterable[Record],
             reject: Reject = refuse) -> Split[QuestionedText]:
        """Read records with a question and answers.

        If an answer has no `start`, its first occurrence is used, preferably as a whole word, or
        in another case if necessary. The first answer that is in the text is learned; every answer
        is correct when scored.

        Raises:
            DataError: if there are no questions, or no answer for training is in the text.
        """
        kept = [*with_keys(records, {
            "answers": "a list, empty without an answer", **QUESTION}, reject)]
        counts: Counter[str] = Counter(dict.fromkeys(("answerable", "windows", *_FAULTS), 0))
        examples = []
        for record, example in zip(kept, self.encode(kept), strict=True):
            answer = self._first_answer(record, example, counts)
            learned = answer is not None or (self.config.no_answer and not record["answers"])
            counts.update(answerable=bool(record["answers"]), windows=len(example.inputs),
                          truncated=any(window.truncated for window in example.inputs))
            if learned or name != TRAIN:
                examples.append(replace(example, inputs=[
                    window.aimed_at(answer) for window in example.inputs]) if learned else example)
        found = counts["answerable"] - counts["not_found"]
        if not kept or (name == TRAIN and not found):
            raise DataError(f"{setting(name)}: found {found} answers in {len(kept)} records, "
                            "expected records with a key 'answers' that contains words of the text")
        questions = len({question_of(record) for record in kept})
        return Split(examples, {"records": len(kept), "questions": questions, **counts},
                     [*self._notes(len(kept), counts)])

    def _first_answer(self, record: Record, example: QuestionedText,
                      counts: Counter[str]) -> tuple[int, int] | None:
        """Find the tokens of the first answer that is in the text, and count faults."""
        places = (find_answer(record["text"], one) for one in record["answers"])
        span = next((place for place in places if place), None)
        answer = example.tokens.find(*span) if span else None
        if span is None or answer is None:
            counts["not_found"] += bool(record["answers"])
            return None
        tokens = example.tokens
        counts["unaligned"] += (tokens.starts[answer[0]], tokens.ends[answer[1]]) != span
        counts["too_long"] += answer[1] - answer[0] >= self.config.max_answer_tokens
        return answer

    def _notes(self, records: int, counts: Counter[str]) -> Iterator[str]:
        faults = [f"{counts[key]} {fault}" for key, fault in _FAULTS.items() if counts[key]]
        if faults:
            yield f"of {records} records, {'; '.join(faults)}"
        if (without := records - counts["answerable"]) and not self.config.no_answer:
            yield (f"{without} of {records} records have no answer; they are not used in training "
                   f"and count as missed; use {setting('no_answer')} to predict no answer")

    def encode(self, records: Sequence[Record]) -> Sequence[QuestionedText]:
        """Cut texts into windows with their question; ignore answers."""
        records = [*with_keys(records, QUESTION)]
        tokens = tokenize_each(self.checkpoint.tokenizer, [
            text for record in records for text in (record["question"], record["text"])])
        return [QuestionedText(list(cut_into_answer_windows(
            self._encoder, tokens[record["question"]].ids, tokens[record["text"]].ids,
            self.max_length, self.config.stride)), record, tokens[record["text"]])
            for record in records]

    def collate(self, inputs: Sequence[AnswerWindow]) -> dict[str, np.ndarray]:
        """Pad windows; all (batch, tokens) int64."""
        return self._encoder.collate(inputs)

    # Model

    def accept_labels(self, labels: Sequence[str]) -> None:
        """Check that a loaded model has two outputs, for start and end.

        Raises:
            CheckpointError: if the number of outputs differs.
        """
        if len(labels) != len(self.labels):
            raise CheckpointError(f"{self.checkpoint.path}: found {len(labels)} outputs per token, "
                                  "expected two, for the start and the end of answers; train a "
                                  "model with bmtools finetune qa")

    def loss(self, model: PreTrainedModel, logits: Tensor, labels: Tensor) -> Tensor:
        """Sum the cross-entropy of starts and ends, in nats."""
        return cross_entropy(logits, labels, reduction="sum", ignore_index=IGNORED)

    def logits(self, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
        """Compute start and end logits, (batch, tokens, 2), in float32; padding is IMPOSSIBLE."""
        found = model(**batch)
        logits: Tensor = torch.stack([found.start_logits, found.end_logits], dim=-1) \
            if hasattr(found, "start_logits") else found.logits
        return logits.float().masked_fill(batch["attention_mask"][..., None] == 0, IMPOSSIBLE)

    def trim(self, item: AnswerWindow, output: np.ndarray) -> np.ndarray:
        """Keep the logits of tokens that are not padding."""
        return output[:len(item)].copy()

    # Predictions

    def find(self, example: QuestionedText, outputs: Outputs) -> Answers:
        """Find the best spans of a text, without duplicate texts, and their probabilities."""
        tokens, text = example.tokens, example.record["text"]
        visible = np.stack([tokens.starts < tokens.ends] * 2, axis=1)
        scores = score_spans(example.inputs, outputs, tokens.borders if self.config.whole_words
                             else visible, self.config.max_answer_tokens)
        null = min((float(output[0].sum()) for output in outputs), default=0.0)
        best = float(scores.max(initial=-np.inf))
        top = max(best, null) if self.config.no_answer else best
        total = float(np.exp(scores - top, dtype=np.float64).sum()) if best > -np.inf else 1.0
        if self.config.no_answer:
            total += float(np.exp(null - top))
        spans: dict[str, Span] = {}
        flat = scores.ravel()
        for place in np.argsort(-flat, kind="stable")[:int((flat > -np.inf).sum())]:
            first, further = divmod(int(place), scores.shape[1])
            start, end = int(tokens.starts[first]), int(tokens.ends[first + further])
            probability = float(np.exp(np.float64(scores[first, further]) - top)) / total
            spans.setdefault(text[start:end].casefold(), Span(start, end, probability))
            if len(spans) == self.config.top_k:
                break
        return Answers([*spans.values()], null - best)

    def _given(self, answers: Answers, threshold: float | None) -> list[Span]:
        """Return the spans that are predicted as answers; empty if no answer is predicted."""
        none = self.config.no_answer and answers.null_score_diff > (threshold or 0.0)
        return [] if none else answers.spans

    def predict(self, example: QuestionedText, outputs: Outputs) -> JsonObject:
        """Return `answers`, best first; empty if no answer is predicted."""
        text = example.record["text"]
        return {"answers": [
            {"text": text[span.start:span.end], "start": span.start,
             "score": round(span.probability, _DIGITS)}
            for span in self._given(self.find(example, outputs),
                                    self.config.null_score_diff_threshold)]}

    def score(self, examples: Sequence[QuestionedText], outputs: Sequence[Outputs]) -> Evaluation:
        """Score best answers by SQuAD's rules, and all predicted answers by BioASQ's, per question.

        The threshold for no answer is chosen here unless it is set.
        """
        found = [self.find(example, own) for example, own in zip(examples, outputs, strict=True)]
        threshold, chosen = self.config.null_score_diff_threshold, {}
        if self.config.no_answer and threshold is None:
            threshold = choose_threshold(examples, found)
            chosen = {"null_score_diff_threshold": threshold}
        gold = [example.record for example in examples]
        given = [{"answers": [{"text": record["text"][span.start:span.end],
                               "score": span.probability}
                              for span in self._given(answers, threshold)]}
                 for record, answers in zip(gold, found, strict=True)]
        scores, by_answer = measure("qa", gold, given)
        factoids, _ = measure("factoid", gold, given)
        details = {"has_answer": by_answer["yes"], "no_answer": by_answer["no"]} \
            if "no" in by_answer and "yes" in by_answer else {}
        return Evaluation({**scores, **factoids}, details, _loss(examples, outputs), chosen)


def find_answer(text: str, answer: JsonObject) -> tuple[int, int] | None:
    """Find an answer in a text by its `start`, or its first occurrence."""
    words = answer["text"].strip()
    if not words:
        return None
    if answer.get("start") is not None:
        start = answer["start"] + answer["text"].index(words)
        return start, start + len(words)
    pattern = re.escape(words)
    for whole in (rf"(?<!\w){pattern}(?!\w)", pattern):
        for flags in (re.NOFLAG, re.IGNORECASE):
            if found := re.search(whole, text, flags):
                return found.span()
    return None


def choose_threshold(examples: Sequence[QuestionedText], found: Sequence[Answers]) -> float:
    """Choose the margin required of the no-answer score for the best mean F1.

    Source: SQuAD 2.0's evaluation; the threshold is between two margins in the data.
    """
    differences = np.array([answers.null_score_diff for answers in found])
    gains = []  # of answering over not answering
    for example, answers in zip(examples, found, strict=True):
        record = example.record
        text = record["text"][slice(*answers.spans[0][:2])] if answers.spans else ""
        answered, silent = (match_answer([answer["text"] for answer in record["answers"]], one,
                                         language_of(record))[1] for one in (text, ""))
        gains.append(answered - silent)
    order = np.argsort(differences, kind="stable")
    limits = differences[order]
    finite = limits[np.isfinite(limits)]
    below, above = (finite[0] - 1, finite[-1] + 1) if len(finite) else (0.0, 0.0)
    sides = np.clip([-np.inf, *limits, np.inf], below, above)  # bounds of the possible thresholds
    totals = np.concatenate([[0.0], np.cumsum(np.array(gains)[order])])
    best = max((count for count in range(len(totals)) if count in (0, len(limits))
                or sides[count] < sides[count + 1]), key=totals.__getitem__)
    return round(float(sides[best:best + 2].mean()), 6)


def _loss(examples: Sequence[QuestionedText], outputs: Sequence[Outputs]) -> float:
    """Average the cross-entropy of starts and ends over windows, in nats."""
    losses = [np.logaddexp.reduce(logits[:, side], dtype=np.float64) - logits[place, side]
              for example, own in zip(examples, outputs, strict=True)
              for window, logits in zip(example.inputs, own, strict=True)
              for side, place in enumerate(window.target) if place != IGNORED]
    return float(np.mean(losses)) if losses else float("inf")
