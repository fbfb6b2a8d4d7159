"""Status of long work, as its watchers receive it."""

from __future__ import annotations

from dataclasses import replace

from bmtools.status import Status, counted, set_status, watching_status


def test_watchers_receive_each_status() -> None:
    seen: list[Status] = []
    with watching_status(seen.append):
        set_status("training", 3, 10, "steps", loss=4.5)
    set_status("unseen")
    assert seen == [Status("training", 3, 10, "steps", {"loss": 4.5})]


def test_items_are_counted_and_restore_the_status() -> None:
    seen: list[Status] = []
    with watching_status(lambda status: seen.append(replace(status))):
        for item in counted("ab", "reading", 2, "letters"):
            set_status(f"looking at {item}")
    assert [(status.activity, status.done) for status in seen] == [
        ("reading", 0), ("looking at a", None), ("reading", 1), ("looking at b", None),
        ("reading", 2)]
    assert (seen[0].total, seen[0].unit) == (2, "letters")
