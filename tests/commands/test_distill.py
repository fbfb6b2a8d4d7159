"""`bmtools distill` as people call it."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from bmtools.io.provenance.manifest import hash_directory
from bmtools.recipes.distillation import DistillationConfig
from bmtools.recipes.phases import (
    Phase,
    RunConfig,
    resolved,
)
from bmtools.recipes.settings import (
    AdversarialConfig,
    BatchConfig,
    LearningRateConfig,
    OptimizationConfig,
    PhaseLengthConfig,
    RegularizationConfig,
    ReplayConfig,
    ReportingConfig,
)
from bmtools.recipes.toml import load_recipe
from bmtools.training.distillation.cached_teacher import DATABASE
from bmtools.training.distillation.teacher import Teacher

Run = Callable[..., Any]
FILES = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
         "vocab.txt", "bmtools.json", "README.md", "metrics.jsonl", "phases.toml"}
QUICK = ("--steps", "4", "--logging-steps", "2", "--max-length", "16", "--batch-size", "4")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="session")
def student(make_checkpoint: Callable[..., Path], tiny_tokenizer: Path) -> Path:
    """Weights that know the corpus' vocabulary, other than the teacher's."""
    return make_checkpoint(tiny_tokenizer, seed=1)


@pytest.fixture(scope="session")
def stranger(make_checkpoint: Callable[..., Path], make_tokenizer: Callable[..., Path]) -> Path:
    """A checkpoint with another vocabulary."""
    return make_checkpoint(make_tokenizer("Il fegato filtra il sangue"))


@pytest.fixture(scope="session")
def uncased(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another vocabulary, which lower-cases text."""
    from bmtools.vocab.settings import VocabularyConfig
    from bmtools.vocab.tokenizer import save_tokenizer
    from bmtools.vocab.trainers import train_tokenizer

    directory = tmp_path_factory.mktemp("tokenizer") / "uncased"
    save_tokenizer(train_tokenizer(["Il paziente ha il diabete e l'asma"] * 2, VocabularyConfig(
        size=100, uncased=True, allow_fewer=True)), directory)
    return directory


@pytest.fixture
def taught(tiny_checkpoint: Path, student: Path, tmp_path: Path) -> list[Any]:
    """Arguments that teach a checkpoint."""
    return ["distill", "--teacher", tiny_checkpoint, "--student", student, *QUICK,
            "-o", tmp_path / "out"]


@pytest.fixture
def fresh(tiny_checkpoint: Path, tmp_path: Path) -> list[Any]:
    """Arguments that teach new weights of another width."""
    return ["distill", "--teacher", tiny_checkpoint, "--architecture", "bert-1x128", *QUICK,
            "-o", tmp_path / "out"]


