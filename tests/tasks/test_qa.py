"""Question answering: windows, spans and scores against independent implementations."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

import bmtools.tasks
from bmtools.errors import RecordError
from bmtools.io.json_files import read_manifest
from bmtools.models.merge import merge
from bmtools.records import Record, check
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.inputs import PairEncoder, cut_into_answer_windows, tokenize_each
from bmtools.tasks.metrics.answers import match_answer
from bmtools.tasks.predict import run_model
from bmtools.tasks.qa import Answers, QaTask, Span, choose_threshold, find_answer
from bmtools.tasks.settings import QaConfig

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["il", "la", "paziente", "con", "dolore", "e", "febbre", "due", "caffe\u0301"]
SIGNS = ["asma", "artrosi", "infarto"]
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 8, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32, "stride": 6, "whole_words": False}
TEXT = ("Il paziente ha l'ipertensione arteriosa, e (PKU). Caffe\u0301 naïve 🧬🧬 DNA β-catenina. "
        "患者は糖尿病です。 ") * 3


def records(seed: int, count: int, without: int = 0) -> list[Record]:
    """Texts with one disease, the answer to every question; the first texts have no answer."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        words = [rng.choice(WORDS) for _ in range(rng.randint(3, 30))]
        answers = []
        if number >= without:
            place, sign = rng.randint(0, len(words)), rng.choice(SIGNS)
            words.insert(place, sign)
            answers = [{"text": sign, "start": len(" ".join([*words[:place], ""]))}]
        made.append(Record(id=f"{seed}-{number}", text=" ".join(words), question="il dolore e",
                           answers=answers, place=f"a.jsonl:{number}"))
    for record in made:
        check(record)
    return made


def qa(checkpoint: Path, **settings: Any) -> QaTask:
    return QaTask(QaConfig(**{"max_length": 32, "stride": 6, **settings}),
                  load_encoder(checkpoint, QaTask.model_class))


# Windows


@pytest.mark.parametrize(("length", "stride"), [(24, 5), (32, 0), (48, 15), (400, 128)])
def test_windows_equal_transformers(checkpoint: Path, length: int, stride: int) -> None:
    task = qa(checkpoint, max_length=length, stride=stride)
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    question, text = "due caffe\u0301 e dolore", "il paziente con febbre e asma " * 9
    theirs = tokenizer(question, text, truncation="only_second", max_length=task.max_length,
                       stride=stride, return_overflowing_tokens=True, return_token_type_ids=True,
                       return_offsets_mapping=True)
    [example] = task.encode([Record(id="1", text=text, question=question)])
    assert [window.ids.tolist() for window in example.inputs] == theirs["input_ids"]
    if checkpoint.name == "bert":
        assert [window.token_type_ids.tolist()
                for window in example.inputs] == theirs["token_type_ids"]
    for number, window in enumerate(example.inputs):
        offsets = theirs["offset_mapping"][number][window.place:window.place + window.size]
        own = slice(window.first, window.first + window.size)
        for (start, end), mine in zip(offsets, zip(example.tokens.starts[own],
                                                   example.tokens.ends[own], strict=True),
                                      strict=True):
            assert text[start:end].strip() == text[slice(*mine)]


def test_every_family_has_exact_offsets(tokenizer: Any) -> None:
    """Tokens are in order and without white space; accents stay with their letter."""
    found = tokenize_each(tokenizer, [TEXT])[TEXT]
    for start, end in zip(found.starts, found.ends, strict=True):
        token = TEXT[start:end]
        assert token == token.strip() and not token.startswith("\u0301")
        assert token[-1:] != "e" or TEXT[end:end + 1] != "\u0301"
    for word in ("Caffe\u0301", "ipertensione", "DNA", "糖尿病", "🧬"):
        start = TEXT.index(word, 30) if word != "🧬" else TEXT.index("🧬🧬") + 1
        span = found.find(start, start + len(word))
        assert span is not None
        assert found.starts[span[0]] <= start and start + len(word) <= found.ends[span[1]]
    assert found.find(TEXT.index(" DNA"), TEXT.index(" DNA") + 1) is None


def test_target_without_answer_is_the_first_token(bert: Path) -> None:
    task = qa(bert)
    record = Record(id="1", question="il dolore", text="la febbre " * 30 + "asma " + "e due " * 9,
                    answers=[{"text": "asma", "start": 300}])
    [example] = task.read("train", [record]).examples
    tokenizer: Any = AutoTokenizer.from_pretrained(bert)
    held = [window for window in example.inputs if window.target.any()]
    assert 1 <= len(held) < len(example.inputs)
    for window in held:
        first, last = window.target
        assert tokenizer.decode(window.ids[first:last + 1]) == "asma"
    labels = task.collate_labels(example.inputs, {})
    assert labels.tolist() == [window.target.tolist() for window in example.inputs]


