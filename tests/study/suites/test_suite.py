"""The suites of papers, with checks of their arithmetic, and suites in your own files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from bmtools.errors import DataError
from bmtools.study.suites.suite import PublishedTable, Suite, load_suite, suite_names
from bmtools.tasks.metrics.score_tasks import TASK_METRICS

SUITES = {name: load_suite(name) for name in suite_names()}
TABLES = [(name, table) for name, suite in SUITES.items() for table in suite.published]
# Averages of the printed scores that differ from the printed averages.
PRINTED_OTHERWISE = {
    ("biolm", "Table 2", "RoBERTa-base", "Mean (PubMed)"): 81.154,  # printed: 81.1
    ("biolm", "Table 2", "Ours-base", "Mean (Clinical)"): 85.04}  # printed: 85.1
# Differences that the authors computed before rounding the scores.
ROUNDED_BEFORE = {("NCBI-disease", "BioBIT L"), ("BC5CDR-CDR", "MedBIT R12+"),
                  ("BC2GM", "MedBIT R3+"), ("BioASQ 4b", "MedBIT R3+"),
                  ("BioASQ 6b", "MedBIT R12+"), ("CHEMPROT", "MedBIT R12+")}
# Tables 3 to 5 of Buonocore et al. 2023: BioBIT, MedBIT R3+, MedBIT R12+.
PRINTED_DIFFERENCES = {
    "BC2GM": (5.9, 5.4, 5.7), "BC4CHEMD": (5.6, 5.6, 5.7), "BC5CDR-CDR": (3.1, 2.8, 3.3),
    "BC5CDR-DNER": (9.5, 9.5, 8.6), "NCBI-disease": (5.5, 2.7, 2.8),
    "Species-800": (52.7, 57.8, 55.6), "BioASQ 4b": (0.2, -0.3, -0.1),
    "BioASQ 5b": (0.8, 0.3, 0.5), "BioASQ 6b": (2.6, 2.0, 1.8), "CHEMPROT": (9.4, 11.3, 7.2),
    "BioRED": (6.3, 7.1, 6.7)}


def of_model(table: PublishedTable, number: int) -> dict[str, float]:
    return {row: values[number] for row, values in table.scores.items()}


def test_suites_have_the_sets_of_the_papers() -> None:
    assert {name: len(suite.sets) for name, suite in SUITES.items()} == {
        "biobert": 9, "biobit": 11, "biobit-mlm": 2, "biolm": 18, "biomegatron": 7,
        "bioptimus": 5, "blue": 6, "blurb": 13, "camembert-bio": 5, "drbenchmark": 20,
        "gbert-biom": 5, "multiclinai": 21, "roberta-es": 3, "scibert": 10}
    groups = {average.name: len(average.members(SUITES["biolm"].sets))
              for average in SUITES["biolm"].averages}
    assert groups == {"Mean (Seq. Lab.)": 11, "Mean (Classif.)": 7, "Mean (PubMed)": 13,
                      "Mean (Clinical)": 5, "Mean (all)": 18}
    assert len({one.groups[0] for one in SUITES["blurb"].sets}) == 6


def test_metrics_are_named_as_by_commands() -> None:
    written = {"f1", "precision", "recall", "micro_f1", "macro_f1", "weighted_f1", "example_f1",
               "subtoken_f1", "pppl",
               *(name for task in TASK_METRICS.values() for name in task.compared)}
    for suite in SUITES.values():
        assert {metric for one in suite.sets for metric in one.metrics} <= written


@pytest.mark.parametrize(("name", "table"), TABLES, ids=lambda one: getattr(one, "table", one))
def test_printed_averages_follow_from_the_printed_scores(name: str, table: PublishedTable) -> None:
    suite = SUITES[name]
    # Averages and scores were rounded before printing, so each may differ by half a unit.
    for average in suite.averages:
        for number, model in enumerate(table.models):
            scores = of_model(table, number)
            computed = average.compute(suite.sets, scores)
            if computed is None or average.name not in scores:
                continue
            otherwise = PRINTED_OTHERWISE.get((name, table.table, model, average.name))
            if otherwise is not None:
                assert computed == pytest.approx(otherwise, abs=5e-4)
                assert abs(computed - scores[average.name]) > 0.5 * 10**-suite.digits
            else:
                assert abs(computed - scores[average.name]) <= 0.5001 * 10**-suite.digits


def test_blurb_averages_over_task_types() -> None:
    [table] = (one for one in SUITES["blurb"].published if one.main)
    scores = of_model(table, table.models.index("PubMedBERT uncased"))
    ner = fmean((93.33, 85.62, 87.82, 84.52, 80.06))
    relations, questions = fmean((77.24, 82.36, 82.34)), fmean((55.84, 87.56))
    by_hand = fmean((ner, 73.38, relations, 92.30, 82.32, questions))
    [average] = SUITES["blurb"].averages
    assert average.compute(SUITES["blurb"].sets, scores) == pytest.approx(by_hand)
    assert round(by_hand, 2) == scores["BLURB score"] == 81.10
    assert average.compute(SUITES["blurb"].sets, {**scores} | {"GAD": 0.0}) != by_hand
    del scores["GAD"]
    assert average.compute(SUITES["blurb"].sets, scores) is None


def test_printed_differences_follow_from_the_printed_scores() -> None:
    [table] = SUITES["biobit"].published
    for row, printed in PRINTED_DIFFERENCES.items():
        base, *others = table.scores[row]
        for model, score, difference in zip(table.models[1:], others, printed, strict=True):
            found = round(100 * (score / base - 1), 1)
            assert (found != difference) == ((row, model) in ROUNDED_BEFORE), (row, model, found)
            assert abs(found - difference) <= 0.1001


def test_f1_follows_from_precision_and_recall() -> None:
    table = next(one for one in SUITES["biomegatron"].published if one.table == "Table 1")
    far = []
    for row in table.scores:
        if row.endswith("f1"):
            name = row.rpartition(" ")[0]
            for number, model in enumerate(table.models):
                precision, recall = (table.scores[f"{name} {one}"][number]
                                     for one in ("precision", "recall"))
                f1 = 2 * precision * recall / (precision + recall)
                if abs(f1 - table.scores[row][number]) > 0.1001:
                    far.append((row, model, round(f1, 2)))
    assert far == []


def test_scores_in_several_tables_are_equal() -> None:
    """Scores that a paper prints twice are equal."""
    blurb = {one.table: one for one in SUITES["blurb"].published}
    own = {row: values[-1] for row, values in blurb["Table 6"].scores.items()}
    assert {row: values[0] for row, values in blurb["Table 8"].scores.items()} == own
    assert {row: values[0] for row, values in blurb["Table 9"].scores.items()} == own
    assert {row: values[-1] for row, values in blurb["Table 7"].scores.items()} == own
    for table in ("Table 10", "Table 11", "Table 12"):
        assert all(values[0] == own[row] for row, values in blurb[table].scores.items())
    biolm = {one.table: one for one in SUITES["biolm"].published}
    for row, values in biolm["Table 3"].scores.items():
        main, distilled = biolm["Table 2"].scores[row], biolm["Table 6"].scores[row]
        assert (values[0], values[5], values[7], values[7]) == (
            main[0], main[6], main[7], distilled[2])
        # Except for Ours-base: 81.7 in Table 2, the mean of its scores, and 81.8 in Tables 3 and 6.
        assert values[4] == distilled[0]
        assert (values[4] != main[5]) == (row == "Mean (Classif.)")
    best = biolm["Table 5"].scores
    for row, by_model in biolm["Table 2"].scores.items():
        if row in best and row not in ("HOC", "ChemProt"):  # by a model in Table 3
            assert best[row][1] == max(by_model)


def test_bioptimus_tables_agree() -> None:
    tables = {one.table: one.scores for one in SUITES["bioptimus"].published}
    assert {*tables} == {"Table 2", "Table 3", "Table 5", "Table 6", "Table 7"}
    blurb = next(one for one in SUITES["blurb"].published if one.main)
    for row, phases in tables["Table 5"].items():
        assert tables["Table 2"][row][-1] == tables["Table 3"][row][0] == phases[0]
        assert tables["Table 6"][row][-1] == tables["Table 7"][row][0] == phases[-1]
        known = tuple(blurb.scores[row][blurb.models.index(model)]
                      for model in ("BioBERT cased", "PubMedBERT uncased"))
        # Except for BioBERT on JNLPBA: BLURB prints 79.35.
        assert (tables["Table 6"][row][:2] == known) == (row != "JNLPBA")
    # Section 8.3: phase 2 raises F1 on all but NCBI-disease, phase 3 on all but BC5-chem, phase 4
    # on all but BC5-disease.
    for phase, fallen in enumerate(("NCBI-disease", "BC5-chem", "BC5-disease")):
        assert [row for row, scores in tables["Table 5"].items()
                if scores[phase + 1] < scores[phase]] == [fallen]
    assert all(with_phases > without for with_phases, without in tables["Table 7"].values())
    # Section 7: "BM continued shows superior performance on three datasets".
    best = [max(range(4), key=scores.__getitem__) for scores in tables["Table 2"].values()]
    assert sorted(best) == [1, 1, 1, 3, 3]


def test_biobit_tables_agree() -> None:
    sizes, mitigation = SUITES["biobit-mlm"].published
    for row, scores in sizes.scores.items():
        assert scores[0] == mitigation.scores[row][0]
    base, *_, large = sizes.scores["MRR"]
    # "a 14% improvement on our test set compared with the baseline"; it is 11.7 in the table.
    assert 100 * (large / base - 1) == pytest.approx(11.66, abs=0.005)
    assert max(mitigation.scores["MRR"]) == mitigation.scores["MRR"][-1] == 0.3844
    # "the PPPL score appears to be significantly lower than BioBIT L for all" models of textbooks.
    assert max(mitigation.scores["PPPL"]) < sizes.scores["PPPL"][-1]


@pytest.mark.parametrize(("name", "table", "far"), [
    ("roberta-es", "model card of 2021", 0.011), ("camembert-bio", "model card", 0.05),
    ("gbert-biom", "model card", 0.32)])
def test_f1_of_other_languages_follows_from_precision_and_recall(name: str, table: str,
                                                                 far: float) -> None:
    """Means over runs differ by more than rounding."""
    [found] = (one for one in SUITES[name].published if one.table == table)
    for row in [row for row in found.scores if row.endswith(" precision")]:
        f1s, precisions, recalls = (found.scores[row.replace("precision", metric)]
                                    for metric in ("f1", "precision", "recall"))
        for f1, precision, recall in zip(f1s, precisions, recalls, strict=True):
            assert abs(2 * precision * recall / (precision + recall) - f1) <= far, row


def test_claims_of_papers_in_other_languages_hold() -> None:
    [table] = SUITES["camembert-bio"].published
    gains = [new - old for row, (old, new) in table.scores.items() if row.endswith(" f1")]
    assert round(fmean(gains), 2) == 2.54  # "2.54 points of F1 on average"
    spanish = SUITES["roberta-es"].published[0]
    assert {spanish.models[values.index(max(values))]
            for values in spanish.scores.values()} == {"bsc-bio-ehr-es"}  # "superior across tasks"
    assert {one.name: len(one.members(SUITES["multiclinai"].sets))
            for one in SUITES["multiclinai"].averages} == {
        "Mean": 21, **{f"Mean ({one})": 3 for one in ("es", "en", "nl", "it", "ro", "sv", "cz")},
        **{f"Mean ({one})": 7 for one in ("disease", "symptom", "procedure")}}


@pytest.mark.parametrize(("name", "groups"), [("biobert", 3), ("blue", 4)])
def test_suites_from_blurb_have_its_sets_and_scores(name: str, groups: int) -> None:
    blurb, suite = SUITES["blurb"], SUITES[name]
    assert all(one in blurb.sets for one in suite.sets)
    assert len({one.groups for one in suite.sets}) == groups
    [table] = suite.published
    whole = next(one for one in blurb.published if one.main)
    assert table.models == whole.models
    assert table.scores == {one.name: whole.scores[one.name] for one in suite.sets}


@pytest.mark.parametrize(("change", "message"), [
    (("[[sets]]", "[sets]"), "key 'sets': found an object, expected a list"),
    (('task = "ner"\n', ""), "key 'sets[0].task' is missing"),
    (('["f1"]', "[]"), "set 'A': found metrics [], expected names"),
    (("[80.5]", "[80.5, 3]"), "Table 1: expected a value for each of 1 models in each row"),
    (("{A =", "{B ="), "Table 1: found 'B', expected one of A, Mean"),
    (('groups = ["G"]', 'groups = ["H"]'), "groups of average 'Mean': found 'G', expected H"),
])
def test_own_suites_are_checked(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "own.toml"
    text = ('title = "Own"\nsource = "A 2026, Table 1"\ndigits = 1\n[[sets]]\nname = "A"\n'
            'task = "ner"\n' 'metrics = ["f1"]\ngroups = ["G"]\n[[averages]]\nname = "Mean"\n'
            'groups = [ "G" ]\n[[published]]\ntable = "Table 1"\nmodels = ["old"]\n'
            'scores = {A = [80.5]}\n')
    path.write_text(text)
    assert isinstance(load_suite(str(path)), Suite)
    path.write_text(text.replace(*change))
    with pytest.raises(DataError) as raised:
        load_suite(str(path))
    assert str(raised.value).startswith(f"{path}: ") and message in str(raised.value)
