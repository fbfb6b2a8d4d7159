"""How passes through a model are run: their precision, their size, and who runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from bmtools.distributed import world_size
from bmtools.io.system import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""What autocast is told, by precision; others are read in float32."""
# Float32 logits that one pass makes, whatever the vocabulary: 8 MB on a CPU, for each thread.
_LOGITS_ON_CPU = 2**21
_LOGITS_ON_GPU = 2**27
_AHEAD = 2  # items for each thread


def places_at_once(model: Any, device: torch.device) -> int:
    """Say at how many places a model may be asked before its logits take too much memory."""
    logits = _LOGITS_ON_CPU if device.type == "cpu" else _LOGITS_ON_GPU
    return max(1, logits // model.get_input_embeddings().num_embeddings)


def count_threads(wanted: int, device: torch.device) -> int:
    """Count the threads that batches are shared out to; 0 where a GPU does the work."""
    if device.type != "cpu":
        return 0
    return wanted or max(1, usable_cores() // world_size())


def in_threads(work: Callable[[Item], Result], items: Iterable[Item],
               threads: int) -> Iterator[Result]:
    """Work on items in threads, each on one core, and yield results in their order.

    Args:
        work: done on each.
        items: taken as threads come free.
        threads: 0 works in this one.
    """
    if not threads:
        yield from map(work, items)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) >= threads * _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
