"""StepMesh's `fserver_lib` on Rondo's exchange: programs written for it run unchanged, over TCP, Unix sockets
and shared memory, on CPU and GPU.

The surface, the keyword names and the environment variables are StepMesh's. What differs, for the better: a
peer's death is a `rondo.PeerLost` within seconds, what is wrong with a tensor is said where it is given,
nothing is overwritten that is still read, and nothing grows for ever. Every error is a `RuntimeError`.
`rondo.Exchange` has what StepMesh lacks: deadlines, batches without the dead, rows by offset, membership.

Tensors are torch's where the program has imported torch, else NumPy's. Those on a GPU are copied
through pinned memory, or, between processes of one host that see the device, on it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fserver_lib import _environment, _memory
from fserver_lib._flags import SimpleNotify, map_pinned_tensor, seq_add_one, wait_flag, write_flag
from rondo import Exchange, ExchangeScheduler, FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "SimpleNotify",
    "barrier",
    "fetch_trace",
    "get_all_handlers",
    "get_batch",
    "get_nanosecond",
    "init",
    "map_pinned_tensor",
    "push_pull",
    "register_recv_buffer",
    "respond",
    "respond_vec",
    "seq_add_one",
    "stop",
    "wait",
    "wait_flag",
    "write_flag",
]


class _Process:
    """What this process is, from init() to stop()."""

    def __init__(self, settings: _environment.Settings) -> None:
        self.settings = settings
        self.scheduler: ExchangeScheduler | None = None
        self.exchange: Exchange | None = None
        if settings.role == "scheduler":
            self.scheduler = ExchangeScheduler(
                settings.root_host,
                settings.root_port,
                workers=settings.workers,
                servers=settings.servers,
                group=settings.group,
                takes_part=True,
                insecure=settings.insecure,
                **settings.bounds,
            )
            self.scheduler.ready()
            return
        self.exchange = Exchange(
            settings.role,
            f"{settings.root_host}:{settings.root_port}",
            workers=settings.workers,
            servers=settings.servers,
            group=settings.group,
            rank=settings.rank,
            host=settings.host,
            port=settings.port,
            insecure=settings.insecure,
            spin=settings.spin,
            cuda=settings.device is not None,
            **settings.bounds,
        )


_process: _Process | None = None


def _this() -> _Process:
    if _process is None:
        raise FailedPrecondition("init() comes before everything else")
    return _process


def _exchange() -> Exchange:
    exchange = _this().exchange
    if exchange is None:
        raise FailedPrecondition("a scheduler exchanges nothing: DMLC_ROLE is scheduler")
    return exchange


def init() -> None:
    """Takes part as the environment says, and returns when all processes have come."""
    global _process
    if _process is not None:
        raise FailedPrecondition("init() was called before: stop() comes between")
    _process = _Process(_environment.settings())


def stop() -> None:
    """Waits until everybody stops, and leaves."""
    global _process
    process = _this()
    try:
        if process.scheduler is not None:
            process.scheduler.barrier()
            process.scheduler.ended()
            process.scheduler.close()
        if process.exchange is not None:
            process.exchange.stop()
    finally:
        _process = None


def barrier(
    include_server: bool,
    include_client: bool | None = None,
    instance_barrier: bool = True,
    *,
    include_worker: bool | None = None,
) -> None:
    """Waits for all servers, workers ("clients") or both.

    Without `instance_barrier` one process of each group is enough.
    """
    if include_client is not None and include_worker is not None and include_client != include_worker:
        raise InvalidArgument(
            f"include_client is {include_client} and include_worker {include_worker}: they are the same"
        )
    workers = include_client if include_client is not None else include_worker
    if workers is None:
        raise InvalidArgument("include_client says whether workers come to the barrier: give it")
    process = _this()
    if process.scheduler is not None:
        raise FailedPrecondition("this process is the scheduler, which is no server and no worker")
    _exchange().barrier(servers=bool(include_server), workers=bool(workers), group=not instance_barrier)


def push_pull(
    push_tensors: Sequence[Any],
    push_keys: Sequence[int],
    pull_tensors: Sequence[Any],
    pull_keys: Sequence[int],
    need_event: bool = True,
) -> int:
    """Pushes tensors to all servers and pulls others from them, those of server 0 first; returns a handler.

    Their memory is to be let alone until `wait` returns. With `need_event`, tensors on a GPU are sent as the
    current stream leaves them; without, as they are.
    """
    return _exchange().push_pull(
        list(push_tensors), list(push_keys), list(pull_tensors), list(pull_keys), ordered=need_event
    )


def wait(handler: int, timeout_ms: int = 10000) -> None:
    """Waits until a request is complete, `timeout_ms` from when it was made; after that it goes on.

    What is pulled onto a GPU is there for the stream that was the current one when the request was made.
    """
    _exchange().wait(handler, timeout_ms / 1000, since_request=True)


def get_all_handlers(handler: int) -> list[int]:
    """All handlers of a request that was not waited for; else it alone."""
    return _exchange().get_all_handlers(handler)


def fetch_trace(handler: int) -> list[int]:
    """Eight stamps in nanoseconds: the request's and the answer's start, postsend, postrecv and process."""
    return _exchange().fetch_trace(handler)


def get_nanosecond() -> int:
    """Nanoseconds of the clock that the stamps of traces count."""
    if _process is not None and _process.exchange is not None:
        return _process.exchange.nanoseconds()
    return time.time_ns()


def get_batch() -> list[tuple[int, list[Any], list[int]]]:
    """Waits for one unit of each worker: (handler, tensors, keys), in the order of the workers' ranks."""
    process = _this()
    batch = []
    for unit in _exchange().get_batch():
        tensors = [_memory.received(tensor, process.settings.device) for tensor in unit.tensors]
        batch.append((unit.handler, tensors, unit.keys))
    return batch


def respond(tensors: Sequence[Any], handler: int, need_event: bool = False) -> None:
    """Answers a unit: one tensor for each that it pulls."""
    _exchange().respond(handler, list(tensors), ordered=need_event)


def respond_vec(ret_buffer: Any, tensors_vec: Sequence[Any], handler_vec: Sequence[int]) -> None:
    """Answers each unit with the leading rows of one buffer, as many as the tensor beside it has.

    Every unit gets rows from 0 on, as in StepMesh; `rondo.Exchange.respond_rows` takes offsets.
    """
    if len(tensors_vec) != len(handler_vec):
        raise InvalidArgument(
            f"tensors_vec are {len(tensors_vec)} and handler_vec {len(handler_vec)}: each has the other"
        )
    rows = [(handler, 0, tensor.shape[0]) for handler, tensor in zip(handler_vec, tensors_vec)]
    _exchange().respond_rows(ret_buffer, rows)


def register_recv_buffer(tensor: Any, worker_ranks: Sequence[int], push_keys: Sequence[int]) -> None:
    """Has pushes land in this tensor, cut into as many equal parts as workers and keys are named."""
    _exchange().register_recv_buffer(tensor, list(worker_ranks), list(push_keys))
