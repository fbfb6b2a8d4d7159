"""The page of a study: its inputs, and that it shows the numbers of the files."""

from __future__ import annotations

import hashlib
import html
import io
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from toy_study import MODELS, numbers_in, write_study

from bmtools.errors import BmtoolsError, DataError
from bmtools.io.provenance.manifest import hash_directory
from bmtools.study.reports.charts import Chart, Curve, Point, line_chart
from bmtools.study.reports.drawing import COLOURS, written_figure
from bmtools.study.reports.report import write_report
from bmtools.study.reports.sections import losses
from bmtools.study.reports.study import read_study

SIZES = (10_000, 110_000, 1_110_000)  # tokens of the texts of each model and its predecessors


class Page(HTMLParser):
    """Reads the tables of a page: the header, then rows of words and exact numbers."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[Any]]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._rows: list[list[Any]] = []
        self.leaves: list[str] = []
        self._in_tree = False
        self._reads = False
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("role") == "region":
            self._rows = self.tables.setdefault(found["aria-label"] or "", [])
        self._in_tree |= found.get("class") == "tree"
        if tag == "li" and self._in_tree:
            self.leaves.append("")
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
            self._reads = True
        if tag == "data":
            self._rows[-1][-1] = json.loads(found["value"] or "")
            self._reads = False

    def handle_endtag(self, tag: str) -> None:
        self._reads = self._reads and tag not in ("td", "th")
        self._in_tree &= tag != "div"

    def handle_data(self, data: str) -> None:
        if self._reads:
            self._rows[-1][-1] += data
        if self._in_tree and self.leaves:
            self.leaves[-1] += data

    def figures(self) -> set[float]:
        return {*numbers_in([*self.tables.values()])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module")
def lines(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return write_study(folder)


@pytest.fixture(scope="module")
def page(folder: Path, lines: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("page") / "page.html"
    made = write_report([folder], path, "A <study>")
    content = path.read_text()
    assert made["bytes"] == len(content.encode()) < 300_000
    assert "<title>A &lt;study&gt;</title>" in content
    assert "out/" not in content and str(folder) not in content  # places of this machine
    return Page(content)


def test_every_figure_of_the_page_is_in_the_files(page: Page, folder: Path,
                                                  lines: dict[str, Any]) -> None:
    records = [json.loads(path.read_text()) for path in folder.glob("out/*/bmtools.json")]
    given = {*numbers_in([lines, records])}
    computed = {row[4] for row in page.tables["Models, vocabularies and other directories"][1:]}
    assert {round(1e6 * size) for size in computed} <= {
        sum(path.stat().st_size for path in folder.glob(f"out/{model}/*")) for model in MODELS}
    # Tokens are summed over the models that each began with, energy over the runs of a command.
    sums = {4000, 9000, 15000, *SIZES, *(
        round(sum(record["energy"][kind]["kwh"] for record in records), 5)
        for kind in ("measured", "declared"))}
    assert {round(figure, 5) for figure in page.figures() - given - computed} <= \
        sums | {1, 2, 3, 4, 5, 6}


def test_every_score_is_on_the_page(page: Page, lines: dict[str, Any]) -> None:
    """All but those of records' maskings, of seeds' epochs, and the accuracy of an evaluation."""
    lines = {name: own for name, own in lines.items() if name != "details.jsonl"}
    shown = page.figures()
    missing = {number for number in numbers_in(lines) if number not in shown
               and number != int(number)}
    assert missing <= {0.15, 0.4, 0.5, 3.3}


def test_scores_are_drawn_over_the_size_of_the_corpus(page: Page, lines: dict[str, Any]) -> None:
    """Of all texts that led to a model, with the last one, as in BioBIT's Figure 3."""
    rows = page.tables["Mean reciprocal rank by tokens of all corpora"]
    assert [[*row[:3], row[-1]] for row in rows[1:]] == [
        [model, size, line["mrr"], f"text-{number}.jsonl"] for number, (model, size, line) in
        enumerate(zip(MODELS, SIZES, lines["mrr.jsonl"], strict=True))]


