"""`score-suite` on the output of `score-tasks` and `finetune`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Write = Callable[..., Path]
NER = ("BC5-chem", "BC5-disease", "NCBI-disease", "BC2GM", "JNLPBA")
METRICS = {"EBM PICO": "macro_f1", "ChemProt": "f1", "DDI": "f1", "GAD": "micro_f1",
           "BIOSSES": "pearson", "HoC": "micro_f1", "PubMedQA": "accuracy", "BioASQ": "accuracy"}


def line(name: str, score: float, model: str = "bio", **more: Any) -> dict[str, Any]:
    return {"model": model, "task": "t", METRICS.get(name, "f1"): score, "set": name, **more}


def finetuned(metric: str, mean: float, model: str = "bio") -> dict[str, Any]:
    summary = {"mean": mean, "median": mean + 0.01, "deviation": 0.02}
    return {"checkpoint": "out", "model": model, "best_seed": 1, "seeds": 5,
            f"dev_{metric}": summary, f"test_{metric}": summary}


@pytest.fixture
def whole(write_lines: Write) -> Path:
    """Write scores on all sets of BLURB: 80 % on entities, 50 % on others."""
    return write_lines("all.jsonl", *(line(name, 0.8) for name in NER),
                       *(line(name, 0.5) for name in METRICS))


def test_the_blurb_score_is_compared_with_published_scores(run: Run, whole: Path) -> None:
    outcome = run("score-suite", "--suite", "blurb", whole)
    assert outcome.code == 0, outcome.err
    own, *published = outcome.records
    assert own["averages"] == {"BLURB score": pytest.approx((80 + 5 * 50) / 6, abs=1e-5)}
    assert list(own["scores"]) == [*NER, *METRICS] and "missing" not in own
    assert [one["averages"] for one in published][-1] == {"BLURB score": 81.1}
    assert {one["table"] for one in published} == {"Table 6"} and len(published) == 9
    assert outcome.err.startswith("bmtools: bio has 13 of 13 sets, BLURB score 55.00 in ")
    every = run("score-suite", "--suite", "blurb", whole, "--published", "all")
    assert len({one["table"] for one in every.records if "table" in one}) == 7
    assert [one["model"] for one in run(
        "score-suite", "--suite", "blurb", whole, "--published", "none").records] == ["bio"]


def test_no_average_is_printed_if_sets_are_missing(run: Run, write_lines: Write) -> None:
    path = write_lines("some.jsonl", line("JNLPBA", 0.6), line("BC2GM", 0.8), line("GAD", 0.5),
                       line("GAD", 0.4, "base"), line("BC2GM", 0.7, "base"))
    bio, base, *published = run("score-suite", "--suite", "blurb", path).records
    # Both models have scores for BC2GM and GAD.
    assert bio["averages"] == {"BLURB score of 2 sets": 65.0}
    assert base["averages"] == {"BLURB score of 2 sets": 55.0}
    assert published[-1]["averages"] == {"BLURB score": 81.1, "BLURB score of 2 sets": 83.43}
    assert base["missing"] == [name for name in (*NER, *METRICS) if name not in ("BC2GM", "GAD")]


def test_seeds_of_score_tasks_and_summaries_of_finetune(
        run: Run, write_lines: Write, tmp_path: Path) -> None:
    gold = write_lines("gold.jsonl", *({"id": str(number), "text": "Asma.", "entities": [
        {"start": 0, "end": 4, "type": "DIS"}]} for number in range(10)))
    found = [write_lines(f"bio-{seed}.jsonl", *(
        {"id": str(number), "text": "Asma.", "predicted": {"entities": [
            {"start": 0, "end": 4, "type": "DIS"}] * (number >= missed)}}
        for number in range(10))) for seed, missed in enumerate((0, 5, 8))]
    scores = tmp_path / "ncbi_disease.jsonl"
    done = run("score-tasks", gold, *(f"bio={one}" for one in found), "--resamples", 0,
               "-o", scores)
    assert done.code == 0, done.err
    seeds = [json.loads(text) for text in scores.read_text().splitlines()]
    f1 = [one["f1"] for one in seeds if "seed_of" in one]
    assert len(f1) == 3 and {one.get("seed_of") for one in seeds[:3]} == {"bio"}
    summary = next(one for one in seeds if one.get("metric") == "f1")
    other = write_lines("gm.jsonl", {"seed": 1, "test": {"f1": 0.1}}, finetuned("f1", 0.7))
    checkpoint = tmp_path / "JNLPBA"
    checkpoint.mkdir()
    (checkpoint / "bmtools.json").write_text(json.dumps({
        "command": "finetune", "settings": {"model": "bio"},
        "results": finetuned("f1", 0.6)}))
    arguments = (scores, f"BC2GM={other}", checkpoint, "--published", "none")
    [mean] = run("score-suite", "--suite", "blurb", *arguments).records
    assert mean["scores"] == {"NCBI-disease": pytest.approx(100 * summary["mean"]),
                              "BC2GM": 70.0, "JNLPBA": 60.0}
    assert mean["deviations"] == {"NCBI-disease": pytest.approx(
        100 * summary["deviation"], abs=1e-4), "BC2GM": 2.0, "JNLPBA": 2.0}
    [median] = run("score-suite", "--suite", "biolm", *arguments).records
    assert median["scores"] == {"JNLPBA": 61.0, "BC2GM": 71.0,
                                "NCBI-disease": pytest.approx(100 * summary["median"])}


def test_output_of_finetune_is_read(run: Run, write_lines: Write, tmp_path: Path,
                                    tiny_checkpoint: Path) -> None:
    path = write_lines("tagged.jsonl", *({"id": str(number), "text": "Il paziente ha asma.",
                                          "entities": [{"start": 15, "end": 19, "type": "DIS"}]}
                                         for number in range(4)))
    checkpoint = tmp_path / "Species-800"
    done = run("finetune", "ner", "--model", tiny_checkpoint, "--train", path, "--dev", path,
               "--test", path, "--seeds", 2, "--epochs", 1, "--set", "label_pieces=all",
               "-o", checkpoint)
    assert done.code == 0, done.err
    summary = done.records[-1]
    printed = write_lines("BC2GM.jsonl", *done.records)
    [own] = run("score-suite", "--suite", "biobit", checkpoint, printed, "--name", "tiny",
                "--published", "none").records
    expected = 100 * summary["test_subtoken_f1"]["mean"]
    assert own["scores"] == {"BC2GM": pytest.approx(expected),
                             "Species-800": pytest.approx(expected)}
    assert (own["model"], len(own["missing"])) == ("tiny", 9) and "other_metrics" not in own


def test_differences_to_a_baseline(run: Run, write_lines: Write) -> None:
    path = write_lines("s.jsonl", line("BC2GM", 0.8), line("BC2GM", 0.64, "base"))
    bio, base, published, *_ = run("score-suite", "--suite", "biobit", path).records
    assert bio["differences"]["BC2GM"] == pytest.approx(100 * (80 / 77.59 - 1), abs=1e-5)
    assert published["model"] == "BaseBIT" and "differences" not in published
    bio, base, *_ = run("score-suite", "--suite", "biobit", path, "--compare-with", "base").records
    assert bio["differences"] == {"BC2GM": 25.0} and "differences" not in base
    assert bio["points"] == {"BC2GM": 16.0} and "points" not in base
    refused = run("score-suite", "--suite", "biobit", path, "--compare-with", "bas")
    assert refused.code == 2 and "did you mean 'base'?" in refused.err


@pytest.mark.parametrize("score", [0.0, -0.06])
def test_a_baseline_of_zero_or_less_has_points_but_no_percentage(
        run: Run, write_lines: Write, score: float) -> None:
    path = write_lines("s.jsonl", line("BIOSSES", 0.33),
                       line("BIOSSES", score, "base"))
    options = ("score-suite", "--suite", "blurb", path, "--compare-with", "base")
    bio, *_ = run(*options).records
    assert bio["points"] == {"BIOSSES": pytest.approx(33 - 100 * score)}
    assert "differences" not in bio
    assert f"33.00 {33 - 100 * score:+.2f} |" in run(*options, "--table").out


def test_comparisons_are_adjusted_over_sets(run: Run, write_lines: Write) -> None:
    def compared(name: str, metric: str, p_value: float | None) -> dict[str, Any]:
        return {"compared": ["bio", "base"], "metric": metric, "difference": 0.1, "set": name,
                "interval": [0.05, 0.15], "p": p_value, "p_holm": p_value, "p_over_seeds": None}

    path = write_lines("s.jsonl", *(line(name, 0.8) for name in NER[:4]),
                       compared("BC5-chem", "f1", 0.01), compared("BC5-chem", "relaxed_f1", 0.5),
                       compared("BC2GM", "f1", 0.04), compared("NCBI-disease", "f1", 0.03),
                       compared("BC5-disease", "f1", None))
    outcome = run("score-suite", "--suite", "blurb", path, "--published", "none")
    found = [one for one in outcome.records if "compared" in one]
    # Holm 1979: 3 x 0.01, 2 x 0.03, and not less for the last one.
    assert [(one["set"], one.get("p_holm")) for one in found] == [
        ("BC5-chem", 0.03), ("BC2GM", 0.06), ("NCBI-disease", 0.06), ("BC5-disease", None)]
    assert found[0] == {
        "compared": ["bio", "base"], "set": "BC5-chem", "metric": "f1", "difference": 10.0,
        "interval": [5.0, 15.0], "p": 0.01, "p_holm": 0.03}
    table = run("score-suite", "--suite", "blurb", path, "--table").out
    assert "| BC2GM        | bio - base | +10.00 [5.00, 15.00] | 0.0400 | 0.0600 |" in table
    for wrong in ({"difference": "no"}, {"interval": [0.1, ["x"]]}, {"interval": 0.1}, {"p": "x"},
                  {"p_over_seeds": {}}):
        broken = write_lines("t.jsonl", {**compared("BC2GM", "f1", 0.1), **wrong})
        refused = run("score-suite", "--suite", "blurb", broken)
        assert refused.code == 1
        assert "t.jsonl:1: found a comparison whose difference, interval or p" in refused.err


def test_correlations_may_differ_by_more_than_one(run: Run, write_lines: Write) -> None:
    path = write_lines("s.jsonl", line("BIOSSES", 0.9), {
        "compared": ["bio", "base"], "metric": "pearson", "difference": 1.3, "set": "BIOSSES",
        "interval": [0.7, 1.8], "p": 0.01})
    outcome = run("score-suite", "--suite", "blurb", path, "--published", "none")
    assert outcome.code == 0, outcome.err
    [found] = [one for one in outcome.records if "compared" in one]
    assert (found["difference"], found["interval"]) == (130, [70, 180])


def test_comparisons_in_the_metric_that_replaces_the_papers(run: Run, write_lines: Write) -> None:
    """score-tasks does not compare BioBIT's F1 of sub-tokens, but F1 of mentions."""
    lines = [{"model": "bio", "f1": 0.6}, {"model": "base", "f1": 0.5}, *(
        {"compared": ["bio", "base"], "metric": metric, "difference": 0.1, "p": p_value}
        for metric, p_value in (("f1", 0.02), ("relaxed_f1", 0.5)))]
    path = write_lines("s.jsonl", *lines)
    outcome = run("score-suite", f"NCBI-disease={path}", "--suite", "biobit", "--published", "none")
    [found] = [one for one in outcome.records if "compared" in one]
    assert (found["set"], found["metric"], found["p"]) == ("NCBI-disease", "f1", 0.02)


