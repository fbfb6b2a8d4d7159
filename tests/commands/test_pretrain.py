"""`bmtools pretrain` on the command line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bmtools.io.provenance.manifest import hash_directory

Run = Callable[..., Any]
FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "vocab.txt", "bmtools.json", "README.md", "metrics.jsonl", "phases.toml"}
QUICK = ("--steps", "4", "--set", "logging_steps=2", "--max-length", "16", "--batch-size", "4")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def fresh(tiny_tokenizer: Path, tmp_path: Path) -> list[Any]:
    """Arguments that start with new weights."""
    return ["pretrain", "--architecture", "bert-1x64", "--tokenizer", tiny_tokenizer, *QUICK,
            "--precision", "no", "-o", tmp_path / "out"]


@pytest.fixture
def continued(tiny_checkpoint: Path, tmp_path: Path) -> list[Any]:
    """Arguments that continue a checkpoint."""
    return ["pretrain", "--model", tiny_checkpoint, *QUICK, "-o", tmp_path / "out"]


def test_a_run_that_ends_in_its_warmup_is_reported(run: Run, fresh: list[Any],
                                                   corpus: Path) -> None:
    """Recipes have thousands of warm-up steps, so a run with few --steps never leaves warm-up."""
    outcome = run(*fresh, "--set", "warmup_steps=8", corpus)
    assert outcome.code == 0, outcome.err
    assert ("--set warmup_steps is 8, but the phase ends after 4: the learning rate rises to "
            "0.00025 and NEVER REACHES its peak of 0.0005") in outcome.err
    assert outcome.records[1]["learning_rate"] == 0.00025


@pytest.mark.parametrize(("options", "expected"), [
    ((), 1e-4), (("--learning-rate", "5e-4"), 5e-4), (("--set", "learning_rate=2e-4"), 2e-4),
    (("--recipe", "medbit"), 3e-5)])
def test_a_checkpoint_is_continued_at_a_lower_learning_rate(
        run: Run, continued: list[Any], corpus: Path, manifest: Callable[..., Any],
        options: tuple[str, ...], expected: float) -> None:
    outcome = run(*continued, corpus, *options)
    assert outcome.code == 0, outcome.err
    settings = manifest(continued[-1])["settings"]
    assert {phase["learning_rate"] for phase in settings["phases"]} == {expected}
    assert f"learning_rate = {expected}" in (continued[-1] / "phases.toml").read_text()


def test_new_weights_and_resumed_runs_keep_their_learning_rate(
        run: Run, fresh: list[Any], continued: list[Any], corpus: Path,
        manifest: Callable[..., Any]) -> None:
    run(*fresh, corpus)
    assert manifest(fresh[-1])["settings"]["phases"][0]["learning_rate"] == 5e-4
    begun = [*continued, corpus, "--overwrite", "--set", "logging_steps=1"]
    assert run(*begun, "--learning-rate", "3e-4", "--budget", "0.001s").code == 75
    outcome = run(*begun, "--resume")
    assert outcome.code == 0, outcome.err
    assert manifest(continued[-1])["settings"]["phases"][0]["learning_rate"] == 3e-4


def test_stdout_has_a_line_per_report_and_one_for_the_directory(run: Run, fresh: list[Any],
                                                                corpus: Path) -> None:
    outcome = run(*fresh, corpus)
    assert outcome.code == 0, outcome.err
    *reports, last = outcome.records
    assert [(line["step"], line["of"]) for line in reports] == [(2, 4), (4, 4)]
    assert all(line["loss"] > 0 and 0 < line["mask_rate"] < 0.5 for line in reports)
    assert last["checkpoint"] == str(fresh[-1])
    assert last["corpora"] == {"text": {"documents": 8, "tokens": 70}}
    assert last["last"] == reports[-1]
    assert last["tokens_seen"] == reports[-1]["tokens_seen"]
    written = (fresh[-1] / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == reports


def test_the_manifest_describes_how_the_directory_was_made(run: Run, continued: list[Any],
                                                           corpus: Path, tiny_checkpoint: Path,
                                                           manifest: Callable[..., Any]) -> None:
    run(*continued, corpus, "--seed", "5", "--mask-rate", "0.3", "--masking", "tokens")
    content = manifest(continued[-1])
    assert content["command"] == "pretrain"
    settings = content["settings"]
    [phase] = settings["phases"]
    for found, expected in ((phase, {"steps": 4, "max_length": 16, "batch_size": 4,
                                     "layout": "padded", "mask_rate": 0.3, "masking": "tokens"}),
                            (settings, {"seed": 5, "precision": "no", "logging_steps": 2,
                                        "mixout": 0.0, "model": tiny_checkpoint.name,
                                        "architecture": None, "tokenizer": None})):
        assert expected.items() <= found.items()
    assert content["seed"] == 5
    assert content["inputs"] == {corpus.name: hashlib.sha256(corpus.read_bytes()).hexdigest()}
    assert content["parents"] == {"model": hash_directory(tiny_checkpoint)}
    assert content["vocabulary"] == manifest(tiny_checkpoint)["vocabulary"]
    assert content["wall_seconds"] > 0
    assert {"bmtools", "torch", "transformers", "accelerate"} <= set(content["versions"])


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_transformers_loads_the_trained_model(run: Run, fresh: list[Any], corpus: Path,
                                              objective: str) -> None:
    outcome = run(*fresh, corpus, "--objective", objective)
    assert outcome.code == 0, outcome.err
    out = fresh[-1]
    assert {path.name for path in out.iterdir()} == FILES
    assert "language:\n- it\n" in (out / "README.md").read_text(encoding="utf-8")
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    words = AutoTokenizer.from_pretrained(out)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert words.tokenize("Il cuore") == ["Il", "cuore"]
    logits = model(**words("Il [MASK] pompa", return_tensors="pt")).logits
    assert logits.shape[-1] == len(words) == model.config.vocab_size
    assert torch.isfinite(logits).all()


def test_same_seed_same_bytes_and_stdin_equals_a_file(
        run: Run, piped: Run, fresh: list[Any], corpus: Path, tmp_path: Path,
        contents: Callable[..., Any], manifest: Callable[..., Any]) -> None:
    run(*fresh, corpus)
    assert piped(corpus, *fresh[:-1], tmp_path / "piped").code == 0
    assert piped(corpus, *fresh[:-1], tmp_path / "other", "--seed", "1").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "piped")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "other")]
    assert weights[0] != weights[1]
    assert set(manifest(tmp_path / "piped")["inputs"]) == {"<stdin>"}


PHASES = {
    "unknown-text": '[[phases]]\nname = "a"\nmixture = { clinical = 1.0 }\n',
    "two-layouts": '[[phases]]\nname = "a"\nlayout = "packed"\n[[phases]]\nname = "b"\n',
}


@pytest.mark.parametrize(("more", "message"), [
    (("--phases", "unknown-text"), "phase 'a': mixture: found 'clinical', expected text; name a"),
    (("--phases", "two-layouts"), "--layout: found auto and packed, expected one for all"),
    (("--memory-gib", "0.0001"), "phase 'main': a single sequence of 16 tokens needs "),
    (("--masking", "terms", "--terms", "none.txt"), "none.txt: found no terms, expected one per "),
    (("--evaluate", "empty.jsonl"), "--evaluate: no text in the input; give records with"),
    (("--retain", "empty.jsonl"), "--retain: no text in the input"),
    (("--replay", "strange", "--set", "replay_steps=2"), "strange: found vocabulary "),
    (("--corpus", "more=strange"), "strange: found vocabulary "),
    (("--corpus", "more=folder"), "folder: found a directory without shards, expected files of"),
    (("--corpus", "more=plain", "--objective", "masked+nsp"),
     "plain: the shards have no sentence boundaries, which sentence pairs need; make"),
    (("--corpus", "more=speechless.jsonl", "--objective", "masked+nsp"),
     "speechless.jsonl:2: found no language, expected the key 'lang' or --lang"),
    (("--corpus", "more=one.jsonl", "--objective", "masked+nsp"),
     "one.jsonl: found 1 document, expected 2 or more, because next-sentence "),
    (("--set", "schedule=wsd", "--set", "decay_ratio=0.5", "--set", "warmup_steps=3"),
     "phase 'main': --set warmup_steps: found 3, expected at most 2: the decay of the schedule b"),
    (("plain",), "corpus.jsonl: found records together with shards, expected only one kind;"),
])
@pytest.mark.skipif(torch.cuda.is_available(), reason="the CPU's messages are meant")
def test_wrong_settings_are_one_line_errors_before_training(
        run: Run, continued: list[Any], corpus: Path, tiny_tokenizer: Path, write_lines: Run,
        make_tokenizer: Callable[..., Path], tmp_path: Path, more: tuple[str, ...], message: str,
        monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in PHASES.items():
        (tmp_path / name).write_text(text)
    write_lines("empty.jsonl", {"id": "a", "text": " "})
    write_lines("speechless.jsonl", {"id": "a", "text": "Uno.", "lang": "it"},
                {"id": "b", "text": "Due."})
    write_lines("one.jsonl", {"id": "a", "text": "Il cuore pompa.", "lang": "it"})
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "folder").mkdir()
    for name, words in (("plain", tiny_tokenizer), ("strange", make_tokenizer("Il fegato"))):
        if any(name in word for word in more):
            assert run("tokenize", corpus, "--tokenizer", words, "-o", name, "--workers",
                       1).code == 0
    outcome = run(*continued, corpus.name, *more)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"bmtools: {message}") or message in outcome.err
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".*"))


def test_checkpoints_and_reports_of_a_run(run: Run, fresh: list[Any], corpus: Path, tmp_path: Path,
                                          manifest: Callable[..., Any]) -> None:
    outcome = run(*fresh, corpus, "--keep-steps", "2", "--evaluate", corpus,
                  "--eval-steps", "2", "--retain", corpus)
    assert outcome.code == 0, outcome.err
    assert [sorted(set(line) & {"loss", "evaluate", "retain"}) for line in outcome.records] == [
        ["loss", "retain"], ["loss"], ["evaluate"], ["loss"], ["evaluate"], ["loss", "retain"],
        ["evaluate"]]
    first, *_, last, described = outcome.records
    assert (first["step"], first["retain"], last["step"], last["retain"]) == (
        0, "before", 4, "after")
    assert described["retained"]["cost"] == pytest.approx(last["loss"] - first["loss"], abs=1e-6)
    assert described["evaluate"]["evaluate"]["loss"] == last["loss"], "the same text here"
    kept = tmp_path / "out.kept"
    assert sorted(path.name for path in kept.iterdir()) == ["step-00000002", "step-00000004"]
    assert (kept / "step-00000004/model.safetensors").read_bytes() == \
        (tmp_path / "out/model.safetensors").read_bytes()
    AutoModelForMaskedLM.from_pretrained(kept / "step-00000002")
    assert manifest(kept / "step-00000002")["results"]["last"]["step"] == 2


def test_a_spent_budget_is_reported_and_rejects_are_kept(run: Run, fresh: list[Any],
                                                         bad_corpus: Path, tmp_path: Path) -> None:
    """A resumed session does not read the text again, so it must not empty the file."""
    rejects = tmp_path / "rejects.jsonl"
    outcome = run(*fresh, bad_corpus, "--rejects", rejects, "--budget", "0.01s")
    assert outcome.code == 75
    assert outcome.err.startswith("bmtools: stopped before the end; use --resume to continue\n")
    last = outcome.records[-1]
    assert last == {"stopped": 2, "of": 4, "state": str(tmp_path / "out.run"),
                    "wall_seconds": last["wall_seconds"]}
    assert not fresh[-1].exists()
    assert json.loads(rejects.read_text())["record"] == {"id": "c"}
    assert run(*fresh, bad_corpus, "--rejects", rejects, "--resume", "--budget", "1h").code == 0
    assert json.loads(rejects.read_text())["record"] == {"id": "c"}


def test_a_diverging_loss_names_the_last_good_state(run: Run, fresh: list[Any], corpus: Path,
                                                    tmp_path: Path) -> None:
    """Two phases: a stable one, whose state must be kept, and one that diverges."""
    path = tmp_path / "phases.toml"
    path.write_text("""