def test_curves_of_one_group_share_colour_and_marker() -> None:
    curves = {name: Curve([Point(number, 0.5)], group=group) for number, (name, group) in
              enumerate((("a", "web"), ("b", "books"), ("c", "web")))}
    with written_figure(io.BytesIO(), "svg", 340, 200) as figure:
        drawn = line_chart("t", ("x", "y"), curves).draw(figure.add_subplot())
        looks = {name: (one.get_color(), one.get_marker()) for name, one in drawn.items()}
    assert looks["a: web"] == looks["c: web"] != looks["b: books"]


def test_ten_models_differ_in_colour_or_marker() -> None:
    curves = {str(number): Curve([Point(number, 0.5)]) for number in range(10)}
    with written_figure(io.BytesIO(), "svg", 340, 200) as figure:
        drawn = line_chart("t", ("x", "y"), curves).draw(figure.add_subplot())
        assert len({(one.get_color(), one.get_marker()) for one in drawn.values()}) == 10


def test_settings_are_shown_with_scores(page: Page, lines: dict[str, Any]) -> None:
    head, *rows = page.tables["Models with their texts, settings and scores"]
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert [row["text"] for row in found] == ["text-0.jsonl", "text-1.jsonl", "text-2.jsonl"]
    assert [row["from"] for row in found] == ["", "base", "small"]
    assert [row["tokens trained on"] for row in found] == [4000, 9000, 15000]
    assert page.tables["Settings that all of these models share"][1:] == [
        ["layer decay", 0.95], ["learning rate", "0.001, 0.002"]]
    assert [row["PPPL"] for row in found] == [line["pppl"] for line in lines["pppl.jsonl"]]


def test_losses_are_overlaid_with_held_out_text(page: Page, lines: dict[str, Any]) -> None:
    rows = page.tables["Loss over tokens"][1:]
    assert list(dict.fromkeys(row[0] for row in rows)) == ["base", "large", "small", "logged"]
    for name, file in (("small", "out/small/metrics.jsonl"), ("logged", "log.jsonl")):
        own = [line for line in lines[file] if "loss" in line]
        assert [row[1:] for row in rows if row[0] == name] == [
            *(["", line["tokens_seen"], line["loss"]] for line in own),
            ["held-out", own[-1]["tokens_seen"], next(
                line for line in lines[file] if "evaluate" in line)["evaluate"]["loss"]]]


def test_flows_count_maskings(page: Page) -> None:
    rows = page.tables["Ranks from base to small"][1:]
    assert rows == [[name, "1", 1] for name in ("1", "2", "3", "4", "5", "beyond")]


def test_lineage_is_a_tree_that_shows_each_content_once(page: Page, folder: Path) -> None:
    base, small, large = (hash_directory(folder / f"out/{model}")[:12] for model in MODELS)
    assert [" ".join(words.split()) for words in page.leaves] == [
        f"large directory by pretrain, 6,000 tokens trained on, {_seconds(folder, 'large')} s, "
        f"{large}", "text-2.jsonl source, 222222222222",
        f"model: small directory by pretrain, 5,000 tokens trained on, "
        f"{_seconds(folder, 'small')} s, {small}", "text-1.jsonl source, 111111111111",
        f"model: base directory by pretrain, 4,000 tokens trained on, "
        f"{_seconds(folder, 'base')} s, {base}", "text-0.jsonl source, 000000000000"]