def test_stdout_holds_each_term_and_their_weighted_sum(run: Run, taught: list[Any],
                                                       corpus: Path) -> None:
    outcome = run(*taught, corpus, "--mlm-weight", "1", "--kl-weight", "3",
                  "--cosine-weight", "0.5")
    assert outcome.code == 0, outcome.err
    *reports, last = outcome.records
    assert [(line["step"], line["of"]) for line in reports] == [(2, 4), (4, 4)]
    for line in reports:
        assert line["loss"] == pytest.approx(
            line["mlm"] + 3 * line["kl"] + 0.5 * line["cosine"], abs=1e-4)
        assert line["kl"] > 0 and 0 < line["cosine"] < 2
    assert (last["checkpoint"], last["last"]) == (str(taught[-1]), reports[-1])
    written = (taught[-1] / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == reports


def test_a_student_that_is_its_teacher_has_only_words_to_learn(
        run: Run, taught: list[Any], corpus: Path, tiny_checkpoint: Path) -> None:
    outcome = run(*taught, "--student", tiny_checkpoint, "--steps", "1", corpus)
    assert outcome.records[0]["kl"] == pytest.approx(0, abs=1e-5)
    assert outcome.records[0]["cosine"] == pytest.approx(0, abs=1e-5)


def test_the_directory_says_how_it_was_made(
        run: Run, taught: list[Any], corpus: Path, tiny_checkpoint: Path, student: Path,
        manifest: Callable[..., Any]) -> None:
    run(*taught, corpus, "--seed", "5", "--temperature", "3")
    content = manifest(taught[-1])
    assert content["command"] == "distill"
    batch = BatchConfig(max_length=16, batch_size=4, layout="padded")
    phase = Phase("main", PhaseLengthConfig(steps=4), batch,
                  learning_rate=LearningRateConfig(warmup_ratio=0.05))
    assert content["settings"] == {
        "phases": resolved(RunConfig((phase,)))["phases"],
        **asdict(OptimizationConfig(seed=5, mixed_precision="no")),
        "positions": "sinusoid",
        **asdict(ReportingConfig(logging_steps=2)), **asdict(RegularizationConfig()),
        **asdict(ReplayConfig()), **asdict(AdversarialConfig()),
        **asdict(DistillationConfig(temperature=3)), "teacher": tiny_checkpoint.name,
        "student": student.name, "architecture": None, "tokenizer": None, "take_layers": "",
        "terms": None}
    assert content["seed"] == 5
    assert content["inputs"] == {corpus.name: hashlib.sha256(corpus.read_bytes()).hexdigest()}
    assert content["parents"] == {"teacher": hash_directory(tiny_checkpoint),
                                  "student": hash_directory(student)}
    assert content["vocabulary"] == manifest(tiny_checkpoint)["vocabulary"]
    text = content["results"]["corpora"]["text"]
    assert content["tokens_seen"] == 2 * (text["tokens"] + 2 * text["documents"])
    assert content["wall_seconds"] > 0
    assert {"bmtools", "torch", "transformers", "accelerate"} <= set(content["versions"])


@pytest.mark.parametrize(("recipe", "terms"), [
    ("distilbert", {"mlm", "kl", "cosine"}), ("minilm-v2", set()),
    ("biolm-distill", {"mlm", "kl"}), ("biolm-distill-align", {"mlm", "kl", "cosine"})])
def test_recipes_give_the_losses_and_options_override_them(
        run: Run, taught: list[Any], corpus: Path, recipe: str, terms: set[str]) -> None:
    outcome = run(*taught, "--recipe", recipe, corpus, "--steps", "1", "--relation-heads", "4",
                  "--temperature", "3", "--mixed-precision", "no")
    assert outcome.code == 0, outcome.err
    line = outcome.records[0]
    assert {*line} & {"mlm", "kl", "cosine", "relations", "hidden"} == terms
    written = tomllib.loads((taught[-1] / "phases.toml").read_text())["distillation"]
    assert DistillationConfig(**written) == replace(
        DistillationConfig(**load_recipe(recipe).distillation), temperature=3, relation_heads=4)


def test_a_phases_file_gives_losses_and_its_mistakes_are_located(
        run: Run, taught: list[Any], corpus: Path, tmp_path: Path) -> None:
    phases = tmp_path / "phases.toml"
    phases.write_text("[distillation]\nlogit_mse_weight = 1\nlayer_map = 'frist'\n"
                      "[[phases]]\nname = 'one'\n")
    outcome = run(*taught, "--phases", phases, corpus)
    assert (outcome.code, outcome.err.splitlines()[-1]) == (
        1, f"bmtools: {phases}:3: [distillation]: layer_map: found 'frist', expected uniform, last "
           "or pairs such as 1:3,last:6")
    phases.write_text("[run]\nkl_weight = 1\n[[phases]]\nname = 'one'\n")
    assert run(*taught, "--phases", phases, corpus).err == (
        f"bmtools: {phases}:2: [run]: found unknown key 'kl_weight', which belongs to "
        "[distillation]\n")
    phases.write_text("[distillation]\nlogit_mse_weight = 1\n[[phases]]\nname = 'one'\n")
    line = run(*taught, "--phases", phases, "--steps", "1", corpus).records[0]
    assert {"mlm", "kl", "cosine", "logit_mse"} < {*line}


@pytest.mark.parametrize("kind", ["taught", "fresh"])
def test_transformers_loads_the_student_alone(run: Run, request: pytest.FixtureRequest,
                                              corpus: Path, kind: str) -> None:
    """The projection between widths serves training only and stays out of the weights."""
    arguments = request.getfixturevalue(kind)
    outcome = run(*arguments, corpus)
    assert outcome.code == 0, outcome.err
    out = arguments[-1]
    assert {path.name for path in out.iterdir()} == FILES
    model, report = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True)
    words = AutoTokenizer.from_pretrained(out)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert model.config.hidden_size == {"taught": 64, "fresh": 128}[kind]
    logits = model(**words("Il [MASK] pompa", return_tensors="pt")).logits
    assert logits.shape[-1] == len(words) == model.config.vocab_size
    assert torch.isfinite(logits).all()


