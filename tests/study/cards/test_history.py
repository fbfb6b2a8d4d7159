"""The part of a card about a model's lineage, from records written in the test."""

from __future__ import annotations

from typing import Any

from bmtools.study.cards.history import commands, data_of, sizes
from bmtools.study.lineages.graph import Edge, Lineage, Node


def node(id: str, command: str, **record: Any) -> Node:
    return Node(id, "file", id, None, {"command": command, "sha256": id, **record})


def test_data_and_all_commands_that_led_to_it() -> None:
    model = node("model", "pretrain", vocabulary="f00d", inputs={"corpus": "corpus"},
                 results={"corpora": {"text": {"documents": 3, "tokens": 40}}})
    # Two commands appended to the corpus; the first passed its piped input on unchanged.
    corpus = Node("corpus", "file", "corpus", None, {"steps": [
        {"command": "dedup", "sha256": "a", "upstream": {
            "<stdin>": {"command": "import text", "sha256": "a"}}},
        {"command": "clean", "sha256": "b", "upstream": {
            "<stdin>": {"command": "import qa", "sha256": "c"}}}]})
    piped, raw = node("c", "import qa"), Node("raw", "source", "raw")
    found = Lineage(("model",), (model, corpus, piped, raw), (
        Edge("model", "corpus", "corpus"), Edge("corpus", "c", "<stdin>"),
        Edge("corpus", "raw", "<stdin>"), Edge("c", "raw", "raw")))
    assert data_of(found) == [corpus]
    assert commands(found, corpus) == ["dedup", "import text", "clean", "import qa"]
    assert found.behind("corpus") == [corpus, piped, raw]
    assert sizes(found, corpus) == (3, 40) and sizes(found, raw) == (0, 0)