def test_documents_about_outputs_are_not_outputs(tmp_path: Path, page: Page,
                                                lines: dict[str, Any]) -> None:
    folder = tmp_path / "study"
    write_study(folder)
    large = hash_directory(folder / "out" / "large")
    (folder / "card.md").write_text("# A model")
    (folder / "card.md.bmtools.json").write_text(json.dumps({
        "command": "card", "inputs": {}, "parents": {"model": large}, "wall_seconds": 1.0,
        "versions": {}, "sha256": hashlib.sha256(b"# A model").hexdigest()}))
    write_report([folder], tmp_path / "page.html")
    assert Page((tmp_path / "page.html").read_text()).leaves == page.leaves


def _seconds(folder: Path, model: str) -> str:
    record = json.loads((folder / "out" / model / "bmtools.json").read_text())
    return f"{record['wall_seconds']:.2g}"


def test_kinds_of_energy_have_separate_columns(page: Page, folder: Path) -> None:
    head, *rows = page.tables["Energy and emissions of steps"]
    assert head[:6] == ["step", "command", "kWh measured", "kWh declared", "kg CO2eq measured",
                        "kg CO2eq declared"]
    assert len(rows) == 3
    for name, command, *found in rows:
        energy = json.loads((folder / "out" / name / "bmtools.json").read_text())["energy"]
        assert command == "pretrain" and found[:4] == [
            *(energy[kind]["kwh"] for kind in ("measured", "declared")),
            *energy["kg_co2eq"].values()]


def test_the_page_loads_no_other_file(page: Page) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not {"script", "link", "iframe", "object", "base", "form"} & tags
    links = [value for _, found in page.tags for key, value in found.items()
             if key in ("href", "src")]
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len({*ids})
    assert {str(link) for link in links} <= {f"#{one}" for one in ids}
    charts = [found for tag, found in page.tags if tag == "svg"]
    assert len(charts) >= 15 and all(found["role"] == "img" for found in charts)
    assert all(len(found["aria-label"] or "") > 30 for found in charts)


@pytest.mark.usefixtures("no_matplotlib")
def test_a_missing_matplotlib_is_one_clear_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BmtoolsError, match=r"install .*\[plot\]'"):
        write_report([folder], tmp_path / "page.html")


def test_a_file_without_results_is_an_error(folder: Path, lines: dict[str, Any],
                                            tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"notes.jsonl:1: found a record, expected a line of"):
        read_study([folder / "notes.jsonl"])
    (tmp_path / "other.jsonl").write_text('{"colour": 1, "shape": 2}\n')
    with pytest.raises(DataError, match=r"other.jsonl:1: found the keys colour, shape, expected"):
        read_study([tmp_path / "other.jsonl"])
    with pytest.raises(DataError, match="found neither models nor scores"):
        read_study([tmp_path])


@pytest.mark.parametrize(("line", "message"), [
    ('{"model": 3, "pppl": 2.5}', "scores.jsonl:1: key 'model': found a whole number, expected"),
    ('{"model": "a", "pppl": 2.5, "interval": [1]}',
     "scores.jsonl:1: key 'interval': found 1, expected a list of length 2"),
    ('{"model": "a", "task": "ner", "calibration": {"error": 1}}',
     "scores.jsonl:1: key 'calibration.score' is missing"),
    ('{"model": "a", "masking": "words", "perplexity": 2.0}',
     "scores.jsonl:1: key 'mask_rate' is missing"),
    ('{"model": "a", "mrr": 0.5, "maskings": 1, "by": {"domain": 1}}',
     "scores.jsonl:1: key 'by[...]': found a whole number, expected an object"),
    ('{"corpus": "a", "records": 1, "words_per_record": {}, "years": {"2020": "x"}}',
     "scores.jsonl:1: key 'years': key '[...]': found text, expected a number"),
    ('{"model": "a", "pppl": null}', "found neither models nor scores")])
