"""The pipelines in examples/, complete but with few training steps."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from aibom import completeness, missing_fields
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from bmtools.study.lineages.lineage import trace

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALLER = [
    (r"--steps \d+", "--steps 2"), (r"--epochs \d+", "--epochs 1"), (r"--seeds \d+", "--seeds 1"),
    (r"bert-4x256|bert-2x128", "bert-1x64"), (r"--size (\d+)000", "--size 1000 --allow-fewer"),
    (r"--records \d+", "--records 8"),
]


@pytest.fixture
def run_smaller(tmp_path: Path, run_script: Any) -> Any:
    """Run an example's script with reduced numbers of steps."""

    def run(name: str, **environment: str) -> str:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("out"))
        script = folder / "run.sh"
        text = script.read_text()
        for pattern, replacement in SMALLER:
            text = re.sub(pattern, replacement, text)
        script.write_text(text)
        return run_script(script, OUT=str(tmp_path / "out"), **environment)

    return run


@pytest.mark.slow
def test_quickstart(run_smaller: Any, read: Any, tmp_path: Path) -> None:
    table = run_smaller("quickstart")
    out = tmp_path / "out"
    corpus = read(out / "corpus.jsonl")
    assert len(corpus) == 80
    assert {record["lang"] for record in corpus} == {"it"}
    [mrr, *_] = read(out / "mrr.jsonl")
    assert (mrr["sentences"], mrr["maskings"]) == (56, 187)
    for model in ("first", "initialised", "pretrained", "distilled"):
        assert f"| {model} " in table
    ends = ("pppl.jsonl", "mrr.jsonl", "ner.jsonl", "predicted.jsonl", "tagger-distilled")
    for end in ends:
        found = trace([out / end], [tmp_path / "quickstart"])
        commands = [step["command"] for node in found.nodes for step in node.steps]
        assert {"import pubmed", "translate", "build-vocab", "pretrain"} <= set(commands)
        assert {"abstracts.xml", "memory.tsv"} <= {
            node.path.name for node in found.nodes if node.kind == "source" and node.path}
        assert not found.unresolved
        totals, steps = found.totals(), {id(step): step for node in found.nodes
                                         for step in node.steps}.values()
        assert totals["tokens_seen"] == sum(step.get("tokens_seen", 0) for step in steps)
        runs = {step["energy"]["run"]: step["energy"]["hours"] for step in steps}
        assert len(runs) == totals["steps"] == len(steps)
        assert totals["hours"] == pytest.approx(sum(runs.values()), rel=1e-4)