[common]
max_length = 16
batch_size = 4
warmup_ratio = 0.0
[[phases]]
name = "calm"
steps = 4
[[phases]]
name = "wild"
steps = 40
learning_rate = 1e38
""")
    given = ["pretrain", *fresh[1:5], "-o", fresh[-1], "--phases", path, corpus, "--save-steps",
             "2", "--precision", "no"]
    outcome = run(*given)
    state = tmp_path / "out.run" / "step-00000004"
    assert outcome.code == 1
    assert outcome.err.startswith("bmtools: step 6: the loss is nan; lower --learning-rate")
    assert outcome.err.endswith(f"; the last good state is {state}\n")
    assert not fresh[-1].exists()
    found = load_file(state / "model.safetensors")
    assert all(torch.isfinite(weight).all() for weight in found.values())
    kept = load_file(tmp_path / "out.kept/phase-1-calm/model.safetensors")
    assert all(torch.equal(weight, kept[name]) for name, weight in found.items())
    assert run(*given, "--resume").err == outcome.err


def test_resumed_equals_uninterrupted(run: Run, interrupted: Run, fresh: list[Any], corpus: Path,
                                      tmp_path: Path, contents: Callable[..., Any]) -> None:
    fresh.insert(1, "--save-steps")
    fresh.insert(2, "3")
    more = ("--steps", "5", "--set", "dropout=0.1", corpus)
    run(*fresh[:-1], tmp_path / "whole", *more)
    outcome = interrupted(run, *fresh, *more)
    assert (outcome.code, outcome.err) == (130, f"bmtools: interrupted: the state saved at step "
                                           f"3 is in {tmp_path / 'out'}.run; use --resume to "
                                           "continue\n")
    assert not (tmp_path / "out").exists()
    again = run(*fresh, *more)
    assert again.code == 1
    assert again.err == (f"bmtools: {tmp_path / 'out.run'} contains an unfinished run; use "
                         "--resume to continue it, or --overwrite to start again\n")
    resumed = run(*fresh, *more, "--resume")
    assert [line.get("step") for line in resumed.records] == [4, 5, None]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not (tmp_path / "out.run").exists()


def test_a_finished_run_is_unchanged(run: Run, fresh: list[Any], corpus: Path) -> None:
    run(*fresh, corpus)
    before = {path: path.stat().st_mtime_ns for path in fresh[-1].iterdir()}
    outcome = run(*fresh, corpus, "--resume")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == (f"bmtools: {fresh[-1]} is already finished, so the settings "
                           "of this command are not compared; to replace it, use "
                           "--overwrite instead of --resume\n")
    assert {path: path.stat().st_mtime_ns for path in fresh[-1].iterdir()} == before


def test_a_run_that_replaces_a_finished_run_can_be_resumed(run: Run, interrupted: Run,
                                                           fresh: list[Any], corpus: Path,
                                                           tmp_path: Path,
                                                           contents: Callable[..., Any]) -> None:
    more = ("--save-steps", "2", "--mask-rate", "0.3", corpus)
    run(*fresh[:-1], tmp_path / "whole", *more)
    run(*fresh, corpus)
    old = contents(fresh[-1])
    assert interrupted(run, *fresh, *more, "--overwrite").code == 130
    outcome = run(*fresh, *more, "--resume")
    assert (outcome.code, outcome.err) == (
        1, f"bmtools: {fresh[-1]} is not empty; give another name, or --overwrite to replace it\n")
    assert contents(fresh[-1]) == old
    resumed = run(*fresh, *more, "--overwrite", "--resume")
    assert [line.get("step") for line in resumed.records] == [4, None]
    assert contents(fresh[-1]) == contents(tmp_path / "whole")


@pytest.fixture
def scored(tmp_path: Path) -> list[Any]:
    """Options that score maskings and sentences every other step."""
    texts = [f"{subject} pompa il sangue." for subject in ("Il cuore", "Il fegato", "La milza")]
    (tmp_path / "maskings.jsonl").write_text("".join(json.dumps({
        "id": str(number), "text": text.replace("sangue", "[MASK]"), "target": "sangue",
        "domain": "ematologia"}) + "\n" for number, text in enumerate(texts)))
    (tmp_path / "sentences.jsonl").write_text("".join(
        json.dumps({"id": str(number), "text": text}) + "\n" for number, text in enumerate(texts)))
    return ["--eval-steps", "2", "--score", f"mrr={tmp_path / 'maskings.jsonl'}",
            "--score", f"pppl={tmp_path / 'sentences.jsonl'}"]


def test_scores_during_a_run_equal_scores_of_kept_checkpoints(run: Run, fresh: list[Any],
                                                              scored: list[Any], corpus: Path,
                                                              tmp_path: Path) -> None:
    outcome = run(*fresh, corpus, *scored, "--keep-steps", "2")
    assert outcome.code == 0, outcome.err
    lines = [line for line in outcome.records if "signature" in line]
    assert [(line["step"], "mrr" in line) for line in lines] == [
        (step, measure) for step in (0, 2, 4) for measure in (True, False)]
    for line in lines[2:]:
        name, file = ("mrr", "maskings") if "mrr" in line else ("pppl", "sentences")
        [expected] = run(f"score-{name}", tmp_path / f"{file}.jsonl", "--model",
                         tmp_path / f"out.kept/step-0000000{line['step']}").records
        own = {"step", "tokens_seen", "seconds"}
        assert {key: value for key, value in line.items() if key not in own} == {
            key: value for key, value in expected.items() if key not in ("model", "by")}
    assert re.search(r"scoring took [\d.]+ m?s; 2 times more will take [\d.]+ m?s\n", outcome.err)
    logged = map(json.loads, (tmp_path / "out/metrics.jsonl").read_text().splitlines())
    assert [line for line in logged if "signature" in line] == lines
    assert run(*fresh[:-1], tmp_path / "plain", corpus).code == 0
    assert (tmp_path / "plain/model.safetensors").read_bytes() == (
        tmp_path / "out/model.safetensors").read_bytes(), "scoring changes no weight"


@pytest.mark.parametrize(("text", "place"), [("Il cuore.", "a.jsonl:1"), ("x [MASK]", "target")])
def test_files_that_cannot_be_scored_are_an_early_error(run: Run, fresh: list[Any], corpus: Path,
                                                        tmp_path: Path, text: str,
                                                        place: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "1", "text": text}) + "\n")
    outcome = run(*fresh, corpus, "--score", f"mrr={tmp_path / 'a.jsonl'}")
    assert outcome.code == 1 and place in outcome.err and outcome.records == []
    assert not list(tmp_path.glob("out*"))
    wrong = run(*fresh, corpus, "--score", f"f1={tmp_path / 'a.jsonl'}")
    assert wrong.code == 2 and "expected pppl=FILE or mrr=FILE" in wrong.err