def test_a_line_without_a_number_is_an_error(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text(line)
    with pytest.raises(DataError, match=re.escape(message)):
        write_report([tmp_path / "scores.jsonl"], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_an_unfinished_run_is_read(tmp_path: Path) -> None:
    state = tmp_path / ".bio.run" / "step-00000002"
    state.mkdir(parents=True)
    (state / "state.json").write_text(json.dumps({"step": 2, "tokens_seen": 20, "metrics": [
        {"step": 2, "of": 4, "phase": "main", "loss": 3.5, "tokens_seen": 20}]}))
    (tmp_path / "other.run" / "text-text").mkdir(parents=True)
    (tmp_path / "other.run" / "text-text" / "bmtools.json").write_text("{}")
    for path in (tmp_path, tmp_path / ".bio.run"):
        study = read_study([path])
        assert [*study.runs] == ["bio (unfinished)"]
        assert study.directories[0].record["tokens_seen"] == 20


def test_a_run_that_stopped_before_its_first_report_is_listed(tmp_path: Path) -> None:
    state = tmp_path / "model.run" / "step-00000002"
    state.mkdir(parents=True)
    run = {"energy": {"run": "one", "hours": 2.0}}
    (state / "state.json").write_text(json.dumps({"step": 2, "tokens_seen": 20, "metrics": [],
                                                  **run}))
    (tmp_path / "log.jsonl").write_text('{"stopped": 2}')
    write_record(tmp_path / "log.jsonl", command="pretrain", energy={"run": "one", "hours": 3.0})
    write_report([tmp_path], tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text()
    for value, name in (("20", "tokens trained on"), ("3 h 0 min", "computing time")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in content
    assert "<dd>1 step</dd>" in content
    tables = Page(content).tables
    [row] = tables["Models, vocabularies and other directories"][1:]
    assert (row[0], row[5]) == ("model (unfinished)", 20)
    assert "Loss over tokens" not in tables


@pytest.mark.parametrize("line", [
    {"model": "a", "suite": "biobit", "scores": {"BC2GM": None, "BioRED": 0.5}},
    {"model": "a", "average_cosine": 0.5, "bands": [{
        "min_count": 5, "max_count": 9, "average_cosine": None, "own_band_neighbours": 0.5}]},
    {"model": "a", "task": "similarity", "pearson": None, "spearman": 0.5}], ids=str)
def test_an_undefined_score_is_left_out(line: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text(json.dumps(line))
    write_report([tmp_path], tmp_path / "page.html")
    assert 0.5 in Page((tmp_path / "page.html").read_text()).figures()


def test_models_with_one_name_are_distinguished(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "model").mkdir(parents=True)
        (tmp_path / name / "model" / "bmtools.json").write_text(
            json.dumps({"command": "pretrain", "inputs": {f"{name}.jsonl": "0"}}))
    scores = [
        {"model": "a/model", "pppl": 10.5, "bits_per_character": 1.5, "data": "1"},
        {"model": f"{tmp_path}/a/model", "mrr": 0.25, "maskings": 4, "data": "2"},
        {"model": "b/model", "pppl": 20.5, "bits_per_character": 2.5, "data": "1"},
        {"model": "a/model", "task": "ner", "f1": 0.5},
        {"model": "b/model", "task": "ner", "f1": 0.7},
        {"checkpoint": "a/model", "best_seed": 1, "test_f1": {"mean": 0.5}},
        {"checkpoint": "b/model", "best_seed": 1, "test_f1": {"mean": 0.7}},
        {"compared": ["a/model", "b/model"], "metric": "f1", "difference": -0.2}]
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scores))
    write_report([tmp_path], tmp_path / "page.html")
    tables = Page((tmp_path / "page.html").read_text()).tables
    head, *rows = tables["Models with their texts, settings and scores"]
    assert head == ["model", "text", "tokens trained on", "MRR", "PPPL", "bits per character"]
    assert rows == [["a/model", "a.jsonl", 0, 0.25, 10.5, 1.5],
                    ["b/model", "b.jsonl", 0, "", 20.5, 2.5]]
    for title in ("Fine-tuning, over seeds", "Predictions against gold records"):
        assert [row[0] for row in tables[title][1:]] == ["a/model", "b/model"]
    assert tables["Differences between models"][1][0] == "a/model - b/model"


def write_record(path: Path, **record: Any) -> str:
    """Write a file or directory with a record as commands do; returns the hash of its content."""
    place = path / "bmtools.json" if path.is_dir() else Path(f"{path}.bmtools.json")
    found = hash_directory(path) if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    place.write_text(json.dumps({"sha256": found, "inputs": {}, "parents": {}, **record}))
    return found


def test_texts_have_sizes_and_are_known_to_be_translated(tmp_path: Path) -> None:
    """The columns of BioBIT's table 1."""
    texts = {}
    for name, command in (("machine", "translate"), ("native", "import"), ("found", "")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": name, "text": "Ha tosse."}))
        texts[name] = hashlib.sha256((tmp_path / f"{name}.jsonl").read_bytes()).hexdigest()
        if command:
            write_record(tmp_path / f"{name}.jsonl", command=command)
    scores = [{"corpus": name, "records": 1, "megabytes": size, "words_per_record": {}}
              for name, size in (("machine", 28_000.0), ("native", 300.0))]
    for model, names in (("m", ["machine"]), ("n", ["native"]), ("mn", ["machine", "native"]),
                         ("f", ["found"])):
        (tmp_path / model).mkdir()
        write_record(tmp_path / model, command="pretrain",
                     inputs={f"{name}.jsonl": texts[name] for name in names})
        scores.append({"model": model, "mrr": 0.383, "maskings": 4, "data": "2"})
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scores))
    write_report([tmp_path], tmp_path / "page.html")
    head, *rows = Page((tmp_path / "page.html").read_text()).tables[
        "Models with their texts, settings and scores"]
    assert head[:4] == ["model", "text", "GB of the text", "translated"]
    assert [[row[0], *row[2:4]] for row in rows] == [
        ["m", 28, "yes"], ["n", 0.3, "no"], ["mn", 28.3, "partially"], ["f", "", ""]]


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """A run of two phases whose log is redirected, and a tagger with predictions and scores."""
    steps = [{"step": number, "of": 2, "phase": phase, "loss": 2.0 - number,
              "tokens_seen": 100 * number} for number, phase in ((1, "causal"), (2, "masked"))]
    run = {"command": "pretrain", "started": "2026-01-01"}
    for name, count, hours in (("model", 2, 2.0), ("model.kept/phase-1-causal", 1, 1.0),
                               ("model.kept/phase-2-masked", 2, 1.5)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "metrics.jsonl").write_text("".join(
            json.dumps(line) + "\n" for line in steps[:count]))
        model = write_record(tmp_path / name, **run, tokens_seen=100 * count,
                             energy={"run": "one", "hours": hours})
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [
        *steps, {"checkpoint": "model", "steps": 2}]))
    write_record(tmp_path / "log.jsonl", **run, energy={"run": "one", "hours": 2.5})
    (tmp_path / "tagger").mkdir()
    (tmp_path / "tagger" / "config.json").write_text("{}")
    tagger = write_record(tmp_path / "tagger", command="finetune", parents={"model": model})
    (tmp_path / "ner.jsonl").write_text(json.dumps({
        "checkpoint": "tagger", "best_seed": 1, "test_f1": {"mean": 0.5}}))
    scored = {"test.jsonl": "0" * 64}
    for name, parents in (("found", {"model": tagger}), ("others", {"model": "1" * 64}),
                          ("one", {"model": "2" * 64}), ("two", {"model": "2" * 64})):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": name, "text": "Ha tosse."}))
        scored[f"{name}.jsonl"] = write_record(
            tmp_path / f"{name}.jsonl", command="predict", parents=parents,
            settings={"model": "twin" if name in ("one", "two") else "elsewhere/rival"})
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [
        *({"model": name, "task": "ner", "f1": f1} for name, f1 in (
            ("found", 0.5), ("others", 0.25), ("one", 0.25), ("two", 0.5), ("by hand", 0.75))),
        {"compared": ["found", "by hand"], "metric": "f1", "difference": -0.25}]))
    write_record(tmp_path / "scores.jsonl", command="score-tasks", inputs=scored)
    return tmp_path