# Spans


def cuts_a_word(text: str, place: int) -> bool:
    letter = "[^\\W_]\u0301?"
    return re.search(rf"{letter}$", text[:place]) is not None and \
        re.match(letter, text[place:]) is not None and \
        not re.search("[\u3040-\u30ff\u4e00-\u9fff]", text[place - 1:place + 1])


def brute_force(example: Any, outputs: Any, longest: int, null: bool,
                whole_words: bool) -> list[tuple[Any, ...]]:
    """Score each span of each window separately; return them best first, with probabilities."""
    scores: dict[tuple[int, int], float] = {}
    for window, logits in zip(example.inputs, outputs, strict=True):
        for first in range(window.size):
            for last in range(first, min(first + longest, window.size)):
                span = window.first + first, window.first + last
                if any(example.tokens.starts[end] == example.tokens.ends[end] for end in span):
                    continue
                if whole_words and (
                        cuts_a_word(example.record["text"], example.tokens.starts[span[0]])
                        or cuts_a_word(example.record["text"], example.tokens.ends[span[1]])):
                    continue
                score = float(logits[window.place + first, 0]
                              + logits[window.place + last, 1])
                scores[span] = max(scores.get(span, -math.inf), score)
    none = [min(float(logits[0].sum()) for logits in outputs)] if null else []
    total = sum(map(math.exp, [*scores.values(), *none]))
    return sorted(((example.record["text"][example.tokens.starts[first]:example.tokens.ends[last]],
                    int(example.tokens.starts[first]), math.exp(score) / total)
                   for (first, last), score in scores.items()), key=lambda one: -one[2])


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("length", [24, 400])
def test_answers_equal_a_search_through_all_spans( bert: Path, tokenizer: Any, length: int,
                                                  whole_words: bool, no_answer: bool) -> None:
    task = qa(bert, max_length=length, stride=5, max_answer_tokens=4, top_k=7,
              no_answer=no_answer, whole_words=whole_words)
    rng = np.random.default_rng(0)
    for text in (TEXT, "asma", "a  b\t\nc " * 9):
        tokens = tokenize_each(tokenizer, [text, "chi è"])
        encoder = PairEncoder(tokenizer, task.checkpoint.model.config, length)
        [blank] = task.encode([Record(id="1", text="", question="chi")])
        windows = [*cut_into_answer_windows(encoder, tokens["chi è"].ids, tokens[text].ids,
                                            length, 5)]
        example = bmtools.tasks.qa.QuestionedText(windows, Record(text=text), tokens[text])
        outputs = [rng.normal(size=(len(window), 2)).astype(np.float32) for window in windows]
        expected: dict[str, tuple[Any, ...]] = {}
        every = brute_force(example, outputs, 4, no_answer, whole_words)
        for answer in every:
            expected.setdefault(answer[0].casefold(), answer)
        found, null_score_diff = task.find(example, outputs)
        if no_answer:
            none = 1 - sum(answer[2] for answer in every)
            assert null_score_diff == pytest.approx(math.log(none / every[0][2]), abs=1e-3)
        best = [*expected.values()][:7]
        assert [text[span.start:span.end] for span in found] == [one[0] for one in best]
        assert [span.start for span in found] == [one[1] for one in best]
        assert [span.probability for span in found] == pytest.approx([one[2] for one in best],
                                                                     rel=1e-4)
        assert task.find(blank, []).spans == []


def test_spans_with_equal_scores_are_distinct_and_ordered(bert: Path) -> None:
    task = qa(bert, top_k=5000, max_answer_tokens=30, max_length=500)
    text = " ".join(f"{number:03}" for number in range(90))
    [example] = task.encode([Record(id="1", text=text, question="chi")])
    outputs = [np.zeros((len(window), 2), dtype=np.float32) for window in example.inputs]
    found = [(span.start, span.end) for span in task.find(example, outputs).spans]
    assert len(found) == len(set(found)) > 256
    assert found == sorted(found)


# Threshold for no answer


