"""Workers on the nodes of a Ray cluster; the work of a lost worker is repeated elsewhere."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bmtools import __version__
from bmtools.errors import BmtoolsError, setting
from bmtools.installation import require_extra
from bmtools.io.failures import brief
from bmtools.status import set_status

Part = TypeVar("Part")
MakeWorker = Callable[[], Callable[[Any], Iterable[object]]]
_CONNECT_SECONDS = 20.0
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 5.0
_AHEAD = 2  # parts for each worker, so that no worker waits for the driver
_MOST_LOSSES = 3


def connected(address: str) -> Any:
    """Connect to a cluster, without sending usage statistics to Ray or printing anything.

    Args:
        address: HOST:PORT, auto for the cluster of this machine, or local to start a cluster here.

    Returns:
        the `ray` module.

    Raises:
        BmtoolsError: no cluster answers, or the extra is missing.
    """
    require_extra("ray", f"{setting('ray')} {address}")
    set_status(f"connecting to Ray at {address}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # avoids a warning of Ray
    import ray
    from ray._private import worker

    # It prints the loss of a node to stdout, between the records, and has no setting to stop this.
    worker._worker_logs_enabled = False
    before = signal.getsignal(signal.SIGTERM)
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except (ConnectionError, RuntimeError, ValueError, OSError, OverflowError) as error:
        raise BmtoolsError(f"{setting('ray')} {address}: no cluster answers ({brief(error)}); "
                           "start one with: ray start --head; or use local") from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's handler would end without cleaning up
    return ray


class _Actor:
    """A worker on a node, created for its first part."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        self._worker: Callable[[object], Iterable[object]] | None = None

    def start(self) -> None:
        """Return; this shows that the node can run the worker."""

    def work(self, part: object) -> Iterator[object]:
        """Yield the results of a part."""
        try:
            self._worker = self._worker or made(self._pickled)
            yield from self._worker(part)
        except Exception as error:
            import ray

            reason = str(error) if isinstance(error, BmtoolsError) else brief(error)
            raise BmtoolsError(f"{reason} (on node {ray.util.get_node_ip_address()})") from error


def made(pickled: bytes) -> Any:
    """Create the worker of this process.

    Raises:
        BmtoolsError: the command runs another version of bmtools.
    """
    from ray import cloudpickle

    version, make_worker = cloudpickle.loads(pickled)
    if version != __version__:
        raise BmtoolsError(f"{setting('ray')}: found bmtools {__version__}, expected {version}, "
                           "the version that runs the command; install it on all nodes")
    return make_worker()


@dataclass(eq=False)
class _Copy:
    """An actor on a node, the future that reports its start, and its tasks."""

    actor: Any
    node_id: str
    node: str
    starting: Any
    is_ready: bool = False
    tasks: list[_Task] = field(default_factory=list)


@dataclass(eq=False)
class _Task:
    """A part, its copy, its stream of results, and the number of copies lost while it ran."""

    part: object
    copy: _Copy | None = None
    stream: Any = None
    losses: int = 0