def test_a_metric_that_replaces_the_papers_is_named(run: Run, write_lines: Write) -> None:
    path = write_lines("s.jsonl", line("BC2GM", 0.8), {
        "model": "tokens", "set": "BC2GM", "test_f1": finetuned("f1", 0.7)["test_f1"],
        "test_subtoken_f1": finetuned("f1", 0.75)["test_f1"]})
    outcome = run("score-suite", "--suite", "biobit", path)
    strict, tokens, *_ = outcome.records
    assert strict["other_metrics"] == {"BC2GM": "f1"} and "other_metrics" not in tokens
    assert (strict["scores"], tokens["scores"]) == ({"BC2GM": 80.0}, {"BC2GM": 75.0})
    table = run("score-suite", "--suite", "biobit", path, "--table").out
    assert "; *: f1 instead of the paper's metric" in table
    assert "| 80.00* +2.41 (+3.1%) | 75.00 (2.00) -2.59 (-3.3%) |" in table


def test_a_test_set_of_another_size_is_named(run: Run, write_lines: Write) -> None:
    path = write_lines("s.jsonl", line("JNLPBA", 0.8, support=6241, records=9),
                       line("JNLPBA", 0.7, "base", support=6241, records=9),
                       line("BC2GM", 0.8, support=6325), line("GAD", 0.8, records=535),
                       {**line("DDI", 0.8, support=979, records=191), "task": "relations"},
                       line("HoC", 0.8, documents=100, records=371))
    own = write_lines("ChemProt.jsonl", {"split": "dev", "pairs": 1}, {
        "split": "test", "records": 800, "pairs": 15745}, finetuned("f1", 0.7))
    ncbi = write_lines("NCBI-disease.jsonl", {"split": "test", "entities": 959},
                       finetuned("f1", 0.7))
    outcome = run("score-suite", "--suite", "blurb", path, own, ncbi, "--published", "none")
    assert outcome.records[0]["other_sizes"] == {"JNLPBA": 6241, "HoC": 100, "NCBI-disease": 959}
    assert outcome.records[1]["other_sizes"] == {"JNLPBA": 6241}, "a warning names it only once"
    assert "s.jsonl:1: found a test set of 6,241 for JNLPBA, expected 8,662" in outcome.err
    assert outcome.err.count("found a test set of") == 3


