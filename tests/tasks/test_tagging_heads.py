from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from toy_models import learn_wordpiece, save_random

from bmtools.errors import CheckpointError, DataError
from bmtools.io.output import encode_lines
from bmtools.models.checkpoint import load_checkpoint
from bmtools.models.merge import merge
from bmtools.records import Record
from bmtools.tasks.finetune import finetune
from bmtools.tasks.heads import Crf, StatesHead, load_encoder, module_of
from bmtools.tasks.metrics.score_tasks import Predictions, task_scores
from bmtools.tasks.ner import NerTask
from bmtools.tasks.predict import Predictor, predict, run_model
from bmtools.tasks.settings import NerConfig

pytestmark = pytest.mark.usefixtures("one_thread")
TAGGER = "AutoModelForTokenClassification"
MENTIONS = {"asma grave": "DIS", "insulina": "DRUG", "diabete": "DIS"}


def record(number: int) -> Record:
    """Return a text of mentions and other words; `asma grave` also contains a sign."""
    text, entities = "", []
    for word in range(8):
        mention = [*MENTIONS, "il", "con due", "febbre"][(number * 5 + word * (number + 3)) % 6]
        start = len(text)
        text += f"{mention} "
        if mention in MENTIONS:
            entities.append({"start": start, "end": start + len(mention), "type":
                             MENTIONS[mention]})
        if mention == "asma grave":
            entities.append({"start": start + 5, "end": start + 10, "type": "SIGN"})
    return Record(id=str(number), text=text.strip(), entities=entities)