class RayPool:
    """Copies of a worker on the nodes of a cluster; nodes that join later also get work.

    Args:
        address: address of the cluster.
        make_worker: creates a generator function, because Ray streams the results of generators. It
            is sent to the nodes, and its files must have the same paths there.
        cores: number of cores for each copy; None for all cores of a node, divided by its GPUs.
        uses_gpu: whether a copy uses a GPU on nodes that have GPUs.

    Attributes:
        losses: number of copies that were lost.

    Raises:
        BmtoolsError: no cluster answers.
    """

    def __init__(self, address: str, make_worker: MakeWorker, cores: int | None = 1,
                 uses_gpu: bool = False) -> None:
        self._ray = connected(address)
        from ray import cloudpickle

        self._pickled = cloudpickle.dumps((__version__, make_worker))
        self._address, self._cores, self._uses_gpu = address, cores, uses_gpu
        self._copies: list[_Copy] = []
        self._failures: Counter[str] = Counter()  # failed starts of a copy, by node
        self._looked = float("-inf")
        self.losses = 0

    @property
    def ahead(self) -> int:
        """Number of parts that can be in progress at a time."""
        return _AHEAD * max(1, len(self._copies))

    def close(self) -> None:
        """Disconnect from the cluster; its copies of the worker end."""
        self._ray.shutdown()

    def map(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Iterator[Any]]]:
        """Yield parts with their results, in order; some parts are started ahead."""
        pending: deque[tuple[Part, Iterator[Any]]] = deque()
        for part in parts:
            pending.append((part, self.submit(part)))
            if len(pending) > self.ahead:
                yield pending.popleft()
        yield from pending

    def submit(self, part: object) -> Iterator[Any]:
        """Start a part and return an iterator that waits for its results.

        Raises:
            BmtoolsError: an error of the worker, with the node, or too many copies were lost.
        """
        task = _Task(part)
        self._assign(task)
        return self._results(task)

    def _results(self, task: _Task) -> Iterator[Any]:
        taken, is_done = 0, False
        while not is_done:
            stream = task.stream
            try:
                for number, future in enumerate(stream):
                    result = self._ray.get(future)
                    if number == taken:
                        taken += 1
                        yield result
                is_done = True
            except self._ray.exceptions.RayTaskError as error:
                raise BmtoolsError(str(error.cause)) from error
            except self._ray.exceptions.RayError as error:
                if task.stream is stream:
                    self._lose(task, brief(error))
        if task.copy:
            task.copy.tasks.remove(task)

    def _assign(self, task: _Task) -> None:
        """Assign a task to the copy with the fewest tasks."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while not (ready := self._ready()):
            if time.monotonic() > until:
                raise BmtoolsError(
                    f"{setting('ray')} {self._address}: found no node with "
                    f"{self._cores or 1} cores for {_PATIENCE_SECONDS:.0f} seconds; add one, and "
                    f"continue with {setting('resume')}")
        task.copy = min(ready, key=lambda copy: len(copy.tasks))
        task.copy.tasks.append(task)
        task.stream = task.copy.actor.work.options(num_returns="streaming").remote(task.part)

    def _lose(self, task: _Task, reason: str) -> None:
        """Assign the tasks of a lost copy to other copies."""
        lost = task.copy
        assert lost is not None
        self._copies.remove(lost)
        self.losses += 1
        for one in lost.tasks:
            one.losses += 1
            if one.losses > _MOST_LOSSES:
                raise BmtoolsError(f"{setting('ray')}: {one.losses} workers were lost over the "
                                   f"part that begins {str(one.part)[:40]!r} ({reason}); they may "
                                   "need more memory")
            self._assign(one)

    def _ready(self) -> list[_Copy]:
        """Start copies on nodes with free cores or GPUs; return the copies that have started."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._look_for_nodes()
        starting = {copy.starting: copy for copy in self._copies if not copy.is_ready}
        has_some = len(starting) < len(self._copies)
        if not self._copies:
            time.sleep(_LOOK_SECONDS / 10)
        for future in self._ray.wait([*starting], num_returns=len(starting),
                                     timeout=0 if has_some else _LOOK_SECONDS / 10)[0] \
                if starting else ():
            try:
                self._ray.get(future)
                starting[future].is_ready = True
            except self._ray.exceptions.RayError as error:
                copy = starting[future]
                self._copies.remove(copy)
                self._failures[copy.node_id] += 1
                if not self._copies:
                    raise BmtoolsError(f"{setting('ray')}: node {copy.node} cannot start to work "
                                       f"({brief(error)}); install bmtools on each node") from error
        return [copy for copy in self._copies if copy.is_ready]

    def _look_for_nodes(self) -> None:
        """Start copies on nodes with free cores or GPUs."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._looked = time.monotonic()
        for node in self._ray.nodes():
            name, resources = node["NodeID"], node["Resources"]
            cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
            if not node["Alive"] or not cores or self._failures[name] > _MOST_LOSSES:
                continue
            copies = gpus if self._uses_gpu and gpus else cores // (self._cores or cores)
            for _ in range(copies - sum(copy.node_id == name for copy in self._copies)):
                actor = self._ray.remote(_Actor).options(
                    num_cpus=self._cores or cores // copies,
                    num_gpus=int(self._uses_gpu and gpus > 0),
                    scheduling_strategy=NodeAffinitySchedulingStrategy(name, soft=False),
                ).remote(self._pickled)
                self._copies.append(
                    _Copy(actor, name, node["NodeManagerAddress"], actor.start.remote()))
