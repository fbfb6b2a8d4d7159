"""`bmtools study`: expansion, repeated work, parts, failures, and the package's studies."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from bmtools.study.studies.plan import load_study, study_names

Run = Callable[..., Any]
STUDY = """
title = "Toy"
[values]
notes = "notes.txt"
records = 2
more = ""
[axes]
seed = [0, 1]
[axes.set]
a = {{ text = "{{notes}}", take = "--records {{records}}" }}
"b c" = {{ text = "other.txt" }}
[[steps]]
name = "import"
each = ["set"]
run = "bmtools import text {{set.text}} --lang it {{*more}} -o {{output}}"
output = "{{set}}/all.jsonl"
[[steps]]
name = "sample"
each = ["set", "seed"]
when = "set.take"
run = "bmtools sample {{import}} {{*set.take}} --seed {{seed}} -o {{output}}"
output = "{{set}}/{{seed}}.jsonl"
{steps}
[[steps]]
name = "describe"
gather = ["set", "seed"]
run = "bmtools describe {{sample}} {{import[b c]}} --json"
output = "d.jsonl"
"""
LINES = """\
bmtools import text notes.txt --lang it -o out/a/all.jsonl --resume  # to do
bmtools import text other.txt --lang it -o 'out/b c/all.jsonl' --resume  # to do
bmtools sample out/a/all.jsonl --records 2 --seed 0 -o out/a/0.jsonl  # to do
bmtools sample out/a/all.jsonl --records 2 --seed 1 -o out/a/1.jsonl  # to do
bmtools describe out/a/0.jsonl out/a/1.jsonl 'out/b c/all.jsonl' --json > out/d.jsonl  # to do
"""
STEP = '[[steps]]\nname = "{}"\nrun = "{}"\noutput = "{}"\n'


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that writes the study with additional steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "notes.txt").write_text("Il cuore.\nLa febbre.\nUn dolore.\n")
    (tmp_path / "other.txt").write_text("Il sangue.\n")

    def write(steps: str = "") -> Path:
        (tmp_path / "study.toml").write_text(STUDY.format(steps=steps))
        return tmp_path / "study.toml"

    return write


@pytest.fixture
def ran(run: Run, study: Callable[[str], Path]) -> Callable[..., list[str]]:
    """Run the study and return the outputs of the jobs that ran."""
    study("")

    def call(*arguments: object) -> list[str]:
        outcome = run("study", "study.toml", "-o", "out", *arguments)
        assert outcome.code == 0, outcome.err
        return [line["output"].removeprefix("out/") for line in outcome.records]

    return call


ALL = ["a/all.jsonl", "b c/all.jsonl", "a/0.jsonl", "a/1.jsonl", "d.jsonl"]


def test_list_prints_lines_that_a_shell_runs(run: Run, study: Any, warm_bmtools: Path) -> None:
    outcome = run("study", study(), "-o", "out", "--list")
    assert outcome.code == 0, outcome.err
    listed = outcome.out
    assert listed == LINES
    assert not Path("out").exists()
    subprocess.run(["bash", "-euc", "mkdir out\n" + listed], check=True, capture_output=True,
                   env={**os.environ, "PATH": f"{warm_bmtools}:{os.environ['PATH']}"})
    assert Path("out/d.jsonl").stat().st_size


def test_finished_work_is_not_repeated(ran: Callable[..., list[str]], run: Run) -> None:
    assert ran("--workers", "2")[-1:] == ALL[-1:]
    first = {name: Path("out", name).read_bytes() for name in ALL}
    assert ran() == []
    listed = run("study", "study.toml", "-o", "out", "--list").out.splitlines()
    assert [line.endswith("# done") for line in listed] == [True] * 5
    os.utime("notes.txt")                                   # same content
    assert ran() == []
    assert ran("--define", "records=1") == ALL[2:]          # a changed option
    assert ran() == ALL[2:]
    assert {name: Path("out", name).read_bytes() for name in ALL} == first
    Path("out/a/0.jsonl").unlink()
    assert ran() == ["a/0.jsonl"]                           # the input of its readers is unchanged
    Path("notes.txt").write_text("Il cuore.\nLa febbre.\nUn dolore.\nUna tosse.\n")
    assert ran()[0] == "a/all.jsonl"                        # a changed input
    assert ran("--define", "more=--source toy", "sample") == ["a/all.jsonl", "a/0.jsonl",
                                                              "a/1.jsonl"]


def test_a_changed_output_runs_its_readers_again(ran: Callable[..., list[str]]) -> None:
    ran()
    Path("out/a/0.jsonl").write_text('{"id": "z", "text": "Altro.", "lang": "it"}\n')
    assert ran() == ["d.jsonl"]
    assert '"Altro.' in Path("out/a/0.jsonl").read_text()


def test_a_study_may_be_moved(ran: Callable[..., list[str]], run: Run) -> None:
    ran()
    Path("out").rename("moved")
    assert run("study", "study.toml", "-o", "moved").out == ""


def test_axes_and_steps_are_chosen(ran: Callable[..., list[str]]) -> None:
    assert ran("--define", "seed=7", "sample") == ["a/all.jsonl", "a/7.jsonl"]
    assert ran("import", "--define", "set=b c") == ["b c/all.jsonl"]


def test_an_axis_contains_the_matching_paths(run: Run, study: Any) -> None:
    text = study(STEP.format("x", "bmtools table {file.path}", "{file}.txt")).read_text()
    text = text.replace('name = "x"', 'name = "x"\neach = ["file"]').replace(
        "seed = [0, 1]", 'seed = [0, 1]\nfile = "{folder}/*.jsonl"').replace(
        'more = ""', 'more = ""\nfolder = "runs/a"')
    Path("study.toml").write_text(text)
    for path in ("runs/a/2.jsonl", "runs/a/1.jsonl", "runs/b/1.jsonl"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()

    def listed(*more: str) -> list[str]:
        outcome = run("study", "study.toml", "-o", "out", "x", "--list", *more)
        assert outcome.code == 0, outcome.err
        return [line.removesuffix("  # to do") for line in outcome.out.splitlines()]

    assert listed() == [f"bmtools table runs/a/{number}.jsonl > out/a/{number}.jsonl.txt"
                        for number in (1, 2)]
    assert listed("--define", "file=runs/?/1.jsonl,runs/a/2*") == [
        f"bmtools table runs/{path} > out/{path}.txt"
        for path in ("a/1.jsonl", "a/2.jsonl", "b/1.jsonl")]
    outcome = run("study", "study.toml", "--define", "folder=absent")
    assert outcome.code == 1 and "axis 'file': found no path that matches 'absent/*.jsonl'" \
        in outcome.err


@pytest.mark.slow
def test_curves_of_kept_checkpoints_are_one_step(run: Run, tiny_tokenizer: Path, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    texts = [f"{word} pompa il sangue." for word in ("Il cuore", "Il fegato", "La milza")]
    for name, more in (
            ("notes", {}), ("train", {"entities": [{"start": 0, "end": 2, "type": "X"}]}),
            ("curated", {"target": "sangue"})):
        Path(f"{name}.jsonl").write_text("".join(json.dumps({
            "id": str(number), "text": text.replace("sangue", "[MASK]") if "target" in more
            else text, **more}) + "\n" for number, text in enumerate(texts)))
    trained = run("pretrain", "notes.jsonl", "--architecture", "bert-1x64", "--tokenizer",
                  tiny_tokenizer, "--steps", 4, "--keep-steps", 2, "--max-length", 16,
                  "--batch-size", 2, "--precision", "no", "-o", "model")
    assert trained.code == 0, trained.err
    given = [word for one in ("dev=train.jsonl", "test=train.jsonl", "seed=0,1",
                              "tuning=--epochs 1 --batch-size 2 --precision no")
             for word in ("--define", one)]
    outcome = run("study", "checkpoints", *given, "--workers", 2)
    assert outcome.code == 0, outcome.err
    page = Path("checkpoints/report.html").read_text()
    for score in ("F1 (train)", "Mean reciprocal rank", "Pseudo-perplexity"):
        assert f"{score} over training" in page
    assert not list(Path("checkpoints/tuned").glob("*/*"))
    assert run("study", "checkpoints", *given).out == ""


def test_unkept_outputs_are_removed_once_they_are_read(run: Run, study: Any) -> None:
    study(STEP.format("mix", "bmtools sample {sample[a,0]} --records 1 -o {output}", "one.jsonl"))
    text = Path("study.toml").read_text().replace(
        'output = "{set}/{seed}.jsonl"', 'output = "{set}/{seed}.jsonl"\nkeep = false')
    Path("study.toml").write_text(text)
    assert run("study", "study.toml", "-o", "out").code == 0
    assert not Path("out/a/0.jsonl").exists() and Path("out/one.jsonl").exists()
    assert run("study", "study.toml", "-o", "out").out == ""
    text = text.replace("--records 1 -o", "--records 2 -o")
    Path("study.toml").write_text(text)
    again = run("study", "study.toml", "-o", "out").records
    assert [line["step"] for line in again] == ["sample", "mix"]


def test_parts_share_the_jobs_of_each_step(run: Run, ran: Callable[..., list[str]]) -> None:
    outcome = run("study", "study.toml", "-o", "out", "--part", "2/2")
    assert (outcome.code, [line["output"] for line in outcome.records]) == (
        1, ["out/b c/all.jsonl"])
    assert ("outputs of other parts are missing for 1 job, such as out/a/all.jsonl; run the same "
            "command again once they exist") in outcome.err
    outcome = run("study", "study.toml", "-o", "out", "--part", "1/2")
    assert outcome.code == 1
    assert ran("--part", "2/2") == ["a/1.jsonl"]
    assert ran("--part", "1/2") == ["d.jsonl"]
    assert ran() == []


def test_a_failure_ends_the_study_after_running_jobs(run: Run, study: Any) -> None:
    study(STEP.format("bad", "bmtools score-tasks notes.txt notes.txt -o {output}", "bad.jsonl")
          + STEP.format("after", "bmtools table {bad}", "table.txt"))
    outcome = run("study", "study.toml", "-o", "out", "--workers", "2")
    assert outcome.code == 1
    assert re.fullmatch(
        r"bmtools: bmtools score-tasks notes.txt notes.txt -o out/bad.jsonl: exited with 1: "
        r"bmtools: notes.txt:1: .+ \(out/.study/bad.jsonl.log\)\n", outcome.err), outcome.err
    assert not Path("out/table.txt").exists()
    done = [line["output"] for line in outcome.records]
    assert all(Path(output).exists() for output in done) and "out/a/all.jsonl" in done
    outcome = run("study", "study.toml", "-o", "out", "describe")
    assert outcome.code == 0 and not {*done} & {line["output"] for line in outcome.records}


def test_output_of_other_programs_is_not_replaced(run: Run, study: Any) -> None:
    study()
    Path("out/a").mkdir(parents=True)
    Path("out/a/0.jsonl").write_text("mine")
    outcome = run("study", "study.toml", "-o", "out")
    assert outcome.code == 1
    assert "out/a/0.jsonl exists, and this study has not written it" in outcome.err
    assert Path("out/a/0.jsonl").read_text() == "mine"


@pytest.mark.parametrize(("step", "fault"), [
    (("x", "bmtools table {sampel}", "x"), "placeholder: found 'sampel', did you mean 'sample'?"),
    (("x", "bmtools tabel {import[a]}", "x"), "found no command 'tabel' of bmtools, did you mean"),
    (("x", "bmtools table {import[d]}", "x"), "axis 'set': found 'd', expected one of a, b c"),
    (("x", "bmtools table {import}", "x"), "step 'import' has an output for each set"),
    (("x", "bmtools table {set.take}", "x"), "{set.take}: expected 'set' in 'each'"),
    (("x", "bmtools table {sample[b c,0]}", "x"), "step 'sample' leaves out b c, 0"),
    (("x", "bmtools table 'a", "x"), "No closing quotation"),
    (("x", "bmtools table --kye a", "x"), "bmtools table: No such option"),
    (("x", "bmtools sample {import[a]} --seed two", "x"), "'two' is not a valid integer"),
    (("x", "bmtools table {env.BMTOOLS_NO}", "x"), "found no such variable in the environment"),
    (("x", "rm {import[a]}", "x"), "run: found 'rm', expected a command line of bmtools"),
    (("x", "bmtools table notes.txt", "../x"), "output: found '../x', expected a path"),
    (("x", "bmtools table notes.txt", "a/0.jsonl"), "steps 'x' and 'sample' both write out/a/0"),
    (("x", "bmtools table notes.txt", "a/0.jsonl/x"), "steps 'x' and 'sample' both write out/a/0"),
    (("seed", "bmtools table notes.txt", "x"), "expected a name of letters, digits and hyphens"),
    (("x", "bmtools table {*import}", "x"), "found {*import}, expected a value or a variable"),
    (("x", "bmtools predict notes.txt", "x"), "bmtools predict: Missing option '--model'"),
])
def test_a_wrong_plan_is_an_error_before_anything_runs(
        run: Run, study: Any, step: tuple[str, str, str], fault: str) -> None:
    outcome = run("study", study(STEP.format(*step)), "-o", "out")
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.err.startswith("bmtools: study.toml: step") and fault in outcome.err, outcome.err
    assert outcome.err.count("\n") == 1 and not Path("out").exists()


def test_all_missing_files_are_named(run: Run, study: Any) -> None:
    study(STEP.format("x", "bmtools table absent.jsonl no.jsonl", "x"))
    Path("other.txt").unlink()
    outcome = run("study", "study.toml", "--list")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        "bmtools: study.toml: found no other.txt (step 'import', set 'b c'), absent.jsonl (step "
        "'x'), no.jsonl (step 'x'), expected files or outputs of earlier steps; name others with "
        "--define NAME=VALUE, or leave entries out with --define AXIS=ENTRY,...\n")
    study(STEP.format("x", f"bmtools table {' '.join('abcdefgh')}", "x"))
    assert "d (step 'x') and 4 more, expected" in run("study", "study.toml", "--list").err


def test_show_prints_the_file_of_a_study(run: Run) -> None:
    outcome = run("study", "blurb", "--show")
    assert (outcome.code, outcome.out) == (0, load_study("blurb")[1].read_text())


@pytest.mark.parametrize(("arguments", "fault"), [
    (("study.toml", "--define", "sed=1"), "--define: found 'sed', did you mean 'seed'?"),
    (("study.toml", "--define", "seed"), "found 'seed', expected NAME=VALUE"),
    (("study.toml", "--define", "set=d"), "axis 'set': found 'd', expected one of a, b c"),
    (("study.toml", "smaple"), "step: found 'smaple', did you mean 'sample'?"),
    (("blub",), "blub: found no such file or study, did you mean 'blurb'?"),
    (("notes.txt",), "notes.txt: "),
])
def test_wrong_arguments(run: Run, study: Any, arguments: tuple[str, ...], fault: str) -> None:
    study()
    outcome = run("study", *arguments)
    assert outcome.code in (1, 2) and fault in outcome.err, outcome.err


def test_a_misspelled_key_is_an_error(run: Run, study: Any) -> None:
    text = study().read_text().replace("gather =", "gathr =")
    Path("study.toml").write_text(text)
    assert "gathr" in run("study", "study.toml").err


@pytest.mark.usefixtures("no_matplotlib")
def test_a_page_without_matplotlib_is_an_error_before_other_steps_run(run: Run, study: Any) -> None:
    study(STEP.format("page", "bmtools report {import[a]} -o {output}", "page.html"))
    outcome = run("study", "study.toml", "-o", "out")
    assert outcome.code == 1 and "charts need the package matplotlib" in outcome.err
    assert not Path("out").exists()
    assert run("study", "study.toml", "-o", "out", "import").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
def test_a_killed_run_is_resumed(run: Run, study: Any, tiny_tokenizer: Path, signal: str) -> None:
    import signal as signals

    train = (f"bmtools pretrain {{import[a]}} --architecture bert-1x64 --tokenizer {tiny_tokenizer}"
             " --steps 60 --max-length 16 --batch-size 4 --precision no --save-steps 2 -o {output}")
    study(STEP.format("pretrain", train, "model"))
    process = subprocess.Popen([sys.executable, "-m", "bmtools", "study", "study.toml", "-o", "out",
                                "pretrain"], stderr=subprocess.PIPE)
    while not list(Path("out").glob("model.run/step-*")) and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signals.Signals[signal])
    _, said = process.communicate()
    if signal == "SIGTERM":
        assert process.returncode == 75, said
    deadline = time.monotonic() + 60
    while list(Path("out").glob(".model.lock")) and time.monotonic() < deadline:
        time.sleep(0.1)  # until the command without its study has saved its state
    assert not Path("out/model").exists()
    assert "--resume  # to do" in run("study", "study.toml", "-o", "out", "--list").out
    assert run("study", "study.toml", "-o", "out").code == 0
    assert run("study", "study.toml", "-o", "whole", "pretrain").code == 0
    resumed, whole = (load_file(Path(folder, "model/model.safetensors"))
                      for folder in ("out", "whole"))
    assert all((resumed[name] == whole[name]).all() for name in whole)


SHARED = """
[values]
tuning = "--train notes.jsonl --dev notes.jsonl --seeds 1 --epochs 1 --max-length 16"
[axes]
model = ["one", "two"]
[[steps]]
name = "grid"
run = """ + '''"""bmtools finetune classification --model one {*tuning}
    --grid "learning_rate=2e-3,1e-9 head_size=32 loss=dice" --head mlp -o {output}"""''' + """