RECORDS = [record(number) for number in range(40)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model of one layer with random weights."""
    tokenizer = learn_wordpiece((r["text"] for r in RECORDS), 100)
    return save_random(tmp_path_factory.mktemp("models") / "random", tokenizer)


def tune(encoder: Path, output: Path, **settings: Any) -> dict[str, Any]:
    return finetune("ner", encoder, RECORDS, RECORDS[:12], output, **{
        "max_length": 24, "seeds": 1, "epochs": 8, "batch_size": 4, "learning_rate": 3e-3,
        "head_size": 32, "head_dropout": 0.1, **settings})


def found(output: Path, batch_size: int = 32,
          texts: list[Record] = RECORDS) -> list[set[tuple[int, int, str]]]:
    predictor = Predictor(output)
    predictor.config = predictor.config.__class__(batch_size=batch_size)
    return [{(e["start"], e["end"], e["type"]) for e in r["predicted"]["entities"]}
            for r in predictor.predict([Record(id="none", text=" "),
                                        *(r.without("entities") for r in texts)])][1:]


@pytest.mark.parametrize("settings", [
    {"head": "mlp", "head_layers": 2}, {"head": "bilstm"}, {"crf": True, "scheme": "bioul"},
    {"head": "bilstm", "crf": True}, {"scheme": "io"}, {"label_pieces": "all"}], ids=str)
def test_every_head_learns_and_reloads(encoder: Path, tmp_path: Path, settings: dict[str,
                                       Any]) -> None:
    summary = tune(encoder, tmp_path / "tuned", types="DIS,DRUG", **settings)
    reachable = 1 if settings.get("scheme") != "io" else 0.6
    assert summary["dev_f1"]["mean"] >= reachable
    if "label_pieces" in settings:
        assert summary["dev_subtoken_f1"]["mean"] > 0.95
    alone, together = found(tmp_path / "tuned", 1), found(tmp_path / "tuned")
    assert alone == together
    if reachable == 1:
        assert together[:12] == [{(e["start"], e["end"], e["type"]) for e in r["entities"]
                                  if e["type"] != "SIGN"} for r in RECORDS[:12]]


def test_grid_can_change_the_layers_of_the_head(encoder: Path, tmp_path: Path) -> None:
    """The written model has the layers of the best combination, which is not the last one."""
    summary = tune(encoder, tmp_path / "tuned", types="DIS,DRUG", head="mlp",
                   grid="head_layers=2 head_size=32,2")
    assert summary["grid"] == {"head_layers": 2, "head_size": 32}
    assert summary["dev_f1"]["mean"] == 1
    assert found(tmp_path / "tuned")[:12] == [
        {(e["start"], e["end"], e["type"]) for e in r["entities"] if e["type"] != "SIGN"}
        for r in RECORDS[:12]]


def joined(number: int) -> Record:
    """Return mentions joined to another mention or word, as translation leaves them."""
    text, entities = "", []
    for word in range(4):
        first, second = [("asma", "insulina"), ("il", "asma"), ("due", "insulina"),
                         ("asma", "asma"), ("febbre", "il")][(number + word * (number + 2)) % 5]
        for part in (first, second):
            if part in ("asma", "insulina"):
                entities.append({"start": len(text), "end": len(text) + len(part), "type":
                                 "DIS" if part == "asma" else "DRUG"})
            text += part
        text += " "
    return Record(id=str(number), text=text.strip(), entities=entities)


@pytest.mark.parametrize("settings", [
    {}, {"label_pieces": "all"}, {"crf": True, "scheme": "bioul"},
    {"head": "mlp", "learning_rate": 5e-3, "seed": 1}], ids=str)
def test_token_tags_find_entities_inside_words( tmp_path: Path, settings: dict[str, Any]) -> None:
    records = [joined(number) for number in range(40)]
    tokenizer = learn_wordpiece(["asma insulina il due febbre"], 100)
    encoder = save_random(tmp_path / "random", tokenizer)
    given = [{(e["start"], e["end"], e["type"]) for e in r["entities"]} for r in records]
    for tags, reachable in (("words", 0), ("tokens", sum(map(len, given)))):
        task = NerTask(NerConfig(64, tags=tags), load_encoder(encoder, TAGGER))
        counts = task.read("train", records).counts
        assert (counts["reachable"], counts["entities"]) == (reachable, sum(map(len, given)))
    summary = finetune("ner", encoder, records, records[:12], tmp_path / "tuned", seeds=1,
                       epochs=40, patience=16, max_length=64, batch_size=4, tags="tokens",
                       head_size=32, dropout=0.0, **{"learning_rate": 3e-3, **settings})
    assert summary["dev_f1"]["mean"] == 1
    merge([tmp_path / "tuned", tmp_path / "tuned"], tmp_path / "merged")
    assert found(tmp_path / "tuned", texts=records) == found(
        tmp_path / "merged", texts=records) == given


@pytest.mark.parametrize("settings", [{}, {"crf": True, "scheme": "bioul"}], ids=str)
def test_overlapping_entities_of_different_types_are_found( encoder: Path, tmp_path: Path,
                                                           settings: dict[str, Any]) -> None:
    tune(encoder, tmp_path / "tuned", overlapping=True, **settings)
    gold = [{(e["start"], e["end"], e["type"]) for e in r["entities"]} for r in RECORDS]
    assert found(tmp_path / "tuned") == gold
    merge([tmp_path / "tuned", tmp_path / "tuned"], tmp_path / "merged")
    assert found(tmp_path / "merged") == gold
    assert all(0 < e["score"] <= 1 for r in Predictor(tmp_path / "merged").predict(RECORDS)
               for e in r["predicted"]["entities"])


@pytest.mark.parametrize("settings", [{"head": "bilstm", "head_layers": 2}, {"crf": True},
                                      {"head": "bilstm", "crf": True, "overlapping": True}],
                         ids=str)
def test_padding_does_not_change_outputs_and_loss(encoder: Path, settings: dict[str, Any]) -> None:
    """Windows in one batch have the same outputs and loss as separate windows."""
    task = NerTask(NerConfig(24, **settings), load_encoder(encoder, TAGGER))
    split = task.read("train", [*RECORDS[:4], Record(id="x", text="asma", entities=[])])
    model = task.new_model(1).eval()
    inputs = [item for example in split.examples for item in example.inputs]
    assert len({len(item) for item in inputs}) > 2
    for alone, together in zip(run_model(task, model, split.examples, 1),
                               run_model(task, model, split.examples, 9), strict=True):
        for one, other in zip(alone, together, strict=True):
            assert one == pytest.approx(other, abs=1e-4)

    def loss(items: list[Any]) -> float:
        batch = task.collate(items)
        labels = torch.from_numpy(task.collate_labels(items, batch))
        given = {name: torch.from_numpy(value) for name, value in batch.items()}
        with torch.inference_mode():
            return float(task.loss(model, task.logits(model, given), labels))

    assert loss(inputs) == pytest.approx(sum(loss([item]) for item in inputs), rel=1e-4)


def test_head_has_its_own_dropout(encoder: Path) -> None:
    task = NerTask(NerConfig(24, head="mlp", head_dropout=0.9), load_encoder(encoder, TAGGER))
    task.read("train", RECORDS[:4])
    from bmtools.training.loop import set_dropout

    model = task.new_model(1)
    set_dropout(model, 0.0)
    head, states = module_of(model, StatesHead).train(), torch.ones(1, 1, 64)
    assert not torch.equal(head(states), head(states))
    head.eval()
    assert torch.equal(head(states), head(states))


def test_head_needs_the_settings_used_in_training(encoder: Path, tmp_path: Path) -> None:
    tune(encoder, tmp_path / "tuned", crf=True, epochs=1)
    with pytest.raises(CheckpointError, match="do not fit a StatesHead"):
        NerTask.load(tmp_path / "tuned", "cpu", NerConfig(24, head="bilstm", head_size=32))


@pytest.mark.parametrize(("types", "message"), [
    ("GENE", "train: found no entities of the type GENE in 40 records, expected types among DIS, "
             "DRUG, SIGN"),
    ("DIS,GENE", "type GENE")])
def test_types_missing_from_training_are_errors(encoder: Path, tmp_path: Path, types: str,
                                                message: str) -> None:
    with pytest.raises(DataError, match=message):
        tune(encoder, tmp_path / "tuned", types=types)


def test_only_chosen_types_are_learned(encoder: Path) -> None:
    task = NerTask(NerConfig(24, types="SIGN, DRUG"), load_encoder(encoder, TAGGER))
    counts = task.read("train", RECORDS).counts
    assert list(counts["types"]) == ["DRUG", "SIGN"]
    assert counts["overlapping"] == 0, "the disease around a sign is ignored"
    assert task.labels == ["O", "B-DRUG", "I-DRUG", "B-SIGN", "I-SIGN"]


@pytest.mark.parametrize(("scheme", "reachable"), [("bio", 2), ("io", 0)])
def test_adjacent_entities_joined_by_io_are_reported(encoder: Path, scheme: str,
                                                     reachable: int) -> None:
    task = NerTask(NerConfig(24, scheme=scheme), load_encoder(encoder, TAGGER))
    split = task.read("train", [Record(id="1", text="asma febbre", entities=[
        {"start": 0, "end": 4, "type": "X"}, {"start": 5, "end": 11, "type": "X"}])])
    assert split.counts["reachable"] == reachable
    assert split.notes == [] if scheme == "bio" else [
        "of 2 entities, scheme io joins adjacent entities of one type; tags can "
        "represent 0"]


def labels_of(encoder: Path, text: str, **settings: Any) -> list[str]:
    """Return the label of each token, or `-`."""
    task = NerTask(NerConfig(24, **settings), load_encoder(encoder, TAGGER))
    start = text.index("insulina")
    [example] = task.read("train", [Record(id="1", text=text, entities=[
        {"start": start, "end": len(text), "type": "X"}])]).examples
    batch = task.collate(example.inputs)
    [row] = task.collate_labels(example.inputs, batch)
    return [task.labels[one] if one >= 0 else "-" for [one] in row]


def test_later_tokens_of_a_word_have_inside_labels(encoder: Path) -> None:
    text = "due febbreasma insulinaasma asmadue"
    first = labels_of(encoder, text)
    pieces = labels_of(encoder, text, label_pieces="all")
    bioul = labels_of(encoder, text, label_pieces="all", scheme="bioul")
    assert first[0] == pieces[0] == pieces[-1] == "-", "special tokens"
    assert "-" in first[1:-1] and "-" not in pieces[1:-1]
    inside = "O"
    for word, piece, of_bioul in zip(first[1:-1], pieces[1:-1], bioul[1:-1], strict=True):
        assert piece == (inside if word == "-" else word)
        if word == "-":
            assert of_bioul == inside
        inside = piece.replace("B-", "I-")
    assert [label for label in bioul if label[0] in "BLU"] == ["B-X", "L-X"]


def test_token_scores_equal_seqeval(encoder: Path, tmp_path: Path) -> None:
    """Labels are from the collated batch, predictions directly from transformers."""
    seqeval = pytest.importorskip("seqeval.metrics")
    from seqeval.scheme import IOB2

    tune(encoder, tmp_path / "tuned", label_pieces="all", types="DIS,DRUG", epochs=1)
    task = Predictor(tmp_path / "tuned").task
    split = task.read("dev", RECORDS)
    scores = task.score(split.examples, run_model(task, task.checkpoint.model, split.examples, 8))
    model = load_checkpoint(tmp_path / "tuned", model_class=TAGGER).model
    gold, predicted = [], []
    for example in split.examples:
        tags: tuple[list[str], list[str]] = [], []
        for window in example.inputs:
            batch = task.collate([window])
            labels = task.collate_labels([window], batch)[0, :, 0]
            with torch.inference_mode():
                [best] = model(**{key: torch.from_numpy(value) for key, value in batch.items()}
                               ).logits.argmax(-1).numpy()
            for side, ids in zip(tags, (labels, best), strict=True):
                side += [task.labels[one] for one in ids[labels >= 0]]
        gold.append(tags[0])
        predicted.append(tags[1])
    expected = seqeval.f1_score(gold, predicted, mode="strict", scheme=IOB2)
    assert 0 < expected < 1
    assert scores.scores["subtoken_f1"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("settings", [
    {}, {"types": "DIS,DRUG"}, {"merge_types": "ANY"}, {"tags": "tokens"}], ids=str)
def test_score_tasks_reproduces_token_scores(encoder: Path, tmp_path: Path, settings: dict[str,
                                             Any]) -> None:
    """Texts include one with several windows and an entity inside a word."""
    long = Record(id="long", text=" ".join(r["text"] for r in RECORDS), entities=[
        {"start": 1, "end": 3, "type": "DIS"}])
    test = [*RECORDS, long]
    summary = finetune("ner", encoder, RECORDS, RECORDS[:12], tmp_path / "tuned", test, **{
        "max_length": 24, "seeds": 1, "epochs": 3, "batch_size": 4, "learning_rate": 3e-3,
        "label_pieces": "all", **settings})
    predicted = [*Predictor(tmp_path / "tuned").predict(test)]
    [line] = task_scores(test, [Predictions("found", predicted, "found")], resamples=0)
    assert line["f1"] == summary["test_f1"]["mean"]
    assert 0 < line["subtoken_f1"] == summary["test_subtoken_f1"]["mean"] < 1


@pytest.mark.parametrize(("trained", "scored"), [
    ("", "DIS,DRUG,SIGN"), ("DIS,DRUG", "DIS,DRUG,SIGN")], ids=["overlapping", "unseen"])
def test_entities_without_tags_count_as_missed_in_token_scores(encoder: Path, trained: str,
                                                               scored: str) -> None:
    """Correct tags miss SIGN, which is inside a longer entity or not a known type."""
    records = [*RECORDS, Record(id="sign", text="febbre il", entities=[
        {"start": 0, "end": 6, "type": "SIGN"}])] if trained else RECORDS
    task = NerTask(NerConfig(32, label_pieces="all", types=trained), load_encoder(encoder, TAGGER))
    task.read("train", records)
    task.config = NerConfig(32, label_pieces="all", types=scored)
    examples = task.read("dev", records).examples
    outputs = []
    for example in examples:
        rows = []
        for window in example.inputs:
            best = task.collate_labels([window], task.collate([window]))[0, 1:-1].clip(min=0)
            rows.append((best[..., None] == range(len(task.labels))).astype("float32"))
        outputs.append(rows)
    entities = [one["type"] for record in records for one in record["entities"]]
    tagged = len(entities) - entities.count("SIGN")
    assert task.score(examples, outputs).scores["subtoken_f1"] == pytest.approx(
        2 * tagged / (tagged + len(entities)), abs=1e-6)


LENGTHS = [5, 1, 3]


def fields(groups: int, labels: int) -> Crf:
    torch.manual_seed(groups)
    allowed = torch.rand(labels, labels) > 0.2
    crf = Crf(groups, allowed.fill_diagonal_(True))
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def batch(groups: int, labels: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    emissions = torch.randn(len(LENGTHS), max(LENGTHS), groups, labels)
    ids = torch.randint(labels, emissions.shape[:-1])
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    return emissions, ids, mask


@pytest.mark.parametrize(("groups", "labels"), [(1, 5), (3, 3)])
def test_likelihood_gradient_and_path_equal_pytorch_crf(groups: int, labels: int) -> None:
    torchcrf = pytest.importorskip("torchcrf")
    crf = fields(groups, labels)
    emissions, ids, mask = batch(groups, labels)
    emissions.requires_grad_()
    likelihood = crf.log_likelihood(emissions, ids, mask)
    likelihood.sum().backward()
    paths = crf.viterbi(emissions.detach(), mask)
    for group in range(groups):
        theirs = torchcrf.CRF(labels, batch_first=True)
        with torch.no_grad():
            theirs.start_transitions.copy_(crf.start[group])
            theirs.end_transitions.copy_(crf.end[group])
            theirs.transitions.copy_(crf.transitions[group] + crf.penalties)
        own = emissions.detach()[:, :, group].clone().requires_grad_()
        expected = theirs(own, ids[..., group], mask, reduction="none")
        torch.testing.assert_close(likelihood[:, group], expected, rtol=1e-5, atol=1e-4)
        expected.sum().backward()
        torch.testing.assert_close(emissions.grad[:, :, group], own.grad, rtol=1e-4, atol=1e-5)
        for ours, weight in ((crf.start, theirs.start_transitions),
                             (crf.end, theirs.end_transitions),
                             (crf.transitions, theirs.transitions)):
            torch.testing.assert_close(ours.grad[group], weight.grad, rtol=1e-4, atol=1e-5)
        found = [row[:length].tolist() for row, length in zip(
            paths[..., group], LENGTHS, strict=True)]
        assert found == theirs.decode(own.detach(), mask)


def test_marginals_equal_sums_over_all_paths() -> None:
    crf = fields(2, 3)
    emissions, _, mask = batch(2, 3)
    found = crf.log_marginals(emissions, mask).exp()
    for row, (length, group) in enumerate([(5, 0), (1, 1), (3, 1)]):
        expected = torch.zeros(length, 3)
        for path in product(range(3), repeat=length):
            ids = torch.tensor(path)[None, :, None].repeat(1, 1, 2)
            chance = crf.log_likelihood(emissions[row:row + 1, :length], ids,
                                        mask[row:row + 1, :length])[0, group].exp()
            for word, label in enumerate(path):
                expected[word, label] += chance
        torch.testing.assert_close(found[row, :length, group], expected, rtol=1e-4, atol=1e-5)


def test_paths_contain_only_allowed_transitions() -> None:
    crf = fields(1, 4)
    emissions = 9 * torch.randn(200, 6, 1, 4)
    path = crf.viterbi(emissions, torch.ones(200, 6, dtype=torch.bool))[..., 0]
    assert (crf.penalties[path[:, :-1], path[:, 1:]] == 0).all()


def test_texts_in_several_sets_are_reported(encoder: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    own = [one.replace(text=f"{one['text']} {number}") for number, one in enumerate(RECORDS[:8])]
    test = [own[7].replace(text=own[7]["text"] + "  "), own[1]]
    finetune("ner", encoder, own[:4], own[4:], tmp_path / "tuned", test=test, seeds=1,
             epochs=1, report=lines.append)
    notes = [line["note"] for line in lines if "have the text of" in line.get("note", "")]
    assert [note.partition(";")[0] for note in notes] == [
        "test: 1 of 2 records have the text of a record in train",
        "test: 1 of 2 records have the text of a record in dev"]


def test_titles_of_training_sets_are_counted(encoder: Path, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    titled = [record.replace(title="asma") for record in RECORDS[:4]]
    finetune("ner", encoder, titled, RECORDS[:4], tmp_path / "tuned", seeds=1, epochs=1,
             report=lines.append)
    notes = [line["note"] for line in lines if "titles" in line.get("note", "")]
    assert [note[:30] for note in notes] == ["train: found 4 titles of recor"]


@pytest.mark.parametrize("settings", [{}, {"crf": True, "overlapping": True}], ids=str)
def test_elements_are_learned_and_scored_by_words(encoder: Path, tmp_path: Path,
                                                  settings: dict[str, Any]) -> None:
    """The reported scores equal the result of score-tasks for the same predictions."""
    summary = finetune("pico", encoder, RECORDS, RECORDS[:10], tmp_path / "tuned", seeds=1,
                       epochs=3, batch_size=4, learning_rate=3e-3, max_length=24, **settings)
    reported = summary["dev_macro_f1"]["mean"]
    assert reported > 0.5
    found = tmp_path / "found.jsonl"
    found.write_bytes(encode_lines(predict(RECORDS[:10], tmp_path / "tuned")))
    gold = tmp_path / "gold.jsonl"
    gold.write_bytes(encode_lines(RECORDS[:10]))
    [line] = task_scores(str(gold), [str(found)], resamples=10)
    assert line["macro_f1"] == pytest.approx(reported, abs=1e-6)


@pytest.mark.parametrize("settings", [
    {"types": "DIS"}, {"types": "DIS", "merge_types": "PROT"}, {"merge_types": "PROT"}], ids=str)
def test_score_tasks_reproduces_the_fine_tuning_score(encoder: Path, tmp_path: Path,
                                                      settings: dict[str, Any]) -> None:
    summary = finetune("ner", encoder, RECORDS, RECORDS[:10], tmp_path / "tuned", seeds=1,
                       epochs=3, batch_size=4, learning_rate=3e-3, max_length=24, **settings)
    reported = summary["dev_f1"]["mean"]
    assert reported > 0.5
    predicted = [*predict(RECORDS[:10], tmp_path / "tuned")]
    found = Predictions("m", predicted, "m")
    [line] = task_scores(RECORDS[:10], [found], resamples=0)
    assert line["f1"] == pytest.approx(reported, abs=1e-6)
    [other] = task_scores(RECORDS[:10], [found], resamples=0, types="", merge_types="X")
    spans = {(number, one["start"], one["end"]) for number, record in enumerate(RECORDS[:10])
             for one in record["entities"]}
    assert other["support"] == len(spans)
