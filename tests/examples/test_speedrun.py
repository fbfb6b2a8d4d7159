"""The laptop speedrun in examples/: its parts, and the whole of it at toy size."""

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

import numpy as np
import pytest
import torch
from toy_corpora import EncodedDocument, corpus_of

from bmtools.models.architectures import build_config, build_model
from bmtools.vocab.settings import VocabularyConfig
from bmtools.vocab.trainers import train_tokenizer

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
    """Clean texts, one after the other, and return what is left of each."""

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


def test_seven_shared_words_pass(cleaned: Any) -> None:
    text = "Ecco quando la produzione di dopamina nel cervello aumenta."
    assert cleaned(text) == [text]


def test_repeats_are_left_out(cleaned: Any) -> None:
    long = "Tenere questo medicinale fuori dalla portata dei bambini."
    assert cleaned(OTHER, OTHER.replace(".", " !").lower(), f"Avvertenze. {long}",
                   f"Avvertenze. Altro. {long}") == [
        OTHER, "", f"Avvertenze. {long}", "Avvertenze. Altro."]


def test_clean_reports(part: Any, read: Any, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    texts = [OTHER, OTHER, f"Vedi: {TEST}"]
    source.write_text("".join(json.dumps({"id": str(number), "text": text}) + "\n"
                              for number, text in enumerate(texts)))
    clean = part("clean")
    clean.clean_corpora([["mine", str(source)]], clean.Cleaner(clean.TestWords([TEST])),
                        tmp_path / "text")
    [line] = read(tmp_path / "text" / "report.jsonl")
    assert (line["documents"], line["repeated_documents"], line["contaminated_documents"],
            line["kept_documents"], line["kept_words"]) == (3, 1, 1, 1, 10)
    [caught] = read(tmp_path / "text" / "contaminated.jsonl")
    assert caught["shared"] == "la malattia di parkinson si manifesta quando la"
    [kept] = read(tmp_path / "text" / "mine.jsonl")
    assert kept["text"] == OTHER and kept["source"] == "a:0"


def pieces() -> Any:
    return train_tokenizer(["il cuore batte e il sangue scorre"] * 3,
                           VocabularyConfig(size=100, allow_fewer=True, uncased=True))


def test_words_become_tokens(part: Any) -> None:
    vocabulary = part("vocabulary")
    tokenizer = pieces()
    words = vocabulary.count_words(["Batticuore batticuore, sangue!", "scorre scorre"], tokenizer)
    assert words == {"batticuore": 2, ",": 1, "sangue": 1, "!": 1, "scorre": 2}
    made = vocabulary.with_words(tokenizer, words, 2)
    assert made.tokenize("Batticuore scorre") == ["batticuore", "scorre"]
    assert made.tokenize("batticuori")[0] != "batticuore"
    before = tokenizer.get_vocab()
    assert {token: made.get_vocab()[token] for token in before} == before


def test_content_words(part: Any) -> None:
    vocabulary = part("vocabulary")
    words = Counter({"il": 9, ",": 8, "cuore": 7, "batte": 7, "x": 6, "b12": 5, "rene": 4,
                     "raro": 1})
    made = vocabulary.with_words(pieces(), words, 7)
    assert vocabulary.content_words(made, words, 2) == ["batte", "cuore", "rene"]


def test_ceilings(part: Any) -> None:
    vocabulary, ceilings = part("vocabulary"), part("ceilings")
    tokenizer = vocabulary.with_words(pieces(), Counter(cuore=9, sangue=1), 2)
    records = [{"text": "il [MASK] batte", "target": "Cuore"},
               {"text": "il [MASK] batte", "target": "cuoio"}]
    found = ceilings.describe("it", tokenizer, records, Counter(cuore=9, sangue=1))
    assert (found["one_token"], found["ceiling"], found["seen_median"], found["seen_under_20"],
            found["tokens_per_word"]) == (1, 0.5, 9, 1, 1.0)
    assert ceilings.seen(records, Counter(cuore=9)) == [9, 0]


def test_counts_know_their_neighbours(part: Any) -> None:
    counts = part("counts").Counts()
    for text in ["il cuore batte forte", "il cuore batte piano", "il sangue scorre forte"]:
        counts.add(text.split())
    counts.close()
    assert counts.best(["", "il"], ["batte", "forte"])[0] == "cuore"
    assert counts.best(["", "il"], ["scorre", "forte"])[0] == "sangue"
    # After "il" alone: (2 + 2 * (2.1 / 13)) / 5, two kinds of followers among three.
    near = next(iter(part("counts")._contexts(["", "il"], ["x", "y"])))
    assert counts._chain(near)("cuore") == pytest.approx((2 + 2 * 2.1 / 13) / 5)
    score = part("counts").mean_reciprocal_rank(
        counts, [("il [MASK] batte", "Cuore"), ("il [MASK] batte", "rene")])
    assert score == {"mrr": 0.5, "hits_at_1": 0.5, "maskings": 2}


def test_cooccurrences_are_counted_within_documents(part: Any) -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 7, length) for length in (5, 1, 9)]
    corpus = corpus_of([EncodedDocument(ids.astype(np.uint16), np.ones(len(ids), dtype=bool))
                        for ids in documents])
    expected = np.zeros((7, 7))
    for ids in documents:
        for index, token in enumerate(ids):
            for distance in (1, 2, 3):
                if index + distance < len(ids):
                    expected[token, ids[index + distance]] += 1 / distance
    start = part("start")
    found = start.count_cooccurrences(start.token_stream([corpus], 3), 7, 3).to_dense()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_independent_tokens_have_no_information(part: Any) -> None:
    start = part("start")
    even = torch.ones(4, 4).to_sparse()
    assert torch.allclose(start.positive_information(even).to_dense(), torch.zeros(4, 4),
                          atol=1e-6)
    # p(a, b) = 1/2 each on the diagonal: ln (1 / 0.5).
    apart = torch.eye(2).to_sparse()
    assert torch.allclose(start.positive_information(apart).to_dense(),
                          torch.eye(2) * np.log(2))