def test_teacher_and_student_stay_as_they_are(run: Run, taught: list[Any], corpus: Path,
                                              tiny_checkpoint: Path, student: Path) -> None:
    before = hash_directory(tiny_checkpoint), hash_directory(student)
    run(*taught, corpus)
    assert (hash_directory(tiny_checkpoint), hash_directory(student)) == before
    assert (taught[-1] / "model.safetensors").read_bytes() != \
        (student / "model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", ["taught", "fresh"])
def test_same_seed_same_bytes_and_stdin_equals_a_file(
        run: Run, piped: Run, request: pytest.FixtureRequest, corpus: Path, tmp_path: Path,
        contents: Callable[..., Any], kind: str) -> None:
    arguments = request.getfixturevalue(kind)
    run(*arguments, corpus)
    assert piped(corpus, *arguments[:-1], tmp_path / "piped").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "piped")


def test_a_student_with_another_vocabulary_is_refused(
        run: Run, taught: list[Any], corpus: Path, tiny_checkpoint: Path, stranger: Path,
        manifest: Callable[..., Any]) -> None:
    outcome = run(*taught, "--student", stranger, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    found, expected = (manifest(path)["vocabulary"][:12] for path in (stranger, tiny_checkpoint))
    assert outcome.err == (
        f"bmtools: {tiny_checkpoint}: found vocabulary {expected}, but the student has {found}; "
        "--align-tokens compares states of different vocabularies\n")
    assert not taught[-1].exists()


def test_casing_that_differs_is_named(run: Run, fresh: list[Any], corpus: Path,
                                      uncased: Path) -> None:
    outcome = run(*fresh, "--tokenizer", uncased, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert "; the student alone lower-cases text; --align-tokens compares" in outcome.err


def test_states_are_compared_across_vocabularies(run: Run, fresh: list[Any], corpus: Path,
                                                 uncased: Path, manifest: Run) -> None:
    """Micro-batches, halves of memory and all, change nothing but the rounding."""
    more = ("--tokenizer", uncased, "--align-tokens", "--kl-weight", "0", corpus)
    whole = run(*fresh, *more)
    assert whole.code == 0, whole.err
    assert "bmtools: the student lower-cases text, which its cased teacher reads so, too\n" \
        in whole.err
    *reports, last = whole.records
    assert all(line["aligned"] == 1 and 0 < line["cosine"] < 2 for line in reports)
    assert last["last"] == reports[-1]
    settings = manifest(fresh[-1])["settings"]
    assert (settings["align_tokens"], settings["tokenizer"]) == (True, uncased.name)
    parts = run(*fresh, "--overwrite", "--micro-batch-size", "1", *more)
    for line, other in zip(reports, parts.records, strict=False):
        assert {name: line[name] for name in ("loss", "cosine", "aligned")} == pytest.approx(
            {name: other[name] for name in ("loss", "cosine", "aligned")}, abs=2e-4)


def test_aligned_and_resumed_equals_uninterrupted(
        run: Run, interrupted: Run, taught: list[Any], corpus: Path, stranger: Path,
        tmp_path: Path, contents: Callable[..., Any]) -> None:
    more = ("--student", stranger, "--align-tokens", "--kl-weight", "0", "--steps", "5",
            "--save-steps", "2", "--hidden-weight", "1", corpus)
    run(*taught[:-1], tmp_path / "whole", *more)
    assert interrupted(run, *taught, *more).code == 130
    assert [line.get("step") for line in run(*taught, *more, "--resume").records] == [4, 5, None]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", ["kl", "logit-mse", "relation"])
def test_predictions_of_another_vocabulary_are_refused(
        run: Run, taught: list[Any], corpus: Path, stranger: Path, name: str) -> None:
    weights = {"kl": "0", name: "2"}
    outcome = run(*taught, "--student", stranger, "--align-tokens", corpus, *(
        part for one, weight in weights.items() for part in (f"--{one}-weight", weight)))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"bmtools: --{name}-weight: found 2, but student and teacher have different vocabularies, "
        "of which states alone can be compared; expected 0\n")


def test_equal_vocabularies_need_no_alignment(run: Run, taught: list[Any], corpus: Path) -> None:
    plain = run(*taught, corpus).records
    aligned = run(*taught, corpus, "--align-tokens", "--overwrite").records
    assert [line["loss"] for line in plain[:2]] == [line["loss"] for line in aligned[:2]]


def test_a_student_takes_layers_of_its_teacher(
        run: Run, taught: list[Any], corpus: Path, make_checkpoint: Callable[..., Path],
        tiny_tokenizer: Path, manifest: Callable[..., Any]) -> None:
    teacher = make_checkpoint(tiny_tokenizer, "bert-4x64")
    arguments = ["distill", "--teacher", teacher, *QUICK, "--learning-rate", "1e-9", corpus,
                 "--take-layers", "even", "-o", taught[-1]]
    outcome = run(*arguments)
    assert outcome.code == 0, outcome.err
    own, theirs = (AutoModelForMaskedLM.from_pretrained(path) for path in (taught[-1], teacher))
    assert own.config.num_hidden_layers == 2
    for number in (0, 1):
        torch.testing.assert_close(own.bert.encoder.layer[number].state_dict(),
                                   theirs.bert.encoder.layer[2 * number].state_dict())
    torch.testing.assert_close(own.cls.state_dict(), theirs.cls.state_dict())
    content = manifest(taught[-1])
    assert (content["settings"]["take_layers"], content["settings"]["student"]) == (
        "even", teacher.name)
    assert content["parents"] == dict.fromkeys(("teacher", "student"), hash_directory(teacher))


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["--take-layers", "2"], 1, "--take-layers: found 2, expected 1 to 1, the layers that there "
                                "are"),
    (["--take-layers", "even", "--architecture", "bert-1x64"], 2,
     "--take-layers takes weights of --student or of the teacher; leave --architecture out"),
    (["--tokenizer", "TOKENIZER"], 2, "--tokenizer goes with --architecture; a checkpoint has its "
                                      "own"),
    ([], 2, "expected one of --student and --architecture, or --take-layers")])