output = "grid"
[[steps]]
name = "finetune"
each = ["model"]
run = '''bmtools finetune classification --model {model} {*tuning} --head mlp
    --config {grid}/grid.toml -o {output}'''
output = "tuned/{model}"
"""


def test_models_share_the_settings_chosen_by_a_grid(run: Run, tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch,
                                                    tiny_checkpoint: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(SHARED)
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(
        {"id": str(number), "text": "il cuore" if number % 2 else "due febbri",
         "label": str(number % 2)}) + "\n" for number in range(8)))
    for name in ("one", "two"):
        shutil.copytree(tiny_checkpoint, tmp_path / name)
    outcome = run("study", "study.toml", "-o", "out")
    assert outcome.code == 0, outcome.err
    summary = json.loads(Path("out/grid/bmtools.json").read_text())["results"]["grid"]
    assert summary["head_size"] == 32 and summary["loss"] == "dice"
    assert tomllib.loads(Path("out/grid/grid.toml").read_text()) == summary
    for name in ("one", "two"):
        settings = json.loads(Path(f"out/tuned/{name}/bmtools.json").read_text())["settings"]
        assert {key: settings[key] for key in summary} == summary
    assert run("study", "study.toml", "-o", "out").out == ""


@pytest.mark.parametrize("name", sorted({*study_names()} - {"checkpoints"}))
def test_studies_of_the_package_are_valid_plans(run: Run, tmp_path: Path, name: str) -> None:
    """All sets, including sets that are not available here."""
    text = load_study(name)[1].read_text()
    for path in re.findall(r"{data}/([^\" ]+(?: for DDI Extraction task)?)", text):
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).touch()
    outcome = run("study", name, "--define", f"data={tmp_path / 'data'}", "--list")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    sets, models, seeds = (len(load_study(name)[0].axes[axis]) for axis in ("set", "model", "seed"))
    assert sum(" --seed-list " in line and f"{name}/tuned/" in line
               for line in lines) == sets * models * seeds
    assert any("--format latex > " in line for line in lines)


TOY = {
    "blurb": ("set=BIOSSES,ChemProt,BC5-disease", "model=biomedical,random",
              "encoding=dummy-cls,marked-starts", "tagging=bio,crf",
              "pretraining=--steps 2 --batch-size 4 --max-length 32"),
    "biolm-18": ("set=NCBI-disease,GAD", "model=PM-tenth,random", "architecture=roberta-1x64",
                 "pretraining=--steps 2 --batch-size 4 --max-length 32"),
    "biobit": ("set=NCBI-disease,BioRED,E3C", "model=base,BioBIT-L,MedBIT-R12+",
               "configuration=MedBIT-R12+", "pretraining=--steps 2 --batch-size 4 --max-length 32",
               "steps=--steps 2 --batch-size 2 --max-length 32"),
}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", TOY)
def test_studies_of_the_package_run(run: Run, data: Path, tmp_path: Path, name: str,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA", str(data))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    defined = [word for one in (
        "architecture=bert-1x64", "seed=0,1", "records=30", "dev_records=10", "size=500",
        "tuning=--batch-size 16 --max-length 32 --precision no", *TOY[name])
        for word in ("--define", one)]
    outcome = run("study", name, *defined, "--workers", "2")
    assert outcome.code == 0, outcome.err
    lines = [json.loads(line) for line in Path(name, "suite.jsonl").read_text().splitlines()]
    models = TOY[name][1].removeprefix("model=").split(",")
    own = [line for line in lines if line.get("model") in models and "table" not in line]
    assert {line["model"] for line in own} == {*models}
    tests = "".join(path.read_text() for path in Path(name).glob("scores/*.jsonl"))
    assert '"p_holm"' in tests and '"p_over_seeds_holm"' in tests
    if name != "biobit":  # metrics of BioBIT's paper are not compared
        assert any("p_holm" in line for line in lines)
        assert "p over seeds holm" in Path(name, "table.tex").read_text()
    assert "\\begin{tabular}" in Path(name, "table.tex").read_text()
    assert Path(name, "table.md").read_text().count("|") > 20
    assert "<svg" in Path(name, "report.html").read_text()
    assert run("study", name, *defined).out == ""
