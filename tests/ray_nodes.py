"""A Ray cluster of this machine, whose nodes are processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

NODES = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker nodes and a head without work; commands connect to any of the three."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    before = signal.getsignal(signal.SIGTERM)
    one = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    one.nodes = [one.add_node(num_cpus=1) for _ in range(NODES)]
    signal.signal(signal.SIGTERM, before)  # Ray's handler would end this process
    yield one
    one.shutdown()


def kill_a_node(cluster: Any) -> None:
    """End a node that this process is not connected to."""
    import ray

    connected = ray._private.worker.global_worker.node.raylet_socket_name
    lost = next(node for node in cluster.nodes if node.raylet_socket_name != connected)
    cluster.remove_node(lost, allow_graceful=False)
