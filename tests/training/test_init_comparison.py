"""Initializations compared: scored alike, on text that none of them saw."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from bmtools.data.batches import SpecialTokens
from bmtools.data.masking.strategies import make_strategy
from bmtools.io.provenance.manifest import Manifest
from bmtools.models.architectures import build_config, build_model
from bmtools.models.checkpoint import Checkpoint, save_checkpoint
from bmtools.models.settings import (
    CompareConfig,
    FocusConfig,
    TokenDistillationConfig,
    TransferConfig,
)
from bmtools.models.transfer.context_embeddings import Sentence
from bmtools.records import Record
from bmtools.training import init_comparison
from bmtools.training.evaluation import EvaluationSet
from bmtools.training.init_comparison import LossByTokenAge, compare_inits
from bmtools.training.objectives import MaskedObjective
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.tokenizer import fingerprint
from bmtools.vocab.trainers import train_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCES = [f"{subject} {verb} {thing}." for subject in ("Il cuore", "Il polmone", "Il fegato")
             for verb in ("pompa", "filtra", "regola", "trasporta", "accumula")
             for thing in ("il sangue", "la bile", "l'ossigeno", "il glucosio", "la linfa")]
RECORDS = [Record(id=str(n), text=text) for n, text in enumerate(SENTENCES)]
QUICK = CompareConfig("random,average,contextual", held_out_ratio=0.3, probe_steps=3,
                      probe_batch_size=4)


@pytest.fixture(scope="module")
def base() -> Checkpoint:
    """A model that knows other words."""
    words = train_tokenizer(["Il pane cotto riscalda la casa.", "La pompa filtra acqua."] * 9,
                            VocabularyConfig(size=100, allow_fewer=True))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build_model(build_config("bert-1x64", words)).eval()
    return Checkpoint(Path(), model, words, fingerprint(words))


@pytest.fixture
def compare(base: Checkpoint, vocabulary: Path, tmp_path: Path,
            monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Compare: `compare(QUICK, seen=texts)`; what contexts are read from is noted in `seen`."""
    save_checkpoint(tmp_path / "base", base.model, base.tokenizer,
                    Manifest("test", {}, base.vocabulary))
    (tmp_path / "aside").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "aside"))

    def call(settings: CompareConfig, seen: list[str] | None = None, seed: int = 0,
             records: Iterable[Record] = RECORDS,
             held_out: Iterable[Record] | None = None) -> list[dict[str, Any]]:
        def read(found: Iterable[Record], _lang: str) -> Iterator[Sentence]:
            for record in found:
                if seen is not None:
                    seen.append(record["text"])
                yield Sentence(record["text"])

        monkeypatch.setattr(init_comparison, "split_sentences", read)
        lines = list(compare_inits(
            tmp_path / "base", vocabulary, records, settings, held_out=held_out,
            transfer=TransferConfig(seed=seed), focus=FocusConfig(focus_min_count=1),
            distil=TokenDistillationConfig(1)))
        assert not list((tmp_path / "aside").iterdir())
        return lines

    return call


def test_all_are_scored_on_the_same_masks(compare: Callable[..., list[dict[str, Any]]]) -> None:
    lines = compare(QUICK)
    assert [line["method"] for line in lines] == ["random", "average", "contextual"]
    for when in ("start", "probe"):
        assert len({(line[when]["masked"], line[when]["new_masked"]) for line in lines}) == 1
        assert len({line[when]["loss"] for line in lines}) == 3
    for line in lines:
        for found in (line["start"], line["probe"]):
            new, old = found["new_masked"], found["masked"] - found["new_masked"]
            assert new > 0 and old > 0
            assert found["loss"] == pytest.approx(
                (new * found["new_loss"] + old * found["old_loss"]) / (new + old), abs=1e-5)
        assert line["probe"]["steps"] == 3


def test_training_helps(compare: Callable[..., list[dict[str, Any]]]) -> None:
    [line] = compare(replace(QUICK, compare="average", probe_steps=40, probe_learning_rate=5e-3,
                             probe_batch_size=16))
    assert line["probe"]["loss"] < line["start"]["loss"] - 0.3


def test_held_out_text_is_used_for_nothing_else(
        compare: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, list[str]] = {}
    tokenize = init_comparison.tokenize

    def spied(records: Any, *arguments: Any, **options: Any) -> Any:
        name = Path(records.names[0]).stem
        files[name] = [record["text"] for record in init_comparison.RecordReader(records.names)]
        return tokenize(records, *arguments, **options)

    monkeypatch.setattr(init_comparison, "tokenize", spied)
    seen: list[str] = []
    twice = [*RECORDS, *(record.replace(id=f"{record['id']}-again") for record in RECORDS)]
    compare(replace(QUICK, compare="contextual"), seen, records=twice)
    assert sorted(seen) == sorted(files["train"])
    assert not set(files["train"]) & set(files["held"])
    assert sorted(files["train"] + files["held"]) == sorted(record["text"] for record in twice)
    assert 0.15 < len(files["held"]) / len(twice) < 0.45
    before = files["held"]
    compare(replace(QUICK, compare="average"), records=twice, seed=1)
    assert files["held"] != before


def test_a_file_of_held_out_text_is_scored(compare: Callable[..., list[dict[str, Any]]]) -> None:
    seen: list[str] = []
    [line] = compare(replace(QUICK, compare="contextual", probe_steps=0), seen,
                     held_out=RECORDS[:3])
    assert seen == SENTENCES
    assert "probe" not in line and 0 < line["start"]["masked"] < 12


def test_one_seed_gives_the_same(compare: Callable[..., list[dict[str, Any]]]) -> None:
    first, again = (compare(replace(QUICK, compare="distil,focus")) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        for line in (one, other):
            line["seconds"] = line["probe"]["seconds"] = None
    assert first == again


def test_neighbours_are_old_tokens_of_new_ones(compare: Callable[..., list[dict[str, Any]]],
                                               base: Checkpoint, tokenizer: Any) -> None:
    lines = compare(replace(QUICK, compare="random,average", sample_tokens=4, probe_steps=0))
    neighbours = [line["neighbours"] for line in lines]
    assert [one["token"] for one in neighbours[0]] == [one["token"] for one in neighbours[1]]
    known = set(base.tokenizer.get_vocab())
    for one in neighbours[1]:
        assert one["token"] in tokenizer.get_vocab() and one["token"] not in known
        assert set(one["neighbours"]) <= known & set(tokenizer.get_vocab())
        assert one["cosines"] == sorted(one["cosines"], reverse=True)


def test_sums_by_age_add_up_to_the_loss(toy: Any, model: Any, tokenizer: Any) -> None:
    is_new = torch.arange(len(tokenizer)) % 3 == 0
    counted = LossByTokenAge(model, is_new)
    held_out = EvaluationSet(toy.corpus(SENTENCES), SpecialTokens.of(tokenizer),
                             make_strategy("words"), 32)
    accelerator = Accelerator(cpu=True)
    assert held_out.score(counted, accelerator) == pytest.approx(
        held_out.score(MaskedObjective(model), accelerator), abs=1e-5)
    nothing = LossByTokenAge(model, torch.zeros(len(tokenizer), dtype=torch.bool))
    whole = held_out.score(nothing, accelerator)["loss"]
    assert nothing.losses() == {"new_loss": None, "old_loss": whole, "new_masked": 0}
