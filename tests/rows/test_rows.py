"""The rows of the papers: their commands run at toy size, and the pages contain the table."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from commands.conftest import make_checkpoint, make_tagger, make_tokenizer  # noqa: F401
from commands.test_examples import files  # noqa: F401
from commands.test_pages import sandbox, toy  # noqa: F401
from document_blocks import ROOT
from rows.table import IDS, KEYS, PAPERS, Done, faults, read_paper

from bmtools.study.studies.plan import load_study, study_names

DOCS = ROOT / "docs"
ANNOTATED = ("Aspirin prevents the platelets from forming new clots inside the artery.",
             "Ramipril lowers blood pressure and protects the kidneys of patients with diabetes.")
each_paper = pytest.mark.parametrize("name", PAPERS)


def test_each_row_is_in_the_table_once() -> None:
    assert {name: [row["id"] for row in read_paper(name)["rows"]] for name in PAPERS} == {
        name: IDS[name] for name in PAPERS}
    assert sum(map(len, IDS.values())) == 241


@each_paper
def test_rows_name_commands_and_checks(name: str) -> None:
    paper = read_paper(name)
    used: set[str] = set()
    for row in paper["rows"]:
        assert row.keys() <= KEYS, row["id"]
        assert set(row["check"]) <= set(row["run"]) <= paper["commands"].keys(), row["id"]
        assert row["check"] or "missing" in row, row["id"]
        used |= {*row["run"]}
    assert used == paper["commands"].keys()
    assert paper.get("toy", {}).keys() <= used


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the script that makes the pages."""
    monkeypatch.syspath_prepend(str(DOCS))
    import rows_pages

    return rows_pages


def test_pages_are_up_to_date(pages: ModuleType) -> None:
    """The test of all documents checks that their commands and options exist."""
    wanted = pages.contents()
    found = {path: path.read_text(encoding="utf-8") for path in wanted if path.is_file()}
    assert found == wanted, "write them again: python docs/rows_pages.py"


def run_commands(paper: Mapping[str, Mapping[str, str]], folder: Path,
                 programs: Path) -> Iterator[tuple[str, Done]]:
    """Run the commands of a paper at toy size, and yield their results by name."""
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1",
                   "BMTOOLS_BUILD_VOCAB_ALLOW_FEWER": "1"}
    for name, line in paper["commands"].items():
        line = toy(line)
        for old, new in paper.get("toy", {}).get(name, {}).items():
            assert old in line, f"toy.{name}: found no {old!r} in {line!r}"
            line = line.replace(old, new)
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, env=environment,
                              capture_output=True, text=True, check=False)
        yield name, Done(line, folder, done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(sandbox: Path) -> Path:  # noqa: F811
    """Add English abstracts with translations, curated maskings and the files of studies."""
    quickstart = sandbox / "examples/quickstart"
    for name, content in (
            ("pubmed.xml.gz", gzip.compress((quickstart / "abstracts.xml").read_bytes())),
            ("memory.tsv", (quickstart / "memory.tsv").read_bytes()),
            ("curated.json", (quickstart / "curated.json").read_bytes()),
            ("contexts.json", json.dumps({"contexts": [{
                "original": "\n".join(["Uno.", "Due.", "Tre.", "Quattro.", "Il cuore batte."]),
                "masks": ["Il [MASK] batte."]}]}).encode()),
            ("pubmedqa.json", json.dumps({"1": {"QUESTION": "Does it?", "CONTEXTS": ["It does."],
                                                "final_decision": "yes"}}).encode()),
            ("bioasq.json", json.dumps({"questions": [
                {"id": kind, "body": "Which?", "type": kind, "exact_answer": answer,
                 "snippets": [{"text": "The heart."}]}
                for kind, answer in (("yesno", "yes"), ("factoid", [["heart"]]))]}).encode())):
        (sandbox / name).unlink(missing_ok=True)
        (sandbox / name).write_bytes(content)
    (sandbox / "annotated.jsonl").write_text("".join(json.dumps({
        "id": str(number), "text": text, "lang": "en",
        "entities": [{"start": 0, "end": text.index(" "), "type": "DRUG"}]}) + "\n"
        for number, text in enumerate(ANNOTATED)))
    for name in study_names():
        text = load_study(name)[1].read_text(encoding="utf-8")
        for path in re.findall(r"{data}/([^\" ]+(?: for DDI Extraction task)?)", text):
            (sandbox / "field" / path).parent.mkdir(parents=True, exist_ok=True)
            (sandbox / "field" / path).touch()
    return sandbox


@pytest.mark.slow
@each_paper
def test_commands_of_rows_have_the_checked_output(folder: Path, warm_bmtools: Path,
                                                  name: str) -> None:
    paper = read_paper(name)
    lines = "\n".join(paper["commands"].values())
    for made in re.finditer(r"(?:-o|>|--ladder) ([\w.-]+)", lines):
        if not re.search(rf"\b{re.escape(made[1])}\b", lines[:made.start()]):
            (folder / made[1]).unlink(missing_ok=True)
    done = dict(run_commands(paper, folder, warm_bmtools))
    found = [f"{one}: {result.line}\n{result.stderr}"
             for one, result in done.items() if result.code]
    for row in paper["rows"]:
        for one, check in row["check"].items():
            if not done[one].code:
                found += [f"{row['id']}, {one}: {fault}" for fault in faults(check, done[one])]
    assert found == [], "\n".join(found)
