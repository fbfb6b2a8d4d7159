"""Spelling of names, ranks, probabilities and texts."""

from __future__ import annotations

import pytest

from bmtools.study.reports.labels import printable, short_names


@pytest.mark.parametrize(("models", "names"), [
    (["runs/start/", "runs/a/model", "runs/b/model", "bert"],
     ["start", "a/model", "b/model", "bert"]),
    (["a/x", "a/x", "/"], ["x", "x (2)", "/"]),
    (["runs/a/start", "runs/a/model"], ["start", "model"]),
    (["m", "runs/m"], ["m", "runs/m"]), ([".", "x/y"], [".", "y"]),
    (["frequency of /a/m.jsonl", "/b/m"], ["frequency of m.jsonl", "m"]),
    (["/a/m", "b/a/m", "a/m"], ["/a/m", "b/a/m", "a/m"])])
def test_names_are_as_short_as_they_can_be(models: list[str], names: list[str]) -> None:
    assert short_names(models) == names


def test_text_is_made_fit_to_print() -> None:
    assert printable("a\x00b\ud800\uffff\n\tc\u200dd") == "a\ufffdb\ufffd\ufffd  c\u200dd"
    assert printable("a\u202eb\u2067c\u2069d\x1b[31me\u200ff") == \
        "a\ufffdb\ufffdc\ufffdd\ufffd[31me\u200ff"
    assert (printable(""), printable("  ")) == ("\u2423", "\u2423\u2423")