def test_a_run_with_several_outputs_is_drawn_once(tutorial: Path) -> None:
    """Its tokens are not hidden by the log, and its phases are listed after it and drawn once."""
    write_report([tutorial], tutorial / "page.html")
    content = (tutorial / "page.html").read_text()
    assert "<dt>tokens trained on</dt><dd>200</dd>" in content
    page = Page(content)
    rows = page.tables["Models, vocabularies and other directories"][1:]
    assert [row[:2] for row in rows if "pretrain" in row[1]] == [
        ["model", "pretrain"], ["phase-1-causal", "pretrain, kept of model"],
        ["phase-2-masked", "pretrain, kept of model"]]
    assert {row[0] for row in page.tables["Loss over tokens"][1:]} == {"model"}
    trees = [leaf.split()[:2] for leaf in page.leaves]
    assert trees.index(["kept:", "phase-1-causal"]) > [leaf[0] for leaf in trees].index("model:")


def test_a_kept_checkpoint_of_an_unfinished_run_is_not_a_separate_run(tmp_path: Path) -> None:
    lines = [{"step": 2, "of": 4, "phase": "main", "loss": 3.5, "tokens_seen": 20}]
    state, kept = tmp_path / "model.run" / "step-2", tmp_path / "model.kept" / "step-2"
    for folder, name, content in ((state, "state.json", {"metrics": lines}),
                                  (kept, "bmtools.json", {"command": "pretrain"})):
        folder.mkdir(parents=True)
        (folder / name).write_text(json.dumps(content))
    (kept / "metrics.jsonl").write_text(json.dumps(lines[0]))
    assert [*read_study([tmp_path]).runs] == ["model (unfinished)"]


