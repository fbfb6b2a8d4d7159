"""Relation extraction on toys and real sentences: learning, heads, markers, scores."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from toy_models import learn_wordpiece, save_random
from transformers import AutoModel, AutoTokenizer

import bmtools.tasks
from bmtools.errors import CheckpointError, DataError, RecordError
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.checkpoint import save_checkpoint
from bmtools.models.merge import merge
from bmtools.records import Record
from bmtools.study.cards.card import write_cards
from bmtools.tasks.heads import load_encoder
from bmtools.tasks.metrics.score_tasks import Predictions, task_scores
from bmtools.tasks.predict import run_model
from bmtools.tasks.relations import PairsExample, RelationsTask
from bmtools.tasks.settings import RelationsConfig

pytestmark = pytest.mark.usefixtures("one_thread")
DRUGS = ["asa", "tnf", "insulina", "eparina"]
VERBS = {"cura": "TREATS", "causa": "CAUSES", "vede": ""}
TABLE_12 = [("dummy", "cls"), ("dummy", "mentions"), ("original", "cls"),
            ("original", "mentions"), ("marked", "cls"), ("marked", "mentions"),
            ("marked", "starts")]
SETTINGS: dict[str, Any] = {"seeds": 1, "epochs": 10, "batch_size": 8, "learning_rate": 3e-3,
                            "max_length": 32, "head_types": "DRUG", "tail_types": "ILL"}


def records(seed: int, count: int, facts: int = 2) -> list[Record]:
    """Sentences with some facts; the verb decides how drug and illness are related."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        text, entities, arcs = "", [], []
        for fact in range(facts):
            verb, illness = rng.choice([*VERBS]), f"febbre {rng.choice('ab')}"
            for kind, word in (("DRUG", rng.choice(DRUGS)), ("", verb), ("ILL", illness)):
                text += " " * bool(text)
                if kind:
                    entities.append({"id": f"{kind}{fact}", "start": len(text),
                                     "end": len(text) + len(word), "type": kind})
                text += word
            if VERBS[verb]:
                arcs.append({"head": f"DRUG{fact}", "tail": f"ILL{fact}", "type": VERBS[verb]})
            text += "." if fact == facts - 1 else " e"
        made.append(Record(id=str(number), text=text, entities=entities, relations=arcs,
                           lang="it", place=f"a.jsonl:{number}"))
    return made


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one-layer model; its vocabulary does not contain @ and $."""
    tokenizer = learn_wordpiece([record["text"] for record in records(0, 50)], 200)
    return save_random(tmp_path_factory.mktemp("models") / "bert", tokenizer)


def make_task(bert: Path, **settings: Any) -> RelationsTask:
    config = RelationsConfig(**{"max_length": 32, **settings})
    return RelationsTask(config, load_encoder(bert, RelationsTask.head_for(config)[0]))


@pytest.mark.parametrize(("entities", "pooling", "facts", "head"), [
    ("marked", "starts", 2, "linear"), ("dummy", "mentions", 2, "linear"),
    ("dummy", "cls", 1, "linear"), ("dummy", "mentions-mean", 2, "mlp"),
    ("dummy", "cls", 1, "bilstm")])
def test_random_model_learns_and_predictions_match_its_score( bert: Path, tmp_path: Path,
                                                             entities: str, pooling: str,
                                                             facts: int, head: str) -> None:
    test, lines = records(3, 30, facts), []
    result = bmtools.tasks.finetune(
        "relations", bert, records(1, 100, facts), records(2, 20, facts), tmp_path / "tuned",
        test=test, report=lines.append, entities=entities, pooling=pooling, head=head,
        head_size=32, head_dropout=0.1, **SETTINGS)
    assert result["test_micro_f1"]["mean"] > 0.8, result
    write_cards(tmp_path / "tuned")
    card = (tmp_path / "tuned/README.md").read_text()
    assert "Relation finder" in card and '"text": "...", "entities": [...]}]' in card
    assert "pipeline_tag" not in card and "from transformers import pipeline" not in card
    seed = next(line for line in lines if "best_epoch" in line)
    stripped = [record.without("relations") for record in test]
    merge([tmp_path / "tuned", tmp_path / "tuned"], tmp_path / "merged")
    found = list(bmtools.tasks.predict(stripped, tmp_path / "merged", batch_size=5))
    [score] = task_scores(test, [Predictions("x", found, "x")],
                          resamples=0)
    assert score["f1"] == seed["test"]["micro_f1"]
    assert [score[key] for key in ("support", "predicted", "correct")] \
        == [seed["test"][key] for key in ("support", "predicted", "correct")]
    for one in found:
        ids = {entity["id"] for entity in one["entities"]}
        assert all({arc["head"], arc["tail"]} <= ids and 0 < arc["score"] <= 1
                   for arc in one["predicted"]["relations"])


def test_undirected_relations_are_scored_without_direction(bert: Path, tmp_path: Path) -> None:
    """Half of the gold relations start at the later entity, unlike all pairs that are read."""
    settings = {**SETTINGS, "head_types": "", "tail_types": "", "types": "TREATS"}
    made = [[record if number % 2 else record.replace(relations=[
        {"head": arc["tail"], "tail": arc["head"], "type": arc["type"]}
        for arc in record["relations"]]) for number, record in enumerate(records(seed, count, 1))]
        for seed, count in ((1, 100), (2, 20))]
    result = bmtools.tasks.finetune("relations", bert, *made, tmp_path / "tuned", **settings)
    assert result["dev_micro_f1"]["mean"] > 0.8, result
    found = [*bmtools.tasks.predict(made[1], tmp_path / "tuned")]
    [score] = task_scores(made[1], [Predictions("x", found, "x")], resamples=0)
    assert score["f1"] == result["dev_micro_f1"]["mean"]
    [directed] = task_scores(made[1], [Predictions("x", found, "x")], resamples=0,
                             undirected=False)
    assert directed["f1"] < score["f1"]


@pytest.mark.parametrize(("entities", "pooling", "head"), [
    *((*row, "linear") for row in TABLE_12), ("original", "mentions-mean", "linear"),
    ("dummy", "mentions-mean", "mlp"), ("dummy", "cls", "mlp"), ("dummy", "cls", "bilstm"),
    ("marked", "mentions", "bilstm")])
def test_heads_and_rows_of_table_12_equal_a_simple_implementation(bert: Path, tmp_path: Path,
                                                                  entities: str, pooling: str,
                                                                  head: str) -> None:
    """Logits equal those computed from transformers' states layer by layer, also when reloaded."""
    task = make_task(bert, entities=entities, pooling=pooling, head=head, head_layers=2,
                     head_size=6)
    examples = task.read("train", records(1, 4)).examples
    model = task.new_model(3).eval()
    inputs = [item for example in examples for item in example.inputs]
    outputs = run_model(task, model, examples, 3)
    found = np.array([row for rows in outputs for row in rows])
    for item, row in zip(inputs, found, strict=True):
        with torch.inference_mode():
            states = model.base_model(torch.tensor([item.ids.tolist()])).last_hidden_state[0]
            if (pooling, head) == ("cls", "linear"):
                logits = model.classifier(model.base_model.pooler(states[None])[0])
            else:
                logits = logits_by_hand(model.classifier, states, item.mentions, pooling)
        assert row == pytest.approx(logits.log_softmax(-1).numpy(), abs=1e-5)
    save_checkpoint(tmp_path / "saved", model, task.checkpoint.tokenizer,
                    Manifest("test", {}, task.checkpoint.vocabulary))
    again = RelationsTask(task.config, RelationsTask.load(tmp_path / "saved", "cpu", task.config))
    again.accept_labels(task.labels)
    encoded = again.encode(records(1, 4))
    assert [item.ids.tolist() for one in encoded for item in one.inputs] \
        == [item.ids.tolist() for item in inputs]
    for one, other in zip(outputs, run_model(
            again, again.checkpoint.model, encoded, 8), strict=True):
        assert np.array(one) == pytest.approx(np.array(other), abs=1e-5)