def model_of(**changes: Any) -> Any:
    config = build_config("bert-2x64", pieces(), 128)
    for name, value in {"num_attention_heads": 4, "attn_implementation": "eager",
                        "initializer_range": 0.05, **changes}.items():
        setattr(config, "_" + name if name.startswith("attn") else name, value)
    torch.manual_seed(0)
    return build_model(config).eval()


def test_heads_attend_to_neighbours_at_first(part: Any) -> None:
    model = model_of()
    part("start").initialise_by_width(model)
    part("start").attend_to_neighbours(model, 16)
    ids = torch.randint(5, 30, (1, 100))
    with torch.no_grad():
        [seen] = model(input_ids=ids, output_attentions=True).attentions[0]
    for head, distance in enumerate((-1, 1, -2, 2)):
        positions = torch.arange(2, 98)
        assert seen[head, 2:98].argmax(-1).tolist() == (positions + distance).tolist()


def test_embeddings_and_biases_are_set(part: Any) -> None:
    model = model_of()
    start = part("start")
    embeddings = model.get_input_embeddings().weight
    drawn = embeddings.detach().clone()
    vectors = torch.nn.functional.normalize(torch.randn(len(drawn), 48))
    vectors[3] = 0
    start.set_embeddings(model, vectors, 16)
    assert torch.equal(embeddings[:, :16], drawn[:, :16])
    assert torch.equal(embeddings[3], drawn[3])
    likeness = torch.nn.functional.cosine_similarity(embeddings[4:, 16:], vectors[4:])
    assert likeness.min() > 0.999
    assert model.get_output_embeddings().weight is embeddings
    start.set_output_biases(model, np.arange(len(drawn), dtype=float))
    bias = model.get_output_embeddings().bias.detach()
    assert (bias.diff() > 0).all()
    assert float(bias[20] - bias[10]) == pytest.approx(np.log(20.1 / 10.1), abs=1e-5)


def test_tokens_fit_the_time(part: Any) -> None:
    trial = part("trial")
    # 100 tokens a second in one phase and 50 in the other: 10 and 40 seconds at first.
    found = trial.fit_tokens({"a": 1000, "b": 2000}, {"a": (500, 5.0), "b": (100, 2.0)}, 100.0)
    assert found == {"a": 2000, "b": 4000}


def test_times_of_phases_are_summed(part: Any, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [
        {"phase": "a", "tokens_seen": 100, "tokens_per_second": 50},
        {"phase": "a", "tokens_seen": 300, "tokens_per_second": 100},
        {"phase": "b", "tokens_seen": 400, "tokens_per_second": 10},
        {"checkpoint": "m"}]))
    assert part("trial").phase_costs(path) == {"a": (300, 4.0), "b": (100, 10.0)}


def test_results_group_seeds(part: Any) -> None:
    line = {"model": "x", "minutes": 30.0, "threads": 2, "mrr": 0.2, "mrr_one_token": 0.3,
            "hits_at_1": 0.1, "tokens": 10, "seconds": 5.0}
    better = {**line, "model": "y", "mrr": 0.5}
    first, second = part("results").summarise([line, {**line, "mrr": 0.4}, better])
    assert (first["model"], first["seeds"]) == ("y, 30 minutes", 1)
    assert second["mrr"] == {"mean": 0.3, "deviation": 0.1414, "text": "0.300 ± 0.141"}


def test_every_trial_can_be_read(part: Any) -> None:
    trial = part("trial")
    import tomllib

    names = tomllib.loads((SPEEDRUN / "trials.toml").read_text())
    for name in names:
        config = trial.read_trial(name)
        assert config["tokens"] and config["vocabulary"].split("-")[0] in ("pieces", "words")
    with pytest.raises(SystemExit, match="expected one of"):
        trial.read_trial("nothing")


def shorten(source: Path, target: Path, copy_lines: Any, copy_entries: Any) -> None:
    """Copy the beginning of a real file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.name.startswith("BioASQ") or source.name.endswith("_CORPUS.json"):
        copy_entries(source, target, 5)
    elif source.name.startswith("SQuAD"):
        copy_entries(source, target, 1)
    elif source.suffix == ".json":
        shutil.copy(source, target)
    elif source.suffix == ".gz":
        copy_lines(source, target, 9)
    else:
        copy_lines(source, target, 5 if "_" in source.name else 150)


@pytest.mark.data
@pytest.mark.slow
def test_whole_speedrun(data: Path, tmp_path: Path, run_script: Any, read: Any, copy_lines: Any,
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
