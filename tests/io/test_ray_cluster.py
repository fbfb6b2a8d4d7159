"""Passes over records on a Ray cluster of this machine, by copies of a worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray_nodes import kill_a_node

from bmtools.errors import BmtoolsError
from bmtools.io import parts, ray_cluster

pytestmark = [pytest.mark.filterwarnings("default"),  # warnings of Ray
              pytest.mark.slow]


def test_the_work_of_a_lost_node_is_repeated_exactly(cluster: Any, run: Callable[..., Any],
                                                     tmp_path: Path,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_BLOCK_BYTES", 4_000)
    source = tmp_path / "in.jsonl"
    lines = [json.dumps({"id": str(number), "text": f"Asthma {'and so ' * (number % 9)}on."}) + "\n"
             for number in range(5_000)]
    lines[3_000] = '{"id": "bad"}\n'
    source.write_text("".join(lines))

    def clean(name: str, *options: Any) -> list[Any]:
        outputs = [tmp_path / f"{name}-{kind}" for kind in ("kept", "dropped", "bad")]
        outcome = run("clean", source, "--min-words", "10", "-o", outputs[0], "--dropped",
                      outputs[1], "--rejects", outputs[2], *options)
        assert outcome.code == 0, outcome.err
        assert outcome.out == ""
        closing = outcome.err.splitlines()[-1].split(" in ")[0]  # after the status
        return [closing.replace(name, "x"),
                *(path.read_bytes() for path in outputs)]

    alone = clean("alone")
    assert [one.count(b"\n") for one in alone[1:]] == [2_776, 2_223, 1]
    submit, begun = ray_cluster.RayPool.submit, []

    def submitting(self: Any, part: Any) -> Any:
        begun.append(part)
        if len(begun) == 6:
            kill_a_node(cluster)
        return submit(self, part)

    monkeypatch.setattr(ray_cluster.RayPool, "submit", submitting)
    assert clean("ray", "--ray", cluster.address) == alone
    assert len(begun) > 10


def test_a_failure_names_the_node(cluster: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text("<PubmedArticleSet/>")
    bad.write_text("<PubmedArticleSet>")
    outcome = run("import", "pubmed", good, bad, "-o", tmp_path / "out", "--ray", cluster.address,
                  "--allow-empty")
    assert outcome.code == 1
    line = outcome.err.splitlines()[-1]
    assert line.startswith(f"bmtools: {bad}:1: ") and "(on node " in line, outcome.err


def test_another_version_on_a_node_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle = pytest.importorskip("ray.cloudpickle", reason="the extra ray is not installed")
    with pytest.raises(BmtoolsError, match=r"found bmtools .*, expected 0\.0, the version"):
        ray_cluster.made(cloudpickle.dumps(("0.0", list)))