def logits_by_hand(head: Any, states: torch.Tensor, mentions: Any, pooling: str) -> torch.Tensor:
    """Apply the layers of a head, one by one, to the states of one input."""
    first = states[0]
    if head.lstm:
        states = head.lstm(states)[0]
        first = torch.cat([states[-1, :3], states[0, 3:]])  # last states of both directions
    if pooling != "cls":
        own = [states[tokens.tolist()] for tokens in mentions]
        first = torch.cat([one.mean(dim=0) if pooling == "mentions-mean" else one.max(dim=0).values
                           for one in own])
    for layer in head.hidden:
        first = layer(first).relu()
    return head.output(first)


def test_markers_become_tokens_that_transformers_reads(bert: Path, tmp_path: Path) -> None:
    before = AutoModel.from_pretrained(bert).get_input_embeddings().weight
    bmtools.tasks.finetune("relations", bert, records(1, 9), records(2, 5), tmp_path / "tuned",
                           entities="marked", markers="<subj> </subj> <obj> </obj>",
                           **{**SETTINGS, "epochs": 1, "learning_rate": 1e-9})
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tuned")
    assert tokenizer.tokenize("<subj> asa </subj> cura") == ["<subj>", "asa", "</subj>", "cura"]
    after = AutoModel.from_pretrained(tmp_path / "tuned").get_input_embeddings().weight
    assert len(after) == len(before) + 4 == len(tokenizer)
    assert torch.allclose(after[:-4], before, atol=1e-6)
    assert len({tuple(row) for row in after[-4:].tolist()}) == 4, "embeddings of markers differ"
    assert len(AutoTokenizer.from_pretrained(bert)) == len(before), "the encoder is not changed"


