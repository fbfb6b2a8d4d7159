"""Ray clusters: connecting to one, and parts of the input mapped by its nodes through Ray Data."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from bmtools import __version__
from bmtools.errors import BmtoolsError, setting
from bmtools.installation import require_extra
from bmtools.io.failures import brief
from bmtools.io.parallel import in_this_setting
from bmtools.records import JsonObject
from bmtools.status import set_status

Part = TypeVar("Part")
_PATIENCE = 20.0  # seconds for the address of a cluster to answer
_BLOCK_BYTES = 8 << 20  # of results that a node gathers before it hands them over


def connected(address: str) -> Any:
    """Connect to a cluster; nothing is sent to Ray's makers, and nothing printed.

    Args:
        address: HOST:PORT, auto for that of this machine, or local to start one.

    Returns:
        the package.

    Raises:
        BmtoolsError: none answers, or the extra is missing.
    """
    require_extra("ray", f"{setting('ray')} {address}")
    set_status(f"connecting to Ray at {address}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which Ray warns of otherwise
    import ray
    from ray._private import worker

    # It prints the loss of a node where the records go, and has no setting against it.
    worker._worker_logs_enabled = False
    before = signal.getsignal(signal.SIGTERM)
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself tries for minutes
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
        raise BmtoolsError(f"{setting('ray')} {address}: no cluster answers ({brief(error)}); "
                           "start one with: ray start --head; local starts one here") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's handler would end without cleaning up
    return ray


def map_on_ray(parts: Sequence[Part], make_worker: Callable[[], Callable[[Part], Iterable[bytes]]],
               address: str) -> Iterator[Iterator[bytes]]:
    """Map parts to results on a cluster, in the order of the parts, all of which have some.

    Ray does the work of a lost node again, and has as many results wait as its object store holds.

    Args:
        parts: small descriptions of what the nodes read.
        make_worker: called once in each process of the cluster.
        address: of the cluster.

    Raises:
        BmtoolsError: no cluster answers, a node failed, or a worker raised one.
    """
    ray = connected(address)
    from ray import cloudpickle

    key = os.urandom(8).hex()
    shared = ray.put(cloudpickle.dumps((__version__, in_this_setting(make_worker), list(parts))))

    def work(batch: JsonObject) -> Iterator[JsonObject]:
        yield from _work(int(batch["id"][0]), key, lambda: ray.get(shared))

    try:
        dataset = _data(ray).range(len(parts), override_num_blocks=len(parts)).map_batches(
            work, batch_size=1)
        rows = dataset.iter_batches(batch_size=1, prefetch_batches=1)
        for _, results in groupby(map(_result, rows), itemgetter(0)):
            yield map(itemgetter(1), results)
    except ray.exceptions.RayError as error:
        raise BmtoolsError(f"{setting('ray')} {address}: a node failed ({brief(error)}); "
                           f"{setting('resume')} goes on from what is done") from error
    finally:
        ray.shutdown()


def _data(ray: Any) -> Any:
    """Return Ray Data, silent and with results in their order."""
    import ray.data as data

    context = data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = _BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return data


_worker: tuple[str, Any] = "", None  # of a process of the cluster, by the name of the work


def _work(number: int, key: str, fetch: Callable[[], bytes]) -> Iterator[JsonObject]:
    """Yield the results of a part; Ray would try in vain for ever where one cannot be worked on."""
    global _worker
    pickled = fetch() if _worker[0] != key else b""
    try:
        if pickled:
            _worker = key, _made(pickled)
        worker, parts = _worker[1]
        for result in worker(parts[number]):
            yield {"number": [number], "result": [result], "error": [""]}
    except Exception as error:
        reason = str(error) if isinstance(error, BmtoolsError) else brief(error)
        yield {"number": [number], "result": [b""], "error": [f"{reason} ({_node()})"]}


def _made(pickled: bytes) -> tuple[Callable[[Any], Iterable[bytes]], Sequence[Any]]:
    """Return the worker of this process, and the parts."""
    from ray import cloudpickle

    version, make_worker, parts = cloudpickle.loads(pickled)
    if version != __version__:
        raise BmtoolsError(f"{setting('ray')}: found bmtools {__version__}, expected {version} as "
                           "where the command runs")
    return make_worker(), parts


def _node() -> str:
    import ray

    return f"on node {ray.util.get_node_ip_address()}"


def _result(row: JsonObject) -> tuple[int, bytes]:
    """Return the number of a part and a result.

    Raises:
        BmtoolsError: the worker's.
    """
    if row["error"][0]:
        raise BmtoolsError(str(row["error"][0]))
    return int(row["number"][0]), bytes(row["result"][0])