def test_metrics_of_one_set_are_rows(run: Run, write_lines: Write) -> None:
    path = write_lines("s.jsonl", {
        "model": "a", "set": "bioasq 7B factoid", "strict_accuracy": 0.3,
        "lenient_accuracy": 0.5, "mrr": 0.4})
    [own] = run("score-suite", "--suite", "biomegatron", path, "--published", "none").records
    assert own["scores"] == {"BioASQ-7b-factoid strict_accuracy": 30.0,
                             "BioASQ-7b-factoid lenient_accuracy": 50.0,
                             "BioASQ-7b-factoid mrr": 40.0}


def test_scores_that_are_not_percent(run: Run, write_lines: Write) -> None:
    """Output of score-mrr and score-pppl, compared with BioBIT's tables 1 and 2."""
    comparison = {"compared": ["a", "b"], "metric": "pppl", "difference": -2.5,
                  "interval": [-3.0, -2.0], "p": 0.01, "p_holm": 0.01}
    path = write_lines("PPPL.jsonl", {"model": "a", "pppl": 2.016, "interval": [1.9, 2.1],
                                      "sentences": 54}, comparison)
    ranks = write_lines("MRR.jsonl", {"model": "a", "mrr": 0.4, "maskings": 26, "sentences": 3})
    outcome = run("score-suite", "--suite", "biobit-mlm", ranks, path)
    own, *published, compared = outcome.records
    assert own["scores"] == {"MRR": 0.4, "PPPL": 2.016}
    assert own["points"] == {"MRR": pytest.approx(0.057), "PPPL": pytest.approx(-0.358)}
    assert own["differences"]["PPPL"] == pytest.approx(-15.0800, abs=1e-4)
    assert own["other_sizes"] == {"MRR": 26} and "expected 897 as in the paper" in outcome.err
    assert [one["table"] for one in published] == 5 * ["Table 1"] + 8 * ["Table 2"]
    assert (compared["difference"], compared["interval"]) == (-2.5, [-3.0, -2.0])
    table = run("score-suite", "--suite", "biobit-mlm", ranks, path, "--table").out
    assert "2.016 -0.358 (-15.1%)" in table
    broken = write_lines("MRR.jsonl", {"model": "a", "pppl": 3.0})
    refused = run("score-suite", "--suite", "biobit-mlm", broken)
    assert refused.code == 1 and "MRR.jsonl:1: found no mrr for MRR, expected it" in refused.err


