"""The library behind `rondo`. Import its names from there, and from `rondo.tensors`."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias, TypedDict, final

from typing_extensions import Self, Unpack

import numpy
import pyarrow
import torch

from rondo.errors import Code, PeerLost, RondoError

__all__ = [
    "Agent",
    "Changes",
    "CudaTensor",
    "Element",
    "Exchange",
    "ExchangeScheduler",
    "HostTensor",
    "JobState",
    "KeyChange",
    "Progress",
    "Reader",
    "Records",
    "TaskState",
    "TensorInfo",
    "Unit",
    "Watch",
    "__version__",
    "delete_position",
    "describe",
    "describe_all",
    "restore_position",
    "save_position",
    "tobytes",
    "trace",
    "zeros",
]

__version__: Final[str]

_State = Literal["uninitialized", "disconnected", "running", "error"]

@final
class Agent:
    """A task of a job: it registers, shows that it lives, hears of errors, waits at barriers, shares keys.

    `job` and the timeouts, in seconds, are JAX's unless they are given. `direct` speaks to any server of
    dialect T; else the server is Rondo's, and calls outlive its absence. `on_error` is called with the
    error, on a thread of its own, each time the agent comes to be in error.
    """

    def __new__(
        cls,
        server: str,
        task: int,
        *,
        job: str = "jax_worker",
        incarnation: int | None = None,
        recoverable: bool = False,
        polls_for_errors: bool = True,
        register_timeout: float = 300.0,
        heartbeat_timeout: float = 100.0,
        shutdown_timeout: float = 300.0,
        direct: bool = False,
        on_error: Callable[[RondoError], object] | None = None,
    ) -> Self: ...
    @property
    def server(self) -> str: ...
    @property
    def task(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def state(self) -> _State: ...
    @property
    def error(self) -> RondoError | None: ...
    @property
    def life(self) -> int | None: ...
    def connect(self) -> int: ...
    def shutdown(self) -> None: ...
    def reset(self) -> None: ...
    def report_error(self, code: Code | int | str, message: str) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def set(self, key: str, value: str | bytes, *, lease: bool = False) -> int: ...
    def insert(self, key: str, value: str | bytes, *, lease: bool = False) -> int: ...
    def update(self, key: str, value: str | bytes, *, lease: bool = False) -> int: ...
    def compare_and_swap(
        self, key: str, revision: int, value: str | bytes, *, lease: bool = False
    ) -> int: ...
    def get(self, key: str, timeout: float | None = None) -> bytes: ...
    def try_get(self, key: str) -> bytes | None: ...
    def directory(self, key: str = "") -> dict[str, bytes]: ...
    def delete(self, key: str) -> None: ...
    def increment(self, key: str, by: int = 1) -> int: ...
    def watch(self, key: str = "") -> Watch: ...
    def barrier(self, name: str, timeout: float = 600.0, tasks: Sequence[int] | None = None) -> int: ...
    def cancel_barrier(self, name: str) -> None: ...
    def wait_for_all_tasks(self, devices: Sequence[bytes] = ()) -> None: ...
    def devices(self) -> list[bytes]: ...
    def task_state(self, task: int, *, job: str | None = None) -> TaskState: ...
    def job_state(self, after: int = -1) -> JobState: ...
    def alive_tasks(self, tasks: Sequence[int]) -> dict[int, int]: ...

@final
class TaskState:
    """How a task stands."""

    @property
    def state(self) -> _State: ...
    @property
    def error(self) -> RondoError | None: ...

@final
class JobState:
    """How the tasks of a job stand; the version grows with each change."""

    @property
    def tasks(self) -> dict[int, TaskState]: ...
    @property
    def version(self) -> int: ...

@final
class Watch(Iterator[Changes]):
    """A watched key: what is told of it, in order. The first is all there is."""

    @property
    def key(self) -> str: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Changes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Changes:
    """What is told at once; `whole` when it is all there is, in place of what was told before."""

    @property
    def whole(self) -> bool: ...
    @property
    def changes(self) -> list[KeyChange]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[KeyChange]: ...

@final
class KeyChange:
    """A change of a key: its value is None when it is gone, with all under it or without."""

    @property
    def key(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def with_all_under(self) -> bool: ...

class _Settings(TypedDict, total=False):
    job: str | None
    sharding: Literal["OFF", "DYNAMIC", "FILE", "DATA", "FILE_OR_DATA", "HINT"] | None
    mode: Literal["auto", "split", "element"] | None
    group: tuple[int, int] | None
    consumer: tuple[int, int] | None
    repetition: int | None
    resume: str | None
    acknowledge_by_hand: bool | None
    splits: tuple[int, int] | None
    batch_records: int | None
    buffer: tuple[int, int] | None
    requests_per_task: int | None
    continue_on_error: bool | None
    acknowledge_interval: float | None
    worker_patience: float | None
    message_bytes_max: int | None

@final
class Reader(Iterator[Any]):
    """A consumer of a dataset: an iterator over Records when it reads by split, else over Element.

    - `job`: readers of one name share what there is to read, and its position. Without one it has its own.
    - `sharding`: how the dataset is divided among workers; DYNAMIC.
    - `mode`: "split" (every record exactly once, of Rondo's workers), "element", or "auto".
    - `group`: (index, size): splits are dealt out by place, so that each of so many readers reads the same
      whatever the others do. `consumer`: (index, size) of a coordinated read.
    - `repetition`: which pass of the job. `resume`: the named position to begin at.
    - `acknowledge_by_hand`: nothing counts as consumed before acknowledge() says so.
    - `splits`: (to hold, to read at once). `batch_records`: in one message at most.
    - `buffer`: (bytes, deliveries) to read ahead. `message_bytes_max`: longest message that is taken.
    - `requests_per_task`, `continue_on_error`: when reading by element.
    - `acknowledge_interval`, `worker_patience`: in seconds.
    """

    def __new__(cls, dispatcher: str, dataset: str, **settings: Unpack[_Settings]) -> Self: ...
    @property
    def dataset(self) -> str: ...
    @property
    def job(self) -> str | None: ...
    @property
    def is_by_split(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def acknowledge(self, records: Records, first: int | None = None) -> None: ...
    def flush(self) -> None: ...
    def checkpoint(self, name: str) -> None: ...
    def progress(self) -> Progress: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Records:
    """Records that were delivered together, and where they come from."""

    @property
    def columns(self) -> list[str]: ...
    @property
    def schema(self) -> dict[str, str]: ...
    @property
    def origins(self) -> list[tuple[int, int, int]]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: str, /) -> numpy.ndarray[Any, Any] | dict[str, Any]: ...
    def __contains__(self, key: str, /) -> bool: ...
    def numpy(self) -> dict[str, Any]: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def to_arrow(self) -> pyarrow.RecordBatch: ...
    def to_ipc(self) -> HostTensor: ...

@final
class Element:
    """What a job yields when it is read by element: tensors in a structure."""

    @property
    def tensors(self) -> list[Any]: ...
    @property
    def value(self) -> Any: ...
    def __len__(self) -> int: ...

@final
class Progress:
    """How far a reader has come, and why it stalls if it does."""

    @property
    def records(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def duplicates(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def skipped_places(self) -> list[str]: ...
    @property
    def retries(self) -> int: ...
    @property
    def buffered(self) -> int: ...
    @property
    def buffered_bytes(self) -> int: ...
    @property
    def splits_held(self) -> int: ...
    @property
    def unconsumed(self) -> int: ...
    @property
    def round(self) -> int | None: ...
    @property
    def workers(self) -> dict[str, int]: ...
    @property
    def stall(self) -> str | None: ...
    @property
    def elapsed(self) -> float: ...

class _Bounds(TypedDict, total=False):
    policy: Literal["fail", "partial", "wait_for_return"] | None
    policy_timeout: float | None
    bootstrap_timeout: float | None
    heartbeat_interval: float | None
    heartbeat_timeout: float | None
    reconnect_grace: float | None
    tensors_max: int | None
    request_bytes_max: int | None
    handlers_max: int | None
    traces_max: int | None
    worker_requests_max: int | None
    worker_bytes_max: int | None
    key_credits: int | None
    slots_max: int | None
    batch_fails_on_loss: bool | None

class _ExchangeSettings(_Bounds, total=False):
    workers: int | None
    servers: int | None
    group: int | None
    rank: int | None
    host: str | None
    port: int | None
    spin: float | None
    join_timeout: float | None
    scheduler_patience: float | None
    unix: bool | None
    shared_bytes: int | None
    lookup_timeout: float | None
    cuda: bool | None
    staging_bytes: int | None

# Of each process its name, how many nanoseconds its clock is ahead, how far that may be wrong, and how
# long a question to it and the answer were on the way.
_Clocks: TypeAlias = list[tuple[str, int | None, int | None, int | None]]

def trace(
    path: str | PathLike[str],
    scheduler: str | None = None,
    *,
    timeout: float = 10.0,
    passages_max: int = 4096,
) -> _Clocks: ...

@final
class Exchange:
    """A worker or a server of an exchange. It takes part once it is made, which waits until all have come.

    - `role`: "worker" or "server". `scheduler`: "host:port". `workers` and `servers` are counted in groups of
      `group` processes. `rank`: which process of its role this is; any, unless it is given.
    - `host`, `port`: where a server listens. `unix`, `shared_bytes`: ways between processes of one host.
    - `spin`: seconds to look for what is waited for before sleeping. `join_timeout`, `scheduler_patience`:
      seconds until all have come, and until the scheduler is back; for ever, unless they are given.
    - `cuda`: tensors may be on GPUs, which the NVIDIA driver sees; copies go through `staging_bytes` of
      pinned memory at most.
    - `policy`: what becomes of requests that need a server that is lost. The others are bounds, and spans
      in seconds.

    As a context manager it stops at the end; after an exception it breaks off, and the others find it lost.
    """

    def __new__(
        cls, role: str, scheduler: str, **settings: Unpack[_ExchangeSettings]
    ) -> Self: ...
    @property
    def rank(self) -> int: ...
    @property
    def role(self) -> Literal["worker", "server"]: ...
    def nanoseconds(self) -> int: ...
    def membership(
        self, after: int | None = None, timeout: float | None = None
    ) -> tuple[int, list[tuple[str, int, str]]] | None: ...
    def barrier(
        self,
        *,
        servers: bool = True,
        workers: bool = True,
        scheduler: bool = False,
        group: bool = False,
        timeout: float | None = None,
    ) -> None: ...
    def stop(self, timeout: float | None = None) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...
    def exchange(
        self,
        push_tensors: Sequence[object],
        push_keys: Sequence[int],
        pull_tensors: Sequence[object],
        pull_keys: Sequence[int],
        *,
        ordered: bool = True,
    ) -> int: ...
    def push_pull(
        self,
        push_tensors: Sequence[object],
        push_keys: Sequence[int],
        pull_tensors: Sequence[object],
        pull_keys: Sequence[int],
        *,
        ordered: bool = True,
    ) -> int: ...
    def wait(
        self, handler: int, timeout: float | None = None, *, since_request: bool = False
    ) -> list[PeerLost]: ...
    def abandon(self, handler: int) -> None: ...
    def get_all_handlers(self, handler: int) -> list[int]: ...
    def fetch_trace(self, handler: int) -> list[int]: ...
    def clock_offset(self, server: int) -> tuple[int, int] | None: ...
    def trace(self, path: str | PathLike[str]) -> _Clocks: ...
    def get_batch(
        self,
        timeout: float | None = None,
        *,
        partial: Literal["never", "at_deadline", "up_members_only"] = "never",
    ) -> list[Unit]: ...
    def respond(
        self, unit: int, tensors: Sequence[object], *, ordered: bool = True
    ) -> None: ...
    def respond_rows(self, buffer: object, rows: Sequence[tuple[int, int, int]]) -> None: ...
    def release(self, unit: int) -> None: ...
    def register_recv_buffer(
        self, tensor: object, worker_ranks: Sequence[int], push_keys: Sequence[int]
    ) -> None: ...

@final
class ExchangeScheduler:
    """Knows who takes part in an exchange, in this process."""

    def __new__(
        cls,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        workers: int | None = None,
        servers: int | None = None,
        group: int = 1,
        takes_part: bool = False,
        goes_on_without_lost: bool = False,
        **bounds: Unpack[_Bounds],
    ) -> Self: ...
    @property
    def address(self) -> str: ...
    def ready(self) -> None: ...
    def ended(self) -> None: ...
    def barrier(
        self,
        *,
        servers: bool = True,
        workers: bool = True,
        group: bool = False,
        timeout: float | None = None,
    ) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Unit:
    """All that one worker sent in one request; `pulls` are the keys and bytes of what it wants."""

    @property
    def handler(self) -> int: ...
    @property
    def worker(self) -> int: ...
    @property
    def tensors(self) -> list[HostTensor | CudaTensor]: ...
    @property
    def keys(self) -> list[int]: ...
    @property
    def pulls(self) -> list[tuple[int, int]]: ...

def save_position(server: str, name: str, job: str) -> None: ...
def restore_position(server: str, name: str, job: str) -> None: ...
def delete_position(server: str, name: str) -> None: ...

@final
class HostTensor:
    """A tensor in memory of Rondo's, which NumPy, torch and whoever knows DLPack see where it lies."""

    @property
    def pointer(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def writable(self) -> bool: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def numpy(self) -> numpy.ndarray[Any, Any]: ...
    def torch(self) -> torch.Tensor: ...
    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class CudaTensor:
    """A tensor in a receive buffer on a GPU, which torch and whoever knows DLPack see where it lies."""

    @property
    def pointer(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> str: ...
    def numpy(self) -> numpy.ndarray[Any, Any]: ...
    def torch(self) -> torch.Tensor: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class TensorInfo:
    """A tensor as Rondo sees it: where it lies, and what it is."""

    @property
    def pointer(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def scalar_type(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def device(self) -> str: ...
    @property
    def stream(self) -> int | None: ...
    @property
    def writable(self) -> bool: ...
    @property
    def owner(self) -> object: ...

def describe(tensor: object, *, name: str = "tensor", writable: bool = False) -> TensorInfo: ...
def describe_all(
    tensors: Sequence[object], *, name: str = "tensors", writable: bool = False
) -> list[TensorInfo]: ...
def tobytes(tensor: object) -> bytes: ...
def zeros(shape: Sequence[int], dtype: str = "float32") -> HostTensor: ...
