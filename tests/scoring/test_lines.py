"""Groups by keys, counted by hand."""

from __future__ import annotations

from bmtools.scoring.lines import Groups


def test_values_and_their_members() -> None:
    groups = Groups(["domain", "meta.year", "labels"])
    for record in ({"domain": "Cardio", "meta": {"year": 2020}, "labels": ["a", "b"]},
                   {"domain": "Neuro", "meta": {"year": 2021}},
                   {"meta": "2020", "domain": "Cardio"},
                   {"domain": None, "meta": {"year": 2020}, "labels": []}):
        groups.add(record)
    found = groups.scores(lambda members: {"members": members.tolist()})
    assert [(key, value, line["members"]) for key, lines in found.items()
            for value, line in lines.items()] == [
        ("domain", "Cardio", [0, 2]), ("domain", "Neuro", [1]), ("domain", "-", [3]),
        ("meta.year", "2020", [0, 3]), ("meta.year", "2021", [1]), ("meta.year", "-", [2]),
        ("labels", "a, b", [0]), ("labels", "-", [1, 2]), ("labels", "", [3])]


def test_no_keys_make_no_groups() -> None:
    groups = Groups([])
    groups.add({"domain": "Cardio"})
    assert groups.scores(lambda members: {"members": members.tolist()}) == {}
