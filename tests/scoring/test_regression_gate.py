"""Earlier scores as a reference: reached, missed, and not comparable."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bmtools.errors import BmtoolsError, DataError
from bmtools.scoring.regression_gate import check_bound, check_regression, read_reference

SIGNATURE = "mrr:top5|multi_token:miss|precision:fp32|case:kept|bmtools:0.1.0|torch:2.13.0"


def line(mrr: float, **keys: Any) -> dict[str, Any]:
    return {"model": "new", "mrr": mrr, "maskings": 9, "data": "d", "vocabulary": "v",
            "signature": SIGNATURE, **keys}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    path = tmp_path / "earlier.jsonl"
    lines = [line(0.2, model="old"), line(0.3, model="older"), {"compared": ["old", "older"]}]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_best_earlier_score_is_the_reference(earlier: Path) -> None:
    reference = read_reference(earlier)
    of_older = f"expected at least 0.3, as for older ({earlier})"
    assert check_regression(earlier, reference, [line(0.3), line(0.4)], 2) == (
        f"gate passed: mrr: new has 0.3, {of_older}, margin 0; new has 0.4, {of_older}, margin 0.1")
    with pytest.raises(BmtoolsError) as error:
        check_regression(earlier, reference, [line(0.3), line(0.29, model="worse")], 2)
    assert str(error.value) == f"mrr: worse has 0.29, {of_older}"


@pytest.mark.parametrize(("changed", "message"), [
    ({"signature": SIGNATURE.replace("top5", "top10")},
     "found signature 'mrr:top5|multi_token:miss', expected 'mrr:top10|multi_token:miss'"),
    ({"maskings": 8}, "found maskings 9, expected 8 as in this run"),
    ({"data": "e"}, "found data 'd', expected 'e' as in this run; score both on the same")])
def test_scores_made_differently_are_errors( earlier: Path, changed: dict[str, Any],
                                            message: str) -> None:
    with pytest.raises(DataError) as error:
        check_regression(earlier, read_reference(earlier), [line(0.5, **changed)], 1)
    assert message in str(error.value)


@pytest.mark.parametrize(("text", "message"), [
    ("", "found no lines, expected at least one"),
    ("{}\n", ":1: found neither a score nor a record"),
    ("no\n", ":1: found 'no' ("), ("[1]\n", ":1: found '[1]' (")])
def test_other_files_are_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_reference(path)
    assert message in str(error.value)


def test_bound_is_shown_with_all_digits() -> None:
    with pytest.raises(BmtoolsError, match=r"mrr: m has 0.333333, expected at least 0.33333333$"):
        check_bound([{"model": "m", "mrr": 0.333333}], "mrr", 0.33333333)
    with pytest.raises(BmtoolsError, match=r"expected at most 12$"):
        check_bound([{"model": "m", "pppl": 13.0}], "pppl", 12.0, at_most=True)
    with pytest.raises(BmtoolsError, match=r"m has nan, expected at least 0$"):
        check_bound([{"model": "m", "mrr": math.nan}], "mrr", 0)
