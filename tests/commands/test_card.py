"""`bmtools card` for a complete chain: every number comes from a step's record."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aibom import completeness, missing_fields
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub import ModelCard

from bmtools.cli.main import main
from bmtools.io.provenance.manifest import hash_directory

pytestmark = pytest.mark.usefixtures("one_thread")
MODELS = ("first", "initialised", "pretrained", "distilled", "tagger", "merged", "exported")
KINDS = ("measured", "allotted", "declared")
ABOUT = """
developed_by = "Anna's group"
contact = "anna@example.org"
repository = "annas-group/tagger"
code = "https://example.org/code"
website = "https://example.org"
paper = "https://example.org/paper.pdf"
citation = "@misc{tagger}"
description = "Finds diseases in Italian notes."
intended_use = "Research on discharge letters | in Italian."
users = "researchers"
out_of_scope = "care of patients"
limitations = "one hospital's style"
risks = "misses rare diseases"
domain = "medicine"
autonomy = "a person reads every result"
standards = "none"
explainability = "none"
decision_threshold = "the most probable label"
personal_data = false
preprocessing = "none"
licence = "CC-BY-4.0"
[base_models]
distilled = "annas-group/distilled"
[datasets."notes.jsonl"]
hub = "annas-group/notes"
licence = "CC-BY-4.0"
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory,
          corpus_records: list[dict[str, Any]]) -> Iterator[Path]:
    """Make a checkpoint of each kind."""
    pytest.importorskip("openvino")
    folder = tmp_path_factory.mktemp("chain")
    corpus = [{**record, "licence": "CC-BY-4.0"} for record in corpus_records]
    notes = [{"id": "0", "text": "Il paziente ha asma.", "licence": "CC-BY-4.0", "lang": "it",
              "entities": [{"start": 15, "end": 19, "type": "DIS"}]}]
    unseen = [{**corpus[number % 8], "id": str(number)} for number in range(32)]
    for name, records in (("corpus.jsonl", corpus), ("notes.jsonl", notes),
                          ("unseen.jsonl", unseen)):
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records))
    (folder / "about.toml").write_text(ABOUT)
    train = ["--steps", "2", "--max-length", "32", "--batch-size", "4", "--precision", "no"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("BMTOOLS_POWER_WATTS", "20")
        patch.setenv("BMTOOLS_COUNTRY", "ITA")
        for line in (
                "build-vocab corpus.jsonl --size 150 --allow-fewer -o vocabulary",
                "pretrain corpus.jsonl --architecture bert-1x64 --tokenizer vocabulary -o first",
                "init-weights corpus.jsonl --base first --tokenizer vocabulary -o initialised",
                "pretrain corpus.jsonl --model initialised -o pretrained",
                "distill corpus.jsonl --teacher pretrained --architecture bert-1x64 -o distilled",
                "finetune ner --model distilled --train notes.jsonl --dev notes.jsonl "
                "--test notes.jsonl --seeds 2 --epochs 1 --max-length 32 -o tagger",
                "merge initialised pretrained -o merged",
                "export model distilled -o exported",
                "score-pppl unseen.jsonl --model initialised --model pretrained -o pppl.jsonl"):
            words = line.split()
            _call([*words, *train] if words[0] in ("pretrain", "distill") else words)
        yield folder


def _call(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code, words


@pytest.fixture
def make(run: Callable[..., Any], chain: Path, tmp_path: Path) -> Callable[..., Any]:
    """Run `card` on a model: its card, and the parsed bill of materials."""

    def call(name: str, *options: object) -> tuple[ModelCard, dict[str, Any], str]:
        bom = tmp_path / f"{name}.json"
        done = run("card", chain / name, "--bom", bom, "--overwrite", *options)
        assert done.code == 0, done.err
        text = bom.read_text()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        return ModelCard(done.out), json.loads(text), done.err

    return call


def record_of(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "bmtools.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_a_bill_is_nearly_complete(make: Any, chain: Path, name: str) -> None:
    scores = ["--scores", chain / "pppl.jsonl"] if name in ("initialised", "pretrained") else []
    card, bom, err = make(name, "--about", chain / "about.toml", *scores)
    assert completeness(bom) >= 95, missing_fields(bom)
    assert card.data.license == "cc-by-4.0"
    assert " 100 % complete" in err or "missing: scores" in err
    unstated, alone, err = make(name)
    print(f"{name}: {completeness(bom)} with statements, {completeness(alone)} without")
    assert 40 < completeness(alone) < 75
    assert "intended_use" in err and "Not stated." in unstated.text
    assert not {"intendedUse", "suppliedBy"} & {
        one["name"] for one in alone["metadata"]["properties"]}


def test_the_same_files_produce_the_same_bytes(make: Any, run: Any, chain: Path,
                                               tmp_path: Path) -> None:
    before = hash_directory(chain / "tagger")
    texts = set()
    for number in range(2):
        done = run("card", chain / "tagger", "--bom", tmp_path / f"{number}.json")
        texts.add(done.out + (tmp_path / f"{number}.json").read_text())
    assert len(texts) == 1
    serials = {make(name)[1]["serialNumber"] for name in ("tagger", "distilled")}
    assert len(serials) == 2
    assert hash_directory(chain / "tagger") == before


def test_numbers_equal_the_numbers_in_the_records(make: Any, chain: Path) -> None:
    card, bom, _ = make("tagger", "--about", chain / "about.toml")
    record, [model, *parts] = record_of(chain / "tagger"), bom["components"]
    found = {one["slice"]: one for one in
             model["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]}
    test = record["results"]["test_f1"]
    assert float(found["notes.jsonl"]["value"]) == test["mean"]
    assert f"| {test['mean']:.4g} |" in card.text
    assert [result.metric_value for result in card.data.eval_results][-1] == test["mean"]
    assert {one["name"]: one["version"] for one in parts if one["type"] == "library"}["torch"] == \
        record["versions"]["torch"]
    [data] = [one for one in parts if one["name"] == "notes.jsonl"]
    assert data["hashes"][0]["content"] == record["inputs"]["notes.jsonl"]
    assert data["licenses"] == [{"license": {"id": "CC-BY-4.0"}}]
    assert model["purl"] == "pkg:huggingface/annas-group/tagger"
    assert card.data.base_model == ["annas-group/distilled"]
    assert card.data.base_model_relation == "finetune"
    assert card.data.datasets == ["annas-group/notes"]
    assert "| in Italian" in card.text
    files = {one["name"] for one in model["components"]}
    assert {"model.safetensors", "tokenizer.json"} <= files
    assert not {"README.md", "bmtools.json"} & files


def test_ancestors_and_energy_come_from_the_lineage(make: Any, chain: Path) -> None:
    card, bom, _ = make("tagger")
    model = bom["components"][0]
    models = ("tagger", "distilled", "pretrained", "initialised", "first")
    assert {one["name"] for one in model["pedigree"]["ancestors"]} == set(models[1:])
    assert {one["version"] for one in model["pedigree"]["ancestors"]} == {
        hash_directory(chain / name)[:12] for name in models[1:]}
    rows = card.text.partition("## Provenance")[2].splitlines()
    steps = [name for name in (*models, "vocabulary")
             if any(row.startswith(f"| `{name}` |") for row in rows)]
    assert set(models) <= set(steps)
    energies = [record_of(chain / name)["energy"] for name in steps]
    consumed = model["modelCard"]["considerations"]["environmentalConsiderations"]
    assert len(consumed["energyConsumptions"]) == len(steps)
    for kind in KINDS:
        total = sum(one[kind]["kwh"] for one in energies if kind in one)
        row = next((line for line in card.text.splitlines() if line.startswith(f"| {kind} ")), "")
        assert bool(row) == any(kind in one for one in energies)
        if row:
            assert float(row.split("|")[2]) == pytest.approx(total, rel=2e-3)
            assert row.split("|")[4].strip() == str(len(steps))
    surest = next(kind for kind in KINDS if any(kind in one for one in energies))
    grams = 1000 * sum(one["kg_co2eq"][surest] for one in energies)
    emitted = card.data.co2_eq_emissions
    assert emitted["emissions"] == pytest.approx(grams, abs=2e-3)
    assert surest in emitted["source"] and emitted["geographical_location"] == "ITA"


def test_scores_of_files(make: Any, run: Any, chain: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (chain / "pppl.jsonl").read_text().splitlines()]
    [line] = [one for one in lines if one.get("model") == "pretrained"]
    card, bom, _ = make("pretrained", "--scores", f"unseen={chain / 'pppl.jsonl'}")
    [metric] = bom["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    low, high = line["interval"]
    assert metric == {"type": "pppl", "value": str(line["pppl"]), "slice": "unseen",
                      "confidenceInterval": {"lowerBound": str(low), "upperBound": str(high)}}
    assert line["signature"] in card.text
    done = run("card", chain / "distilled", "--scores", chain / "pppl.jsonl")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "found scores of other weights" in done.err


def test_scores_of_predictions_are_scores_of_their_model(
        make: Any, run: Any, chain: Path, tmp_path: Path) -> None:
    found, scores = tmp_path / "found.jsonl", tmp_path / "scores.jsonl"
    for words in (("predict", chain / "notes.jsonl", "--model", chain / "tagger", "-o", found),
                  ("score-tasks", chain / "notes.jsonl", found, "-o", scores)):
        assert run(*words).code == 0
    _, bom, _ = make("tagger", "--scores", f"gold={scores}")
    measured = bom["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    f1 = str(json.loads(scores.read_text())["f1"])
    assert {"type": "f1", "slice": "gold", "value": f1} in measured
    done = run("card", chain / "distilled", "--scores", scores)
    assert done.code == 1 and "found no score of" in done.err


def test_scores_of_another_model_with_this_name_are_left_out(make: Any, run: Any, chain: Path,
                                                             tmp_path: Path) -> None:
    scores, own = tmp_path / "scores.jsonl", str(chain / "pretrained")
    scores.write_text("".join(json.dumps({"model": model, "pppl": pppl}) + "\n" for model, pppl in
                              (("other/pretrained", 1.5), (own, 2.5))))
    _, bom, _ = make("pretrained", "--scores", scores)
    [metric] = bom["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    assert metric["value"] == "2.5"
    scores.write_text(scores.read_text().replace(own, "third/pretrained"))
    done = run("card", own, "--scores", scores)
    assert done.code == 1 and "the only path with the same end" in done.err


def test_other_directories_are_one_line_errors(run: Any, chain: Path, tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text('licence = "CC-BY-4.0"\nrisk = "x"\n')
    (tmp_path / "empty").mkdir()
    for code, arguments in (
            (1, [chain / "tagger", "--about", tmp_path / "about.toml"]),
            (1, [tmp_path / "empty"]), (2, [tmp_path / "nothing"]),
            (2, [chain / "tagger", "--bom", chain / "tagger" / "bom.json"])):
        done = run("card", *arguments)
        assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1), done.err
    assert not (chain / "tagger" / "bom.json").exists()


def test_the_card_replaces_an_earlier_card_of_the_checkpoint(run: Any, chain: Path) -> None:
    readme = chain / "merged" / "README.md"
    assert "Not in this card" in readme.read_text()
    before = hash_directory(chain / "merged")
    done = run("card", chain / "merged", "-o", readme, "--overwrite")
    assert done.code == 0, done.err
    assert "## Provenance" in readme.read_text() and "initialised" in readme.read_text()
    assert hash_directory(chain / "merged") == before


def test_a_changed_model_has_one_hash_in_its_bill(run: Any, chain: Path, tmp_path: Path) -> None:
    model = shutil.copytree(chain / "tagger", tmp_path / "tagger")
    (model / "model.safetensors").write_bytes((chain / "pretrained/model.safetensors").read_bytes())
    os.utime(model / "model.safetensors", (1e9, 1e9))
    done = run("card", model, "--bom", tmp_path / "bom.json")
    assert done.code == 0, done.err
    component = json.loads((tmp_path / "bom.json").read_text())["components"][0]
    found = hash_directory(model)
    assert component["bom-ref"] == f"model:{found}" and component["version"] == found[:12]
    assert record_of(model)["sha256"] not in (tmp_path / "bom.json").read_text()