def test_students_that_cannot_be_made_are_refused(
        run: Run, corpus: Path, tiny_checkpoint: Path, tiny_tokenizer: Path, tmp_path: Path,
        arguments: list[str], code: int, message: str) -> None:
    given = [tiny_tokenizer if one == "TOKENIZER" else one for one in arguments]
    outcome = run("distill", "--teacher", tiny_checkpoint, *QUICK, "-o", tmp_path / "out", corpus,
                  *given)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.splitlines()[-1].removeprefix("Error: ").removeprefix("bmtools: ") \
        .startswith(message)


@pytest.mark.parametrize("role", ["--teacher", "--student"])
def test_a_swapped_tokenizer_is_refused(run: Run, taught: list[Any], corpus: Path,
                                        stranger: Path, tmp_path: Path, role: str) -> None:
    place = taught.index(role) + 1
    taught[place] = shutil.copytree(taught[place], tmp_path / "swapped")
    shutil.copy(stranger / "tokenizer.json", tmp_path / "swapped")
    outcome = run(*taught, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(
        f"bmtools: {tmp_path / 'swapped'}: tokenizer: found vocabulary ")
    assert not taught[-1].exists()


@pytest.mark.parametrize("kind", ["taught", "fresh"])
def test_rows_fit_teacher_and_student(run: Run, request: pytest.FixtureRequest, corpus: Path,
                                      kind: str) -> None:
    """The teacher has 32 positions; new weights of the named architecture would have 512."""
    outcome = run(*request.getfixturevalue(kind), "--max-length", "33", corpus)
    assert outcome.code == 1
    assert outcome.err == \
        "bmtools: --max-length: found 33, but student and teacher share 32 positions\n"


def test_a_full_directory_is_kept_unless_told(run: Run, taught: list[Any],
                                              corpus: Path) -> None:
    target = taught[-1]
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    outcome = run(*taught, corpus)
    assert (outcome.code, outcome.out) == (1, "")
    assert f"{target} is not empty; give another name, or --overwrite" in outcome.err
    assert [path.name for path in target.iterdir()] == ["mine.txt"]
    assert run(*taught, corpus, "--overwrite").code == 0
    assert {path.name for path in target.iterdir()} == FILES


def test_resumed_equals_uninterrupted(run: Run, interrupted: Run, fresh: list[Any], corpus: Path,
                                      tmp_path: Path, contents: Callable[..., Any]) -> None:
    """Projections between widths are part of what is resumed."""
    more = ("--steps", "5", "--save-steps", "2", "--dropout", "0.1", "--hidden-weight", "1",
            "--relation-weight", "1", "--relation-heads", "2", corpus)
    run(*fresh[:-1], tmp_path / "whole", *more)
    assert interrupted(run, *fresh, *more).code == 130
    assert not (tmp_path / "out").exists()
    resumed = run(*fresh, *more, "--resume")
    assert [line.get("step") for line in resumed.records] == [4, 5, None]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert not (tmp_path / "out.run").exists()


@pytest.fixture
def cached(fresh: list[Any], corpus: Path, tmp_path: Path) -> list[Any]:
    """Arguments that keep the teacher's outputs."""
    return [*fresh[:-2], corpus, "--teacher-cache", tmp_path / "outputs", "-o"]


def test_another_run_reads_what_the_teacher_gave(
        run: Run, cached: list[Any], student: Path, tmp_path: Path, contents: Callable[..., Any],
        monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(*cached, tmp_path / "one")
    assert first.code == 0, first.err
    outputs = sqlite3.connect(tmp_path / "outputs" / DATABASE)
    [documents] = outputs.execute("SELECT count(*) FROM documents").fetchone()
    for path in (tmp_path / "one").iterdir():
        assert bytes(tmp_path / "outputs") not in path.read_bytes(), path.name
    module = sys.modules["bmtools.training.distillation.distill"]
    monkeypatch.setattr(module, "load_checkpoint", None)
    again = run(*cached, tmp_path / "two")
    assert again.code == 0, again.err
    assert [line.get("loss") for line in again.records] == \
        [line.get("loss") for line in first.records]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    place = cached.index("--architecture")
    cached[place:place + 2] = []
    monkeypatch.undo()
    monkeypatch.setattr(Teacher, "__call__", None)
    for number, others in enumerate((("--cosine-weight", "0"), ("--steps", "3"),
                                     ("--batch-size", "2"), ("--learning-rate", "1e-3"))):
        outcome = run(*cached, tmp_path / f"other-{number}", "--student", student, *others)
        assert outcome.code == 0, outcome.err
    assert outputs.execute("SELECT count(*) FROM documents").fetchone() == (documents,)
    outputs.close()


def test_aligned_states_are_kept_and_read(
        run: Run, fresh: list[Any], cached: list[Any], corpus: Path, uncased: Path,
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ("--tokenizer", uncased, "--align-tokens", "--kl-weight", "0")
    live = run(*fresh, corpus, *more)
    assert live.code == 0, live.err
    first = run(*cached, tmp_path / "one", *more)
    monkeypatch.setattr(Teacher, "__call__", None)
    again = run(*cached, tmp_path / "two", *more)
    assert [line["loss"] for line in again.records[:-1]] == \
        [line["loss"] for line in first.records[:-1]]
    for one, other in zip(live.records[:-1], first.records[:-1], strict=True):
        for name in ("loss", "mlm", "cosine", "aligned"):
            assert other[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5)


def test_a_whole_vocabulary_on_disk_gives_the_losses_of_a_live_teacher(
        run: Run, fresh: list[Any], cached: list[Any], corpus: Path, tmp_path: Path) -> None:
    live = run(*fresh, corpus)
    whole = run(*cached, tmp_path / "whole", "--teacher-top-k", "0")
    for one, other in zip(live.records[:-1], whole.records[:-1], strict=True):
        for name in ("loss", "mlm", "kl", "cosine"):
            assert other[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(("changes", "what"), [
    (("--seed", "7"), "seed 0, found 7"), (("--mask-rate", "0.3"), "mask_rate 0.15, found 0.3"),
    (("--temperature", "1"), "temperature 2.0, found 1.0"),
    (("--teacher-top-k", "8"), "teacher_top_k 128, found 8"),
    (("--teacher-precision", "bf16"), "teacher_precision float32, found bf16")])
def test_outputs_under_other_settings_are_refused(
        run: Run, cached: list[Any], tmp_path: Path, changes: tuple[str, str], what: str) -> None:
    run(*cached, tmp_path / "one")
    outcome = run(*cached, tmp_path / "two", *changes)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"bmtools: {tmp_path / 'outputs'}: the teacher's outputs have {what}; "
                           "give the same, or another --teacher-cache\n")


def test_outputs_that_a_loss_lacks_are_refused(run: Run, cached: list[Any], student: Path,
                                               tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    assert run(*cached, tmp_path / "one", "--cosine-weight", "0").code == 0
    outcome = run(*cached, tmp_path / "two")
    assert outcome.code == 1
    assert outcome.err == (f"bmtools: {outputs}: the teacher's outputs have last states False, "
                           "found True; give the same, or another --teacher-cache\n")
    outcome = run(*cached, tmp_path / "two", "--relation-weight", "1")
    assert outcome.code == 2
    assert "--relation-weight: found 1.0, expected 0 with --teacher-cache, which has no outputs " \
        "for this loss. " in outcome.err
    cached[cached.index("--teacher") + 1] = student
    outcome = run(*cached, tmp_path / "two", "--cosine-weight", "0")
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert f"{outputs}: the teacher's outputs have content of the teacher " in outcome.err


def test_resumed_with_a_cache_equals_uninterrupted(
        run: Run, interrupted: Run, cached: list[Any], tmp_path: Path,
        contents: Callable[..., Any]) -> None:
    more = ("--steps", "5", "--save-steps", "2")
    run(*cached, tmp_path / "whole", *more)
    shutil.rmtree(tmp_path / "outputs")
    assert interrupted(run, *cached, tmp_path / "out", *more).code == 130
    resumed = run(*cached, tmp_path / "out", *more, "--resume")
    assert resumed.code == 0, resumed.err
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_teachers_device_that_is_not_there_is_refused(run: Run, fresh: list[Any],
                                                        corpus: Path) -> None:
    outcome = run(*fresh, corpus, "--teacher-device", "cuda:9")
    assert outcome.code == 1
    assert outcome.err.startswith("bmtools: --teacher-device: found 'cuda:9', which cannot be ")
    assert "'gpu'" in run(*fresh, corpus, "--teacher-device", "gpu").err
    assert run(*fresh, corpus, "--teacher-device", "cpu").code == 0