def test_the_threshold_is_the_best_of_all(bert: Path) -> None:
    rng = random.Random(5)
    for _ in range(60):
        examples: Any = []
        found = []
        for _ in range(rng.randint(1, 8)):
            gold = rng.choice([(), ("asma",), ("asma grave",)])
            examples.append(bmtools.tasks.qa.QuestionedText((), Record(
                text="asma grave", answers=[{"text": text} for text in gold]), None))
            spans = rng.choice([[], [Span(0, 4, 0.5)], [Span(5, 10, 0.5)]])
            found.append(Answers(spans, rng.choice([-1.5, 0.0, 0.25, 3.0])
                                 if spans else math.inf))

        def total(threshold: float, examples: Any = examples, found: Any = found) -> float:
            return sum(match_answer(
                [one["text"] for one in example.record["answers"]],
                "" if answers.null_score_diff > threshold or not answers.spans
                else "asma grave"[answers.spans[0].start:answers.spans[0].end])[1]
                for example, answers in zip(examples, found, strict=True))

        best = max(map(total, (-9, -0.7, 0.1, 1, 9)))
        threshold = choose_threshold(examples, found)
        assert math.isfinite(threshold) and total(threshold) == pytest.approx(best)


# Training


def test_a_random_model_learns_and_transformers_agrees(checkpoint: Path, tmp_path: Path) -> None:
    test = records(3, 20)
    result = bmtools.tasks.finetune("qa", checkpoint, records(1, 90), records(2, 20),
                                    tmp_path / "tuned", test=test, **SETTINGS)
    assert result["test_f1"]["mean"] == result["test_mrr"]["mean"] == 1.0
    assert read_manifest(tmp_path / "tuned")["settings"]["task"] == "qa"
    model = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "tuned").eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "tuned")
    asked = [record.without("answers") for record in test]
    predicted = list(bmtools.tasks.predict(asked, tmp_path / "tuned", batch_size=7,
                                           max_length=64))
    for gold, record in zip(test, predicted, strict=True):
        answers = record["predicted"]["answers"]
        assert answers[0]["text"] == gold["answers"][0]["text"]
        assert answers[0]["start"] == gold["answers"][0]["start"]
        check(record.replace(answers=answers))
        encoded = tokenizer(record["question"], record["text"], return_tensors="pt")
        with torch.inference_mode():
            theirs = model(**encoded)
        inside = [place for place, part in enumerate(encoded.sequence_ids()) if part == 1
                  and record["text"][slice(*encoded.token_to_chars(place))].strip()]
        scores = {(first, last): float(theirs.start_logits[0, first] + theirs.end_logits[0, last])
                  for first in inside for last in inside if 0 <= last - first < 30}
        best = max(scores, key=scores.__getitem__)
        share = math.exp(scores[best]) / sum(map(math.exp, scores.values()))
        assert answers[0]["score"] == pytest.approx(share, abs=1e-3)


def test_first_loss_equals_transformers(checkpoint: Path) -> None:
    task = qa(checkpoint)
    examples = task.read("train", records(1, 9)).examples
    model = task.new_model(0).eval()
    windows = [window for example in examples for window in example.inputs]
    batch = {name: torch.from_numpy(value) for name, value in task.collate(windows).items()}
    labels = torch.from_numpy(task.collate_labels(windows, {}))
    loss = task.loss(model, task.logits(model, batch), labels).item() / labels.numel()
    alone = [model(**{name: value[number:number + 1, :len(window)]
                      for name, value in batch.items()},
                   start_positions=labels[number:number + 1, 0],
                   end_positions=labels[number:number + 1, 1]).loss.item()
             for number, window in enumerate(windows)]
    assert loss == pytest.approx(np.mean(alone), abs=1e-5)
    assert task.score(examples, run_model(task, model, examples, 4)).loss == pytest.approx(
        loss, abs=1e-5)


def test_two_hidden_layers_learn_in_two_stages(checkpoint: Path, tmp_path: Path) -> None:
    """The second stage starts from the first one's head, like BioMegatron's BioASQ from SQuAD."""
    settings = {**SETTINGS, "head": "mlp", "head_layers": 2, "head_size": 32, "head_dropout": 0.1}
    test, lines = records(3, 20), list[dict[str, Any]]()
    bmtools.tasks.finetune("qa", checkpoint, records(1, 90), records(2, 20), tmp_path / "first",
                           **settings)
    result = bmtools.tasks.finetune(
        "qa", tmp_path / "first", records(4, 9), records(2, 20), tmp_path / "tuned", test=test,
        report=lines.append, **{**settings, "epochs": 1, "learning_rate": 1e-5})
    assert result["test_f1"]["mean"] == 1.0
    assert any("is trained further" in line.get("note", "") for line in lines)
    merge([tmp_path / "tuned"] * 2, tmp_path / "merged")
    found = bmtools.tasks.predict([record.without("answers") for record in test],
                                  tmp_path / "merged", batch_size=7)
    for gold, record in zip(test, found, strict=True):
        assert record["predicted"]["answers"][0]["start"] == gold["answers"][0]["start"]