def test_a_vocabulary_has_no_tokens_trained_on(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "bmtools.json").write_text('{"command": "build-vocab"}')
    write_report([tmp_path], tmp_path / "page.html")
    assert "0 tokens trained on" not in (tmp_path / "page.html").read_text()


def test_predictions_have_the_name_of_their_model(tutorial: Path) -> None:
    """From the records. Other names stay, and two predictions of one model keep their names."""
    write_report([tutorial], tutorial / "page.html")
    tables = Page((tutorial / "page.html").read_text()).tables
    models = ["tagger", "rival", "one", "two", "by hand"]
    for title, names in (("Fine-tuning, over seeds", ["tagger"]), ("F1 (ner, test)", models),
                         ("Predictions against gold records", models),
                         ("Differences between models", ["tagger - by hand"])):
        assert [row[0] for row in tables[title][1:]] == names


def test_scores_of_one_model_on_two_sets_are_both_drawn(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text("".join(json.dumps(
        {"model": "bio", "task": "ner", "f1": f1, "data": data}) + "\n"
        for f1, data in ((0.5, "a"), (0.75, "b"))))
    write_report([tmp_path / "scores.jsonl"], tmp_path / "page.html")
    content = (tmp_path / "page.html").read_text()
    assert content.count("<figure") == 2


def test_a_log_and_its_checkpoint_are_one_run(folder: Path, lines: dict[str, Any],
                                              tmp_path: Path) -> None:
    log = tmp_path / "small.jsonl"
    log.write_bytes((folder / "out/small/metrics.jsonl").read_bytes())
    assert [*read_study([folder / "out/small", log]).runs] == ["small"]
    assert [*read_study([folder / "out/base", log]).runs] == ["base", "small"]


def write_lines(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def sentences(path: Path, tmp_path: Path) -> str:
    """Return the words of the verdict of a page."""
    write_report([path], tmp_path / "page.html")
    [found] = re.findall(r"<section class=.verdict.*?<dl>", (tmp_path / "page.html").read_text(),
                         re.S)
    return html.unescape(" ".join(re.sub("<[^>]+>", "", found).split()))


def test_the_verdict_names_the_better_model_and_what_would_decide(tmp_path: Path) -> None:
    """Twice the standard error needs (1 + 0.84/1.96)² times the documents for a power of 80 %."""
    line = {"compared": ["a", "b"], "metric": "f1", "difference": -0.009, "p": 0.05,
            "interval": [-0.018, 0.0], "unit": "document", "units": 100, "seeds": [3, 3],
            "seeds_needed": 5}
    found = sentences(write_lines(tmp_path / "s.jsonl", line), tmp_path)
    assert found.startswith(
        "b is better than a on the test set by 0.9 points of F1 (p 0.05): not shown Based on 100 "
        "documents and 3 fine-tuning seeds of each model.")
    assert found.endswith("Estimate: if the difference stays the same, about 100 more documents or "
                          "5 seeds of each model instead of 3 would decide.")
    # The p-value is over documents, for these seeds.
    line |= {"p": 0.011, "interval": [-0.03, 0.012]}
    assert ("between -1.2 and 3.0. Unlike p, this interval also covers the choice of seeds. "
            "Estimate:") in sentences(write_lines(tmp_path / "s.jsonl", line), tmp_path)


def test_the_verdict_of_several_sets_is_of_their_mean(tmp_path: Path) -> None:
    lines = [{"compared": pair, "set": name, "metric": "f1", "difference": sign * size, "p": 0.2,
              "interval": [sign * size - 0.03, sign * size + 0.03], "unit": "record", "units": 9}
             for name, size in (("x", 0.04), ("y", 0.02))
             for pair, sign in ((["a", "b"], 1), (["a", "c"], 2), (["b", "c"], 1))]
    found = sentences(write_lines(tmp_path / "s.jsonl", *lines), tmp_path)
    # Half of the interval of the mean is 0.03 / sqrt(2), and there are three pairs of models.
    p_value = 3 * 2 * NormalDist().cdf(-1.959964 * 0.03 / (0.03 / math.sqrt(2)))
    assert found.startswith("a is better than b on average over 2 sets by 3.0 points of F1 "
                            f"(p {p_value:.2g}): shown")
    assert found.endswith("a is the best of 3 models, and shown to be better than b, c.")


def test_lower_bits_per_character_are_better_and_shown(tmp_path: Path) -> None:
    found = sentences(write_lines(tmp_path / "s.jsonl", {
        "compared": ["a", "b"], "metric": "bits_per_character", "difference": 0.5, "p": 0.001,
        "interval": [0.25, 0.75], "unit": "record", "units": 9}), tmp_path)
    assert found.startswith("b is better than a at predicting masked words by 0.5 bits per "
                            "character (p 0.001): shown Based on 9 records.")


@pytest.mark.parametrize(("lines", "expected"), [
    ([{"model": "a", "task": "ner", "f1": 0.5}, {"model": "b", "task": "ner", "f1": 0.75}],
     "b has the best score of 2 models: F1 (ner) 0.750, before a with 0.500: not tested"),
    ([{"model": name, "task": "ner", "f1": 0.5} for name in "ab"],
     "a has the best score of 2 models: F1 (ner) 0.500, equal to b with 0.500: not tested"),
    ([{"model": "a", "task": "ner", "f1": 0.5}], "a has a score: F1 (ner) 0.500 "),
    ([{"step": step, "of": 3, "loss": loss, "tokens_seen": 1000 * step, **more} for step, loss, more
      in ((1, 3.5, {"causal_accuracy": 0.5}), (2, 6.5, {}), (3, 4.5, {}))],
     "The loss of s went from 6.5 to 4.5 in 3k tokens")])
def test_the_verdict_without_a_test(lines: list[dict[str, Any]], expected: str,
                                    tmp_path: Path) -> None:
    assert sentences(write_lines(tmp_path / "s.jsonl", *lines), tmp_path).startswith(expected)


def test_a_loss_is_interrupted_where_the_objective_changes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", *(
        {"step": step, "of": 4, "phase": "a" if step < 3 else "b", "loss": 1.0 * step,
         "tokens_seen": step, **({"causal_accuracy": 0.5} if step < 3 else {})}
        for step in range(1, 5)))
    _, chart, _ = losses(read_study([path]))
    assert isinstance(chart, Chart)
    with written_figure(io.BytesIO(), "svg", 340, 200) as figure:
        drawn = chart.draw(figure.add_subplot())["log"]
    assert [*map(str, drawn.get_ydata())] == ["1.0", "2.0", "nan", "3.0", "4.0"]