@pytest.mark.parametrize(("settings", "new"), [
    ({}, ["@DRUG$", "@ILL$", "@DRUG-ILL$", "@ILL-DRUG$", "@DRUG-DRUG$", "@ILL-ILL$"]),
    ({"entities": "marked", "markers": "asa tnf cura vede"}, []),
    ({"entities": "original"}, [])])
def test_names_missing_from_the_vocabulary_become_tokens(bert: Path, settings: dict[str, Any],
                                                         new: list[str]) -> None:
    task = make_task(bert, **settings)
    known = task.checkpoint.tokenizer.get_vocab().keys()
    task.read("train", records(1, 9))
    assert task.checkpoint.tokenizer.get_vocab().keys() - known == set(new)
    if not settings:
        first, again, other = (task.new_model(seed).get_input_embeddings().weight
                               for seed in (1, 1, 2))
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert torch.equal(first[:-6], other[:-6])


def test_scores_agree_with_scikit_learn(bert: Path) -> None:
    """Micro, macro and weighted F1 over types; relations without a pair count as missed."""
    task = make_task(bert)
    task.labels = ["false", "A", "B"]
    rng = np.random.default_rng(0)
    gold = rng.choice(["false", "A", "B", "C"], 60)
    outputs = np.log(rng.dirichlet(np.ones(3), 60))
    item = next(iter(task.encode(records(1, 1))[0].inputs))
    missed = ["A", "A", "C"]
    found = task.score([PairsExample([item] * 60, Record(), [("1", "2")] * 60, gold.tolist(),
                                     missed)], [list(outputs)])
    predicted = [task.labels[best] for best in outputs.argmax(axis=1)] + ["false"] * 3
    for average in ("micro", "macro", "weighted"):
        expected = f1_score([*gold, *missed], predicted, labels=["A", "B", "C"], average=average,
                            zero_division=0)
        assert found.scores[f"{average}_f1"] == pytest.approx(expected, abs=1e-6)
    assert found.scores["support"] == sum(gold != "false") + 3