def test_no_answer_is_learned_with_a_threshold(bert: Path, tmp_path: Path) -> None:
    test = records(3, 20, without=10)
    lines: list[dict[str, Any]] = []
    result = bmtools.tasks.finetune(
        "qa", bert, records(1, 90, without=40), records(2, 20, without=10), tmp_path / "tuned",
        test=test, no_answer=True, report=lines.append, **SETTINGS)
    assert result["test_exact_match"]["mean"] == 1.0
    seed = next(line for line in lines if "best_epoch" in line)
    assert seed["test"]["no_answer"] == {"exact_match": 1.0, "f1": 1.0, "support": 10}
    threshold = read_manifest(tmp_path / "tuned")["settings"]["null_score_diff_threshold"]
    assert isinstance(threshold, float)
    predicted = list(bmtools.tasks.predict(test, tmp_path / "tuned"))
    assert [bool(record["predicted"]["answers"]) for record in predicted] == \
        [bool(record["answers"]) for record in test]

    manifest = json.loads((tmp_path / "tuned/bmtools.json").read_text())
    manifest["settings"]["null_score_diff_threshold"] = 1e9
    (tmp_path / "tuned/bmtools.json").write_text(json.dumps(manifest))
    assert all(record["predicted"]["answers"]
               for record in bmtools.tasks.predict(test, tmp_path / "tuned"))


def test_transformers_model_answers_and_keeps_its_head(bert: Path, tmp_path: Path) -> None:
    """It has no bmtools.json, and its outputs are named LABEL_0 and LABEL_1."""
    AutoModelForQuestionAnswering.from_pretrained(bert).save_pretrained(tmp_path / "hub")
    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "hub")
    [found] = bmtools.tasks.predict(records(1, 1), tmp_path / "hub", task="qa")
    assert len(found["predicted"]["answers"]) == 5
    task = qa(tmp_path / "hub")
    trained = load_file(tmp_path / "hub/model.safetensors")["qa_outputs.weight"]
    assert torch.equal(task.new_model(3).get_submodule("qa_outputs").weight, trained)


# Data


def test_sets_are_counted_and_noted(bert: Path) -> None:
    task = qa(bert, max_answer_tokens=2)
    task.read("train", records(1, 5))
    found = task.read("dev", [
        *records(2, 3, without=1),
        Record(id="x", question="chi " * 40, text="il paziente", answers=[{"text": "PAZIENTE"}]),
        Record(id="y", question="chi", text="il paziente", answers=[{"text": "asma"}]),
        Record(id="z", question="chi", text="il dolore", answers=[{"text": "il dolore e"}],
               meta={"question": "x"})])
    counts = found.counts
    assert (counts["records"], counts["questions"], counts["answerable"]) == (6, 5, 5)
    assert (counts["not_found"], counts["truncated"]) == (2, 1)
    assert len(found.examples) == 6
    assert any("1 of 6 records have no answer" in note for note in found.notes)
    assert any("2 without the answer in the text" in note for note in found.notes)


@pytest.mark.parametrize(("answer", "span"), [
    ({"text": "NF1", "start": 14}, (14, 17)), ({"text": "NF1"}, (10, 13)),
    ({"text": "nf1"}, (10, 13)), ({"text": "F"}, (1, 2)), ({"text": " NF1 "}, (10, 13)),
    ({"text": " NF1", "start": 9}, (10, 13)),
    ({"text": "asma"}, None), ({"text": ""}, None)])
def test_answers_without_start_are_searched(answer: dict[str, Any], span: tuple[int,
                                            int] | None) -> None:
    assert find_answer("NF10, NF2 NF1 NF1", answer) == span


def test_records_without_a_question_are_rejected(bert: Path, tmp_path: Path) -> None:
    bad = [Record(id="x", text="il", answers=[], place="a.jsonl:7"),
           Record(id="y", text="il", question=" ", answers=[], place="a.jsonl:8"),
           Record(id="z", text="il", question="chi", place="a.jsonl:9")]
    with pytest.raises(RecordError, match=r"a\.jsonl:7: key 'question' is missing"):
        qa(bert).read("train", [bad[0], *records(1, 3)])
    errors: list[RecordError] = []
    split = qa(bert).read("train", [*bad, *records(1, 3)], errors.append)
    assert sorted(error.place for error in errors) == ["a.jsonl:7", "a.jsonl:8", "a.jsonl:9"]
    assert split.counts["records"] == 3
    with pytest.raises(RecordError, match=r"a\.jsonl:8: key 'question' is empty"):
        qa(bert).encode(bad[1:])