def test_sets_whose_files_have_the_same_name_are_named_by_their_scores(tmp_path: Path) -> None:
    for number, name in enumerate(("diseases", "drugs")):
        found = write_lines(tmp_path / f"{name}-found.jsonl", {"id": name, "text": "Ha tosse."})
        digest = write_record(found, command="predict", settings={"model": "bio"})
        scores = write_lines(tmp_path / f"{name}.jsonl", {
            "model": f"{name}-found", "task": "ner", "f1": 0.25 + number / 4})
        write_record(scores, command="score-tasks", inputs={
            f"{name}/test.jsonl": str(number) * 64, found.name: digest})
    assert {line["set"] for line in read_study([tmp_path]).lines["tasks"]} == {"diseases", "drugs"}


def test_scores_of_several_sets_have_a_row_each(tmp_path: Path) -> None:
    """Also if only the scores are named, without predictions beside them."""
    files = [write_lines(tmp_path / f"{name}.jsonl", {
        "model": "a", "task": "ner", "f1": f1, "data": name}, {
        "model": "b", "task": "ner", "f1": f1 / 2, "data": name})
        for name, f1 in (("diseases", 0.5), ("drugs", 0.75))]
    for number, file in enumerate(files):
        write_record(file, command="score-tasks", inputs={"set/test.jsonl": str(number) * 64})
    write_report(files, tmp_path / "page.html")
    table = Page((tmp_path / "page.html").read_text()).tables["Scores of all models"]
    assert [[str(cell) for cell in row][:2] for row in table[1:]] == [
        ["F1 (ner, diseases)", "0.5"], ["F1 (ner, drugs)", "0.75"]]


def test_long_runs_are_thinned_but_not_their_borders(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(
        {"step": step, "of": 1000, "phase": "a" if step < 333 else "b", "loss": 1 / step,
         "tokens_seen": step}) + "\n" for step in range(1, 1001)))
    _, chart, _ = losses(read_study([tmp_path]))
    assert isinstance(chart, Chart)
    steps = [float(row[1] or 0) for row in chart.table.rows]
    assert len(steps) < 70 and {332, 1000} <= {*steps} and steps == sorted(steps)


def _luminance(colour: str) -> float:
    parts = [int(colour[start:start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055)**2.4
                        for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(theme: int) -> None:
    """At the level AA: 4.5 for words, 3 for what is drawn (1.4.3, 1.4.11)."""
    paper = _luminance(COLOURS["paper"][theme])
    for name, both in COLOURS.items():
        if name not in ("paper", "line", "mark", "open", "soft"):
            light, dark = sorted((paper, _luminance(both[theme])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= (
                4.5 if name in ("ink", "faint", "strong", "good", "warn") else 3), name
    for marker in ("mark", "open", "soft"):
        dark, light = sorted(_luminance(COLOURS[name][theme]) for name in ("ink", marker))
        assert (light + 0.05) / (dark + 0.05) >= 4.5
