"""Groups by keys, counted by hand; hashes of data."""

from __future__ import annotations

from bmtools.statistics.lines import Groups, content_key, data_fields


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


def test_a_hash_of_data_tells_what_it_was_made_from_in_any_order() -> None:
    texts = [("il [MASK]", "cuore"), ("il [MASK]", "rene"), ("il [MASK] cuore", ""),
             ("il [MASK]", "rene")]
    keys = [content_key(*one) for one in texts]
    assert keys[0] == 8994825106018832395  # the same in every run
    assert len(set(keys)) == 3
    [shown] = data_fields(sum(keys)).values()
    assert data_fields(sum(keys[::-1])) == {"data": shown}
    assert len(shown) == 12
    # Twice the same is not once, and other texts are others.
    others = [sum(keys[:3]), sum(keys[1:]), sum([*keys[:3], content_key("il [MASK]", "mano")])]
    assert shown not in {value for one in others for value in data_fields(one).values()}