def shorten(source: Path, target: Path, copy_lines: Any, copy_entries: Any) -> None:
    """Copy the beginning of a real file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name == "BioASQ_5b_splitted.json" or source.name.endswith("_CORPUS.json"):
        copy_entries(source, target, 9)
    elif source.name.endswith("_annotations.txt"):
        corpus = source.with_name(source.name.replace("annotations", "corpus"))
        kept = {line.partition("|")[0].lstrip("\ufeff")
                for line in corpus.read_text(encoding="utf-8").splitlines()[:9]}
        target.write_text("".join(
            line for line in source.read_text(encoding="utf-8").splitlines(keepends=True)
            if line.lstrip("\ufeff").partition("\t")[0] in kept), encoding="utf-8")
    elif source.parent.parent.name == "re":  # tables with annotations of a corpus
        kept = {str(entry["PMID"]) for entry in json.loads(
            target.with_name("train_CORPUS.json").read_text(encoding="utf-8"))["data"]}
        target.write_text("".join(
            line for line in source.read_text(encoding="utf-8").splitlines(keepends=True)
            if line.partition("\t")[0] in kept), encoding="utf-8")
    elif source.suffix in (".txt", ".jsonl") or source.name.endswith(".jsonl.gz"):
        # A vocabulary trained on less text splits the curated sentences into letters.
        most = 400 if source.name in ("general-ud.txt", "native-clinical.jsonl") else 9
        copy_lines(source, target, most)
    else:
        shutil.copy(source, target)


@pytest.mark.data
@pytest.mark.slow
def test_italian(data: Path, tmp_path: Path, run_smaller: Any, read: Any, copy_lines: Any,
                 copy_entries: Any) -> None:
    if shutil.which("apertium") is None:
        pytest.skip("apertium is absent")
    small = tmp_path / "data"
    wanted = ["en/corpus/pubmed-drug-reviews.jsonl.gz", "it/corpus/native-clinical.jsonl",
              "it/corpus/general-ud.txt", "it/mrr/mlm_data.json",
              "it/qa/BioASQ_5b_splitted.json"]
    wanted += [f"it/re/{name}/train_{part}" for name in ("BIORED", "CHEMPROT")
               for part in ("CORPUS.json", "ANN.txt", "REL.txt")]
    wanted += [f"it/ner/{name}/train_{kind}.txt" for kind in ("corpus", "annotations")
               for name in ("BC5CDR_CDR", "NCBI_DISEASE", "SPECIES_800")]
    wanted += [f"it/ner/NCBI_DISEASE/{part}_{kind}.txt" for kind in ("corpus", "annotations")
               for part in ("dev", "test")]
    for name in wanted:
        shorten(data / name, small / name, copy_lines, copy_entries)
    for name in ("medline16n0902.xml.gz", "pubmed15-bom.xml", "pubmed24-sample.xml.gz"):
        path = small / "en/pubmed-xml" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(data / "en/pubmed-xml/pubmed24-sample.xml.gz", path)
    about = tmp_path / "about.toml"
    about.write_text('contact = "anna@example.org"\ncode = "https://example.org/code"\n'
                     'website = "https://example.org"\nrepository = "group/model"\n'
                     + (EXAMPLES / "italian" / "about.toml").read_text())
    run_smaller("italian", DATA=str(small), ABOUT=str(about), BMTOOLS_POWER_WATTS="60",
                BMTOOLS_COUNTRY="ITA")
    lines = read(tmp_path / "out" / "mrr.jsonl")
    scores = [line for line in lines if "model" in line]
    compared = [line for line in lines if "model" not in line]
    assert {line["metric"] for line in compared} == {"mrr"}
    assert [line["maskings"] for line in scores] == [897] * len(scores)
    assert {line["sentences"] for line in scores} == {54}
    assert len(read(tmp_path / "out" / "ncbi-predicted.jsonl")) == 9
    out = tmp_path / "out"
    _check_lineage(out, small)
    _check_card(out, read)
    _check_report(out, scores + read(out / "pppl.jsonl"))


def _check_lineage(out: Path, data: Path) -> None:
    """One tree connects the tagger and the scores with every file of the data that was read."""
    lineage = trace([out / "tagger", out / "mrr.jsonl"], [data])
    assert not lineage.unresolved
    sources = {node.path.name for node in lineage.nodes if node.kind == "source" and node.path}
    read = {path.name for path in data.rglob("*") if path.is_file()}
    assert read - sources <= {"pubmed15-bom.xml", "pubmed24-sample.xml.gz"}  # copies of a file
    for node in lineage.nodes:
        if node.path is not None and node.path.is_file():
            content = node.path.read_bytes()
            content = gzip.decompress(content) if node.path.suffix == ".gz" else content
            assert hashlib.sha256(content).hexdigest() == node.id
    assert "not found" not in (out / "lineage.txt").read_text()


def _check_card(out: Path, read: Any) -> None:
    """The card contains the scores, and each checkpoint has a complete bill of materials."""
    metadata = yaml.safe_load((out / "medical" / "README.md").read_text().split("---")[1])
    given = {one["type"]: one["value"] for result in metadata["model-index"][0]["results"]
             for one in result["metrics"]}
    for name in ("mrr", "pppl"):
        [line] = [line for line in read(out / f"{name}.jsonl")
                  if Path(line.get("model", "")).name == "medical"]
        assert given[name] == line[name]
    models = {path.parent.name for path in out.glob("*/model.safetensors")}
    assert {path.name.removesuffix(".cdx.json") for path in out.glob("*.cdx.json")} == models
    assert {"base", "medical", "student", "tagger"} < models
    for name in models:
        text = (out / f"{name}.cdx.json").read_text()
        bill = json.loads(text)
        assert (bill["specVersion"], bill["metadata"]["component"]["name"]) == ("1.6", name)
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        assert completeness(bill) >= 95, missing_fields(bill)


def _check_report(out: Path, scores: list[dict[str, Any]]) -> None:
    """The page contains the scores that are in the files."""
    page = (out / "report.html").read_text()
    assert len(page.encode()) < 500_000
    values = set(re.findall(r'<data value="([^"]+)">', page))
    for line in scores:
        for name in ("mrr", "pppl", "bits_per_character"):
            if name in line:
                assert json.dumps(line[name]) in values