def test_sets_are_counted_and_noted(bert: Path) -> None:
    task = make_task(bert, within="sentence", types="TREATS,NEW", max_length=12)
    task.read("train", records(1, 30))
    text = "asa cura febbre. tnf " + "cura " * 20 + "febbre."
    long = Record(id="x", text=text, lang="it", entities=[
        {"id": "1", "start": 0, "end": 3, "type": "D"},
        {"id": "2", "start": 17, "end": 20, "type": "D"},
        {"id": "3", "start": len(text) - 7, "end": len(text) - 1, "type": "F"}],
        relations=[{"head": "1", "tail": "2", "type": "TREATS"},
                   {"head": "2", "tail": "3", "type": "NEW"},
                   {"head": "3", "tail": "2", "type": "TREATS"},
                   {"head": "2", "tail": "3", "type": "OTHER"}])
    split = task.read("dev", [long])
    assert split.counts == {
        "records": 1, "entities": 3, "pairs": 1, "labels": {"NEW": 1}, "relations": 3,
        "missed": 2, "truncated": 1, "unseen_types": {"NEW": 1}}
    assert split.notes == [
        "1 of 3 relations are NEW, which is not in train; they count as missed",
        "2 of 3 relations count as missed, because their entities are not paired or "
        "their pair has another type",
        "1 of 1 pairs are in texts longer than 12 tokens, which were cut around both entities"]


@pytest.mark.parametrize(("settings", "given", "found"), [
    ({}, [], "train: found 0 pairs of entities in 0 records, but no related ones"),
    ({"head_types": "DRUGS"}, records(1, 3),
     "train: found no entities with the type 'DRUGS', set in head_types; did you mean 'DRUG'?"),
    ({"types": "TREAT"}, records(1, 9),
     "train: found no relations with the type 'TREAT', set in types; did you mean 'TREATS'?")])
def test_sets_without_relations_are_errors(bert: Path, settings: dict[str, Any],
                                           given: list[Record], found: str) -> None:
    with pytest.raises(DataError, match=found.replace("?", r"\?")):
        make_task(bert, **settings).read("train", given)


def test_records_that_cannot_be_paired_are_rejected(bert: Path) -> None:
    nameless = Record(id="x", text="asa", entities=[{"start": 0, "end": 3, "type": "D"}],
                      relations=[], place="a.jsonl:7")
    errors: list[RecordError] = []
    split = make_task(bert).read("train", [nameless, *records(1, 9)], reject=errors.append)
    assert [error.place for error in errors] == ["a.jsonl:7"]
    assert split.counts["records"] == 9
    task = make_task(bert)
    task.into = "predicted"
    with pytest.raises(RecordError, match=r"a.jsonl:7: key 'entities' is missing; expected a list"):
        task.encode([nameless.without("entities")])


def test_predicted_entities_are_preferred_to_annotated_ones(bert: Path) -> None:
    task = make_task(bert)
    task.into = "predicted"
    own = records(1, 1)[0]
    both = own.replace(predicted={"entities": [
        {"id": f"P{entity['id']}", **{k: v for k, v in entity.items() if k != "id"}}
        for entity in own["entities"][:2]]})
    assert [one.ends for one in task.encode([own, both])][1] == [("PDRUG0", "PILL0")]
    task.into = "relations"
    assert len(task.encode([both])[0].inputs) == 6


def test_settings_are_checked(bert: Path, tmp_path: Path) -> None:
    for settings, found in (
            ({"pooling": "starts"}, "pooling: found starts, expected cls, mentions or m"),
            ({"markers": "[E1] [E2]"}, "markers: found '.*', expected four"),
            ({"placeholders": "@X$"}, "placeholders: found '@X\\$', expected names of head and"),
            ({"no_relation_label": ""}, "no_relation_label: found '', expected a name")):
        with pytest.raises(ValueError, match=found):
            RelationsConfig(**settings)
    with pytest.raises(CheckpointError, match="found labels A, B, expected 'false' among them"):
        make_task(bert).accept_labels(["A", "B"])
