"""What StepMesh's CUDA builds have to let a stream wait: `SimpleNotify`, and the flags of its "wait kernel".

On a CPU the stream is the thread that calls: what is computed is done when the call returns, so that what a
stream would wait for the thread waits for. On a GPU it would take kernels and stream operations that this
module does not have: that is refused, by name.
"""

from __future__ import annotations

import threading
import time
from numbers import Integral
from typing import Any

from rondo import FailedPrecondition, InvalidArgument
from rondo.errors import Unimplemented

# Pauses between looks at a flag, in seconds: the first, and the longest.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 20e-6, 1e-3


def _check_host(function: str, **tensors: Any) -> None:
    for name, tensor in tensors.items():
        if getattr(tensor, "is_cuda", False):
            raise Unimplemented(
                f"{function}: {name} is on {tensor.device}, and flags on a GPU are not there: it takes "
                "tensors of the host; wait() waits on a GPU, too"
            )


def map_pinned_tensor(tensor: Any, device_index: int) -> Any:
    """The tensor as the device sees it: on a CPU it is the same. `device_index` is of no effect there."""
    _check_host("map_pinned_tensor", tensor=tensor)
    is_pinned = getattr(tensor, "is_pinned", None)
    if is_pinned is not None and is_pinned():
        raise Unimplemented(
            f"map_pinned_tensor: tensor is pinned for a GPU ({device_index}), and flags on a GPU are not "
            "there: wait() waits on a GPU, too"
        )
    return tensor


def _value(function: str, name: str, one: Any) -> int:
    """The first value of a tensor, or the number itself."""
    if isinstance(one, Integral):
        return int(one)
    _check_host(function, **{name: one})
    if not len(one):
        raise InvalidArgument(f"{function}: {name} is empty, and its first value is wanted")
    return int(one[0])


def write_flag(flag: Any, seq: Any) -> None:
    """Writes the first value of `seq` to the flag."""
    _check_host("write_flag", flag=flag)
    flag[0] = _value("write_flag", "seq", seq)


def wait_flag(flag: Any, seq: Any) -> None:
    """Waits until the flag is the first value of `seq`, as it is now, or more: for as long as that takes."""
    _check_host("wait_flag", flag=flag)
    wanted, pause = _value("wait_flag", "seq", seq), _FIRST_PAUSE_S
    while _value("wait_flag", "flag", flag) < wanted:
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def seq_add_one(seq: Any) -> None:
    """Adds one to the first value of `seq`."""
    seq[0] = _value("seq_add_one", "seq", seq) + 1


class SimpleNotify:
    """Lets the current stream wait for a request, or a batch: on a CPU, the thread that calls."""

    def __init__(self) -> None:
        self._is_there = False
        self._batch: _Batch | None = None

    def init(self) -> None:
        """Comes before everything else."""
        from fserver_lib import _this

        device = _this().settings.device
        if device is not None:
            raise Unimplemented(
                f"SimpleNotify: this process is on {device}, and streams of a GPU cannot wait for requests: "
                "wait() and get_batch() do"
            )
        self._is_there = True

    def _check(self) -> None:
        if not self._is_there:
            raise FailedPrecondition("init() of a SimpleNotify comes before its other methods")

    def stream_wait_event(self, handler: int) -> None:
        """What follows on the stream comes when the request is complete."""
        from fserver_lib import wait

        self._check()
        wait(handler)

    def wait_event_done(self) -> None:
        """Waits until what `stream_wait_event` waited for is over: it is."""
        self._check()

    def block_now_stream(self) -> None:
        """What follows on the stream comes with the next notification: of what a CPU has, nothing follows by
        itself, and the thread goes on, which is to notify it."""
        self._check()

    def block_now_stream_and_get_batch(self) -> None:
        """Begins to wait for a batch, and returns at once."""
        self._check()
        if self._batch is not None:
            raise FailedPrecondition("get_future_batch_data() comes between two batches")
        self._batch = _Batch()

    def get_future_batch_data(self) -> list[tuple[int, list[Any], list[int]]]:
        """Waits for the batch that was begun, and takes it."""
        self._check()
        if self._batch is None:
            raise FailedPrecondition("block_now_stream_and_get_batch() comes before each batch")
        result = self._batch.wait()
        self._batch = None
        return result


class _Batch:
    """A batch that a thread waits for."""

    def __init__(self) -> None:
        self._result: list[tuple[int, list[Any], list[int]]] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._get, name="fserver-batch", daemon=True)
        self._thread.start()

    def _get(self) -> None:
        from fserver_lib import get_batch

        try:
            self._result = get_batch()
        except BaseException as error:  # it is raised where the batch is taken
            self._error = error

    def wait(self) -> list[tuple[int, list[Any], list[int]]]:
        # Ctrl-C ends this, and the batch may be waited for again.
        while self._thread.is_alive():
            self._thread.join(0.05)
        if self._error is not None:
            raise self._error
        return self._result
