"""Lineages of directories and files that the tests write."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsWarning, DataError
from bmtools.io.provenance.manifest import hash_directory
from bmtools.io.provenance.record import read_record
from bmtools.study.lineages.graph import Lineage
from bmtools.study.lineages.lineage import trace

Make = Callable[..., str]


def sha256(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Write a file or a model with a record of its inputs: `make("b", {"a": hash})`."""

    def write(name: str, inputs: dict[str, str] | None = None,
              parents: dict[str, str] | None = None, **record: Any) -> str:
        path = tmp_path / name
        if parents is None:
            path.write_text(name)
            found, place = sha256(name), Path(f"{path}.bmtools.json")
        else:
            path.mkdir()
            (path / "config.json").write_text(name)
            found, place = hash_directory(path), path / "bmtools.json"
        place.write_text(json.dumps({
            "command": "made", "inputs": inputs or {}, "parents": parents or {}, "sha256": found,
            "energy": {"run": name, "hours": 1.0, "measured": {"kwh": 2.0, "by": ["rapl"],
                                                              "hours": 1.0}},
            "tokens_seen": 10, **record}))
        return found

    return write


def names(lineage: Lineage) -> list[str]:
    return [Path(node.name).name for node in lineage.nodes]


def test_shared_parents_count_once(make: Make, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.xml").write_text("raw")
    raw = make("corpus", {"raw.xml": sha256("raw")})
    left, right = (make(name, {"corpus": raw}, {}) for name in ("left", "right"))
    make("merged", None, {"merged 1": left, "merged 2": right},
         settings={"merged": ["left", "right"]})
    found = trace(["merged"])
    assert names(found) == ["merged", "left", "right", "corpus", "raw.xml"]
    assert [node.kind for node in found.nodes] == [*["checkpoint"] * 3, "file", "source"]
    assert {(edge.child, edge.parent, edge.role) for edge in found.edges} == {
        (found.roots[0], left, "merged 1"), (found.roots[0], right, "merged 2"),
        (left, raw, "corpus"), (right, raw, "corpus"), (raw, sha256("raw"), "raw.xml")}
    totals = found.totals()
    assert (totals["steps"], totals["hours"], totals["tokens_seen"]) == (4, 4.0, 40)
    assert totals["measured"]["kwh"] == 8.0
    assert not found.unresolved
    assert trace(["merged", "left", "merged"]).totals() == totals


def test_circular_lineage_ends(make: Make, tmp_path: Path) -> None:
    one, other = sha256("one"), sha256("other")
    make("one", {"other": other})
    make("other", {"one": one})
    found = trace([tmp_path / "one"])
    assert names(found) == ["one", "other"] and len(found.edges) == 2
    assert found.totals()["hours"] == 2


def test_model_that_replaced_itself_depends_on_its_older_version(make: Make,
                                                                 tmp_path: Path) -> None:
    older = sha256("of before")
    make("model", {}, {"model": older}, settings={"model": "model"})
    found = trace([tmp_path / "model"])
    assert [(node.id, node.path) for node in found.unresolved] == [(older, None)]


@pytest.fixture
def passed_on(make: Make, tmp_path: Path) -> str:
    """Write `one`, which `clean`, `scan` and `aside` passed on unchanged; return its hash."""
    same = make("one", {"raw": sha256("raw")})
    for name, source, more in (("clean", "one", {}), ("scan", "clean", {"test": sha256("test")}),
                               ("aside", "one", {})):
        shutil.copy(tmp_path / "one", tmp_path / name)
        (tmp_path / f"{name}.bmtools.json").write_text(json.dumps(
            {"command": name, "inputs": {source: same, **more}, "sha256": same,
             "energy": {"run": name, "hours": 1.0}}))
    return same


def test_steps_without_changes_are_listed_with_their_content(
        make: Make, tmp_path: Path, passed_on: str) -> None:
    model = make("model", {"scan": passed_on}, {})
    found = trace([tmp_path / "model"])
    assert [(node.name.rpartition("/")[2], node.commands) for node in found.nodes] == [
        ("model", ["made"]), ("one", ["scan", "clean", "made"]), ("test", []), ("raw", [])]
    assert {(edge.child, edge.parent) for edge in found.edges} == {
        (model, passed_on), (passed_on, sha256("raw")), (passed_on, sha256("test"))}
    assert found.totals()["steps"] == 4
    assert trace([tmp_path / "one"]).root.commands == ["made"]
    assert trace([tmp_path / "clean"]).root.commands == ["clean", "made"]


def test_all_steps_that_passed_content_on_are_listed(
        make: Make, tmp_path: Path, passed_on: str) -> None:
    make("first", {"aside": passed_on}, {})
    make("last", {"scan": passed_on}, {"model": sha256("gone")})
    found = trace([tmp_path / "first", tmp_path / "last"])
    assert found.node(passed_on).commands == ["aside", "scan", "clean", "made"]
    assert sha256("test") in [node.id for node in found.nodes]


def test_content_of_unknown_origin_belongs_to_the_first_known_step(
        tmp_path: Path, passed_on: str) -> None:
    (tmp_path / "one.bmtools.json").unlink()
    found = trace([tmp_path / "scan"])
    assert names(found) == ["scan", "test"]
    assert (found.root.record["command"], found.root.commands) == ("clean", ["scan", "clean"])
    (tmp_path / "clean").write_text("edited")
    assert trace([tmp_path / "scan"]).root.commands == ["scan"]


def test_piped_content_leads_back_to_its_file(make: Make, tmp_path: Path,
                                              passed_on: str) -> None:
    piped = {"command": "piped", "sha256": passed_on, "inputs": {"clean": passed_on}}
    make("model", {"<stdin>": passed_on}, {}, upstream={"<stdin>": piped})
    found = trace([tmp_path / "model"])
    assert found.node(passed_on).commands == ["piped", "clean", "made"]


def test_moved_inputs_are_found_by_searching_or_listed_as_missing(make: Make,
                                                                  tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("raw")
    corpus = make("corpus", {"raw.txt": sha256("raw"), "gone.txt": sha256("gone")})
    make("model", {"corpus": corpus}, {})
    here, there = tmp_path / "a" / "b" / "c", tmp_path / "deep"
    here.mkdir(parents=True)
    there.mkdir()
    (tmp_path / "model").rename(here / "model")
    for name in ("corpus", "corpus.bmtools.json", "raw.txt"):
        (tmp_path / name).rename(there / name)
    found = trace([here / "model"])
    assert [(node.name, node.id) for node in found.unresolved] == [("corpus", corpus)]
    found = trace([here / "model"], [there])
    assert names(found) == ["model", "corpus", "raw.txt", "gone.txt"]
    assert [node.name for node in found.unresolved] == ["gone.txt"]


def test_pipes_and_appended_steps_are_traced(make: Make, tmp_path: Path) -> None:
    piped = {"command": "import", "sha256": sha256("piped"), "inputs": {"raw": sha256("raw")},
             "energy": {"run": "piped", "hours": 3.0}}
    (tmp_path / "raw").write_text("raw")
    one = {"command": "first", "inputs": {"<stdin>": sha256("piped")}, "sha256": "1",
           "upstream": {"<stdin>": piped}, "energy": {"run": "1", "hours": 1.0}}
    two = {"command": "second", "inputs": {"b": sha256("b")}, "sha256": "2",
           "energy": {"run": "2", "hours": 1.0}}
    make("out", steps=[one, two])
    found = trace([tmp_path / "out"])
    assert [(node.kind, Path(node.name).name) for node in found.nodes] == [
        ("file", "out"), ("pipe", "<stdin>"), ("source", "b"), ("source", "raw")]
    assert [node.name for node in found.unresolved] == ["b"]


def test_content_piped_unchanged_is_traced(make: Make, tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("raw")
    piped = {"command": "import", "sha256": sha256("out"), "inputs": {"raw": sha256("raw")},
             "energy": {"run": "piped", "hours": 3.0}}
    make("out", {"<stdin>": sha256("out")}, upstream={"<stdin>": piped})
    found = trace([tmp_path / "out"])
    assert names(found) == ["out", "raw"]
    assert [edge.role for edge in found.edges] == ["raw"]
    assert found.totals()["hours"] == 4.0


def test_vocabularies_are_found_by_their_fingerprints(make: Make, tmp_path: Path) -> None:
    vocabulary = make("words", {}, {}, command="build-vocab", vocabulary="f00d")
    model = make("model", {}, {}, vocabulary="f00d", settings={"tokenizer": "words"})
    make("tuned", {}, {"model": model}, vocabulary="f00d")
    found = trace([tmp_path / "tuned"])
    assert [node.id for node in found.nodes[1:]] == [model, vocabulary]
    assert [(edge.parent, edge.role) for edge in found.edges] == [
        (model, "model"), (vocabulary, "tokenizer")]


def test_record_of_replaced_content_is_ignored(make: Make, tmp_path: Path) -> None:
    make("out", {"raw": sha256("raw")})
    (tmp_path / "out").write_text("edited")
    found = trace([tmp_path / "out"])
    assert [(node.kind, node.id) for node in found.nodes] == [("source", sha256("edited"))]
    with pytest.raises(DataError, match="none: found nothing, expected a file or directory"):
        trace([tmp_path / "none"])


@pytest.mark.parametrize("damage", [
    {"inputs": 5}, {"inputs": {"raw": 5}}, {"upstream": {"-": 5}}, {"steps": 5}, {"files": None},
    {"vocabulary": ["a"]}, {"command": {}}, {"wall_seconds": "x"}, {"licences": {"text": "MIT"}},
    {"energy": {"measured": {"kwh": "x"}}}, {"energy": {"grid": {"country": "ITA"}}},
    {"upstream": {"-": {"upstream": {"-": {"energy": 5}}}}}], ids=str)
def test_damaged_record_is_ignored(make: Make, tmp_path: Path, damage: dict[str, Any]) -> None:
    made = make("out")
    (tmp_path / "out.bmtools.json").write_text(json.dumps({"command": "made", **damage}))
    with pytest.warns(BmtoolsWarning) as warned:
        found = trace([tmp_path / "out"])
    assert [(node.id, node.kind) for node in found.nodes] == [(made, "source")]
    assert found.totals()["steps"] == 0
    assert read_record(tmp_path / "out") == {}
    (message,) = [str(one.message) for one in warned]
    assert message.startswith(f"{tmp_path / 'out.bmtools.json'}: key ")
    assert message.endswith("; remove or restore it; until then it is ignored")


def test_replaced_file_with_an_older_time_is_noticed(make: Make,
                                                     tmp_path: Path) -> None:
    """`cp -p` copies a model and a file with their old times."""
    base = make("base", {}, {}, files={"config.json": sha256("base")})
    text = make("text")
    make("model", {"text": text}, {"model": base}, settings={"model": "base"})
    assert not trace([tmp_path / "model"]).unresolved
    for path in (tmp_path / "base" / "config.json", tmp_path / "text"):
        path.write_text("older")
        os.utime(path, (1e9, 1e9))
    assert {node.id for node in trace([tmp_path / "model"]).unresolved} == {base, text}
    [changed] = trace([tmp_path / "base"]).roots
    assert changed == hash_directory(tmp_path / "base") != base


def test_a_kept_phase_is_below_its_run(make: Make, tmp_path: Path) -> None:
    """The phase is an end if its run is not traced."""
    corpus = make("corpus")
    model = make("model", {"corpus": corpus}, {})
    (tmp_path / "model.kept").mkdir()
    phase = make("model.kept/phase-1", {"corpus": corpus}, {}, energy={
        "run": "model", "hours": 0.5}, tokens_seen=4)
    paths = [tmp_path / "model.kept" / "phase-1", tmp_path / "model"]
    found = trace(paths)
    assert found.ends == [model]
    assert [(edge.parent, edge.role) for edge in found.parents(model)] == [
        (corpus, "corpus"), (phase, "kept")]
    assert found.totals()["tokens_seen"] == 20
    assert trace(paths[:1]).ends == [phase]


def test_missing_directory_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "bmtools.json").write_text(json.dumps({
        "command": "merge", "sha256": "a" * 64, "settings": {"merged": ["runs/one", "runs/two"]},
        "parents": {"merged 1": "b" * 64, "merged 2": "c" * 64}}))
    names = {node.id[0]: node.name for node in trace([tmp_path / "model"]).nodes}
    assert names["b"] == "runs/one" and names["c"] == "runs/two"


def test_file_in_a_directory_belongs_to_the_step_of_the_directory(make: Make,
                                                                  tmp_path: Path) -> None:
    """For example, the samples of a ladder share the record of their directory."""
    raw = make("corpus.jsonl")
    ladder, part = tmp_path / "ladder", sha256("small")
    ladder.mkdir()
    (ladder / "1kB.jsonl").write_text("small")
    (ladder / "bmtools.json").write_text(json.dumps({
        "command": "sample", "inputs": {"corpus.jsonl": raw}, "parents": {},
        "sha256": hash_directory(ladder), "files": {"1kB.jsonl": part}}))
    make("model", {"ladder/1kB.jsonl": part}, {})
    found = trace([tmp_path / "model"])
    assert names(found) == ["model", "1kB.jsonl", "corpus.jsonl"]
    assert found.node(part).commands == ["sample"]
    (ladder / "1kB.jsonl").write_text("other")
    assert names(trace([tmp_path / "model"])) == ["model", "1kB.jsonl"]
