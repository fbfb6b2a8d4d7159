"""The laptop speedrun in examples/: its parts, and all of it at toy size."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SPEEDRUN = Path(__file__).parents[2] / "examples" / "speedrun"
TEST = ("La malattia di Parkinson si manifesta quando la produzione di dopamina nel cervello cala "
        "consistentemente.")
OTHER = "Il paziente prende due compresse al giorno. La pressione scende."


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of the example."""
    monkeypatch.syspath_prepend(str(SPEEDRUN))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.fixture
def cleaned(part: Any) -> Any:
    """Clean texts one after the other, and return the remaining text of each."""

    def clean(*texts: str) -> list[str]:
        cleaner = part("clean").Cleaner(part("clean").TestWords([TEST]))
        return [cleaner.clean({"id": str(number), "text": text}, Counter())
                for number, text in enumerate(texts)]

    return clean


@pytest.mark.parametrize("planted", [
    TEST,
    f"Prima. {TEST.upper()} Dopo.",
    "Come noto, SI MANIFESTA quando la «produzione» di dopamina: nel cervello, infatti.",
    "Produzione di dopamina nel cervello",
], ids=["whole", "case", "eight words", "short and whole"])
def test_test_sentences_are_caught(cleaned: Any, planted: str) -> None:
    assert cleaned(OTHER, planted, "Altro testo.") == [OTHER, "", "Altro testo."]


def test_counts_depend_on_neighbours(part: Any) -> None:
    counts = part("counts").Counts()
    for text in ["il cuore batte forte", "il cuore batte piano", "il sangue scorre forte"]:
        counts.add(text.split())
    counts.close()
    assert counts.best(["", "il"], ["batte", "forte"])[0] == "cuore"
    assert counts.best(["", "il"], ["scorre", "forte"])[0] == "sangue"
    # After "il" only: (2 + 2 * (2.1 / 13)) / 5, two kinds of followers among three.
    near = next(iter(part("counts")._contexts(["", "il"], ["x", "y"])))
    assert counts._chain(near)("cuore") == pytest.approx((2 + 2 * 2.1 / 13) / 5)
    score = part("counts").mean_reciprocal_rank(
        counts, [("il [MASK] batte", "Cuore"), ("il [MASK] batte", "rene")])
    assert score == {"mrr": 0.5, "hits_at_1": 0.5, "maskings": 2}


def shorten(source: Path, target: Path, copy_lines: Any, copy_entries: Any) -> None:
    """Copy the beginning of a real file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name.startswith("BioASQ") or source.name.endswith("_CORPUS.json"):
        copy_entries(source, target, 5)
    elif source.name.startswith("SQuAD"):
        copy_entries(source, target, 1)
    elif source.suffix == ".json":
        shutil.copy(source, target)
    elif source.name.endswith("_annotations.txt"):
        corpus = source.with_name(source.name.replace("annotations", "corpus")).read_text("utf-8")
        kept = {line.partition("|")[0] for line in corpus.splitlines()[:5]}
        target.write_text("".join(
            line for line in source.read_text("utf-8").splitlines(keepends=True)
            if line.partition("\t")[0] in kept), "utf-8")
    elif source.suffix == ".gz":
        copy_lines(source, target, 9)
    else:
        copy_lines(source, target, 5 if "_" in source.name else 150)


@pytest.mark.data
@pytest.mark.slow
def test_complete_speedrun(data: Path, tmp_path: Path, run_script: Any, read: Any, copy_lines: Any,
                           copy_entries: Any) -> None:
    small = tmp_path / "data"
    for folder in ("it", "parallel"):
        for path in (data / folder).rglob("*.*"):
            if path.is_file() and not path.name.endswith(("_ANN.txt", "_REL.txt")):
                shorten(path, small / path.relative_to(data), copy_lines, copy_entries)
    planted = json.loads((data / "it/mrr/mlm_data.json").read_text(encoding="utf-8"))["data"][7]
    with (small / "it/corpus/native-clinical.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"id": "planted", "text": f"Nota. {planted['original']}"}) + "\n")
    folder = tmp_path / "speedrun"
    shutil.copytree(SPEEDRUN, folder, ignore=shutil.ignore_patterns("out", "__pycache__"))
    trials = (folder / "trials.toml").read_text()
    trials = re.sub(r"words-\d+", "words-300", re.sub(r"pieces-\d+", "pieces-2000", trials))
    (folder / "trials.toml").write_text(re.sub(r"bert-2x256", "bert-1x64", trials))
    out = tmp_path / "out"
    run_script(folder / "run.sh", DATA=str(small), OUT=str(out), TRIALS="muon", SEEDS="0",
               MINUTES="0.1", THREADS="1", PROBE_TOKENS="3000", VOCABULARIES="2100")
    report = {line["corpus"]: line for line in read(out / "text" / "report.jsonl")}
    assert report["clinical"]["contaminated_documents"] >= 1
    assert any(line["id"] == "planted" for line in read(out / "text" / "contaminated.jsonl"))
    [score] = read(out / "trials.jsonl")
    assert score["model"] == "muon" and score["tokens"] > 0
    assert score["seconds"] > score["init_seconds"] > 0
    names = [line["model"] for line in read(out / "results.jsonl")]
    assert "muon, 0.1 minutes" in names and "counts of neighbours" in names
    again = subprocess.run(
        [sys.executable, str(folder / "trial.py"), "muon", "--out", str(out), "--minutes", "0.1",
         "--threads", "1"], capture_output=True, text=True, check=True)
    assert again.stdout == "" and len(read(out / "trials.jsonl")) == 1
