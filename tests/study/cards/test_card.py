"""Model cards: correct, valid for the Hub and reproducible, with code that runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from toy_tokenizers import train_tokenizer
from transformers import pipeline

from bmtools.io.provenance.manifest import Manifest, hash_directory
from bmtools.io.unfinished import hidden_path
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import load_checkpoint, save_checkpoint
from bmtools.study.cards.card import write_cards
from bmtools.tasks import predict
from bmtools.tasks.heads import load_encoder, with_new_head
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint

TEXTS = ["Il paziente (72 anni) ha l'asma, febbre e artrosi.", "caffè e metformina: 500 mg!",
         "Nega dispnea; dolore toracico."]
PHASES = [{"name": "short", "steps": 20, "epochs": 1.0, "batch_size": 8, "learning_rate": 2e-3},
          {"name": "long", "steps": 0, "epochs": 3.0, "batch_size": 4, "learning_rate": 1e-4}]
SETTINGS = {"model": "/home/anna/first", "phases": PHASES, "dropout": 0.0, "optimizer": "adamw"}
RESULTS = {"corpora": {"text": {"documents": 80, "tokens": 9876}},
           "languages": ["it", "pt-BR", "Greek"], "licences": ["CC-BY-4.0", "unclear"],
           "last": {"step": 20, "loss": 3.588145, "mlm_accuracy": 0.29, "tokens_per_second": 312}}

pytestmark = pytest.mark.usefixtures("one_thread")
Save = Callable[..., Path]


@pytest.fixture(scope="module")
def save(tmp_path_factory: pytest.TempPathFactory) -> Save:
    """Return a function that saves random checkpoints: `save("ner", tokenizer_type="bpe", ...)`."""

    def write(kind: str = "mlm", wall_seconds: float = 1.0, **vocabulary: Any) -> Path:
        tokenizer = train_tokenizer(TEXTS * 3, VocabularyConfig(
            size=350, allow_fewer=True, **vocabulary))
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp("card")
        model = build_model(build_config("bert-1x64", tokenizer))
        manifest = Manifest("pretrain", SETTINGS, fingerprint(tokenizer), 0,
                            {"/data/corpus.jsonl": "ab"}, {"model": "0123456789abcdef"}, 74_092,
                            wall_seconds, RESULTS)
        save_checkpoint(folder / "mlm", model, tokenizer, manifest)
        if kind == "mlm":
            write_cards(folder)
            return folder / "mlm"
        labels, auto = {
            "ner": (["O", "B-DIS", "I-DIS", "B-DRUG", "I-DRUG"], "TokenClassification"),
            "qa": (["start", "end"], "QuestionAnswering"),
            "classification": (["no", "yes"], "SequenceClassification")}[kind]
        head = with_new_head(load_encoder(folder / "mlm", f"AutoModelFor{auto}"), labels, 0)
        if kind != "qa":
            head.classifier.weight.data *= 50
        save_checkpoint(folder / kind, head, tokenizer, Manifest(
            "finetune", {"task": kind, "model": "mlm", "max_length": 64}, fingerprint(tokenizer),
            results={"seeds": 2, "test_f1": {"mean": 0.464, "deviation": 0.05,
                                             "interval": [0.4, 0.5]}}))
        write_cards(folder)
        return folder / kind

    return write


@pytest.mark.parametrize(("kind", "tag"), [
    ("mlm", "fill-mask"), ("ner", "token-classification"),
    ("classification", "text-classification"), ("qa", "question-answering")])
def test_front_matter_is_valid_for_the_hub(save: Save, kind: str, tag: str) -> None:
    card = ModelCard((save(kind) / "README.md").read_text(encoding="utf-8"))
    languages = {"language": ["it", "pt"]} if kind == "mlm" else {}
    assert card.data.eval_results is None or kind != "mlm"
    card.data.eval_results = card.data.metrics = card.data.model_name = None
    assert card.data.to_dict() == {**languages, "library_name": "transformers",
                                   "pipeline_tag": tag, "tags": ["bmtools"]}


def test_card_states_known_facts(save: Save) -> None:
    text = (save() / "README.md").read_text(encoding="utf-8")
    for line in ("| trained from | `first` (SHA-256 0123456789ab...) |",
                 "| `corpus.jsonl` | text | ab... | 80 documents, 9,876 tokens | not stated | "
                 "not recorded |", "| setting | short | long |",
                 "| steps | 20 |  |", "| epochs |  | 3 |", "| optimizer | adamw | adamw |",
                 "| loss, training | 3.588 |"):
        assert line in text.splitlines()
    assert "dropout" not in text
    saved = save("ner")
    tagger = (saved / "README.md").read_text(encoding="utf-8")
    assert "| `test` | f1 | 0.464 | 0.4 to 0.5 | 2 seeds, standard deviation 0.05 |" in \
        tagger
    [found] = ModelCard(tagger).data.eval_results
    assert (found.dataset_name, found.metric_type, found.metric_value, found.metric_args) == (
        "test", "f1", 0.464, {"interval_95": [0.4, 0.5]})
    assert ".partial" not in tagger
    assert "Records of the text state CC-BY-4.0, unclear" in text
    assert "No licence was recorded" in tagger and "No licence was recorded" not in text
    assert "language of the text was not" in tagger and "language of the text was not" not in text
    assert text.count("ot stated") >= 4 and "Not measured." in text


def test_checkpoint_does_not_depend_on_the_machine(save: Save) -> None:
    directory = save()
    again = load_checkpoint(directory)  # transformers remembers how it was loaded
    other = directory.with_name("again")
    save_checkpoint(other, again.model, again.tokenizer, Manifest(
        "pretrain", {"model": str(directory)}, again.vocabulary, inputs={f"{directory}/a": "b"}))
    write_cards(other)
    for path in other.glob("*"):
        if path.suffix in (".json", ".txt", ".md") and path.name != "bmtools.json":
            content = path.read_text(encoding="utf-8")
            for key in (str(directory.parent), "is_local", "local_files_only", "name_or_path"):
                assert key not in content, path


def test_same_checkpoint_gets_the_same_card(save: Save) -> None:
    one, other = save(wall_seconds=1.0), save(wall_seconds=2.0)
    names = sorted(path.name for path in one.iterdir())
    assert "README.md" in names
    assert [name for name in names
            if (one / name).read_bytes() != (other / name).read_bytes()] == ["bmtools.json"]


def test_finished_models_without_a_card_get_one(save: Save, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    model = save("ner")
    written = (model / "README.md").read_bytes()
    for name in ("out", "out/fold-0", "out/fold-1", "out/.fold-2", "other"):
        shutil.copytree(model, tmp_path / name)
        (tmp_path / name / "README.md").unlink()
    (tmp_path / "out" / "config.json").unlink()  # as in a directory of folds
    (tmp_path / "out" / "fold-1" / "README.md").write_text("a better card")
    half = hidden_path(tmp_path / "out" / "fold-0" / "README.md", "partial")
    half.write_text("of a process that was killed")
    (tmp_path / "out" / "fold-0" / "bmtools.json").chmod(0o640)
    before = hash_directory(tmp_path / "out" / "fold-0")
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "1")
        write_cards(tmp_path / "out", tmp_path / "other")
    assert {path.parent.name for path in tmp_path.rglob("README.md")} == {"fold-1"}
    write_cards(tmp_path / "out", tmp_path / "nothing")
    assert {path.parent.name for path in tmp_path.rglob("README.md")} == {"fold-0", "fold-1"}
    assert (tmp_path / "out" / "fold-0" / "README.md").read_bytes() == written
    assert (tmp_path / "out" / "fold-0" / "README.md").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "out" / "fold-1" / "README.md").read_text() == "a better card"
    assert not half.exists()
    assert hash_directory(tmp_path / "out" / "fold-0") == before


@pytest.mark.parametrize("kind", ["mlm", "ner", "classification", "qa"])
def test_code_in_the_card_runs(save: Save, kind: str) -> None:
    directory = save(kind)
    text = (directory / "README.md").read_text(encoding="utf-8").replace("DIRECTORY",
                                                                         str(directory))
    [code] = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, "card", "exec"), {})


@pytest.mark.parametrize(("vocabulary", "tags", "strategy"), [
    ({}, "words", "first"), ({"uncased": True}, "words", "first"), ({}, "tokens", "simple")])
def test_tagger_finds_the_same_entities_in_a_pipeline(
        save: Save, vocabulary: dict[str, Any], tags: str, strategy: str) -> None:
    directory = save("ner", **vocabulary)
    manifest = json.loads((directory / "bmtools.json").read_text())
    manifest["settings"]["tags"] = tags
    (directory / "bmtools.json").write_text(json.dumps(manifest))
    (directory / "README.md").unlink()
    write_cards(directory)
    assert f'aggregation_strategy="{strategy}")' in (directory / "README.md").read_text()
    tagger = pipeline("token-classification", str(directory), aggregation_strategy=strategy)
    ours = predict([{"id": str(n), "text": text} for n, text in enumerate(TEXTS)], directory)
    found = [[(e["start"], e["end"], e["type"]) for e in record["predicted"]["entities"]]
             for record in ours]
    theirs = [[(e["start"], e["end"], e["entity_group"]) for e in tagger(text)] for text in TEXTS]
    assert found == theirs
    assert sum(map(len, found)) > 3