def test_tables_for_documents(run: Run, write_lines: Write, tmp_path: Path) -> None:
    path = write_lines("s.jsonl", line("BC2GM", 0.8, "a_b"), line("JNLPBA", 0.6, "a_b"))
    output = tmp_path / "lines.jsonl"
    arguments = ("score-suite", "--suite", "blurb", path, "--compare-with", "BERT cased")
    markdown = [" ".join(row.split()) for row in run(*arguments, "--table").out.splitlines()]
    assert markdown[0].endswith("Benchmark (Gu et al. 2021, Table 6)")
    assert markdown[1].startswith("| set | a_b | BERT uncased | BERT cased |")
    assert "| BC2GM | 80.00 -1.23 (-1.5%) | 80.90 -0.33 (-0.4%) | 81.23 |" in "\n".join(markdown)
    assert "| BLURB score | \N{EN DASH} | 75.99 |" in "\n".join(markdown)
    assert markdown[-1].startswith("| BLURB score of 2 sets | 70.00 |")
    latex = run(*arguments, "--format", "latex", "-o", output).out
    assert "set & a\\_b & BERT uncased &" in latex
    assert "BC2GM & 80.00 -1.23 (-1.5\\%) & " in latex and "BLURB score & -- & 75.99" in latex
    assert latex.count("\\begin{") == latex.count("\\end{") == 2
    assert json.loads(output.read_text().splitlines()[0])["model"] == "a_b"


def test_the_sets_of_a_suite(run: Run) -> None:
    outcome = run("score-suite", "--suite", "blurb", "--sets")
    assert outcome.records[0] == {"set": "BC5-chem", "task": "ner", "metrics": "f1",
                                  "groups": "NER", "train": 5203, "dev": 5347, "test": 5385}
    assert [one["set"] for one in outcome.records] == [*NER, *METRICS]


@pytest.mark.parametrize(("lines", "arguments", "message"), [
    ([{"model": "a", "f1": 0.5}], (), "in.jsonl:1: found no name of a set; expected SET=FILE"),
    ([{"model": "a", "f1": 0.5, "set": "NCBI"}], (),
     "in.jsonl:1: found the set 'NCBI', did you mean 'NCBI-disease'?"),
    ([line("BC2GM", 81.0)], (), "in.jsonl:1: found no f1 from -1 to 1 for BC2GM, expected it"),
    ([{"model": "a", "accuracy": 0.7, "set": "BC2GM"}], (),
     "in.jsonl:1: found no f1 from -1 to 1 for BC2GM, expected it next to accuracy"),
    ([{"model": "a", "dev_f1": {"mean": 0.7, "median": 0.7, "deviation": None}, "set": "BC2GM"}],
     (), "expected it next to dev_f1; finetune needs a test set"),
    # Over all classes, micro F1 equals accuracy.
    ([{**finetuned("micro_f1", 0.7), "test_accuracy": finetuned("f1", 0.7)["test_f1"],
       "set": "GAD"}], (), "name the class without a finding with --negative"),
    ([line("BC2GM", 0.5), line("BC2GM", 0.6)], (),
     "in.jsonl:2: found a second score of 'bio' on BC2GM after FILE:1, expected one"),
    ([line("BC2GM", 0.5), line("BC2GM", 0.6, "base")], ("--name", "mine"),
     "in.jsonl:2: found a second score of 'mine' on BC2GM after FILE:1, expected one"),
    ([{"seed": 1, "epoch": 1}], (), "in.jsonl: found no scores by score-tasks or finetune"),
])
def test_unsuitable_scores_are_errors(run: Run, write_lines: Write, lines: list[dict[str, Any]],
                                      arguments: tuple[str, ...], message: str) -> None:
    path = write_lines("in.jsonl", *lines)
    outcome = run("score-suite", "--suite", "blurb", path, *arguments)
    assert (outcome.code, outcome.out) == (1, "")
    assert message.replace("FILE", str(path)) in outcome.err and outcome.err.count("\n") == 1
